"""Classical models as backbones of ``gsx train``: linear functions of fixed features.

A model has no epochs. Its hyper-parameters, how counts become features and the L2 penalty, are
those with the best mean score on ``id_val`` and ``ood_val``; test splits are scored afterwards.
Every training graph counts once, like in an epoch of a network, also if it is augmented.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING, Literal

import msgspec
import numpy as np

from gsx import typed_values
from gsx.errors import ArtifactError, StageError
from gsx.ragged import Array
from gsx.schema import ORIGINS, SPLITS, CorpusInfo
from gsx.stages.classical.features import (
    COUNTED,
    COUNTS,
    KINDS,
    Counts,
    FeatureSpace,
    Kind,
    fit_features,
)
from gsx.stages.classical.fingerprints import BITS, with_smiles
from gsx.stages.classical.linear import LinearModel, fit_linear
from gsx.stages.classical.node_neighborhoods import COMPONENTS
from gsx.stages.classical.wl_counts import BIN_BITS
from gsx.stages.graphs.node_features import COLUMNS
from gsx.stages.nn.batches import Layers, Size
from gsx.stages.train.config import TrainConfig
from gsx.stages.train.data import VALIDATION, read_held_out, read_train
from gsx.stages.train.metrics import is_better, score
from gsx.storage.corpora.artifact_files import array
from gsx.storage.corpora.corpus import Corpus
from gsx.table import GraphTable

if TYPE_CHECKING:
    from scipy.sparse import csr_array

STRENGTHS = (0.003, 0.01, 0.03, 0.1, 0.3, 1.0)
"""L2 penalties to choose from."""
UNTUNED_STRENGTH = 0.1
"""L2 penalty without a validation split."""


class ClassicalShape(msgspec.Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """Features of a classical model, and the inputs that they need."""

    kind: Literal["wl", "morgan", "size", "mean", "node"]
    counts: Literal["counts", "log", "shares"]
    rounds: Layers
    strength: float
    features: Size
    """Values per node."""
    edge_features: Size
    outputs: Size


class ClassicalDescription(msgspec.Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """Content of ``model.json`` of a classical model."""

    task: str
    classical: ClassicalShape


@dataclass(frozen=True, slots=True, eq=False, kw_only=True)
class ClassicalModel:
    """A fitted feature space and a linear model."""

    task: str
    shape: ClassicalShape
    space: FeatureSpace
    linear: LinearModel

    def predict(self, table: GraphTable) -> Array:
        """Return the logits ``[G, C]``; for node features ``[N, C]``."""
        return self.linear.predict(self.space.transform(table))

    def arrays(self) -> dict[str, Array]:
        """Return the content of the weight file."""
        linear = {"linear.weights": self.linear.weights, "linear.bias": self.linear.bias}
        return {**linear, **{f"space.{name}": value for name, value in self.space.arrays.items()}}


@dataclass(frozen=True, slots=True, eq=False, kw_only=True)
class ClassicalData:
    """Tables, the rows of each that are examples, and their labels."""

    tables: Mapping[str, GraphTable]
    """``train`` and the held-out splits → table; for labelled nodes the same table."""
    rows: Mapping[str, Array]
    """Split → its rows among the features of its table."""
    y: Mapping[str, Array]
    weights: Array
    """Weights of the training examples."""


def fit_classical(
    config: TrainConfig, corpus: Corpus, splits: tuple[str, ...]
) -> tuple[ClassicalModel, dict[str, float], int]:
    """Return a model, its scores on the held-out splits, and the number of training examples."""
    info = corpus.info
    data = (read_nodes if info.level == "node" else read_graphs)(config, corpus, splits)
    kind = next(kind for kind in KINDS if kind == config.backbone)
    space = fit_features(kind, data.tables["train"], rounds=config.layers)
    validation = [split for split in VALIDATION if split in data.y]
    strengths = STRENGTHS if validation else (UNTUNED_STRENGTH,)
    if config.strength is not None:
        strengths = (config.strength,)
    counted = {id(table): space.count(table) for table in data.tables.values()}
    best: tuple[float, FeatureSpace, float, LinearModel] | None = None
    for counts in _variants(config, kind, tuned=bool(validation)):
        variant = replace(space, counts=counts)
        inputs = _inputs(variant, data, ["train", *validation], counted)
        for strength in strengths:
            model = fit_linear(
                inputs["train"],
                data.y["train"],
                task=info.task,
                strength=strength,
                seed=config.seed,
                weights=data.weights,
            )
            values = _scores(info, model, inputs, data, validation)
            mean = float(np.mean(list(values.values()))) if values else 0.0
            if best is None or is_better(info.metric, mean, best[0]):
                best = mean, variant, strength, model
    assert best is not None  # there is a variant
    _, variant, strength, linear = best
    held_out = [split for split in data.y if split != "train"]
    inputs = _inputs(variant, data, held_out, counted)
    shape = expected_shape(corpus, kind, variant.counts, config.layers, strength)
    classical = ClassicalModel(task=info.task, shape=shape, space=variant, linear=linear)
    return classical, _scores(info, linear, inputs, data, held_out), len(data.y["train"])


def _variants(config: TrainConfig, kind: Kind, *, tuned: bool) -> tuple[Counts, ...]:
    """Return the ways to use counts as features, of which the first wins ties."""
    if kind not in COUNTED:
        return ("counts",)
    if config.counts != "auto":
        return (config.counts,)
    return COUNTS if tuned else ("log",)


def _inputs(
    space: FeatureSpace, data: ClassicalData, splits: list[str], counted: Mapping[int, csr_array]
) -> dict[str, csr_array]:
    """Return the features of the examples of some splits; tables may be shared by splits."""
    tables = {id(data.tables[split]): data.tables[split] for split in splits}
    scaled = {key: space.scale(counted[key].copy(), table) for key, table in tables.items()}
    return {split: scaled[id(data.tables[split])][data.rows[split]] for split in splits}


def _scores(
    info: CorpusInfo,
    model: LinearModel,
    inputs: Mapping[str, csr_array],
    data: ClassicalData,
    splits: list[str],
) -> dict[str, float]:
    """Return the scores of a model on splits where the metric is defined."""
    scores = {
        split: score(info.metric, info.task, model.predict(inputs[split]), data.y[split])
        for split in splits
    }
    return {split: value for split, value in scores.items() if value is not None}


def read_graphs(config: TrainConfig, corpus: Corpus, splits: tuple[str, ...]) -> ClassicalData:
    """Return the graphs of a corpus; training graphs without SMILES have no fingerprints."""
    extra = ("smiles",) if config.backbone == "morgan" else ()
    origins = config.origins if config.augmented else ("source",)
    train = read_train(corpus, origins, extra)
    if extra:
        train = train.filter(with_smiles(train))
    tables = {"train": train, **read_held_out(corpus, splits, extra)}
    env = train.dense("graph", "env_id")
    _, index, sizes = np.unique(env, return_inverse=True, return_counts=True)
    return ClassicalData(
        tables=tables,
        rows={split: np.arange(len(table)) for split, table in tables.items()},
        y={split: table.dense("graph", "y") for split, table in tables.items()},
        weights=1 / sizes[index] if config.env_balanced else np.ones(len(train)),
    )


def read_nodes(config: TrainConfig, corpus: Corpus, splits: tuple[str, ...]) -> ClassicalData:
    """Return the nodes of a corpus; replicas are training examples only."""
    table = read_node_table(corpus)
    node_origin = np.repeat(table.dense("graph", "origin"), table.num_nodes)
    source = node_origin == ORIGINS.index("source")
    split, y = table.dense("node", "node_split"), table.dense("node", "node_y")
    origins = config.origins if config.augmented else ("source",)
    allowed = np.isin(node_origin, [ORIGINS.index(name) for name in origins or ORIGINS])
    train = (split == SPLITS.index("train")) & allowed & ~np.isnan(y).all(axis=1)
    rows = {"train": np.flatnonzero(train)}
    for name in splits:
        inside = np.flatnonzero(source & (split == SPLITS.index(name)))
        if len(inside):
            rows[name] = inside
    return ClassicalData(
        tables=dict.fromkeys(rows, table),
        rows=rows,
        y={name: y[inside] for name, inside in rows.items()},
        weights=np.ones(len(rows["train"])),
    )


def read_node_table(corpus: Corpus) -> GraphTable:
    """Return all graphs of a node-level corpus with features and labels of nodes."""
    available = {column.name for column in corpus.info.columns}
    return corpus.table(
        columns=sorted({"origin", "node_split", "node_env_id", "node_y", *COLUMNS} & available)
    )


def expected_shape(
    corpus: Corpus, kind: str, counts: str, rounds: int, strength: float
) -> ClassicalShape:
    """Return the shape of a classical model for a corpus."""
    info = corpus.info
    edge = next((column for column in info.columns if column.name == "edge_attr"), None)
    values = {
        "kind": kind,
        "counts": counts,
        "rounds": rounds,
        "strength": strength,
        "features": info.num_features,
        "edge_features": 0 if edge is None else edge.width or 0,
        "outputs": len(info.outputs),
    }
    return typed_values.convert(values, ClassicalShape)


def restore_classical(
    description: ClassicalDescription, arrays: dict[str, Array], where: str
) -> ClassicalModel:
    """Return the model of a weight file; raise ArtifactError if the arrays do not fit together."""
    shape = description.classical
    stored = {
        name.removeprefix("space."): values
        for name, values in arrays.items()
        if name.startswith("space.")
    }
    columns = _columns(shape, stored, where)
    weights = array(arrays, "linear.weights", "float64", (columns, shape.outputs), where)
    bias = array(arrays, "linear.bias", "float64", (shape.outputs,), where)
    if not all(np.isfinite(values).all() for values in (weights, bias, *stored.values())):
        raise ArtifactError(f"{where}: its arrays contain NaN or infinity.")
    return ClassicalModel(
        task=description.task,
        shape=shape,
        space=FeatureSpace(
            kind=shape.kind, counts=shape.counts, rounds=shape.rounds, arrays=stored
        ),
        linear=LinearModel(weights=weights, bias=bias),
    )


def _columns(shape: ClassicalShape, arrays: dict[str, Array], where: str) -> int:
    """Return the number of features of a space, whose arrays must fit together."""
    shares = int(shape.kind in COUNTED and shape.counts == "shares")
    if shape.kind == "wl":
        vocabulary = array(arrays, "vocabulary", "uint64", (None,), where)
        array(arrays, "continuous_edges", "bool", (1,), where)
        if "directions" in arrays:
            array(arrays, "center", "float32", (shape.features,), where)
            directions = array(arrays, "directions", "float32", (shape.features, None), where)
            if directions.shape[1] > BIN_BITS:  # every node has a value per direction
                raise ArtifactError(f"{where}: more than {BIN_BITS} directions of features.")
            array(arrays, "cuts", "float32", (directions.shape[1], None), where)
        return len(vocabulary) + shares
    if shape.kind == "morgan":
        return BITS + shares
    if shape.kind == "mean":
        feature = array(arrays, "feature", "int64", (None,), where)
        categories = array(arrays, "category", "int64", feature.shape, where)
        coded = np.unique(feature)
        if len(coded) and not 0 <= coded[0] <= coded[-1] < shape.features:
            raise ArtifactError(f"{where}: categories of features that do not exist.")
        numeric = array(arrays, "scale", "float64", (shape.features - len(coded),), where)
        _require_positive(numeric, where)
        return len(numeric) + len(categories) + 1
    return _node_columns(shape, arrays, where) if shape.kind == "node" else 2


def _node_columns(shape: ClassicalShape, arrays: dict[str, Array], where: str) -> int:
    scale = array(arrays, "scale", "float32", (None,), where)
    _require_positive(scale, where)
    averaged = width = len(scale)
    if width > shape.features:
        raise ArtifactError(f"{where}: scales of features that do not exist.")
    if "components" in arrays:
        averaged = array(arrays, "components", "float32", (width, None), where).shape[1]
        if averaged > COMPONENTS:
            raise ArtifactError(f"{where}: more than {COMPONENTS} components of features.")
    return width + 2 * averaged + 1


def _require_positive(scale: Array, where: str) -> None:
    if not (scale > 0).all():
        raise ArtifactError(f"{where}: a scale of features is not positive.")


def check_classical_fits(model: ClassicalModel, corpus: Corpus) -> None:
    """Raise a ``StageError`` if a corpus has other features or labels than the training corpus."""
    shape = model.shape
    expected = expected_shape(corpus, shape.kind, shape.counts, shape.rounds, shape.strength)
    scale = model.space.arrays.get("scale", ()) if shape.kind == "node" else ()
    is_short = shape.kind == "node" and not corpus.info.sparse and len(scale) != shape.features
    if is_short or expected != shape or model.task != corpus.info.task:
        raise StageError(
            f"the model does not fit {corpus.info.name}: it predicts {shape.outputs} outputs "
            f"({model.task}) from {shape.features} node and {shape.edge_features} edge features. "
            "Evaluate it on a corpus of the dataset it was trained on."
        )
