"""Methods that can be tuned: the stage that makes their corpus, and the sets the paper searches."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any

from gsx.errors import UsageError
from gsx.stages.train.algorithms.catalog import KINDS

Values = Mapping[str, tuple[Any, ...]]
"""Option, as ``stage.option`` → values it may take."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Method:
    """How a method makes the corpus that is learned from."""

    maker: str | None
    """Stage that makes it; None learns from the source as it is."""
    fixed: Mapping[str, Any] = field(default_factory=dict)
    """Options of that stage that make it this method."""
    values: Values
    """What is searched."""
    sections: tuple[str, ...] = ()
    """Stages beside training whose options may be chosen, those first that decide over others."""
    levels: tuple[str, ...] = ("graph", "node")
    """What must be labelled."""


LEARNERS: Values = {
    "train.learner": ("erm", "vrex"),
    "train.penalty": KINDS["vrex"].tuned["penalty"],
}
SPLICES: Values = {
    "generate.options": ("100", "010", "001", "110", "101", "011", "111"),
    "generate.bridges": ("learned", "random"),
    "generate.f": ([2, 2], [3, 3], [4, 4]),
    "generate.ratio": (0.6, 0.8, 1.0),
    "generate.partners": ("any", "same-class", "same-piece"),
    "bridge.attribute_weight": (1.5, 1.0, 0.5, 0.1),
    "bridge.kl_weight": (1.5, 1.0, 0.5, 0.1, 1e-3),
}
"""``kl_weight`` also has the value that is gsx's own."""
MOVES: Values = {
    "generate.featx_shape": (2.0, 3.0, 5.0, 7.0, 9.0),
    "generate.featx_scale": (0.5, 1.0, 2.0),
}
RATES: Values = {"augment.rate": (0.05, 0.1, 0.15, 0.2, 0.3)}
MIXES: Values = {"augment.ratio": (0.1, 0.2, 0.3), "augment.mix": ([0.1, 0.2], [0.2, 0.3])}


def _augmenter(name: str, values: Values, *levels: str) -> Method:
    return Method(
        maker="augment",
        fixed={"method": name},
        values={**values, **LEARNERS},
        sections=("augment",),
        levels=levels,
    )


METHODS: Mapping[str, Method] = {
    "g-splice": Method(
        maker="generate",
        values={**SPLICES, **LEARNERS},
        sections=("generate", "bridge", "extract"),
        levels=("graph",),
    ),
    "featx": Method(
        maker="generate",
        fixed={"featx": True, "options": "000"},
        values={**MOVES, **LEARNERS},
        sections=("generate", "mask"),
    ),
    "g-splice+featx": Method(
        maker="generate",
        fixed={"featx": True},
        values={**SPLICES, **MOVES, **LEARNERS},
        sections=("generate", "bridge", "extract", "mask"),
        levels=("graph",),
    ),
    "drop-node": _augmenter("drop-node", RATES, "graph"),
    "drop-edge": _augmenter("drop-edge", RATES, "graph", "node"),
    "mask-feature": _augmenter("mask-feature", RATES, "graph", "node"),
    "g-mixup": _augmenter("g-mixup", MIXES, "graph"),
    "none": Method(maker=None, values=LEARNERS),
}


def check_applies(method: str, level: str, corpus: str) -> None:
    """Refuse a method that makes nothing of a corpus called ``corpus``."""
    if level not in METHODS[method].levels:
        fitting = ", ".join(name for name, each in METHODS.items() if level in each.levels)
        raise UsageError(
            f"{method} is for labelled {METHODS[method].levels[0]}s; {corpus} has labelled "
            f"{level}s. Tune another `--method`: {fitting}."
        )
