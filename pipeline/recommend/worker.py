"""Predictions of one recipe on validation graphs: a function of a block, for any worker process.

A task generates a small corpus with the ordinary stages in a temporary store, fits a linear model
or trains a network on it, and returns logits of the validation graphs. It reads the sample that
`sample.py` writes, which has no test graphs.
"""

from __future__ import annotations

import tempfile
import time
from pathlib import Path
from typing import TYPE_CHECKING, Any, Literal

import msgspec
import numpy as np

from gsx import typed_values
from gsx.errors import GsxError
from gsx.pipeline.named_recipes import named_recipe
from gsx.pipeline.plan import Step
from gsx.pipeline.recommend.candidates import recipe_config
from gsx.pipeline.recommend.sample import TRAIN_CODE, VALIDATION, VALIDATION_CODE
from gsx.pipeline.runner import run_plan
from gsx.pipeline.stage_order import stage_named
from gsx.ragged import Array, Ints
from gsx.seeds import rng
from gsx.stages.array_blocks import Block
from gsx.storage.artifacts.draft import Draft
from gsx.storage.artifacts.location import Location
from gsx.storage.artifacts.store import Artifact, Store
from gsx.storage.corpora.corpus import Corpus
from gsx.table import GraphTable

if TYPE_CHECKING:
    from scipy.sparse import csr_array

SECONDS = "seconds"
"""Name of the duration of a task in its result."""
SUBSAMPLE = 0.9
"""Share of training graphs that a linear model is fitted to; a new subset in every replicate."""
SPARSE_FEATURES = ("node_feat_index", "node_feat_value")


class LinearOptions(msgspec.Struct, frozen=True, kw_only=True):
    """Features and penalty of the linear model."""

    kind: Literal["wl", "morgan", "node"]
    counts: Literal["counts", "log", "shares"] = "counts"
    strength: float = 1.0


class NetworkOptions(msgspec.Struct, frozen=True, kw_only=True):
    """Options of a training run."""

    steps: int
    """Gradient steps, for every recipe."""
    batch_size: int
    width: int
    average: float
    """Decay of the moving average of the weights."""
    backbone: str


class Task(msgspec.Struct, frozen=True, kw_only=True):
    """One recipe and one seed, with the model to fit."""

    sample: str
    """URL of the sample."""
    models: dict[str, str]
    """Pretraining stage → URL of its artifact."""
    recipe: str
    seed: int
    linear: LinearOptions | None = None
    network: NetworkOptions | None = None

    def block(self) -> dict[str, Array]:
        """Return the task as a block of arrays, which executors transport."""
        return {"task": np.frombuffer(msgspec.json.encode(self), dtype=np.uint8)}


def predict_validation(block: Block) -> dict[str, Array]:
    """Run a task and return the ``logits`` ``[V, C]`` of the validation graphs, or an ``error``."""
    task = typed_values.decode_json(np.asarray(block["task"]).tobytes(), Task)
    started = time.perf_counter()
    try:
        with tempfile.TemporaryDirectory() as folder:
            result = _predict(task, Path(folder))
    except GsxError as error:
        result = {"error": np.frombuffer(str(error).encode(), dtype=np.uint8)}
    return {**result, SECONDS: np.array([time.perf_counter() - started])}


def _predict(task: Task, folder: Path) -> dict[str, Array]:
    sample = Artifact.open(Location.at(task.sample))
    corpus = _generate(task, sample, Store.at(folder / "store"))
    if task.linear is not None:
        logits = _linear_logits(task, task.linear, Corpus(sample), corpus)
    else:
        assert task.network is not None
        logits = _network_logits(task, task.network, Corpus(sample), corpus, folder)
    added = len(corpus) - len(Corpus(sample))
    return {"logits": logits.astype(np.float32), "added": np.array([added], dtype=np.int64)}


def _generate(task: Task, sample: Artifact, store: Store) -> Corpus:
    """Return the corpus of the recipe: the sample and the new graphs."""
    recipe = named_recipe(task.recipe)
    if recipe.stage is None:
        return Corpus(sample)
    config = recipe_config(task.recipe, random_bridges=task.linear is not None, seed=task.seed)
    stage = stage_named(recipe.stage)
    step = Step(stage, config, stage.inputs_of(config))
    artifacts = {
        name: Artifact.open(Location.at(url))
        for name, url in task.models.items()
        if name in step.inputs.values()
    }
    *_, (_, built) = run_plan((step,), store, artifacts={"prepare": sample, **artifacts})
    return Corpus(built.artifact)


def _linear_logits(task: Task, options: LinearOptions, sample: Corpus, corpus: Corpus) -> Array:
    """Return the logits of a linear model that is fitted to the corpus of a recipe."""
    from gsx.stages.classical.linear import fit_linear

    build = _node_features if sample.info.level == "node" else _graph_features
    features, y, validation = build(options, sample, corpus)
    labelled = np.flatnonzero(~np.isnan(y).all(axis=1))
    stream = rng(task.seed, "recommend", "subsample")
    count = max(round(SUBSAMPLE * len(labelled)), 1)
    rows = np.sort(stream.choice(labelled, size=count, replace=False))
    model = fit_linear(
        features[rows], y[rows], task=sample.info.task, strength=options.strength, seed=task.seed
    )
    logits: Array = model.predict(validation)
    return logits


def _graph_features(
    options: LinearOptions, sample: Corpus, corpus: Corpus
) -> tuple[csr_array, Array, csr_array]:
    """Return features and labels of the training graphs, and features of validation graphs."""
    from gsx.stages.classical.features import fit_features

    available = {column.name for column in sample.info.columns}
    columns = ["smiles"] if options.kind == "morgan" else ["node_feat"]
    columns += sorted({"edge_attr"} & available)
    train = corpus.table(split="train", columns=["y", *columns])
    space = fit_features(options.kind, train, counts=options.counts)
    validation = space.transform(sample.table(split=VALIDATION, columns=columns))
    return space.transform(train), np.array(train.dense("graph", "y")), validation


def _node_features(
    options: LinearOptions, sample: Corpus, corpus: Corpus
) -> tuple[csr_array, Array, csr_array]:
    """Return the same of nodes; training nodes of all replicas count."""
    from scipy.sparse import csr_array, vstack

    from gsx.stages.classical.features import fit_features

    source = _feature_table(sample, sample.table())
    split = sample.table(columns=["node_split"]).dense("node", "node_split")
    y = np.array(sample.table(columns=["node_y"]).dense("node", "node_y"))
    train, validation = (np.flatnonzero(split == code) for code in (TRAIN_CODE, VALIDATION_CODE))
    space = fit_features(options.kind, source)
    features = space.transform(source)
    parts = [features[train]]
    graphs = corpus.table()
    origins = graphs.dense("graph", "origin")
    replicas = _feature_table(sample, graphs.filter(origins != origins[0]))
    for start in range(0, len(replicas), len(source)):
        replica = space.transform(replicas.slice(start, start + len(source)))
        parts.append(replica[train])
    rows = np.tile(y[train], (len(parts), 1))
    return csr_array(vstack(parts, format="csr")), rows, features[validation]


def _feature_table(corpus: Corpus, table: GraphTable) -> GraphTable:
    """Return a table with node features and edges only."""
    return table.select(SPARSE_FEATURES if corpus.info.sparse else ["node_feat"])


def _network_logits(
    task: Task, options: NetworkOptions, sample: Corpus, corpus: Corpus, folder: Path
) -> Array:
    """Return the logits of a network after its last step; no held-out split selects an epoch."""
    import torch

    from gsx.stages.nn.build_network import load_network
    from gsx.stages.nn.training_loop import one_thread
    from gsx.stages.train.config import TrainConfig, resolve
    from gsx.stages.train.evaluator import evaluation_batches, predict_logits
    from gsx.stages.train.node_data import node_logits, read_node_graphs, whole_graph_batch
    from gsx.stages.train.stage import read_data
    from gsx.stages.train.trainer import fit

    device = torch.device("cpu")
    config = TrainConfig.of_nodes("default") if options.backbone == "gcn" else TrainConfig()
    config = msgspec.structs.replace(
        config, width=options.width, average=options.average, seed=task.seed,
        backbone=options.backbone, batch_size=options.batch_size,
    )  # fmt: skip
    data, shape = read_data(config, corpus)
    data = _without_held_out(data)
    per_epoch = (
        config.samples
        if options.backbone == "gcn"
        else max(len(data.train) // config.batch_size, 1)
    )
    config = resolve(
        msgspec.structs.replace(config, epochs=max(round(options.steps / per_epoch), 1))
    )
    draft = Draft(folder / "draft")
    draft.prepare()
    with one_thread():
        result = fit(config, shape, data, device, draft, lambda _epochs, _note: None)
        weights = result.selected["last"].weights.items()
        contiguous = {name: np.ascontiguousarray(values) for name, values in weights}
        network: Any = load_network(shape, contiguous, "the network")
        if options.backbone == "gcn":
            graphs = read_node_graphs(sample)
            nodes = np.flatnonzero(graphs.split == VALIDATION_CODE)
            return node_logits(network, whole_graph_batch(graphs, nodes, device))
        table = _validation_graphs(sample)
        return predict_logits(network, list(evaluation_batches(table, shape, device)))


def _without_held_out(data: Any) -> Any:  # noqa: ANN401
    """Return training data without held-out splits, so that training evaluates nothing."""
    import dataclasses

    return dataclasses.replace(data, held_out={})


def _validation_graphs(sample: Corpus) -> GraphTable:
    from gsx.stages.train.data import read_split

    return read_split(sample, VALIDATION)


def validation_labels(sample: Corpus) -> Array:
    """Return the labels ``[V, C]`` of the validation graphs or nodes, in the order of logits."""
    if sample.info.level == "graph":
        return np.array(sample.table(split=VALIDATION, columns=["y"]).dense("graph", "y"))
    table = sample.table(columns=["node_y", "node_split"])
    rows: Ints = np.flatnonzero(table.dense("node", "node_split") == VALIDATION_CODE)
    return np.asarray(table.dense("node", "node_y")[rows])
