"""Options of the train stage: defaults, presets and checks."""

from __future__ import annotations

from typing import TYPE_CHECKING, Literal

import msgspec

from gsx.errors import UsageError, did_you_mean
from gsx.schema import ORIGINS
from gsx.stages.train.algorithms import ALGORITHMS
from gsx.stages.train.algorithms.options import OPTIONS, config_fields, resolve_options

if TYPE_CHECKING:
    AlgorithmName = str
    AlgorithmOptions = msgspec.Struct
else:
    AlgorithmName = Literal[tuple(algorithm.name for algorithm in ALGORITHMS)]
    AlgorithmOptions = msgspec.defstruct(
        "AlgorithmOptions", config_fields(), frozen=True, kw_only=True
    )

COUNTS = ("width", "layers", "epochs", "milestone", "samples", "coverage")
"""Options that must be at least 1."""
ADDED_OPTIONS = {
    "precision": "full",
    "samples": 10,
    "coverage": 100,
    **{name: option.config_default for name, option in OPTIONS.items() if name != "penalty"},
}
"""Options that are newer than the version of the stage, with the value that changes nothing."""


class TrainConfig(AlgorithmOptions, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """Options of ``[train]``; the defaults are sized for a laptop.

    Besides the fields below there is a field for every hyper-parameter of an algorithm, such as
    ``penalty``. The files in ``stages/train/algorithms`` declare them.
    """

    source: Literal["generate", "prepare", "augment"] = "generate"
    """Stage that writes the corpus."""
    learner: AlgorithmName = "erm"
    """Training algorithm."""
    backbone: Literal["gin", "vgin", "gcn"] = "gin"
    """Network: GIN, GIN with a virtual node, or GCN for node-level corpora."""
    width: int = 64
    """Number of hidden units of every layer."""
    layers: int = 3
    dropout: float = 0.0
    epochs: int = 20
    batch_size: int = 128
    """Graphs per step; an incomplete last batch is dropped. For nodes, random walks per sample."""
    samples: int = 10
    """For nodes: steps per epoch; every step draws one sample of the graph."""
    coverage: int = 100
    """For nodes: mean number of samples that contain a node when sampling probabilities are
    estimated."""
    learning_rate: float = 1e-2
    schedule: Literal["cosine", "step", "constant"] = "cosine"
    """Learning rate schedule: to zero by a cosine, to a tenth at ``milestone``, or constant."""
    milestone: int = 150
    """Epoch at which ``schedule = "step"`` lowers the learning rate."""
    augmented: bool = True
    """Whether to train on augmented graphs in addition to source graphs."""
    origins: tuple[str, ...] | None = None
    """Train only on graphs of these origins, such as ``source`` and ``g_whole``."""
    env_balanced: bool = False
    """Sample every environment equally often."""
    average: float = 0.0
    """Decay of the exponential moving average (EMA) of the weights; 0 disables it."""
    seed: int = 0
    """Root of the random streams for initialization, shuffling and dropout."""
    precision: Literal["full", "bf16"] = "full"
    """Precision of dense matrix products in training; evaluation always uses float32."""
    device: Literal["auto", "cpu", "cuda"] = "auto"
    """Device; ``auto`` uses a GPU if there is one."""

    @classmethod
    def quick(cls) -> TrainConfig:
        """Return options for a run of seconds."""
        return cls(width=32, epochs=5)

    @classmethod
    def paper(cls) -> TrainConfig:
        """Return the published options of GOOD; training takes hours without a GPU."""
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
        """Return a preset for node-level corpora; ``paper`` has the published options of GOOD."""
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
    """Check all options and fill in the defaults of the algorithm's hyper-parameters."""
    for name in COUNTS:
        if getattr(config, name) < 1:
            raise UsageError(f"{name} must be at least 1; got {getattr(config, name)}")
    if config.batch_size < 2:
        raise UsageError(f"batch_size must be at least 2; got {config.batch_size}")
    for name in ("dropout", "average"):
        if not 0 <= getattr(config, name) < 1:
            raise UsageError(f"{name} must be in [0, 1); got {getattr(config, name)}")
    if not 0 < config.learning_rate < float("inf"):
        raise UsageError(f"learning_rate must be positive; got {config.learning_rate}")
    _check_sampling(config)
    values = {name: getattr(config, name) for name in OPTIONS}
    return msgspec.structs.replace(config, **resolve_options(config.learner, values))


def _check_sampling(config: TrainConfig) -> None:
    if config.backbone == "gcn" and config.env_balanced:
        raise UsageError(
            "env_balanced applies to graphs only; nodes are sampled by random walks. Remove it."
        )
    if config.origins is not None:
        _check_origins(config.origins)
        if not config.augmented:
            raise UsageError(
                "augmented = false already selects source graphs only. Remove `origins`."
            )


def _check_origins(origins: tuple[str, ...]) -> None:
    if not origins:
        raise UsageError("origins is empty. Remove it to use all origins.")
    for origin in origins:
        if origin not in ORIGINS:
            raise UsageError(f"unknown origin `{origin}`. {did_you_mean(origin, ORIGINS)}")
