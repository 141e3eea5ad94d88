"""Train a classifier of graphs or nodes, and score it on every held-out split after every epoch.

Validation and test graphs choose between epochs and are scored; nothing of them, and no truth about
pieces, reaches a gradient.
"""

from __future__ import annotations

from collections.abc import Mapping
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING, Any, Literal

import msgspec
import numpy as np

from gsx.columns import ORIGINS
from gsx.errors import UsageError, nearest
from gsx.stages.learners.kinds import KINDS, check_applies
from gsx.stages.learners.options import LIMITS, filled
from gsx.stages.stage import Progress, Stage
from gsx.storage.corpus import Corpus
from gsx.storage.digest import readable_json
from gsx.storage.draft import Draft
from gsx.storage.publish import Outcome
from gsx.storage.store import Artifact

if TYPE_CHECKING:
    from gsx.ragged import Array
    from gsx.stages.learning.fit import Fitted, Lesson
    from gsx.stages.learning.nodes import NodeLesson
    from gsx.stages.nets.backbones import BackboneShape

WEIGHTS = {
    "ood_val": "weights.safetensors",
    "id_val": "weights-id.safetensors",
    "last": "weights-last.safetensors",
}
"""File of the weights each rule selects."""
SHAPE = "model.json"
ROLES = {"corpus": "generate", "source": "prepare", "augmented": "augment"}
"""Role of the corpus, and the step that makes it."""
COUNTS = (
    *("width", "layers", "epochs", "milestone", "samples", "coverage"),
    *("ascents", "context_edits", "context_steps"),
)
"""Options that are at least 1."""
LEARNERS_LATER = {
    "ascent_step": 1e-3,
    "ascents": 3,
    "mix_alpha": 1.0,
    "contexts": 3,
    "context_edits": 5,
    "context_steps": 1,
    "context_rate": 1e-3,
}
"""Options of learners that came after the version."""


class TrainConfig(msgspec.Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """Options of ``[train]``; without any, sized for a laptop."""

    source: Literal["generate", "prepare", "augment"] = "generate"
    """Which step of a recipe makes the corpus."""
    learner: Literal[
        "erm",
        "vrex",
        "irm",
        "groupdro",
        "coral",
        "dann",
        "flag",
        "mixup",
        "lisa",
        "eerm",
        "srgnn",
        "dir",
        "gil",
        "ciga",
        "lisa-subgraph",
    ] = "erm"
    """What is made small: the mean loss, or also how much environments differ. ``dir``, ``gil``,
    ``ciga`` and ``lisa-subgraph`` look for parts of graphs and read no environments."""
    penalty: float | None = None
    """Gamma of the paper: what differences between environments cost; ``erm`` has none.
    Of ``groupdro``, how fast weights move to the worst environment; of ``eerm``, what differences
    between its generators cost; of ``srgnn``, what the distance of training nodes from all nodes
    costs; of ``dir``, ``gil`` and ``lisa-subgraph``, what differences between interventions,
    inferred environments and generated subgraphs cost; of ``ciga``, the contrast of classes. 1 when
    left out, of ``groupdro`` and ``gil`` 0.01, of ``lisa-subgraph`` 0.1, of ``srgnn`` 1e-5."""
    ascent_step: float = 1e-3
    """Of ``flag``, how far inputs move in a step of ascent."""
    ascents: int = 3
    """Of ``flag``, how often the network looks at a batch."""
    mix_alpha: float = 1.0
    """Of ``mixup`` and ``lisa``, the shape of the Beta distribution of shares."""
    contexts: int = 3
    """Of ``eerm``, how many generators of edges there are."""
    context_edits: int = 5
    """Of ``eerm``, edges put in or taken out per node."""
    context_steps: int = 1
    """Of ``eerm``, steps of the generators per step of the network."""
    context_rate: float = 1e-3
    """Of ``eerm``, step size of the generators."""
    causal_ratio: float | None = None
    """Of ``dir``, ``gil`` and ``ciga``: the share of a graph's edges that is selected; 0.4 of
    ``dir``, 0.6 of the others when left out."""
    hinge: float | None = None
    """Of ``ciga``: what the rest of a graph must tell of the label; 1, and 0 is its version 1."""
    inferred_envs: int | None = None
    """Of ``gil``: environments that are inferred in a batch; 3."""
    generators: int | None = None
    """Of ``lisa-subgraph``: generators of subgraphs; 3."""
    kl_weight: float | None = None
    """Of ``lisa-subgraph``: what generators pay for what they know of a graph; 0.1."""
    backbone: Literal["gin", "vgin", "gcn"] = "gin"
    """The network; ``vgin`` has a virtual node, ``gcn`` is for labelled nodes."""
    width: int = 64
    layers: int = 3
    dropout: float = 0.0
    epochs: int = 20
    batch_size: int = 128
    """Graphs per step; a last batch that is not full is left out. Of nodes, walks per sample."""
    samples: int = 10
    """Of labelled nodes, steps per epoch: samples of the graph."""
    coverage: int = 100
    """Of labelled nodes, how often a node is held, on average, by the samples that are counted."""
    learning_rate: float = 1e-2
    schedule: Literal["cosine", "step", "constant"] = "cosine"
    """How the learning rate falls: to zero, to a tenth at ``milestone``, or not."""
    milestone: int = 150
    """Epoch at which ``step`` steps."""
    augmented: bool = True
    """Whether augmented graphs are used beside the source graphs."""
    origins: tuple[str, ...] | None = None
    """Use training graphs of these origins alone, such as ``source`` and ``g_whole``."""
    env_balanced: bool = False
    """Draw every environment equally often."""
    average: float = 0.0
    """Decay of the running mean of weights that is scored and kept; 0 keeps the weights."""
    seed: int = 0
    """Root of the random streams that initialize, shuffle and drop."""
    precision: Literal["full", "bf16"] = "full"
    """What dense matrices are multiplied in during training; scores are always taken in full."""
    device: Literal["auto", "cpu", "cuda"] = "auto"
    """Where to compute; ``auto`` takes a GPU where there is one."""

    @classmethod
    def quick(cls) -> TrainConfig:
        """Return options that show in seconds whether anything is learned."""
        return cls(width=32, epochs=5)

    @classmethod
    def paper(cls) -> TrainConfig:
        """Return the published setting of GOOD; hours without a GPU."""
        return cls(
            width=300,
            dropout=0.5,
            epochs=200,
            batch_size=32,
            learning_rate=1e-3,
            schedule="step",
            milestone=150,
        )

    @classmethod
    def of_nodes(cls, preset: str) -> TrainConfig:
        """Return the options of a preset for labelled nodes; ``paper`` is the setting of GOOD."""
        if preset == "quick":
            return cls(backbone="gcn", width=32, epochs=5, batch_size=1000, coverage=20)
        if preset == "paper":
            return cls(
                backbone="gcn",
                width=300,
                dropout=0.5,
                epochs=100,
                batch_size=2048,
                learning_rate=1e-3,
                schedule="step",
            )
        return cls(backbone="gcn", dropout=0.5, epochs=50, batch_size=1000)


def resolve(config: TrainConfig) -> TrainConfig:
    """Refuse what cannot work, and fill in the penalty."""
    for name in COUNTS:
        if getattr(config, name) < 1:
            raise UsageError(f"{name} must be at least 1; got {getattr(config, name)}")
    if config.batch_size < 2:
        raise UsageError(f"batch_size must be at least 2; got {config.batch_size}")
    for name in ("dropout", "average"):
        if not 0 <= getattr(config, name) < 1:
            raise UsageError(f"{name} must lie in [0, 1); got {getattr(config, name)}")
    for name in ("learning_rate", "ascent_step", "mix_alpha", "context_rate"):
        if not 0 < getattr(config, name) < float("inf"):
            raise UsageError(f"{name} must be positive; got {getattr(config, name)}")
    if config.contexts < 2:
        raise UsageError(f"contexts must be at least 2 to differ; got {config.contexts}")
    penalty = KINDS[config.learner].penalty if config.penalty is None else config.penalty
    if not 0 <= penalty < float("inf"):
        raise UsageError(f"penalty must not be negative; got {penalty}")
    _check_drawing(config)
    own = filled(config.learner, {name: getattr(config, name) for name in LIMITS})
    return msgspec.structs.replace(config, penalty=penalty, **own)


def _check_drawing(config: TrainConfig) -> None:
    if config.backbone == "gcn" and config.env_balanced:
        raise UsageError("env_balanced draws graphs; nodes are drawn by walks. Leave it out.")
    if config.origins is not None:
        _check_origins(config.origins)
        if not config.augmented:
            raise UsageError("augmented = false uses source graphs alone; leave `origins` out")


def _check_origins(origins: tuple[str, ...]) -> None:
    if not origins:
        raise UsageError("origins names none; leave it out to use all")
    for origin in origins:
        if origin not in ORIGINS:
            raise UsageError(f"no origin `{origin}`. {nearest(origin, ORIGINS)}")


def origins_of(config: TrainConfig) -> tuple[str, ...] | None:
    """Return the origins of the graphs that are used; None for all."""
    return config.origins if config.augmented else ("source",)


def run(
    config: TrainConfig, inputs: Mapping[str, Artifact], draft: Draft, progress: Progress
) -> Outcome:
    """Train on the training split, score the others."""
    from gsx.stages.nets.descent import one_thread

    with one_thread():
        return _run(config, inputs, draft, progress)


def _run(
    config: TrainConfig, inputs: Mapping[str, Artifact], draft: Draft, progress: Progress
) -> Outcome:
    from gsx.stages.learning.chart import curves_svg
    from gsx.stages.learning.fit import fit
    from gsx.stages.learning.lesson import check_corpus
    from gsx.stages.nets.device import device_named

    device = device_named(config.device)
    (artifact,) = inputs.values()
    corpus = Corpus(artifact)
    info = corpus.info
    check_applies(config.learner, level=info.level, task=info.task, name=info.name)
    check_corpus(info, config.backbone)
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
    from gsx.stages.learning import nodes
    from gsx.stages.learning.fit import Lesson
    from gsx.stages.learning.lesson import environments, read_held_out, read_train, shape_of
    from gsx.stages.nets.batches import Selection

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
    name="train",
    version=2,
    kind="model",
    config=TrainConfig,
    inputs=ROLES,
    needs=lambda config: frozenset(role for role in ROLES if ROLES[role] == config.source),
    resolve=resolve,
    run=run,
    seeds=lambda config: {"train": config.seed},
    places=("device",),
    later={
        "precision": "full",
        "samples": 10,
        "coverage": 100,
        **LEARNERS_LATER,
        **dict.fromkeys(LIMITS),
    },
    sources=(
        "gsx.stages.train",
        "gsx.stages.kernels.folding",
        "gsx.stages.kernels.rows",
        "gsx.stages.kernels.saint",
        "gsx.stages.kernels.wl",
        "gsx.stages.learners.options",
        "gsx.stages.learning.average",
        "gsx.stages.learning.checkpoint",
        "gsx.stages.learning.choice",
        "gsx.stages.learning.fit",
        "gsx.stages.learning.lesson",
        "gsx.stages.learning.metrics",
        "gsx.stages.learning.nodes",
        "gsx.stages.learning.scoring",
        "gsx.stages.nets.backbones",
        "gsx.stages.nets.batches",
        "gsx.stages.nets.descent",
        "gsx.stages.nets.device",
        "gsx.stages.nets.gcn",
        "gsx.stages.nets.gin",
        "gsx.stages.nets.labels",
        "gsx.stages.nets.networks",
        "gsx.stages.nets.parts",
        "gsx.stages.nets.selector",
        "gsx.stages.nets.weighing",
    ),
    own_sources=lambda config: KINDS[config.learner].sources,
)
