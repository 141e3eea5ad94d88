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

COUNTS = ("width", "layers", "epochs", "steps", "milestone", "samples", "coverage")
"""Options that must be at least 1."""
CLASSICAL = ("wl", "morgan", "size", "mean", "node")
"""Backbones that are linear models of fixed features."""
CLASSICAL_OPTIONS = (
    "source", "backbone", "layers", "augmented", "origins", "env_balanced", "seed", "evaluate",
    "counts", "strength", "device",
)  # fmt: skip
"""Options that classical models use."""
ADDED_OPTIONS = {
    "counts": "auto",
    "strength": None,
    "precision": "full",
    "samples": 10,
    "coverage": 100,
    "evaluate": "all",
    "readout": "mean",
    "steps": None,
    "weight_decay": 0.0,
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
    backbone: Literal["gin", "vgin", "gcn", "wl", "morgan", "size", "mean", "node"] = "gin"
    """GIN, GIN with a virtual node, or GCN for nodes; or a linear model of Weisfeiler-Lehman
    counts, Morgan fingerprints, size, mean features, or features of a node's neighborhood."""
    width: int = 64
    """Number of hidden units of every layer."""
    layers: int = 3
    """Message-passing layers; for ``wl``, rounds."""
    counts: Literal["auto", "counts", "log", "shares"] = "auto"
    """For ``wl`` and ``morgan``: how counts become features; ``auto``: chosen by validation."""
    strength: float | None = None
    """For linear models: L2 penalty; None: chosen by validation."""
    readout: Literal["mean", "sum", "mean+size"] = "mean"
    """Features of a graph: mean or sum of its node states, or mean and number of nodes."""
    dropout: float = 0.0
    """Probability with which values are set to 0 after every layer, including the last."""
    epochs: int = 20
    """Passes over the training graphs."""
    steps: int | None = None
    """Gradient steps, rounded to whole epochs of the corpus; replaces ``epochs``. Corpora of
    different sizes are compared with equal steps."""
    batch_size: int = 128
    """Graphs per step; an incomplete last batch is dropped. For nodes, random walks per sample."""
    samples: int = 10
    """For nodes: steps per epoch; every step draws one sample of the graph."""
    coverage: int = 100
    """For nodes: mean number of samples that contain a node when sampling probabilities are
    estimated."""
    learning_rate: float = 1e-2
    """Initial learning rate of Adam."""
    weight_decay: float = 0.0
    """L2 penalty that Adam adds to gradients."""
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
    average: float = 0.99
    """Decay of the exponential moving average (EMA) of the weights; 0 disables it."""
    select: Literal["last", "ood_val", "id_val", "augmented"] = "last"
    """Epoch whose scores are reported: the last, the best on a validation split, or the best on
    augmented graphs of held-out parents. The weights of every available rule are kept."""
    seed: int = 0
    """Root of the random streams for initialization, shuffling and dropout."""
    evaluate: Literal["all", "validation", "sealed"] = "all"
    """Held-out splits to score: all, or ``id_val`` and ``ood_val`` only. With ``validation``, no
    file of the model depends on graphs or labels of test splits. With ``sealed``, predictions for
    test splits are stored, and no file depends on their labels."""
    precision: Literal["full", "bf16"] = "full"
    """Precision of dense matrix products in training; evaluation always uses float32."""
    device: Literal["auto", "cpu", "cuda"] = "auto"
    """Device; ``auto`` uses a GPU if there is one."""
    log: tuple[str, ...] = ()
    """Where curves appear during training, as ``KIND:TARGET``: ``tensorboard:DIR``, ``csv:FILE``.
    Not part of the key."""

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
            average=0.0,
            select="ood_val",
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
                average=0.0,
                select="ood_val",
            )
        return cls(backbone="gcn", dropout=0.5, epochs=50, batch_size=1000)


def resolve(config: TrainConfig) -> TrainConfig:
    """Check all options and fill in the defaults of the algorithm's hyper-parameters."""
    for name in COUNTS:
        value = getattr(config, name)
        if value is not None and value < 1:
            raise UsageError(f"{name} must be at least 1; got {value}")
    if config.batch_size < 2:
        raise UsageError(f"batch_size must be at least 2; got {config.batch_size}")
    for name in ("dropout", "average"):
        if not 0 <= getattr(config, name) < 1:
            raise UsageError(f"{name} must be in [0, 1); got {getattr(config, name)}")
    if not 0 < config.learning_rate < float("inf"):
        raise UsageError(f"learning_rate must be positive; got {config.learning_rate}")
    if not 0 <= config.weight_decay < float("inf"):
        raise UsageError(f"weight_decay must not be negative; got {config.weight_decay}")
    if config.backbone == "gcn" and config.readout != "mean":
        raise UsageError("readout applies to graphs only; gcn predicts labels of nodes. Remove it.")
    if config.backbone == "gcn" and config.select == "augmented":
        raise UsageError(
            'select = "augmented" applies to graphs only; replicas of nodes have no held-out '
            "parents. Use `last`."
        )
    _check_sampling(config)
    _check_classical(config)
    _check_log(config)
    values = {name: getattr(config, name) for name in OPTIONS}
    return msgspec.structs.replace(config, **resolve_options(config.learner, values))


def with_epochs(config: TrainConfig, examples: int) -> TrainConfig:
    """Return the config with the epochs of its ``steps``, for a number of training examples."""
    if config.steps is None:
        return config
    per_epoch = config.samples
    if config.backbone != "gcn":
        per_epoch = max(examples // config.batch_size, 1)
    return msgspec.structs.replace(config, epochs=max(round(config.steps / per_epoch), 1))


def _check_classical(config: TrainConfig) -> None:
    """Reject options that a classical model, or a network, does not have."""
    classical = config.backbone in CLASSICAL
    default = TrainConfig()
    for field in config.__struct_fields__:
        applies = field in CLASSICAL_OPTIONS if classical else field not in ("counts", "strength")
        if not applies and getattr(config, field) != getattr(default, field):
            model = "a linear model" if classical else "a network"
            raise UsageError(
                f"{field} does not apply to `{config.backbone}`, which is {model}. Remove it."
            )
    if config.strength is not None and not 0 < config.strength < float("inf"):
        raise UsageError(f"strength must be positive; got {config.strength}")


def _check_log(config: TrainConfig) -> None:
    if config.log:
        from gsx.stages.train.trackers import check_targets

        check_targets(config.log)


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
