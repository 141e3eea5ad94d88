"""The learners there are, and what is known of each before anything is computed."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field
from typing import Any

from gsx.errors import StageError

LEVELS = ("graph", "node")


@dataclass(frozen=True, slots=True, kw_only=True)
class Kind:
    """What is known of a learner."""

    title: str
    """As in papers."""
    levels: tuple[str, ...] = LEVELS
    """What must be labelled: graphs, nodes, or either."""
    values: bool = True
    """Whether it also learns values, beside classes and tasks of yes and no."""
    compares: bool = False
    """Whether it compares environments, so that at least two must be known."""
    apart: bool = False
    """Whether it looks at every node of its own, so that equal ones are not folded into one."""
    cuts: bool = False
    """Whether it cuts graphs by itself, so that it must see their edges."""
    penalty: float = 1.0
    """Its penalty when left out."""
    tuned: Mapping[str, tuple[Any, ...]] = field(default_factory=dict)
    """Options of ``train`` that it alone or with few others reads, with the paper's values."""
    fixed: tuple[str, ...] = ()
    """Further ones, of which the paper takes one value."""
    fills: Mapping[str, float] = field(default_factory=dict)
    """What it takes for options whose value, when left out, depends on the learner."""

    @property
    def options(self) -> tuple[str, ...]:
        """Options of ``train`` that matter to it and not to every learner."""
        return tuple(dict.fromkeys((*self.tuned, *self.fixed, *self.fills)))


KINDS: Mapping[str, Kind] = {
    "erm": Kind(title="ERM"),
    # The set for spliced graphs ("+R"); of VREx alone the paper also tries 1000.
    "vrex": Kind(title="VREx", compares=True, tuned={"penalty": (1.0, 10.0, 100.0)}),
    "irm": Kind(title="IRM", compares=True, tuned={"penalty": (0.1, 1.0, 10.0, 100.0)}),
    "groupdro": Kind(
        title="GroupDRO",
        compares=True,
        penalty=0.01,
        tuned={"penalty": (0.1, 0.01, 0.001)},
    ),
    "coral": Kind(
        title="Deep Coral",
        compares=True,
        tuned={"penalty": (1.0, 0.1, 0.01, 0.001)},
    ),
    "dann": Kind(title="DANN", compares=True, tuned={"penalty": (1.0, 0.1, 0.01, 0.001)}),
    "flag": Kind(
        title="FLAG",
        apart=True,
        tuned={"ascent_step": (1e-2, 1e-3, 5e-3, 1e-4)},
        fixed=("ascents",),
    ),
    "mixup": Kind(title="Graph Mixup", tuned={"mix_alpha": (0.4, 1.0, 2.0)}),
    "lisa": Kind(
        title="LISA",
        compares=True,
        values=False,
        tuned={"mix_alpha": (0.4, 1.0, 2.0)},
    ),
    "eerm": Kind(
        title="EERM",
        levels=("node",),
        tuned={"context_rate": (1e-2, 1e-3, 5e-3, 1e-4), "penalty": (1.0, 2.0, 3.0)},
        fixed=("contexts", "context_edits", "context_steps"),
    ),
    "srgnn": Kind(
        title="SRGNN",
        levels=("node",),
        penalty=1e-5,
        tuned={"penalty": (1e-4, 1e-5, 1e-6)},
    ),
    "dir": Kind(
        title="DIR",
        levels=("graph",),
        fills={"causal_ratio": 0.4},
        tuned={"penalty": (10.0, 1.0, 0.1, 0.01), "causal_ratio": (0.2, 0.4, 0.6, 0.8)},
    ),
    "gil": Kind(
        title="GIL",
        levels=("graph",),
        penalty=0.01,
        fills={"causal_ratio": 0.6, "inferred_envs": 3},
        tuned={"penalty": (0.01, 0.001, 0.0001)},
    ),
    "ciga": Kind(
        title="CIGA",
        levels=("graph",),
        values=False,
        fills={"causal_ratio": 0.6, "hinge": 1.0},
        tuned={
            "penalty": (0.5, 1.0, 2.0),
            "causal_ratio": (0.4, 0.6, 0.8),
            "hinge": (0.5, 1.0, 2.0),
        },
    ),
    # The paper names no sets for it; those of its penalty are gsx's own.
    "lisa-subgraph": Kind(
        title="LiSA",
        levels=("graph",),
        apart=True,
        cuts=True,
        penalty=0.1,
        fills={"generators": 3, "kl_weight": 0.1},
        tuned={"penalty": (0.01, 0.1, 1.0)},
    ),
}


def sets_of(learners: Iterable[str]) -> dict[str, tuple[Any, ...]]:
    """Return the options some learners read, with the values the paper searches for any of them."""
    found: dict[str, dict[Any, None]] = {}
    for learner in learners:
        for option, values in KINDS[learner].tuned.items():
            found.setdefault(option, {}).update(dict.fromkeys(values))
    return {option: tuple(values) for option, values in found.items()}


def matters(option: str, learner: str) -> bool:
    """Say whether an option of ``train`` changes what a learner does."""
    owned = any(option in kind.options for kind in KINDS.values())
    return not owned or option in KINDS[learner].options


def check_applies(learner: str, *, level: str, task: str, name: str) -> None:
    """Refuse a learner for a corpus called ``name`` whose labels it cannot learn."""
    kind = KINDS[learner]
    fitting = ", ".join(
        f"`{other}`"
        for other, each in KINDS.items()
        if level in each.levels and (each.values or task != "regression")
    )
    if level not in kind.levels:
        raise StageError(
            f"{kind.title} is for labelled {kind.levels[0]}s; {name} has labelled {level}s. Use "
            f"another learner: {fitting}."
        )
    if task == "regression" and not kind.values:
        raise StageError(
            f"{kind.title} pairs equal labels; those of {name} are values. Use another learner: "
            f"{fitting}."
        )
