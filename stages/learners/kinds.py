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
    penalty: float = 1.0
    """Its penalty when left out."""
    tuned: Mapping[str, tuple[Any, ...]] = field(default_factory=dict)
    """The options of ``train`` that it reads, each with the values the paper searches."""

    @property
    def sources(self) -> tuple[str, ...]:
        """Modules whose code decides what it does."""
        return (*SHARED, f"gsx.stages.learners.{self.module}")


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
