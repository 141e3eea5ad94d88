"""The HIV datasets: molecules, and whether each inhibits replication of the virus.

``hiv-size`` trains on large molecules and tests on small ones; ``hiv-scaffold`` sorts molecules by
the SMILES of their scaffolds and tests on the end of that list. Splits and environments follow the
published covariate rule (``kernels.splits``) over all rows of the raw file, those included that
RDKit cannot read: they count as as many atoms as their SMILES has characters, or as having no
scaffold. Only then are they dropped, and listed. So the rows that are written have the splits they
have in the published benchmark, up to which rows of the training pool are held out: that is drawn
from a stream of our own.
"""

from __future__ import annotations

import csv
import gzip
import io
import zlib
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING

import numpy as np

from gsx.columns import (
    ORIGINS,
    SPLITS,
    Column,
    CorpusInfo,
    Environment,
    Feature,
    corpus_columns,
)
from gsx.errors import StageError, UsageError
from gsx.provenance import source_provenance
from gsx.ragged import Array, Ints, text_rows
from gsx.seeds import rng
from gsx.stages.datasets.family import Card, Family, Order, RawFile, Source
from gsx.stages.kernels.atoms import ATOM_FEATURES, BOND_FEATURES, FEATURE_DTYPE
from gsx.stages.kernels.splits import DomainSplit, hold_out, split_by_domain, split_counts
from gsx.storage.manifest import Dropped
from gsx.table import GraphTable

if TYPE_CHECKING:
    from gsx.stages.kernels.chem import Molecules

TARGET = "HIV_active"
ENVIRONMENTS = 10
_TRAIN, _VAL, _HELD_OUT = 0.8, 0.1, 0.1
"""Shares of all rows: training pool, ``ood_val``, and each of ``id_val`` and ``id_test``."""
_LISTED = 1000
"""Dropped rows that the manifest lists one by one."""
_RAW = RawFile(
    paths=("hiv/HIV.csv.gz", "hiv/HIV.csv"),
    what=(
        "the HIV table of MoleculeNet (moleculenet.org, 41,127 rows), "
        f"with the columns smiles and {TARGET}"
    ),
)
_COUNTS = {
    "hiv-size": (26169, 4112, 4112, 2773, 3961),
    "hiv-scaffold": (24682, 4112, 4112, 4113, 4108),
}
"""As published, unreadable rows included."""
_EXTRAS = (
    Column(name="smiles", axis="graph", dtype="text", ragged=True,
           doc="SMILES as in the raw file; node i is its i-th atom"),
    Column(name="scaffold", axis="graph", dtype="text", ragged=True,
           doc="SMILES of the Bemis-Murcko scaffold without chirality; empty without rings"),
)  # fmt: skip
_CITATION = (
    "Z. Wu, B. Ramsundar, E. N. Feinberg, J. Gomes, C. Geniesse, A. S. Pappu, K. Leswing, "
    "V. Pande. MoleculeNet: a benchmark for molecular machine learning. Chemical Science 2018. "
    "Splits follow S. Gui, X. Li, L. Wang, S. Ji. GOOD: A Graph Out-of-Distribution Benchmark. "
    "NeurIPS 2022."
)


@dataclass(frozen=True, slots=True)
class _Rows:
    """The raw file: one entry per row."""

    smiles: list[str]
    active: Array
    """``[n]`` 1, 0, or NaN where it is not known."""


def card(name: str) -> Card:
    """Describe a dataset of the family."""
    counts = dict(zip(SPLITS, _COUNTS[name], strict=False))
    return Card(shift=name.removeprefix("hiv-"), counts=counts, raw=(_RAW,))


def size(name: str, num_graphs: int | None) -> None:
    """Refuse a number of graphs: the file decides it."""
    if num_graphs is not None:
        raise UsageError(
            f"{name} has as many graphs as its raw file has molecules; leave out num_graphs."
        )


def open_hiv(order: Order) -> Source:
    """Read the raw file, split its rows and make the graphs of those that can be read."""
    try:
        from gsx.stages.kernels.chem import RDKIT_VERSION, read_molecules
    except ImportError as error:
        raise UsageError(
            f"{order.name} needs RDKit and SciPy. Install them: `pip install 'gsx[pipeline]'`."
        ) from error
    ((raw_name, path),) = order.raw.items()
    rows = read_rows(path, raw_name)
    found = read_molecules(rows.smiles)
    if not len(found.rows):
        raise StageError(f"{raw_name}: not one of its {len(rows.smiles)} SMILES can be read")
    keys = _keys(order.name, rows, found)
    domains = sorted(set(keys))
    rank = {key: number for number, key in enumerate(domains)}
    domain = np.array([rank[key] for key in keys], dtype=np.int64)
    placed = split_by_domain(
        domain,
        descending=order.name == "hiv-size",
        train=_TRAIN,
        val=_VAL,
        environments=ENVIRONMENTS,
    )
    held_out = int(_HELD_OUT * len(keys))
    split = hold_out(placed.split, held_out, rng(order.seed, "prepare", order.name, "id"))
    table = _table(rows, found, split, placed.env_id, domain)
    written = table.dense("graph", "split")
    info = corpus_info(order.name, domains, placed, domain)

    def build(name: str, start: int, stop: int) -> GraphTable:
        return table.take(np.flatnonzero(written == SPLITS.index(name))[start:stop])

    sizes = split_counts(written.astype(np.int64))
    return Source(
        info=info,
        split_sizes=sizes,
        build=build,
        dropped=_dropped(found.refused),
        warnings=tuple(f"the split `{each}` is empty" for each, n in sizes.items() if not n),
        summary={"rdkit": RDKIT_VERSION, "rows": split_counts(split)},
    )


def corpus_info(
    name: str, domains: Sequence[int | str], placed: DomainSplit, domain: Ints
) -> CorpusInfo:
    """Describe the corpus, given the sorted domains, the split and the domain of every row."""
    shift = name.removeprefix("hiv-")
    environments = []
    for number in range(int(placed.env_id.max(initial=-1)) + 1):
        inside = domain[placed.env_id == number]
        low, high = int(inside.min()), int(inside.max())
        if shift == "size":
            text = f"atoms {domains[low]}..{domains[high]}"
        else:
            text = f"scaffolds {low}..{high}"
        environments.append(Environment(id=number, name=text))
    what = {
        "size": "Training molecules are larger than those of ood_val, and those than ood_test.",
        "scaffold": "No scaffold of training molecules is found in ood_val or ood_test.",
    }
    return CorpusInfo(
        name=name,
        task="binary",
        metric="roc_auc",
        outputs=(TARGET,),
        domain=shift,
        domains=tuple(f"{key} atoms" for key in domains) if shift == "size" else (),
        environments=tuple(environments),
        columns=corpus_columns(
            outputs=1,
            num_features=len(ATOM_FEATURES),
            feature_dtype=FEATURE_DTYPE,
            feature_words=_features(ATOM_FEATURES),
            edge_features=len(BOND_FEATURES),
            edge_feature_dtype=FEATURE_DTYPE,
            edge_feature_words=_features(BOND_FEATURES),
            extras=_EXTRAS,
        ),
        num_features=len(ATOM_FEATURES),
        description=(
            "Molecules and whether each inhibits HIV replication in the screen of the Drug "
            f"Therapeutics Program. {what[shift]} Hydrogens are counted by their atoms."
        ),
        licence="MIT (MoleculeNet); screening data of the US National Cancer Institute",
        citation=_CITATION,
    )


def read_rows(path: Path, name: str) -> _Rows:
    """Read the raw table; ``name`` stands for it in errors."""
    try:
        data = path.read_bytes()
        text = (gzip.decompress(data) if name.endswith(".gz") else data).decode("utf-8-sig")
    except (OSError, EOFError, zlib.error, UnicodeDecodeError) as error:
        raise StageError(f"{name} cannot be read: {error}") from error
    lines = [row for row in csv.reader(io.StringIO(text)) if row]
    if not lines:
        raise StageError(f"{name} is empty; it should be {_RAW.what}.")
    header, *rows = lines
    for column in ("smiles", TARGET):
        if column not in header:
            raise StageError(
                f"{name} has no column `{column}`; its header is `{','.join(header)}`. "
                f"It should be {_RAW.what}."
            )
    if not rows:
        raise StageError(f"{name} has a header and no rows.")
    smiles, target = header.index("smiles"), header.index(TARGET)
    active = np.empty(len(rows), dtype=np.float32)
    for number, row in enumerate(rows):
        if len(row) != len(header):
            raise StageError(
                f"{name}, row {number}: {len(row)} fields; the header has {len(header)}."
            )
        active[number] = _label(row[target], f"{name}, row {number}")
    return _Rows([row[smiles].strip() for row in rows], active)


def _label(text: str, where: str) -> float:
    known = {"0": 0.0, "1": 1.0, "0.0": 0.0, "1.0": 1.0, "": np.nan}
    if text.strip() not in known:
        raise StageError(f"{where}: {TARGET} is `{text}`; expected 0, 1 or nothing.")
    return known[text.strip()]


def _keys(name: str, rows: _Rows, found: Molecules) -> Sequence[int | str]:
    """Return what each row is sorted by: atoms, or the SMILES of the scaffold."""
    if name == "hiv-size":
        atoms = np.array([len(text) for text in rows.smiles])
        atoms[found.rows] = found.table.num_nodes
        return [int(number) for number in atoms]
    scaffolds = [""] * len(rows.smiles)
    for row, scaffold in zip(found.rows.tolist(), found.scaffolds, strict=True):
        scaffolds[row] = scaffold
    return scaffolds


def _table(rows: _Rows, found: Molecules, split: Ints, env_id: Ints, domain: Ints) -> GraphTable:
    """Return the molecules that could be read, with all graph columns, in the order of rows."""
    kept = found.rows
    active = rows.active[kept]
    return found.table.with_columns(
        graph={
            "graph_id": kept,
            "split": split[kept].astype(np.int8),
            "env_id": env_id[kept].astype(np.int32),
            "domain_id": domain[kept].astype(np.int32),
            "origin": np.full(len(kept), ORIGINS.index("source"), dtype=np.int8),
            "y": active[:, None],
            "label": np.where(np.isnan(active), -1, active).astype(np.int32),
            **source_provenance(len(kept)),
            "smiles": text_rows([rows.smiles[row] for row in kept.tolist()]),
            "scaffold": text_rows(found.scaffolds),
        }
    )


def _dropped(refused: Mapping[int, str]) -> tuple[Dropped, ...]:
    if not refused:
        return ()
    examples = tuple(f"row {row}: {reason}" for row, reason in list(refused.items())[:_LISTED])
    return (
        Dropped(
            reason="rows of the raw file that RDKit cannot read",
            count=len(refused),
            examples=examples,
        ),
    )


def _features(words: Mapping[str, tuple[str, ...]]) -> tuple[Feature, ...]:
    return tuple(Feature(name=name, words=each) for name, each in words.items())


FAMILY = Family(
    names=tuple(_COUNTS),
    card=card,
    size=size,
    open=open_hiv,
    sources=(
        "gsx.stages.datasets.hiv",
        "gsx.stages.kernels.atoms",
        "gsx.stages.kernels.chem",
        "gsx.stages.kernels.splits",
    ),
)
