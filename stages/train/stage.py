"""Train a classifier of graphs or nodes and evaluate it on every held-out split.

Held-out splits select epochs and are evaluated. Neither their labels nor ground-truth causal
subgraphs contribute to gradients.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import TYPE_CHECKING, Any

import msgspec

from gsx.stages.stage import Progress, Stage
from gsx.stages.train.algorithms import check_applies
from gsx.stages.train.algorithms.options import hyperparameters
from gsx.stages.train.config import ADDED_OPTIONS
from gsx.stages.train.config import TrainConfig as TrainConfig
from gsx.stages.train.config import resolve as resolve
from gsx.storage.artifacts.digest import readable_json
from gsx.storage.artifacts.draft import Draft
from gsx.storage.artifacts.publish import StageResult
from gsx.storage.artifacts.store import Artifact
from gsx.storage.corpora.corpus import Corpus

if TYPE_CHECKING:
    from gsx.stages.nn.batches import BackboneShape
    from gsx.stages.train.data import TrainingData
    from gsx.stages.train.node_data import NodeTrainingData
    from gsx.stages.train.trainer import TrainingResult

WEIGHTS = {
    "ood_val": "weights.safetensors",
    "id_val": "weights-id.safetensors",
    "last": "weights-last.safetensors",
}
"""Selection rule → file of the weights it selects."""
SHAPE = "model.json"
ROLES = {"corpus": "generate", "source": "prepare", "augmented": "augment"}
"""Role of the corpus → stage that writes it."""


def training_origins(config: TrainConfig) -> tuple[str, ...] | None:
    """Return the origins of the training graphs; None for all."""
    return config.origins if config.augmented else ("source",)


def preflight(config: TrainConfig, inputs: Mapping[str, Artifact]) -> None:
    """Check that the algorithm and the backbone support the corpus."""
    from gsx.stages.train.data import check_corpus

    for artifact in inputs.values():
        info = Corpus(artifact).info
        check_applies(config.learner, level=info.level, task=info.task, corpus=info.name)
        check_corpus(info, config.backbone)


def run(
    config: TrainConfig, inputs: Mapping[str, Artifact], draft: Draft, progress: Progress
) -> StageResult:
    """Train on the training split and evaluate the others."""
    from gsx.stages.nn.device import resolve_device
    from gsx.stages.train.curves_svg import curves_svg
    from gsx.stages.train.trainer import fit

    preflight(config, inputs)
    device = resolve_device(config.device)
    (artifact,) = inputs.values()
    corpus = Corpus(artifact)
    info = corpus.info
    data, shape = read_data(config, corpus)
    items, total = len(data.train), len(data.train) * config.epochs

    def report_epochs(epochs: int) -> None:
        progress(epochs * items, total)

    result = fit(config, shape, data, device, draft, report_epochs)
    for rule, selected in result.selected.items():
        draft.write_arrays(WEIGHTS[rule], selected.weights)
    scores = {"metric": info.metric, "selection": selection_scores(result)}
    draft.write_bytes(SHAPE, readable_json({"task": info.task, "shape": shape}))
    draft.write_bytes("curves.json", readable_json(result.curves))
    draft.write_bytes(
        "curves.svg", curves_svg(result.curves, info.metric, f"{info.name}, {config.learner}")
    )
    draft.write_bytes("scores.json", readable_json(scores))
    return StageResult(
        counts={f"{info.level}s": items},
        summary={"name": info.name, "quality": scores},
        device=device.type,
    )


def read_data(
    config: TrainConfig, corpus: Corpus
) -> tuple[TrainingData | NodeTrainingData, BackboneShape]:
    """Return the training and held-out data, and the shape of the network."""
    from gsx.stages.nn.batches import EdgeSelection
    from gsx.stages.train.data import graph_backbone_shape, read_training_data
    from gsx.stages.train.node_data import node_backbone_shape, read_node_training_data

    info, origins = corpus.info, training_origins(config)
    if info.level == "node":
        shape = node_backbone_shape(info, config.width, config.layers)
        return read_node_training_data(corpus, origins, config.learner), shape
    data = read_training_data(corpus, origins, config.learner)
    shape = graph_backbone_shape(info, config.backbone, config.width, config.layers)
    causal_ratio = hyperparameters(config.learner, config).get("causal_ratio")
    if causal_ratio is not None:
        shape = msgspec.structs.replace(shape, select=EdgeSelection(ratio=causal_ratio))
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
    version=2,
    kind="model",
    config=TrainConfig,
    inputs=ROLES,
    required_roles=lambda config: frozenset(role for role in ROLES if ROLES[role] == config.source),
    resolve=resolve,
    preflight=preflight,
    run=run,
    one_thread=True,
    seeds=lambda config: {"train": config.seed},
    local_options=("device",),
    added_options=ADDED_OPTIONS,
)
