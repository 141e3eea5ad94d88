"""Methods that can be tuned: the stage that writes their corpus, and the values the paper tries."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any

from gsx.errors import UsageError
from gsx.schema import CorpusInfo
from gsx.stages.train.algorithms.vrex import VREx

Values = Mapping[str, tuple[Any, ...]]
"""Option, as ``stage.option`` → values to try."""


@dataclass(frozen=True, slots=True, kw_only=True)
class TuningMethod:
    """How a method builds its training corpus, and its search space."""

    corpus_stage: str | None
    """Stage that writes the corpus; None trains on the source corpus."""
    fixed: Mapping[str, Any] = field(default_factory=dict)
    """Options of that stage that select the method."""
    values: Values
    """The search space: that of the paper, and the options that the paper does not have."""
    sections: tuple[str, ...] = ()
    """Stages other than training whose options may be tuned; stages whose options decide which
    other options matter come first."""
    levels: tuple[str, ...] = ("graph", "node")
    """Levels of targets to which the method applies."""


ALGORITHM_VALUES: Values = {
    "train.learner": ("erm", "vrex"),
    "train.penalty": VREx.penalty.search,
}
SPLICE_VALUES: Values = {
    "generate.options": ("100", "010", "001", "110", "101", "011", "111"),
    "generate.bridges": ("learned", "random"),
    "generate.f": ([2, 2], [3, 3], [4, 4]),
    "generate.ratio": (0.6, 0.8, 1.0),
    "generate.partners": ("any", "same-class", "same-component"),
    "bridge.attribute_weight": (1.5, 1.0, 0.5, 0.1),
    "bridge.kl_weight": (1.5, 1.0, 0.5, 0.1, 1e-3),
}
"""``kl_weight`` also has the default of gsx, 1e-3, which the paper does not try."""
FEATX_VALUES: Values = {
    "generate.featx_shape": (2.0, 3.0, 5.0, 7.0, 9.0),
    "generate.featx_scale": (0.5, 1.0, 2.0),
}
EXTENSION_VALUES: Values = {
    "generate.labels": ("average", "any", "all"),
    "generate.grow": (0.0, 1.0, 2.0),
    "generate.fragments": (0, 3),
    "generate.ports": ("any", "own"),
}
"""Options of splicing that the paper does not have."""
FEATX_EXTENSION_VALUES: Values = {
    "generate.featx_partner": ("node", "ranked"),
    "generate.featx_ends": ("around", "mirror"),
}
"""Options of feature extrapolation that the paper does not have."""
RATE_VALUES: Values = {"augment.rate": (0.05, 0.1, 0.15, 0.2, 0.3)}
G_MIXUP_VALUES: Values = {
    "augment.ratio": (0.1, 0.2, 0.3),
    "augment.mix": ([0.1, 0.2], [0.2, 0.3]),
}


def _augmentation(name: str, values: Values, *levels: str) -> TuningMethod:
    return TuningMethod(
        corpus_stage="augment",
        fixed={"method": name},
        values={**values, **ALGORITHM_VALUES},
        sections=("augment",),
        levels=levels,
    )


METHODS: Mapping[str, TuningMethod] = {
    "g-splice": TuningMethod(
        corpus_stage="generate",
        values={**SPLICE_VALUES, **EXTENSION_VALUES, **ALGORITHM_VALUES},
        sections=("generate", "bridge", "extract"),
        levels=("graph",),
    ),
    "featx": TuningMethod(
        corpus_stage="generate",
        fixed={"featx": True, "options": "000"},
        values={**FEATX_VALUES, **FEATX_EXTENSION_VALUES, **ALGORITHM_VALUES},
        sections=("generate", "mask"),
    ),
    "g-splice+featx": TuningMethod(
        corpus_stage="generate",
        fixed={"featx": True},
        values={
            **SPLICE_VALUES,
            **EXTENSION_VALUES,
            **FEATX_VALUES,
            **FEATX_EXTENSION_VALUES,
            **ALGORITHM_VALUES,
        },
        sections=("generate", "bridge", "extract", "mask"),
        levels=("graph",),
    ),
    "drop-node": _augmentation("drop-node", RATE_VALUES, "graph"),
    "drop-edge": _augmentation("drop-edge", RATE_VALUES, "graph", "node"),
    "mask-feature": _augmentation("mask-feature", RATE_VALUES, "graph", "node"),
    "g-mixup": _augmentation("g-mixup", G_MIXUP_VALUES, "graph"),
    "none": TuningMethod(corpus_stage=None, values=ALGORITHM_VALUES),
}


def check_applies(method: str, level: str, corpus_name: str) -> None:
    """Raise `UsageError` if a method does not apply to a corpus with targets of this level."""
    levels = METHODS[method].levels
    if level not in levels:
        applicable = ", ".join(name for name, other in METHODS.items() if level in other.levels)
        raise UsageError(
            f"{method} needs {levels[0]} labels, but {corpus_name} has {level} labels. Choose "
            f"another `--method`: {applicable}."
        )


def applicable_values(values: Values, info: CorpusInfo, *, molecules: bool) -> dict[str, Any]:
    """Return the values of every option that apply to a corpus.

    An option of which no value applies keeps its values, and its trials fail with the reason.
    """
    single = info.task == "binary" and len(info.outputs) == 1
    impossible: dict[str, tuple[Any, ...]] = {}
    if info.task not in ("binary", "multitask"):
        impossible["generate.labels"] = ("any", "all")
    if info.task != "classification" and not single:
        impossible["generate.partners"] = ("same-class",)
    if info.level == "node":
        impossible["generate.featx_partner"] = ("ranked",)
    result: dict[str, Any] = {}
    for name, listed in values.items():
        kept = tuple(value for value in listed if value not in impossible.get(name, ()))
        if molecules and name in ("generate.grow", "generate.chords"):
            kept = tuple(value for value in listed if not value)
        result[name] = kept or listed
    return result
