"""The learners there are, and what is known of each before anything is computed."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any

from gsx.errors import StageError

LEVELS = ("graph", "node")
SHARED = ("gsx.stages.learners.kinds", "gsx.stages.learners.told")


@dataclass(frozen=True, slots=True, kw_only=True)
class Kind:
    """What is known of a learner."""

    title: str
    """As in papers."""
    module: str
    """File of ``stages/learners`` that holds it."""
    levels: tuple[str, ...] = LEVELS
    """What must be labelled: graphs, nodes, or either."""
    compares: bool = False
    """Whether it compares environments, so that at least two must be known."""
    apart: bool = False
    """Whether it looks at every node of its own, so that equal ones are not folded into one."""
    selects: bool = False
    """Whether its network selects a part of every graph, and tells the label from that."""
    cuts: bool = False
    """Whether it cuts graphs by itself, so that it must see their edges."""
    classes: bool = False
    """Whether it compares graphs of one class, so that labels must not be values."""
    penalty: float = 1.0
    """Its penalty when left out."""
    options: Mapping[str, float] = field(default_factory=dict)
    """Options of ``train`` that not all learners read, each with its value when left out."""
    tuned: Mapping[str, tuple[Any, ...]] = field(default_factory=dict)
    """The options of ``train`` that it reads, each with the values the paper searches."""

    @property
    def sources(self) -> tuple[str, ...]:
        """Modules whose code decides what it does."""
        shared = (*SHARED, "gsx.stages.learners.halves") if self.selects else SHARED
        return (*shared, f"gsx.stages.learners.{self.module}")


KINDS: Mapping[str, Kind] = {
    "erm": Kind(title="ERM", module="erm"),
    "vrex": Kind(title="VREx", module="vrex", compares=True, tuned={"penalty": (1.0, 10.0, 100.0)}),
    "irm": Kind(
        title="IRM", module="irm", compares=True, tuned={"penalty": (0.1, 1.0, 10.0, 100.0)}
    ),
    "groupdro": Kind(
        title="GroupDRO",
        module="groupdro",
        compares=True,
        penalty=0.01,
        tuned={"penalty": (0.1, 0.01, 0.001)},
    ),
    "coral": Kind(
        title="Deep Coral",
        module="coral",
        compares=True,
        tuned={"penalty": (1.0, 0.1, 0.01, 0.001)},
    ),
    "dann": Kind(
        title="DANN", module="dann", compares=True, tuned={"penalty": (1.0, 0.1, 0.01, 0.001)}
    ),
    "dir": Kind(
        title="DIR",
        module="dir",
        levels=("graph",),
        selects=True,
        options={"causal_ratio": 0.4},
        tuned={"penalty": (10.0, 1.0, 0.1, 0.01), "causal_ratio": (0.2, 0.4, 0.6, 0.8)},
    ),
    "gil": Kind(
        title="GIL",
        module="gil",
        levels=("graph",),
        selects=True,
        penalty=0.01,
        options={"causal_ratio": 0.6, "inferred_envs": 3},
        tuned={"penalty": (0.01, 0.001, 0.0001)},
    ),
    "ciga": Kind(
        title="CIGA",
        module="ciga",
        levels=("graph",),
        selects=True,
        classes=True,
        options={"causal_ratio": 0.6, "hinge": 1.0},
        tuned={
            "penalty": (0.5, 1.0, 2.0),
            "causal_ratio": (0.4, 0.6, 0.8),
            "hinge": (0.5, 1.0, 2.0),
        },
    ),
    "lisa-subgraph": Kind(
        title="LiSA",
        module="lisa_subgraph",
        levels=("graph",),
        apart=True,
        cuts=True,
        penalty=0.1,
        options={"generators": 3, "kl_weight": 0.1},
        tuned={"penalty": (0.01, 0.1, 1.0)},
    ),
}


def check_level(learner: str, level: str, name: str) -> None:
    """Refuse a learner for a corpus called ``name`` whose labels are of another kind."""
    kind = KINDS[learner]
    if level in kind.levels:
        return
    fitting = ", ".join(f"`{other}`" for other, each in KINDS.items() if level in each.levels)
    raise StageError(
        f"{kind.title} is for labelled {kind.levels[0]}s; {name} has labelled {level}s. Use "
        f"another learner: {fitting}."
    )


def check_task(learner: str, task: str, name: str) -> None:
    """Refuse a learner for a corpus called ``name`` whose labels it can make nothing of."""
    if KINDS[learner].classes and task == "regression":
        raise StageError(
            f"{KINDS[learner].title} compares graphs of one class; labels of {name} are values. "
            "Use another learner."
        )
