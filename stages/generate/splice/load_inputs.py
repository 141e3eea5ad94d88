"""Load the inputs of splicing and check that they fit together."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, replace
from typing import Any

import numpy as np
import torch

from gsx.errors import ArtifactError, StageError, UsageError
from gsx.ragged import Array, Ints, decode_texts
from gsx.schema import CorpusInfo
from gsx.seeds import rng
from gsx.stages.augmented.source_graphs import next_graph_id, training_graphs
from gsx.stages.chem.features import is_molecular
from gsx.stages.chem.splice_rules import (
    SAMPLED_MOLECULES,
    cuttable_edges,
    molecule_metrics,
    round_subgraphs_to_units,
)
from gsx.stages.generate.config import GenerateConfig
from gsx.stages.generate.splice.random_bridges import BridgeSource, RandomBridges
from gsx.stages.graphs.subgraphs import Bools, is_connected
from gsx.stages.nn.bridge_model import BridgeModel, BridgeShape
from gsx.storage.artifacts.store import Artifact
from gsx.storage.corpora.artifact_files import array, read_arrays, read_json
from gsx.storage.corpora.corpus import Corpus
from gsx.storage.corpora.portable_copies import identity
from gsx.storage.corpora.summary import summary_name
from gsx.table import GraphTable


@dataclass(frozen=True, slots=True, eq=False)
class SpliceInputs:
    """Training graphs, their subgraphs, and the bridge model."""

    corpus: Corpus
    train: GraphTable
    """Training graphs without graph columns."""
    graph_id: Ints
    y: Array
    """``[R, C]`` labels of the training graphs."""
    classes: Ints
    """``[R]`` class of each training graph; 0 if classes are not used."""
    labelled: Bools
    """``[R]`` training graphs with at least one label."""
    causal: Bools | None
    """``[N]`` nodes of causal subgraphs; None without an extractor."""
    environmental: Bools | None
    """``[N]`` nodes of environmental subgraphs; None without an extractor."""
    bridge_source: BridgeSource | None
    cuttable: Bools | None
    """``[E]`` edges that fragments may be cut at; None allows all edges."""
    molecules: bool
    """Whether spliced graphs must be valid molecules."""
    next_id: int
    left_out: dict[str, int]
    """Number of training graphs that cannot be spliced whole, by reason."""
    samples: tuple[Bools, Bools] | None = None
    """``[S, N]`` nodes of sampled causal and environmental subgraphs, if the extractor has them."""

    def with_samples(self) -> SpliceInputs:
        """Return inputs with one row per sampled subgraph: S copies of the training graphs.

        Without samples these are the inputs themselves.
        """
        if self.samples is None:
            return self
        count = len(self.samples[0])
        causal, environmental = (samples.reshape(-1) for samples in self.samples)
        train = self.train.take(np.tile(np.arange(len(self.train)), count))
        if is_molecular(self.corpus.info):
            causal, environmental = round_subgraphs_to_units(train, causal)
        return replace(
            self,
            train=train,
            graph_id=np.tile(self.graph_id, count),
            y=np.tile(self.y, (count, 1)),
            classes=np.tile(self.classes, count),
            labelled=np.tile(self.labelled, count),
            causal=causal,
            environmental=environmental,
            cuttable=None if self.cuttable is None else np.tile(self.cuttable, count),
            samples=None,
        )


def preflight(config: GenerateConfig, inputs: Mapping[str, Artifact]) -> Corpus:
    """Check the inputs that exist already, from their metadata only, and return the corpus.

    Cheap enough to run before models are trained.
    """
    corpus = Corpus(inputs["corpus"])
    info = corpus.info
    _require_splicable(info, corpus)
    _classes(np.zeros((1, len(info.outputs))), info, config)
    if config.labels in ("sum", "size-scaled") and info.task != "regression":
        raise UsageError(
            f"`labels = {config.labels}` needs a regression target; {info.name} is {info.task}. "
            "Leave it out."
        )
    if config.labels in ("any", "all") and info.task not in ("binary", "multitask"):
        raise UsageError(
            f"`labels = {config.labels}` needs binary targets; the task of {info.name} is "
            f"{info.task}. {_binary_hint(info)}"
        )
    graphs = corpus.splits["train"]
    if config.f[1] > graphs and config.partners != "same-component" and config.options != "100":
        raise UsageError(
            f"f of {config.f[1]} needs that many different graphs; {info.name} has {graphs} for "
            "training. Lower f, or repeat components with `partners = same-component`."
        )
    if is_molecular(info):
        _reject_options_without_valences(config)
    if "extractor" in inputs:
        _require_parent(inputs["extractor"], corpus, "extractor", "gsx pretrain extract")
    if "bridge" in inputs:
        _read_shape(inputs["bridge"], info, config)
    return corpus


def load_inputs(config: GenerateConfig, inputs: Mapping[str, Artifact]) -> SpliceInputs:
    """Read training graphs, subgraphs and bridge model; raise if they do not fit together."""
    corpus = preflight(config, inputs)
    info = corpus.info
    train = training_graphs(corpus, ("graph_id", "y"), "splice")
    graph_id = train.dense("graph", "graph_id")
    y = train.dense("graph", "y")
    causal = environmental = samples = None
    if "extractor" in inputs:
        causal, environmental, samples = _read_subgraphs(inputs["extractor"], graph_id, train)
        if is_molecular(info):
            causal, environmental = round_subgraphs_to_units(train, causal)
    bridge_source: BridgeSource | None = None
    if "bridge" in inputs:
        bridge_source = _read_model(inputs["bridge"], info, config)
    elif config.bridges == "random":
        stream = rng(config.seed, "generate", "cut-frequencies")
        bridge_source = RandomBridges.from_graphs(train, info, stream)
    labelled = ~np.isnan(y).all(axis=1)
    connected = is_connected(train)
    return SpliceInputs(
        corpus=corpus,
        train=train.select((*train.node, *train.edge)),
        graph_id=graph_id,
        y=y,
        classes=_classes(y, info, config),
        labelled=np.asarray(labelled),
        causal=causal,
        environmental=environmental,
        bridge_source=bridge_source,
        cuttable=cuttable_edges(train, info) if config.fragments else None,
        molecules=is_molecular(info) and config.bridges != "none",
        next_id=next_graph_id(corpus),
        left_out={
            "without_label": int((~labelled).sum()),
            "not_connected": int((~connected).sum()),
        },
        samples=samples,
    )


def compare_molecules(corpus: Corpus, smiles: list[str]) -> dict[str, Any]:
    """Compare a sample of spliced molecules with the training molecules."""
    names = ["smiles", *({"scaffold"} & {column.name for column in corpus.info.columns})]
    train = corpus.table(split="train", columns=names)
    scaffolds = (
        set(decode_texts(train.lists("graph", "scaffold"))) if "scaffold" in names else set()
    )
    source = decode_texts(train.lists("graph", "smiles").slice(0, SAMPLED_MOLECULES))
    return molecule_metrics(smiles, source, scaffolds)


def _require_splicable(info: CorpusInfo, corpus: Corpus) -> None:
    if info.level != "graph":
        raise StageError(
            f"{info.name} has node labels; splicing needs a corpus of labelled graphs. `gsx "
            "datasets` lists some. `gsx train` can train on this corpus without splicing."
        )
    if info.sparse:
        raise StageError(
            f"{info.name} has sparse node features, which splicing does not support. Prepare it "
            "with dense features."
        )
    if "train" not in corpus.splits:
        raise StageError(
            f"{info.name} has no `train` graphs to splice. Prepare it with a `train` split."
        )


def _read_subgraphs(
    artifact: Artifact, graph_id: Ints, train: GraphTable
) -> tuple[Bools, Bools, tuple[Bools, Bools] | None]:
    """Return the nodes of causal and of environmental subgraphs, ``[N]`` each, and of samples."""
    where = f"{artifact.location.url}/subgraphs.safetensors"
    arrays = read_arrays(artifact.location, "subgraphs.safetensors")
    ids = array(arrays, "graph_id", "int64", (None,), where)
    node_ptr = array(arrays, "node_ptr", "int64", (None,), where)
    matches = np.array_equal(ids, graph_id) and np.array_equal(node_ptr, train.node_ptr)
    if not matches:
        raise ArtifactError(
            f"{artifact.location.url} holds subgraphs of other graphs than the corpus. Train an "
            "extractor on this corpus: `gsx pretrain extract`."
        )
    shape = (train.total_nodes,)
    causal = array(arrays, "causal", "uint8", shape, where) == 1
    environmental = array(arrays, "environmental", "uint8", shape, where) == 1
    if "causal_samples" not in arrays:
        return causal, environmental, None
    causal_samples = array(arrays, "causal_samples", "uint8", (None, *shape), where) == 1
    sampled = (len(causal_samples), *shape)
    environmental_samples = array(arrays, "environmental_samples", "uint8", sampled, where) == 1
    return causal, environmental, (causal_samples, environmental_samples)


def _require_parent(artifact: Artifact, corpus: Corpus, what: str, command: str) -> None:
    """Raise if a model was trained on another corpus."""
    digests = {parent.digest for parent in artifact.manifest.parents if parent.role == "corpus"}
    if digests.isdisjoint({corpus.artifact.manifest.digest, identity(corpus.artifact).digest}):
        name = summary_name(artifact.manifest) or "another corpus"
        raise UsageError(
            f"{what} {artifact.key[:12]} was trained on another corpus ({name}) than "
            f"{corpus.info.name} {corpus.key[:12]}. Train one: `{command} {corpus.key[:12]}`."
        )


def _read_model(artifact: Artifact, info: CorpusInfo, config: GenerateConfig) -> BridgeModel:
    shape = _read_shape(artifact, info, config)
    arrays = read_arrays(artifact.location, "weights.safetensors")
    return BridgeModel.load(shape, arrays, torch.device("cpu"), artifact.location.url)


def _read_shape(artifact: Artifact, info: CorpusInfo, config: GenerateConfig) -> BridgeShape:
    """Read the shape of a bridge model and check it against the corpus and the config.

    A model of another corpus is accepted if it reads the same number of features.
    """
    where = f"bridge {artifact.key[:12]}"
    shape = read_json(artifact.location, "model.json", BridgeShape)
    widths = {column.name: column.width or 0 for column in info.columns}
    actual = (widths.get("node_feat", 0), widths.get("edge_attr", 0))
    expected = (shape.code.num_node_features, shape.code.num_edge_features)
    if actual != expected:
        raise UsageError(
            f"{where} reads {expected[0]} node and {expected[1]} edge features; {info.name} has "
            f"{actual[0]} and {actual[1]}. Train one on it: `gsx pretrain bridge`."
        )
    if config.bridge_nodes and not shape.bridge_nodes:
        raise UsageError(
            f"{where} was trained without bridge nodes. Train one with them: "
            "`gsx pretrain bridge --bridge-nodes`."
        )
    return shape


def _reject_options_without_valences(config: GenerateConfig) -> None:
    """Reject options that would produce graphs that are not molecules."""
    for name in ("grow", "chords"):
        if getattr(config, name):
            raise UsageError(
                f"`{name}` does not respect valences and cannot be used with molecules. Leave it "
                "out."
            )
    if config.bridge_nodes:
        raise UsageError(
            "`bridge_nodes` would add atoms without hydrogens and cannot be used with molecules. "
            "Leave it out."
        )


def _binary_hint(info: CorpusInfo) -> str:
    if info.task == "classification" and len(info.outputs) == 2:
        return "Prepare it with the classes written as 0 and 1, or leave the option out."
    return "Leave it out."


def _classes(y: Array, info: CorpusInfo, config: GenerateConfig) -> Ints:
    """Return the class of every graph; 0 if the config does not use classes."""
    if config.partners != "same-class" and not config.balanced:
        return np.zeros(len(y), dtype=np.int64)
    if info.task == "classification":
        return np.asarray(np.nan_to_num(y).argmax(axis=1), dtype=np.int64)
    if info.task == "binary" and y.shape[1] == 1:
        return (np.nan_to_num(y[:, 0]) > 0.5).astype(np.int64)
    what = "partners = same-class" if config.partners == "same-class" else "balanced"
    raise UsageError(
        f"`{what}` needs classes; {info.name} is {info.task} with {y.shape[1]} tasks. Leave it out."
    )
