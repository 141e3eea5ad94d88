"""What a corpus holds, as values that travel in files: columns, task, environments."""

from __future__ import annotations

from typing import Literal

import msgspec

Axis = Literal["graph", "node", "edge"]
Level = Literal["graph", "node"]
Task = Literal["classification", "binary", "multitask", "regression"]
Metric = Literal["accuracy", "roc_auc", "mcc", "rmse"]

SPLITS = ("train", "id_val", "id_test", "ood_val", "ood_test", "all")
"""Names of splits, in the order in which a corpus lists them; ``all`` holds node-level graphs."""

ORIGINS = (
    "source",
    "g_inv",
    "g_inv_env",
    "g_whole",
    "featx",
    "dropnode",
    "dropedge",
    "maskfeature",
    "g_mixup",
)
"""How a graph came to be."""


class Feature(msgspec.Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """One value of a wide column whose codes stand for words."""

    name: str
    words: tuple[str, ...]
    """Word of every code, from 0."""


class Column(msgspec.Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """One column of a graph table."""

    name: str
    """Words joined by ``_``; ``provenance.parents`` is a field of the struct ``provenance``."""
    axis: Axis
    """What one row of the column belongs to."""
    dtype: str
    """NumPy name of a number type, or ``text``."""
    width: int | None = None
    """Values per row; None for one plain value."""
    ragged: bool = False
    """Whether each row is a list of its own length."""
    vocabulary: tuple[str, ...] = ()
    """Words the codes stand for; on disk the words are written, not the codes."""
    doc: str = ""
    """What the column means."""
    features: tuple[Feature, ...] | msgspec.UnsetType = msgspec.UNSET
    """Names and words of the values of a row, where the codes of each value have words of their
    own; unlike ``vocabulary``, the codes are written. Left out of files where there are none."""


class Environment(msgspec.Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """One group of graphs that share a condition."""

    id: int
    """The ``env_id`` of its graphs; ids are contiguous from 0."""
    name: str
    """What the graphs of the environment have in common."""
    origin: str = "source"
    """``source``, or the origin of the augmented graphs that make it up."""


class CorpusInfo(msgspec.Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """What a reader must know of a corpus; each shard carries it and so explains itself."""

    name: str
    """Name of the dataset, for example ``motif-size``."""
    level: Level = "graph"
    """Whether graphs or nodes are labelled."""
    task: Task = "classification"
    """How ``y`` is read: a class distribution, a probability per task, or a value per task."""
    metric: Metric = "accuracy"
    """The published score of the dataset."""
    outputs: tuple[str, ...]
    """Names of the classes, or of the tasks; as many as ``y`` is wide."""
    domain: str
    """What shifts between splits: ``size``, ``base``, ``scaffold``, …"""
    domains: tuple[str, ...] = ()
    """What each ``domain_id`` stands for, where that is known."""
    environments: tuple[Environment, ...]
    """What each ``env_id`` stands for; how many graphs each has is in ``env_table.json``."""
    columns: tuple[Column, ...]
    """Every column, in the order in which it is written."""
    num_features: int
    """Features per node, dense or sparse."""
    description: str = ""
    licence: str = ""
    citation: str = ""

    def column(self, name: str) -> Column:
        """Return the column called ``name``; KeyError when there is none."""
        for column in self.columns:
            if column.name == name:
                return column
        raise KeyError(name)

    @property
    def sparse(self) -> bool:
        """Whether node features are stored as index and value lists."""
        return any(column.name == "node_feat_index" for column in self.columns)


def corpus_columns(
    *,
    outputs: int,
    num_features: int,
    level: Level = "graph",
    feature_dtype: str = "float32",
    feature_words: tuple[Feature, ...] = (),
    sparse: bool = False,
    edge_features: int = 0,
    edge_feature_dtype: str = "float32",
    edge_feature_words: tuple[Feature, ...] = (),
    extras: tuple[Column, ...] = (),
) -> tuple[Column, ...]:
    """Return the columns every corpus has, for the given sizes, and the dataset's own extras."""
    columns = [
        Column(name="graph_id", axis="graph", dtype="int64", doc="unique in the corpus"),
        Column(name="split", axis="graph", dtype="int8", vocabulary=SPLITS, doc="split"),
        Column(name="env_id", axis="graph", dtype="int32", doc="environment, -1 unknown"),
        Column(name="domain_id", axis="graph", dtype="int32", doc="domain, -1 unknown"),
        Column(
            name="origin",
            axis="graph",
            dtype="int8",
            vocabulary=ORIGINS,
            doc="how the graph came to be",
        ),
    ]
    if sparse:
        columns += [
            Column(name="node_feat_index", axis="node", dtype="int32", ragged=True,
                   doc="feature numbers of the values present"),
            Column(name="node_feat_value", axis="node", dtype=feature_dtype, ragged=True,
                   doc="the values present"),
        ]  # fmt: skip
    else:
        columns.append(Column(name="node_feat", axis="node", dtype=feature_dtype,
                              width=num_features, doc="node features",
                              features=feature_words or msgspec.UNSET))  # fmt: skip
    columns += [
        Column(name="edge_src", axis="edge", dtype="int32", doc="local number of the source node"),
        Column(name="edge_dst", axis="edge", dtype="int32", doc="local number of the target node"),
    ]
    if edge_features:
        columns.append(Column(name="edge_attr", axis="edge", dtype=edge_feature_dtype,
                              width=edge_features, doc="edge features",
                              features=edge_feature_words or msgspec.UNSET))  # fmt: skip
    if level == "graph":
        columns += label_columns("graph", outputs)
    else:
        columns += [
            *label_columns("node", outputs),
            Column(name="node_env_id", axis="node", dtype="int32", doc="environment, -1 unknown"),
            Column(name="node_domain_id", axis="node", dtype="int32", doc="domain, -1 unknown"),
            Column(name="node_split", axis="node", dtype="int8", vocabulary=SPLITS,
                   doc="split; `all` = in none"),
        ]  # fmt: skip
    return (*columns, *PROVENANCE, *extras)


def label_columns(axis: Axis, outputs: int) -> list[Column]:
    """Return the soft and the hard label of graphs or of nodes."""
    prefix = "node_" if axis == "node" else ""
    return [
        Column(name=f"{prefix}y", axis=axis, dtype="float32", width=outputs,
               doc="class distribution, or one value per task; NaN = missing"),
        Column(name=f"{prefix}label", axis=axis, dtype="int32",
               doc="class where the label is hard, else -1"),
    ]  # fmt: skip


PROVENANCE = (
    Column(name="provenance.parents", axis="graph", dtype="int64", ragged=True,
           doc="graph_id of each piece's source, one per slot; empty for source graphs"),
    Column(name="provenance.node_slot", axis="graph", dtype="int16", ragged=True,
           doc="per node, the slot it came from; empty for source graphs"),
    Column(name="provenance.node_number", axis="graph", dtype="int32", ragged=True,
           doc="per node, its number in the source graph; empty for source graphs"),
    Column(name="provenance.bridges", axis="graph", dtype="int32", ragged=True,
           doc="positions of the edges that join pieces"),
    Column(name="provenance.lambda", axis="graph", dtype="float32",
           doc="strength of feature extrapolation, NaN without"),
    Column(name="provenance.partner", axis="graph", dtype="int64",
           doc="graph_id of the feature partner, -1 without"),
    Column(name="provenance.stream", axis="graph", dtype="text", ragged=True,
           doc="name of the random stream that made the graph"),
)  # fmt: skip
"""Where a graph came from, enough to rebuild it and to audit its label."""
