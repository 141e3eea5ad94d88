"""The schema of a corpus, as stored in its files: columns, task, environments."""

from __future__ import annotations

from typing import Literal

import msgspec

Axis = Literal["graph", "node", "edge"]
Level = Literal["graph", "node"]
Task = Literal["classification", "binary", "multitask", "regression"]
Metric = Literal["accuracy", "roc_auc", "mcc", "rmse"]

SPLITS = ("train", "id_val", "id_test", "ood_val", "ood_test", "all")
"""Names of splits, in corpus order; ``all`` holds the graphs of node-labelled corpora."""

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
"""Operations that create graphs."""


class Feature(msgspec.Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """One feature of a vector column whose values are categorical codes."""

    name: str
    words: tuple[str, ...]
    """Category names, by code from 0."""


class Column(msgspec.Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """One column of a graph table."""

    name: str
    """Words joined by ``_``; ``provenance.parents`` is a field of the struct ``provenance``."""
    axis: Axis
    """Whether a row belongs to a graph, a node or an edge."""
    dtype: str
    """NumPy name of a number type, or ``text``."""
    width: int | None = None
    """Values per row; None for scalars."""
    ragged: bool = False
    """Whether rows are lists of different lengths."""
    vocabulary: tuple[str, ...] = ()
    """Category names by code; Parquet files contain the names, not the codes."""
    doc: str = ""
    """Description."""
    features: tuple[Feature, ...] | msgspec.UnsetType = msgspec.UNSET
    """Category names of each feature of a vector column; unlike with ``vocabulary``, files contain
    the codes. Omitted from files if unset."""


class Environment(msgspec.Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """A group of training examples with a similar domain."""

    id: int
    """The ``env_id`` of its graphs; ids are contiguous from 0."""
    name: str
    """Description of the common property of its graphs."""
    origin: str = "source"
    """``source``, or the origin of its augmented graphs."""


class CorpusInfo(msgspec.Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """Description of a corpus; also stored in every shard, so that shards are self-describing."""

    name: str
    """Name of the dataset, for example ``motif-size``."""
    level: Level = "graph"
    """Whether graphs or nodes are labelled."""
    task: Task = "classification"
    """Meaning of ``y``: a class distribution, a probability per task, or a value per task."""
    metric: Metric = "accuracy"
    """The standard metric of the dataset."""
    outputs: tuple[str, ...]
    """Names of the classes or tasks, one per column of ``y``."""
    domain: str
    """The quantity that shifts between splits: ``size``, ``base``, ``scaffold``, …"""
    domains: tuple[str, ...] = ()
    """Names of the domains by ``domain_id``; empty if unknown."""
    environments: tuple[Environment, ...]
    """Environments by ``env_id``; ``env_table.json`` contains their counts."""
    columns: tuple[Column, ...]
    """Every column, in file order."""
    num_features: int
    """Features per node, dense or sparse."""
    description: str = ""
    licence: str = ""
    citation: str = ""

    def column(self, name: str) -> Column:
        """Return the column ``name``; raise KeyError if there is none."""
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
    """Return the standard columns for the given sizes, followed by the extra columns."""
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
    """Return the columns of the soft and the hard label of graphs or nodes."""
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
"""Provenance of a graph, sufficient to rebuild it and to check its label."""
