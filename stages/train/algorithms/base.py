"""Base class of training algorithms, and their hyper-parameters.

An algorithm is one file: a subclass of ``Algorithm`` with its name, its hyper-parameters, the
corpora it applies to and its loss. The tuple ``ALGORITHMS`` lists them. The command line reads
names, defaults and help texts from the classes, so these files import neither torch nor NumPy at
module level. Methods import what they need.
"""

from __future__ import annotations

import math
from collections.abc import Callable
from dataclasses import dataclass
from typing import TYPE_CHECKING, ClassVar, Generic, Self, TypeVar, overload

if TYPE_CHECKING:
    from torch import Tensor
    from torch.nn import Module
    from torch.optim import Optimizer

    from gsx.stages.nn.batches import BackboneShape, EdgeRule
    from gsx.stages.train.algorithms.training_step import TrainingStep
    from gsx.stages.train.node_data import NodeTrainingData
else:
    Module = object

LEVELS = ("graph", "node")
Number = TypeVar("Number", int, float)


@dataclass(frozen=True, slots=True)
class Bounds:
    """Values that a hyper-parameter may take."""

    allows: Callable[[float], bool]
    requirement: str
    """Text after "must", as in "must be positive"."""


POSITIVE = Bounds(lambda value: 0 < value < math.inf, "be positive")
NON_NEGATIVE = Bounds(lambda value: 0 <= value < math.inf, "not be negative")
FRACTION = Bounds(lambda value: 0 < value < 1, "be between 0 and 1")
AT_LEAST_1 = Bounds(lambda value: value >= 1, "be at least 1")
AT_LEAST_2 = Bounds(lambda value: value >= 2, "be at least 2")


class Option(Generic[Number]):
    """Hyper-parameter of an algorithm, declared as an attribute of its class.

    On an instance the attribute is the value. ``TrainConfig`` has a field and ``gsx train`` an
    option of the same name. Algorithms may share an option; each one has its own default.
    """

    name: str

    def __init__(
        self,
        default: Number,
        *,
        bounds: Bounds,
        help: str,
        search: tuple[Number, ...] = (),
        nullable: bool = False,
    ) -> None:
        self.default: Number = default
        self.bounds, self.help = bounds, help
        self.search: tuple[Number, ...] = search
        """Values of the paper's hyper-parameter search; empty where it uses one value."""
        self.nullable = nullable
        """Whether the field of ``TrainConfig`` is None until ``resolve`` fills in the default.

        Algorithms that do not declare a nullable option reject a value for it.
        """

    def __set_name__(self, owner: type, name: str) -> None:
        self.name = name

    @overload
    def __get__(self, instance: None, owner: type) -> Self: ...
    @overload
    def __get__(self, instance: object, owner: type) -> Number: ...
    def __get__(self, instance: object | None, owner: type) -> Self | Number:
        return self if instance is None else self.default


@dataclass(frozen=True, slots=True, kw_only=True, eq=False)
class Setup:
    """Sizes and data that the networks and buffers of an algorithm depend on."""

    width: int
    """Number of features of a graph or node."""
    outputs: int
    """Number of logits."""
    num_envs: int
    seed: int
    shape: BackboneShape | None = None
    """Shape of the network, for algorithms that train further networks."""
    nodes: NodeTrainingData | None = None
    """Training data of a node-level corpus."""


class Algorithm(Module):
    """A training objective, with the networks and buffers that it trains besides the model.

    ``create`` returns instances that are also ``torch.nn.Module``s: what ``build`` assigns to
    attributes or registers as buffers is initialized, moved between devices and checkpointed as in
    any module.
    """

    name: ClassVar[str]
    """Value of ``gsx train --algorithm``."""
    title: ClassVar[str]
    """Name in papers."""
    levels: ClassVar[tuple[str, ...]] = LEVELS
    """Levels of labels it supports."""
    regression: ClassVar[bool] = True
    """Whether it supports regression tasks."""
    compares_environments: ClassVar[bool] = False
    """Whether it needs at least two known environments."""
    distinguishes_nodes: ClassVar[bool] = False
    """Whether WL-equivalent nodes may get different inputs, so they cannot be computed once."""
    needs_edges: ClassVar[bool] = False
    """Whether it removes nodes or edges of a batch itself, so batches must hold edge lists."""
    edge_rule: ClassVar[EdgeRule | None] = None
    """How the trained network weights edges at inference; None without learned edge weights."""

    penalty = Option(
        1.0,
        bounds=NON_NEGATIVE,
        nullable=True,
        help="weight of the algorithm's penalty term",
    )
    """Every algorithm accepts a penalty. Those that use it declare it again."""

    optimizer: Optimizer | None = None
    """Optimizer of parameters that the algorithm updates itself."""

    @classmethod
    def options(cls) -> dict[str, Option[int] | Option[float]]:
        """Return the hyper-parameters that the algorithm uses, by name."""
        return {
            name: value
            for parent in reversed(cls.__mro__)
            if parent is not Algorithm
            for name, value in vars(parent).items()
            if isinstance(value, Option)
        }

    @classmethod
    def create(cls, setup: Setup, **hyperparameters: float) -> Self:
        """Return the algorithm as a torch module; options that are left out have their default."""
        from torch import nn

        algorithm: Self = type(cls.__name__, (cls, nn.Module), {})()
        for name, value in hyperparameters.items():
            setattr(algorithm, name, value)
        algorithm.build(setup)
        return algorithm

    def build(self, setup: Setup) -> None:
        """Create networks, buffers and the optimizer, if the algorithm has any."""

    def loss(self, step: TrainingStep) -> Tensor:
        """Return the loss of a batch, a scalar."""
        raise NotImplementedError

    def forward(self, step: TrainingStep) -> Tensor:
        """Return ``loss``; torch calls this method."""
        return self.loss(step)
