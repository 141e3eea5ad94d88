"""Read what generation was given, and refuse what does not belong together."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

import msgspec
import numpy as np
import torch
from safetensors.numpy import load
from safetensors.torch import load as load_tensors

from gsx.errors import ArtifactError, StageError, UsageError
from gsx.ragged import Array, Ints, texts_of
from gsx.schema import CorpusInfo
from gsx.stages.augmented.rejection import held_out_hashes as held_out_hashes
from gsx.stages.augmented.rejection import next_id
from gsx.stages.chem.features import molecular
from gsx.stages.chem.splice_rules import (
    SAMPLE,
    Chemist,
    may_cut,
    molecule_quality,
    rounded_pieces,
)
from gsx.stages.graphs.subgraphs import Bools, is_connected
from gsx.stages.nn.bridge_model import BridgeModel, BridgeShape
from gsx.storage.artifacts.store import Artifact
from gsx.storage.corpora.corpus import Corpus
from gsx.table import GraphTable

if TYPE_CHECKING:
    from gsx.stages.generate.stage import GenerateConfig

STRUCTURE = ("edge_src", "edge_dst")
LIMIT = 1 << 33
"""Bytes of one file of an extractor or bridge model that are read."""


@dataclass(frozen=True, slots=True, eq=False)
class Source:
    """Training graphs, their pieces, and the model that joins them."""

    corpus: Corpus
    train: GraphTable
    """Node and edge columns of the training graphs; graph columns are apart."""
    graph_id: Ints
    y: Array
    classes: Ints
    labelled: Bools
    """Graphs that have a label to give."""
    causal: Bools | None
    environmental: Bools | None
    model: BridgeModel | None
    may_cut: Bools | None
    """``[E]`` edges where pieces may be cut; all may without it."""
    chemist: Chemist | None
    """For molecules, which must stay molecules."""
    next_id: int
    left_out: dict[str, int]
    """Training graphs that cannot be spliced whole, by reason."""


def preflight(config: GenerateConfig, inputs: Mapping[str, Artifact]) -> Corpus:
    """Refuse what cannot be spliced or does not fit together, as far as it is given already.

    Reads descriptions only, so that it can be asked before anything is trained.
    """
    corpus = Corpus(inputs["corpus"])
    info = corpus.info
    _require_splicable(info, corpus)
    _classes(np.zeros((1, len(info.outputs))), info, config)
    if config.labels != "average" and info.task not in ("binary", "multitask"):
        raise UsageError(
            f"`labels = {config.labels}` needs answers yes and no; {info.name} is {info.task}. "
            "Leave it out."
        )
    graphs = corpus.splits["train"]
    if config.f[1] > graphs and config.partners != "same-piece" and config.options != "100":
        raise UsageError(
            f"f of {config.f[1]} needs as many different graphs; {info.name} has {graphs} for "
            "training. Lower f, or repeat pieces with `partners = same-piece`."
        )
    if "extractor" in inputs:
        _require_parent(inputs["extractor"], corpus, "extractor", "gsx pretrain extract")
    if "bridge" in inputs:
        _shape(inputs["bridge"], info, config)
    return corpus


def read(config: GenerateConfig, inputs: Mapping[str, Artifact]) -> Source:
    """Read corpus, pieces and model; refuse them where they do not fit together."""
    corpus = preflight(config, inputs)
    info = corpus.info
    train = _training_graphs(corpus)
    graph_id = train.dense("graph", "graph_id")
    y = train.dense("graph", "y")
    causal = environmental = None
    if "extractor" in inputs:
        causal, environmental = _pieces(inputs["extractor"], graph_id, train)
        if molecular(info):
            causal, environmental = rounded_pieces(train, causal)
    model = None
    if "bridge" in inputs:
        model = _model(inputs["bridge"], info, config)
    labelled = ~np.isnan(y).all(axis=1)
    connected = is_connected(train)
    return Source(
        corpus=corpus,
        train=train.select((*train.node, *train.edge)),
        graph_id=graph_id,
        y=y,
        classes=_classes(y, info, config),
        labelled=np.asarray(labelled),
        causal=causal,
        environmental=environmental,
        model=model,
        may_cut=may_cut(train, info) if config.fragments else None,
        chemist=Chemist() if molecular(info) and config.bridges != "none" else None,
        next_id=next_id(corpus),
        left_out={
            "without_label": int((~labelled).sum()),
            "not_connected": int((~connected).sum()),
        },
    )


def molecule_report(corpus: Corpus, smiles: list[str]) -> dict[str, Any]:
    """Compare some new molecules with the source."""
    names = ["smiles", *({"scaffold"} & {column.name for column in corpus.info.columns})]
    train = corpus.table(split="train", columns=names)
    known = set(texts_of(train.lists("graph", "scaffold"))) if "scaffold" in names else set()
    source = texts_of(train.lists("graph", "smiles").slice(0, SAMPLE))
    return molecule_quality(smiles, source, known)


def _require_splicable(info: CorpusInfo, corpus: Corpus) -> None:
    if info.level != "graph":
        raise StageError(
            f"{info.name} labels nodes; splicing needs a corpus of labelled graphs. `gsx datasets` "
            "lists some; `gsx train` learns from this one as it is."
        )
    if info.sparse:
        raise StageError(f"{info.name} has sparse node features, which splicing does not carry.")
    if "train" not in corpus.splits:
        raise StageError(f"{info.name} has no `train` graphs to splice.")


def _training_graphs(corpus: Corpus) -> GraphTable:
    names = [
        column.name
        for column in corpus.info.columns
        if column.axis != "graph" or column.name in ("graph_id", "y")
    ]
    return corpus.table(split="train", columns=names)


def _pieces(artifact: Artifact, graph_id: Ints, train: GraphTable) -> tuple[Bools, Bools]:
    arrays = load(artifact.place.read_bytes("pieces.safetensors", limit=LIMIT))
    same = np.array_equal(arrays["graph_id"], graph_id) and np.array_equal(
        arrays["node_ptr"], train.node_ptr
    )
    if not same:
        raise ArtifactError(f"{artifact.place.url} holds pieces of other graphs than the corpus.")
    return arrays["causal"] == 1, arrays["environmental"] == 1


def _require_parent(artifact: Artifact, corpus: Corpus, what: str, command: str) -> None:
    """Refuse a model that was trained on another corpus."""
    digests = [parent.digest for parent in artifact.manifest.parents if parent.role == "corpus"]
    if corpus.artifact.manifest.digest not in digests:
        name = artifact.manifest.summary.get("name", "another corpus")
        raise UsageError(
            f"{what} {artifact.key[:12]} was trained on another corpus ({name}) than "
            f"{corpus.info.name} {corpus.key[:12]}. Train one: `{command} {corpus.key[:12]}`."
        )


def _model(artifact: Artifact, info: CorpusInfo, config: GenerateConfig) -> BridgeModel:
    shape = _shape(artifact, info, config)
    weights = load_tensors(artifact.place.read_bytes("weights.safetensors", limit=LIMIT))
    return BridgeModel.load(shape, weights, torch.device("cpu"))


def _shape(artifact: Artifact, info: CorpusInfo, config: GenerateConfig) -> BridgeShape:
    """Describe a bridge model; one of another corpus will do if it reads the same features."""
    where = f"bridge {artifact.key[:12]}"
    try:
        shape = msgspec.json.decode(
            artifact.place.read_bytes("model.json", limit=1 << 26), type=BridgeShape
        )
    except (FileNotFoundError, msgspec.MsgspecError) as error:
        raise ArtifactError(f"{artifact.place.url}/model.json cannot be read: {error}") from error
    widths = {column.name: column.width or 0 for column in info.columns}
    found = (widths.get("node_feat", 0), widths.get("edge_attr", 0))
    expected = (shape.code.num_node_features, shape.code.num_edge_features)
    if found != expected:
        raise UsageError(
            f"{where} reads {expected[0]} node and {expected[1]} edge features; {info.name} has "
            f"{found[0]} and {found[1]}. Train one on it: `gsx pretrain bridge`."
        )
    for name in ("grow", "chords"):
        if getattr(config, name) and molecular(info):
            raise UsageError(f"`{name}` knows no valences; molecules take none. Leave it out.")
    if config.bridge_nodes and molecular(info):
        raise UsageError("bridge nodes would be atoms without hydrogens; molecules take none.")
    if config.bridge_nodes and not shape.bridge_nodes:
        raise UsageError(
            f"{where} did not learn bridge nodes. Train one that did: "
            "`gsx pretrain bridge --bridge-nodes`."
        )
    return shape


def _classes(y: Array, info: CorpusInfo, config: GenerateConfig) -> Ints:
    """Return the class of every graph, where classes matter."""
    if config.partners != "same-class" and not config.balanced:
        return np.zeros(len(y), dtype=np.int64)
    if info.task == "classification":
        return np.asarray(np.nan_to_num(y).argmax(axis=1), dtype=np.int64)
    if info.task == "binary" and y.shape[1] == 1:
        return (np.nan_to_num(y[:, 0]) > 0.5).astype(np.int64)
    what = "partners = same-class" if config.partners == "same-class" else "balanced"
    raise UsageError(f"`{what}` needs classes; {info.name} is {info.task} with {y.shape[1]} tasks.")
