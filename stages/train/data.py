"""Training and held-out graphs of a corpus, read and checked for training."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass

import numpy as np

from gsx.errors import StageError
from gsx.ragged import Array, Ints
from gsx.schema import SPLITS, CorpusInfo
from gsx.stages.graphs.subgraphs import global_edges, sort_edges
from gsx.stages.nn.batches import BackboneShape
from gsx.stages.train.algorithms import algorithm_named
from gsx.stages.train.config import CLASSICAL
from gsx.stages.train.held_out_parents import COLUMNS, hold_out_parents
from gsx.stages.train.metrics import undefined_reason
from gsx.storage.corpora.corpus import Corpus
from gsx.table import GraphTable

AUGMENTED = "augmented"
"""Name of the validation set of augmented graphs of held-out parents, which is not a split."""
HELD_OUT = ("id_val", "id_test", "ood_val", "ood_test")
VALIDATION = ("id_val", "ood_val")
TEST = ("id_test", "ood_test")


@dataclass(frozen=True, slots=True, eq=False, kw_only=True)
class TrainingData:
    """Graphs to train on and to evaluate on."""

    task: str
    metric: str
    train: GraphTable
    env: Ints
    """``[G]`` environments of the training graphs, numbered from 0 without gaps."""
    num_envs: int
    held_out: Mapping[str, GraphTable]
    """Split → its graphs; also ``augmented``, if parents are held out."""


def read_training_data(
    corpus: Corpus,
    origins: Sequence[str] | None,
    algorithm: str,
    held_out: Sequence[str] = HELD_OUT,
    *,
    held_out_parents: int | None = None,
) -> TrainingData:
    """Read training graphs of some origins, or of all if None, and held-out splits.

    ``held_out_parents`` is the seed with which parents of a validation set of augmented graphs are
    drawn; without it there is no such set.
    """
    info = corpus.info
    train = read_train(corpus, origins, () if held_out_parents is None else COLUMNS)
    augmented = {}
    if held_out_parents is not None:
        train, graphs = hold_out_parents(train, info.task, info.name, held_out_parents)
        check_metric(info, AUGMENTED, graphs.dense("graph", "y"))
        augmented[AUGMENTED] = graphs
    env, num_envs = graph_environments(train, algorithm)
    return TrainingData(
        task=info.task,
        metric=info.metric,
        train=train,
        env=env,
        num_envs=num_envs,
        held_out={**read_held_out(corpus, held_out), **augmented},
    )


def check_corpus(info: CorpusInfo, backbone: str) -> None:
    """Raise a ``StageError`` if a backbone does not support a corpus."""
    if backbone in CLASSICAL:
        _check_classical(info, backbone)
        return
    if info.level == "node" and backbone != "gcn":
        raise StageError(
            f"{info.name} has node labels, but `{backbone}` predicts graph labels. Use the "
            "backbone `gcn`."
        )
    if info.level == "graph" and backbone == "gcn":
        raise StageError(
            f"{info.name} has graph labels, but `gcn` predicts node labels. Use the backbone `gin` "
            "or `vgin`."
        )
    if info.level == "graph" and info.sparse:
        raise StageError(
            f"{info.name} has sparse node features, which graph-level backbones do not support."
        )


def _check_classical(info: CorpusInfo, backbone: str) -> None:
    if (info.level == "node") != (backbone == "node"):
        predicted = "nodes" if backbone == "node" else "graphs"
        other = "`node` or `gcn`" if info.level == "node" else "`wl`, `mean`, `size` or `gin`"
        raise StageError(
            f"{info.name} has {info.level} labels, but `{backbone}` predicts labels of {predicted}."
            f" Use the backbone {other}."
        )
    if backbone == "morgan" and not any(column.name == "smiles" for column in info.columns):
        raise StageError(
            f"{info.name} has no molecules (no column `smiles`), which `morgan` needs. Use the "
            "backbone `wl`."
        )


def is_undirected(table: GraphTable) -> bool:
    """Return whether every edge also exists in the other direction; edges must be sorted."""
    src, dst = global_edges(table)
    order = np.lexsort((src, dst))
    return np.array_equal(src[order], dst) and np.array_equal(dst[order], src)


def read_split(
    corpus: Corpus, split: str, extra_columns: Sequence[str] = (), *, labels: bool = True
) -> GraphTable:
    """Return the graphs of a split with the columns that training reads, edges sorted."""
    names = [*table_columns(corpus.info, labels=labels), *extra_columns]
    return sorted_table(
        corpus.table(split=split, columns=names), f"`{split}` of {corpus.info.name}"
    )


def table_columns(info: CorpusInfo, *, labels: bool = True) -> list[str]:
    """Return the names of the columns that training reads."""
    available = {column.name for column in info.columns}
    return [
        "node_feat",
        *(["y"] if labels else []),
        "env_id",
        "origin",
        *({"edge_attr"} & available),
    ]


def sorted_table(table: GraphTable, where: str) -> GraphTable:
    """Return graphs with sorted edges; raise StageError if edges are directed."""
    table = sort_edges(table)
    if not is_undirected(table):
        raise StageError(
            f"{where} has directed edges, but backbones need undirected graphs. Store every edge "
            "in both directions."
        )
    return table


def read_train(
    corpus: Corpus, origins: Sequence[str] | None, extra_columns: Sequence[str] = ()
) -> GraphTable:
    """Return the labelled training graphs of some origins, or of all if None."""
    info = corpus.info
    if "train" not in corpus.splits:
        raise StageError(f"{info.name} has no `train` split. Prepare it with training graphs.")
    table = read_split(corpus, "train", extra_columns)
    if origins is not None:
        vocabulary = info.column("origin").vocabulary
        codes = [vocabulary.index(origin) for origin in origins]
        table = table.filter(np.isin(table.dense("graph", "origin"), codes))
        if not len(table):
            raise StageError(
                f"{info.name} has no training graphs of origin {', '.join(origins)}. "
                "`gsx show` lists its origins."
            )
    y = table.dense("graph", "y")
    labelled = (~np.isnan(y)).sum(axis=1) > 0
    if not labelled.any():
        raise StageError(f"{info.name} has no labelled training graphs. Add labels to them.")
    if len(np.unique(y[labelled], axis=0)) < 2:
        raise StageError(
            f"all training graphs of {info.name} have the same label. Add graphs of another label."
        )
    return table if labelled.all() else table.filter(labelled)


def read_held_out(
    corpus: Corpus, splits: Sequence[str] = HELD_OUT, extra_columns: Sequence[str] = ()
) -> dict[str, GraphTable]:
    """Return the graphs of the given splits that the corpus has; other splits are not read."""
    tables = {}
    for split in sorted(set(corpus.splits) & set(splits), key=SPLITS.index):
        tables[split] = read_split(corpus, split, extra_columns)
        check_metric(corpus.info, split, tables[split].dense("graph", "y"))
    return tables


def check_metric(info: CorpusInfo, split: str, y: Array, items: str = "graphs") -> None:
    """Raise a ``StageError`` if the metric is undefined on the labels of a split."""
    reason = undefined_reason(info.metric, info.task, y)
    if reason is not None:
        raise StageError(
            f"{info.metric} is undefined on `{split}` of {info.name} ({len(y)} {items}): {reason}. "
            f"Prepare more {items}, or remove the split."
        )


def graph_environments(table: GraphTable, algorithm: str) -> tuple[Ints, int]:
    """Return environments of graphs, numbered from 0 without gaps, and their number."""
    return renumber_environments(table.dense("graph", "env_id"), algorithm, "graphs")


def renumber_environments(env: Ints, algorithm: str, items: str) -> tuple[Ints, int]:
    """Return environments numbered from 0 without gaps, and their number.

    Raises a ``StageError`` if the algorithm compares environments and there are too few.
    """
    ids, renumbered = np.unique(env, return_inverse=True)
    if algorithm_named(algorithm).compares_environments and (ids[0] < 0 or len(ids) < 2):
        without = f", and {(env < 0).sum()} {items} have none" if ids[0] < 0 else ""
        raise StageError(
            f"`{algorithm}` compares environments, but the training {items} have "
            f"{(ids >= 0).sum()} environment(s){without}. Use the algorithm `erm`, or a corpus "
            "with environments."
        )
    return renumbered.astype(np.int64), len(ids)


def graph_backbone_shape(info: CorpusInfo, backbone: str, width: int, layers: int) -> BackboneShape:
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
