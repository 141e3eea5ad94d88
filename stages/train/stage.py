"""Train a classifier of graphs or nodes and evaluate it on every held-out split.

Held-out splits select epochs and are evaluated. Neither their labels nor ground-truth causal
subgraphs contribute to gradients.
"""

from __future__ import annotations

from collections.abc import Mapping
from functools import partial
from typing import TYPE_CHECKING, Any

import msgspec

from gsx.errors import StageError
from gsx.stages.stage import Progress, Stage
from gsx.stages.train.algorithms import algorithm_named, check_applies
from gsx.stages.train.algorithms.options import hyperparameters
from gsx.stages.train.config import ADDED_OPTIONS, CLASSICAL, with_epochs
from gsx.stages.train.config import TrainConfig as TrainConfig
from gsx.stages.train.config import resolve as resolve
from gsx.storage.artifacts.digest import readable_json
from gsx.storage.artifacts.draft import Draft
from gsx.storage.artifacts.publish import StageResult
from gsx.storage.artifacts.store import Artifact
from gsx.storage.corpora.artifact_files import JsonFile, JsonFiles
from gsx.storage.corpora.corpus import Corpus
from gsx.storage.corpora.quality_types import Score
from gsx.storage.corpora.summary import ModelQuality, Name

if TYPE_CHECKING:
    import torch

    from gsx.stages.nn.batches import BackboneShape
    from gsx.stages.nn.build_network import Network
    from gsx.stages.train.classical import ClassicalModel
    from gsx.stages.train.data import TrainingData
    from gsx.stages.train.node_data import NodeTrainingData
    from gsx.stages.train.trainer import TrainingResult

WEIGHTS = {
    "ood_val": "weights.safetensors",
    "id_val": "weights-id.safetensors",
    "augmented": "weights-augmented.safetensors",
    "last": "weights-last.safetensors",
}
"""Selection rule → file of the weights it selects."""
SHAPE = "model.json"
CURVES = "curves.json"
SCORES = "scores.json"
ROLES = {"corpus": "generate", "source": "prepare", "augmented": "augment"}
"""Role of the corpus → stage that writes it."""


def json_files() -> JsonFiles:
    """Return the types of all JSON files of a model."""
    from gsx.stages.train.classical import ClassicalDescription
    from gsx.stages.train.evaluate import Description

    return {
        SHAPE: JsonFile(Description, ClassicalDescription),
        CURVES: JsonFile(list[dict[Name, Score]]),
        SCORES: JsonFile(ModelQuality),
    }


def training_origins(config: TrainConfig) -> tuple[str, ...] | None:
    """Return the origins of the training graphs; None for all."""
    return config.origins if config.augmented else ("source",)


def preflight(config: TrainConfig, inputs: Mapping[str, Artifact]) -> None:
    """Check that the corpus has what the algorithm, the backbone and the selection rule need."""
    from gsx.stages.train.data import check_corpus

    for artifact in inputs.values():
        corpus = Corpus(artifact)
        info = corpus.info
        if config.select in ("ood_val", "id_val") and not (corpus.nodes or corpus.splits).get(
            config.select
        ):
            raise StageError(
                f"{info.name} has no split `{config.select}` to select an epoch by. Use "
                "`--select last`."
            )
        check_applies(config.learner, level=info.level, task=info.task, corpus=info.name)
        check_corpus(info, config.backbone)


def run(
    config: TrainConfig, inputs: Mapping[str, Artifact], draft: Draft, progress: Progress
) -> StageResult:
    """Train on the training split and evaluate the others."""
    if config.backbone in CLASSICAL:
        return run_classical(config, inputs, draft)
    from gsx.stages.nn.device import resolve_device
    from gsx.stages.train.curves_svg import curves_svg
    from gsx.stages.train.trackers import open_trackers, run_name
    from gsx.stages.train.trainer import fit

    preflight(config, inputs)
    device = resolve_device(config.device)
    (artifact,) = inputs.values()
    corpus = Corpus(artifact)
    info = corpus.info
    data, shape = read_data(config, corpus)
    config = with_epochs(config, len(data.train))
    items, total = len(data.train), len(data.train) * config.epochs

    def report_epochs(epochs: int, note: str) -> None:
        progress(epochs * items, total, note)

    run = run_name(info.name, config.learner, config.seed, draft.root.name)
    open_tracker = partial(open_trackers, config.log, run)
    result = fit(config, shape, data, device, draft, report_epochs, open_tracker)
    for rule, selected in result.selected.items():
        draft.write_arrays(WEIGHTS[rule], selected.weights)
    selection = selection_scores(result)
    scores = {"metric": info.metric, "selected": config.select, "selection": selection}
    draft.write_bytes(SHAPE, readable_json({"task": info.task, "shape": shape}))
    draft.write_bytes(CURVES, readable_json(result.curves))
    draft.write_bytes(
        "curves.svg", curves_svg(result.curves, info.metric, f"{info.name}, {config.learner}")
    )
    draft.write_bytes(SCORES, readable_json(scores))
    if config.evaluate == "sealed":
        import numpy as np

        from gsx.stages.nn.build_network import load_network

        # As read from a file, which has no scalars.
        weights = {k: np.atleast_1d(v) for k, v in result.selected[config.select].weights.items()}
        seal_tests(load_network(shape, weights, "the model").to(device), corpus, draft, device)
    return StageResult(
        counts={f"{info.level}s": items},
        summary={"name": info.name, "quality": scores},
        device=device.type,
    )


def run_classical(config: TrainConfig, inputs: Mapping[str, Artifact], draft: Draft) -> StageResult:
    """Fit a linear model and score it on the held-out splits."""
    from gsx.stages.train.classical import ClassicalDescription, fit_classical
    from gsx.stages.train.data import HELD_OUT, VALIDATION

    preflight(config, inputs)
    (artifact,) = inputs.values()
    corpus = Corpus(artifact)
    info = corpus.info
    splits = HELD_OUT if config.evaluate == "all" else VALIDATION
    model, scores, examples = fit_classical(config, corpus, splits)
    description = ClassicalDescription(task=info.task, classical=model.shape)
    selection = {"last": {"epoch": 0, **scores}}
    chosen = {"counts": model.shape.counts, "strength": model.shape.strength}
    quality = {
        "metric": info.metric,
        "selected": "last",
        "selection": selection,
        "chosen": chosen,
    }
    draft.write_arrays(WEIGHTS["last"], model.arrays())
    draft.write_bytes(SHAPE, readable_json(description))
    draft.write_bytes(CURVES, readable_json([selection["last"]]))
    draft.write_bytes(SCORES, readable_json(quality))
    if config.evaluate == "sealed":
        import torch

        seal_tests(model, corpus, draft, torch.device("cpu"))
    return StageResult(
        counts={f"{info.level}s": examples},
        summary={"name": info.name, "quality": quality},
        device="cpu",
    )


def seal_tests(
    model: Network | ClassicalModel, corpus: Corpus, draft: Draft, device: torch.device
) -> None:
    """Write predictions for the test splits, whose labels are not read."""
    from gsx.stages.train.data import TEST
    from gsx.stages.train.predictions import PREDICTIONS, predict_splits

    draft.write_arrays(PREDICTIONS, predict_splits(model, corpus, TEST, device))


def read_data(
    config: TrainConfig, corpus: Corpus
) -> tuple[TrainingData | NodeTrainingData, BackboneShape]:
    """Return the training and held-out data, and the shape of the network."""
    from gsx.stages.nn.batches import SELECTOR_LAYERS, EdgeSelection
    from gsx.stages.train.data import (
        HELD_OUT,
        VALIDATION,
        graph_backbone_shape,
        read_training_data,
    )
    from gsx.stages.train.node_data import node_backbone_shape, read_node_training_data

    info, origins = corpus.info, training_origins(config)
    held_out = HELD_OUT if config.evaluate == "all" else VALIDATION
    if info.level == "node":
        shape = node_backbone_shape(info, config.width, config.layers)
        return read_node_training_data(corpus, origins, config.learner, held_out), shape
    parents = config.seed if config.select == "augmented" else None
    data = read_training_data(corpus, origins, config.learner, held_out, held_out_parents=parents)
    shape = graph_backbone_shape(info, config.backbone, config.width, config.layers)
    if config.readout != "mean":
        shape = msgspec.structs.replace(shape, readout=config.readout)
    causal_ratio = hyperparameters(config.learner, config).get("causal_ratio")
    edge_rule = algorithm_named(config.learner).edge_rule
    # A batch has one round of messages per layer of the backbone.
    layers = min(SELECTOR_LAYERS, config.layers)
    if causal_ratio is not None:
        select = EdgeSelection(ratio=causal_ratio, layers=layers)
        shape = msgspec.structs.replace(shape, select=select)
    if edge_rule is not None:
        select = EdgeSelection(rule=edge_rule, layers=layers)
        shape = msgspec.structs.replace(shape, select=select)
    return data, shape


def selection_scores(result: TrainingResult) -> dict[str, dict[str, Any]]:
    """Return for each selection rule its epoch and the scores of all splits in that epoch."""
    rules = sorted(result.selected.items(), key=lambda item: list(WEIGHTS).index(item[0]))
    return {
        rule: {
            key: value
            for key, value in result.curves[selected.epoch].items()
            if key not in ("loss", "learning_rate")
        }
        for rule, selected in rules
    }


STAGE = Stage(
    module=__name__,
    name="train",
    version=3,
    kind="model",
    config=TrainConfig,
    json_files=json_files,
    inputs=ROLES,
    required_roles=lambda config: frozenset(role for role in ROLES if ROLES[role] == config.source),
    resolve=resolve,
    preflight=preflight,
    run=run,
    one_thread=True,
    seeds=lambda config: {"train": config.seed},
    local_options=("device", "log"),
    added_options=ADDED_OPTIONS,
)
