"""The graphs a classifier learns from and is scored on, read from a corpus and checked."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np

from gsx.errors import StageError
from gsx.ragged import Array, Ints
from gsx.schema import SPLITS, CorpusInfo
from gsx.stages.graphs.subgraphs import global_edges, sort_edges
from gsx.stages.nn.backbones import BackboneShape
from gsx.stages.train.algorithms.catalog import KINDS
from gsx.stages.train.metrics import why_undefined
from gsx.storage.corpora.corpus import Corpus
from gsx.table import GraphTable

HELD_OUT = ("id_val", "id_test", "ood_val", "ood_test")


def check_corpus(info: CorpusInfo, backbone: str) -> None:
    """Refuse a corpus that a backbone cannot read."""
    if info.level == "node" and backbone != "gcn":
        raise StageError(
            f"{info.name} labels nodes, and `{backbone}` tells labels of graphs. Use the backbone "
            "`gcn`."
        )
    if info.level == "graph" and backbone == "gcn":
        raise StageError(
            f"{info.name} labels graphs, and `gcn` tells labels of nodes. Use the backbone `gin` "
            "or `vgin`."
        )
    if info.level == "graph" and info.sparse:
        raise StageError(f"{info.name} has sparse node features, which backbones do not read yet.")


def read_split(corpus: Corpus, split: str) -> GraphTable:
    """Return the graphs of a split with what a classifier may see, edges sorted by source."""
    known = {column.name for column in corpus.info.columns}
    names = ["node_feat", "y", "env_id", "origin", *({"edge_attr"} & known)]
    table = sort_edges(corpus.table(split=split, columns=names))
    src, dst = global_edges(table)
    order = np.lexsort((src, dst))
    if not (np.array_equal(src[order], dst) and np.array_equal(dst[order], src)):
        raise StageError(
            f"`{split}` of {corpus.info.name} has edges without their way back; backbones read "
            "undirected graphs. Store every edge in both directions."
        )
    return table


def read_train(corpus: Corpus, origins: Sequence[str] | None) -> GraphTable:
    """Return the training graphs of some origins, those with a label; None takes all origins."""
    info = corpus.info
    if "train" not in corpus.splits:
        raise StageError(f"{info.name} has no `train` graphs; prepare it with that split.")
    table = read_split(corpus, "train")
    if origins is not None:
        words = info.column("origin").vocabulary
        codes = [words.index(origin) for origin in origins]
        table = table.filter(np.isin(table.dense("graph", "origin"), codes))
        if not len(table):
            raise StageError(
                f"{info.name} has no training graphs of origin {', '.join(origins)}. "
                "`gsx show` lists what it has."
            )
    y = table.dense("graph", "y")
    labelled = (~np.isnan(y)).sum(axis=1) > 0
    if not labelled.any():
        raise StageError(f"no training graph of {info.name} has a label; nothing can be learned.")
    if len(np.unique(y[labelled], axis=0)) < 2:
        raise StageError(f"all training graphs of {info.name} have one label: nothing to learn.")
    return table if labelled.all() else table.filter(labelled)


def read_held_out(corpus: Corpus) -> dict[str, GraphTable]:
    """Return the splits scores are taken on, those the corpus has and can score."""
    found = {}
    for split in sorted(set(corpus.splits) & set(HELD_OUT), key=SPLITS.index):
        found[split] = read_split(corpus, split)
        check_metric(corpus.info, split, found[split].dense("graph", "y"))
    return found


def check_metric(info: CorpusInfo, split: str, y: Array, items: str = "graphs") -> None:
    """Refuse a split on which the metric means nothing."""
    reason = why_undefined(info.metric, info.task, y)
    if reason is not None:
        raise StageError(
            f"{info.metric} is undefined on `{split}` of {info.name} ({len(y)} {items}): {reason}. "
            f"Prepare more {items}, or leave the split out."
        )


def environments(table: GraphTable, learner: str) -> tuple[Ints, int]:
    """Return environments numbered from 0 without a gap, and how many there are."""
    return number_environments(table.dense("graph", "env_id"), learner, "graphs")


def number_environments(env: Ints, learner: str, items: str) -> tuple[Ints, int]:
    """Return environments numbered from 0 without a gap, and how many there are."""
    known, numbered = np.unique(env, return_inverse=True)
    if KINDS[learner].compares and (known[0] < 0 or len(known) < 2):
        raise StageError(
            f"`{learner}` compares environments, but the training {items} have "
            f"{(known >= 0).sum()} known one(s)"
            + (f" and {(env < 0).sum()} {items} of none" if known[0] < 0 else "")
            + ". Use the learner `erm`, or a corpus with environments."
        )
    return numbered.astype(np.int64), len(known)


def shape_of(info: CorpusInfo, backbone: str, width: int, layers: int) -> BackboneShape:
    """Return the shape of a network for the graphs of a corpus."""
    columns = {column.name: column for column in info.columns}
    edge = columns.get("edge_attr")
    node = columns["node_feat"]
    return BackboneShape(
        backbone="vgin" if backbone == "vgin" else "gin",
        features=info.num_features,
        words=tuple(len(feature.words) for feature in node.features or ()),
        edge_features=edge.width or 0 if edge else 0,
        edge_words=tuple(len(feature.words) for feature in edge.features or ()) if edge else (),
        width=width,
        layers=layers,
        outputs=len(info.outputs),
    )
