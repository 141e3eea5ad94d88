"""Train a classifier of graphs or nodes, and score it on every held-out split after every epoch.

Validation and test graphs choose between epochs and are scored; nothing of them, and no truth about
pieces, reaches a gradient.
"""

from __future__ import annotations

from collections.abc import Mapping
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING, Any

import msgspec
import numpy as np

from gsx.stages.stage import Progress, Stage
from gsx.stages.train.algorithms.catalog import check_applies
from gsx.stages.train.config import LATER
from gsx.stages.train.config import TrainConfig as TrainConfig
from gsx.stages.train.config import resolve as resolve
from gsx.storage.artifacts.digest import readable_json
from gsx.storage.artifacts.draft import Draft
from gsx.storage.artifacts.publish import Outcome
from gsx.storage.artifacts.store import Artifact
from gsx.storage.corpora.corpus import Corpus

if TYPE_CHECKING:
    from gsx.ragged import Array
    from gsx.stages.nn.backbones import BackboneShape
    from gsx.stages.train.node_data import NodeLesson
    from gsx.stages.train.trainer import Fitted, Lesson

WEIGHTS = {
    "ood_val": "weights.safetensors",
    "id_val": "weights-id.safetensors",
    "last": "weights-last.safetensors",
}
"""File of the weights each rule selects."""
SHAPE = "model.json"
ROLES = {"corpus": "generate", "source": "prepare", "augmented": "augment"}
"""Role of the corpus, and the step that makes it."""


def origins_of(config: TrainConfig) -> tuple[str, ...] | None:
    """Return the origins of the graphs that are used; None for all."""
    return config.origins if config.augmented else ("source",)


def preflight(config: TrainConfig, inputs: Mapping[str, Artifact]) -> None:
    """Refuse a corpus that the learner or the network cannot learn from."""
    from gsx.stages.train.data import check_corpus

    for artifact in inputs.values():
        info = Corpus(artifact).info
        check_applies(config.learner, level=info.level, task=info.task, name=info.name)
        check_corpus(info, config.backbone)


def run(
    config: TrainConfig, inputs: Mapping[str, Artifact], draft: Draft, progress: Progress
) -> Outcome:
    """Train on the training split, score the others."""
    from gsx.stages.nn.training_loop import one_thread

    with one_thread():
        return _run(config, inputs, draft, progress)


def _run(
    config: TrainConfig, inputs: Mapping[str, Artifact], draft: Draft, progress: Progress
) -> Outcome:
    from gsx.stages.nn.device import device_named
    from gsx.stages.train.curves_svg import curves_svg
    from gsx.stages.train.trainer import fit

    preflight(config, inputs)
    device = device_named(config.device)
    (artifact,) = inputs.values()
    corpus = Corpus(artifact)
    info = corpus.info
    lesson, shape = _lesson(config, corpus)
    items, total = len(lesson.train), len(lesson.train) * config.epochs

    def seen(epochs: int) -> None:
        progress(epochs * items, total)

    fitted = fit(config, shape, lesson, device, draft, seen)
    for rule, kept in fitted.kept.items():
        draft.write(WEIGHTS[rule], partial(_save, kept.weights))
    scores = {"metric": info.metric, "selection": selection(fitted)}
    draft.write_bytes(SHAPE, readable_json({"task": info.task, "shape": shape}))
    draft.write_bytes("curves.json", readable_json(fitted.curves))
    draft.write_bytes(
        "curves.svg", curves_svg(fitted.curves, info.metric, f"{info.name}, {config.learner}")
    )
    draft.write_bytes("scores.json", readable_json(scores))
    return Outcome(
        counts={f"{info.level}s": items},
        summary={"name": info.name, "quality": scores},
        device=device.type,
    )


def _lesson(config: TrainConfig, corpus: Corpus) -> tuple[Lesson | NodeLesson, BackboneShape]:
    """Return what is learned and scored, and the shape of the network that learns it."""
    from gsx.stages.nn.batches import Selection
    from gsx.stages.train import node_data as nodes
    from gsx.stages.train.data import environments, read_held_out, read_train, shape_of
    from gsx.stages.train.trainer import Lesson

    info, origins = corpus.info, origins_of(config)
    if info.level == "node":
        shape = nodes.node_shape(info, config.width, config.layers)
        return nodes.read_lesson(corpus, origins, config.learner), shape
    train = read_train(corpus, origins)
    env, num_envs = environments(train, config.learner)
    lesson = Lesson(
        task=info.task,
        metric=info.metric,
        train=train,
        env=env,
        num_envs=num_envs,
        held_out=read_held_out(corpus),
    )
    shape = shape_of(info, config.backbone, config.width, config.layers)
    if config.causal_ratio is not None:
        select = Selection(ratio=config.causal_ratio)
        shape = msgspec.structs.replace(shape, select=select)
    return lesson, shape


def selection(fitted: Fitted) -> dict[str, dict[str, Any]]:
    """Return the epoch each rule selects and the scores of all splits then."""
    return {
        rule: {
            key: value
            for key, value in fitted.curves[kept.epoch].items()
            if key not in ("loss", "learning_rate")
        }
        for rule, kept in sorted(fitted.kept.items(), key=lambda item: list(WEIGHTS).index(item[0]))
    }


def _save(weights: Mapping[str, Array], path: Path) -> None:
    from safetensors.numpy import save_file

    save_file({name: np.ascontiguousarray(values) for name, values in weights.items()}, path)


STAGE = Stage(
    module=__name__,
    name="train",
    version=2,
    kind="model",
    config=TrainConfig,
    inputs=ROLES,
    needs=lambda config: frozenset(role for role in ROLES if ROLES[role] == config.source),
    resolve=resolve,
    preflight=preflight,
    run=run,
    seeds=lambda config: {"train": config.seed},
    places=("device",),
    later=LATER,
)
