"""Options of training, and which of them cannot work."""

from __future__ import annotations

from typing import Literal

import msgspec

from gsx.errors import UsageError, nearest
from gsx.schema import ORIGINS
from gsx.stages.train.algorithms.catalog import KINDS
from gsx.stages.train.algorithms.hyperparameters import LIMITS, filled

COUNTS = (
    *("width", "layers", "epochs", "milestone", "samples", "coverage"),
    *("ascents", "context_edits", "context_steps"),
)
"""Options that are at least 1."""
LATER = {
    "precision": "full",
    "samples": 10,
    "coverage": 100,
    "ascent_step": 1e-3,
    "ascents": 3,
    "mix_alpha": 1.0,
    "contexts": 3,
    "context_edits": 5,
    "context_steps": 1,
    "context_rate": 1e-3,
    **dict.fromkeys(LIMITS),
}
"""Options that came after the version of the stage, with the value that changes nothing."""


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
