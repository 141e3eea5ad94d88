"""The schema of a corpus, as stored in its files: columns, task, environments."""

from __future__ import annotations

from typing import Literal

import msgspec

from gsx.errors import SchemaError
from gsx.names import MAX_TEXT, check_column_name, check_column_names, check_texts, shown

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

TEXT = "text"
INTEGERS = tuple(f"{sign}int{bits}" for sign in ("", "u") for bits in (8, 16, 32, 64))
NUMBERS = (*INTEGERS, "float32", "float64")
"""NumPy names of the types that columns of numbers may have."""
MAX_WIDTH = 1 << 20
"""Values per row of a vector column."""
MAX_CATEGORIES = 127
"""Words in a vocabulary, whose codes are 8-bit integers in Parquet files."""


class Feature(msgspec.Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """One feature of a vector column whose values are categorical codes."""

    name: str
    words: tuple[str, ...]
    """Category names, by code from 0."""

    def __post_init__(self) -> None:
        """Check the names."""
        check_texts("the feature", (self.name,))
        check_texts(f"feature `{self.name}`: the category", self.words)


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
    names: tuple[str, ...] | msgspec.UnsetType = msgspec.UNSET
    """Names of the values of a vector column of numbers. Omitted from files if unset."""

    def __post_init__(self) -> None:
        """Check the name, and that the type exists and agrees with width and vocabulary."""
        check_column_name(self.name)
        check_texts(f"column `{self.name}`: the description", (self.doc,), lines=True)
        check_texts(f"column `{self.name}`: the category", self.vocabulary)
        is_text, is_integer = self.dtype == TEXT, self.dtype in INTEGERS
        coded = bool(self.vocabulary or self.features)
        problem = None
        if not is_text and self.dtype not in NUMBERS:
            problem = f"has the type {self.dtype!r}; known: {', '.join((TEXT, *NUMBERS))}"
        elif self.width is not None and not 1 <= self.width <= MAX_WIDTH:
            problem = f"has width {self.width}; it must be in 1..{MAX_WIDTH}. " + (
                "If nodes have no features, use a constant 1."
            )
        elif is_text and (not self.ragged or self.width is not None or self.axis != "graph"):
            problem = "holds text, so it must be a ragged column of graphs without a width"
        elif coded and not is_integer:
            problem = f"has category names, so its type must be an integer, not {self.dtype}"
        elif self.vocabulary and (self.ragged or self.width is not None):
            problem = "has a vocabulary, so it must hold one value per row"
        elif len(self.vocabulary) != len(set(self.vocabulary)):
            problem = "lists a category twice"
        elif len(self.vocabulary) > MAX_CATEGORIES:
            problem = f"has {len(self.vocabulary)} categories; maximum is {MAX_CATEGORIES}"
        if problem:
            raise SchemaError(f"column `{self.name}` {problem}")
        self._check_names()
        if self.features and len(self.features) != self.width:
            raise SchemaError(
                f"column `{self.name}` has width {self.width}, but category names for "
                f"{len(self.features)} features"
            )

    def _check_names(self) -> None:
        if not self.names:
            return
        check_texts(f"column `{self.name}`: the name", self.names)
        if len(self.names) != self.width or self.features:
            raise SchemaError(
                f"column `{self.name}` has {len(self.names)} names of values; its width is "
                f"{self.width}, and features with categories have names of their own"
            )

    @property
    def value_names(self) -> tuple[str, ...]:
        """Names of the values of a row; empty if they have no names."""
        if self.features:
            return tuple(feature.name for feature in self.features)
        return self.names or ()


class Environment(msgspec.Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """A group of training examples with a similar domain."""

    id: int
    """The ``env_id`` of its graphs; ids are contiguous from 0."""
    name: str
    """Description of the common property of its graphs."""
    origin: str = "source"
    """``source``, or the origin of its augmented graphs."""

    def __post_init__(self) -> None:
        """Check the origin, which may list several operations."""
        if not set(self.origin.split(" ")) <= set(ORIGINS):
            raise SchemaError(f"environment {self.id} has the unknown origin {shown(self.origin)}")


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

    def __post_init__(self) -> None:
        """Check all names and texts, and the numbers of the environments."""
        check_column_names([column.name for column in self.columns])
        check_texts("the name of the corpus", (self.name,))
        check_texts("the domain", (self.domain,))
        check_texts("the output", self.outputs, MAX_TEXT)
        check_texts("the domain value", self.domains, MAX_TEXT)
        check_texts("the environment", (entry.name for entry in self.environments), MAX_TEXT)
        texts = (self.description, self.licence, self.citation)
        check_texts("the description, licence or citation", texts, MAX_TEXT, lines=True)
        ids = [environment.id for environment in self.environments]
        if ids != list(range(len(ids))):
            start = ", ".join(map(str, ids[:8]))
            raise SchemaError(f"environment ids must be consecutive from 0; found {start}")
        if self.num_features < 1:
            raise SchemaError(f"a corpus needs at least 1 feature; found {self.num_features}")

    def column(self, name: str) -> Column:
        """Return the column ``name``; raise KeyError if there is none."""
        for column in self.columns:
            if column.name == name:
                return column
        raise KeyError(name)

    @property
    def num_classes(self) -> int:
        """Number of classes of a target: 2 for binary tasks; for regression, the number of targets.

        It cannot be counted from labels, which may be soft.
        """
        return 2 if self.task in ("binary", "multitask") else len(self.outputs)

    @property
    def num_tasks(self) -> int:
        """Number of targets of a graph or node."""
        return 1 if self.task == "classification" else len(self.outputs)

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
    feature_names: tuple[str, ...] = (),
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
        Column(name="env_id", axis="graph", dtype="int32", doc="environment; -1 = unknown"),
        Column(name="domain_id", axis="graph", dtype="int32", doc="domain; -1 = unknown"),
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
                              features=feature_words or msgspec.UNSET,
                              names=feature_names or msgspec.UNSET))  # fmt: skip
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
            Column(name="node_env_id", axis="node", dtype="int32", doc="environment; -1 = unknown"),
            Column(name="node_domain_id", axis="node", dtype="int32", doc="domain; -1 = unknown"),
            Column(name="node_split", axis="node", dtype="int8", vocabulary=SPLITS,
                   doc="split; `all` = in no split"),
        ]  # fmt: skip
    return (*columns, *PROVENANCE, *extras)


def check_standard_columns(info: CorpusInfo) -> CorpusInfo:
    """Return ``info`` if it has every standard column with the right type, else raise SchemaError.

    Types of features are free. Descriptions, category names of features and further columns are
    not checked here.
    """
    if not info.outputs:
        raise SchemaError("a corpus needs at least 1 output; it has none")
    columns = {column.name: column for column in info.columns}
    feature = columns.get("node_feat_value" if info.sparse else "node_feat")
    edge = columns.get("edge_attr")
    expected = corpus_columns(
        outputs=len(info.outputs),
        num_features=info.num_features,
        level=info.level,
        feature_dtype="float32" if feature is None else feature.dtype,
        sparse=info.sparse,
        edge_features=0 if edge is None else edge.width or 1,
        edge_feature_dtype="float32" if edge is None else edge.dtype,
    )
    for standard in expected:
        column = columns.get(standard.name)
        if column is None:
            raise SchemaError(f"the standard column `{standard.name}` is missing")
        for field in ("axis", "dtype", "width", "ragged", "vocabulary"):
            actual, wanted = getattr(column, field), getattr(standard, field)
            if actual != wanted:
                raise SchemaError(
                    f"column `{column.name}` has the {field} {actual!r}; expected {wanted!r}"
                )
    return info


def label_columns(axis: Axis, outputs: int) -> list[Column]:
    """Return the columns of the soft and the hard label of graphs or nodes."""
    prefix = "node_" if axis == "node" else ""
    return [
        Column(name=f"{prefix}y", axis=axis, dtype="float32", width=outputs,
               doc="class distribution, or one value per task; NaN = missing"),
        Column(name=f"{prefix}label", axis=axis, dtype="int32",
               doc="class of a hard label, else -1"),
    ]  # fmt: skip


PROVENANCE = (
    Column(name="provenance.parents", axis="graph", dtype="int64", ragged=True,
           doc="graph_id of the parent of each component, one per slot; empty for source graphs"),
    Column(name="provenance.node_slot", axis="graph", dtype="int16", ragged=True,
           doc="per node, the slot of its component; empty for source graphs"),
    Column(name="provenance.node_number", axis="graph", dtype="int32", ragged=True,
           doc="per node, its number in the parent; empty for source graphs"),
    Column(name="provenance.bridges", axis="graph", dtype="int32", ragged=True,
           doc="positions of the bridge edges"),
    Column(name="provenance.lambda", axis="graph", dtype="float32",
           doc="strength of feature extrapolation; NaN = not extrapolated"),
    Column(name="provenance.partner", axis="graph", dtype="int64",
           doc="graph_id of the partner in feature extrapolation; -1 = none"),
    Column(name="provenance.stream", axis="graph", dtype="text", ragged=True,
           doc="name of the random stream that generated the graph"),
)  # fmt: skip
"""Provenance of a graph, sufficient to rebuild it and to check its label."""
