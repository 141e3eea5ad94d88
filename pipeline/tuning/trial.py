"""One trial: the ordinary stages with the options of a choice, and the score that they end in."""

from __future__ import annotations

import statistics
import time
from collections.abc import Callable
from contextlib import nullcontext
from dataclasses import dataclass
from typing import Any

import msgspec

from gsx.errors import GsxError, StageError, UsageError
from gsx.pipeline.plan import Step
from gsx.pipeline.recipe import parse_config
from gsx.pipeline.runner import Watch, run_plan
from gsx.pipeline.stage_order import stage_named
from gsx.pipeline.tuning.search_space import Choice, options_of
from gsx.stages.stage import silent
from gsx.storage.artifacts.store import Artifact, Store

PRETRAINED = ("extract", "bridge", "mask")
"""Stages whose artifacts generation may need, in their order."""
SPLIT = "ood_val"
"""The split that decides."""


class Common(msgspec.Struct, frozen=True, kw_only=True):
    """What is the same in every trial."""

    maker: str | None = "generate"
    """Stage that makes the corpus; None learns from the source."""
    fixed: dict[str, dict[str, Any]] = {}
    """Options of stages that are not chosen, by stage."""
    seeds: int = 1
    """Trainings of every trial; the mean decides."""
    seed: int = 0
    """Root of the streams that propose choices; the first of the training seeds."""


class Attempt(msgspec.Struct, frozen=True, kw_only=True):
    """How a trial ended."""

    score: float | None
    """On OOD validation, the mean over seeds; None where the choice cannot be tried."""
    facts: dict[str, Any]
    """Keys of what was made, or the ``reason`` why nothing was."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Made:
    """What a trial made."""

    corpus: Artifact
    models: tuple[Artifact, ...]


def attempt(
    common: Common,
    chosen: Choice,
    source: Artifact,
    store: Store,
    *,
    watch: Watch = lambda _: nullcontext(silent),
    say: Callable[[str], None] = lambda _: None,
) -> Attempt:
    """Run a trial and return its score; a choice that cannot be tried is an outcome too."""
    began = time.perf_counter()
    try:
        made = run_trial(common, chosen, source, store, watch=watch, say=say)
    except (StageError, UsageError) as error:
        return Attempt(score=None, facts={"reason": str(error)})
    facts = {
        "corpus_key": made.corpus.key,
        "model_keys": [model.key for model in made.models],
        "seconds": round(time.perf_counter() - began, 1),
    }
    return Attempt(score=statistics.fmean(map(validation, made.models)), facts=facts)


def validation(model: Artifact) -> float:
    """Return the best score of a model on OOD validation: all that a study may see."""
    score: float = model.manifest.summary["quality"]["selection"][SPLIT][SPLIT]
    return score


def run_trial(
    common: Common,
    chosen: Choice,
    source: Artifact,
    store: Store,
    *,
    watch: Watch = lambda _: nullcontext(silent),
    say: Callable[[str], None] = lambda _: None,
) -> Made:
    """Make the corpus and the models of a choice, or find them."""
    corpus = source
    if common.maker is not None:
        plan = _making(common, chosen)
        *_, (_, built) = run_plan(plan, store, given={"prepare": source}, watch=watch, say=say)
        corpus = built.artifact
    stage, learned_from = stage_named("train"), common.maker or "prepare"
    models = []
    for seed in range(common.seed, common.seed + common.seeds):
        config = _config(common, chosen, "train", seed=seed, source=learned_from)
        step = Step(stage, config, stage.inputs_of(config))
        given = {learned_from: corpus}
        models += [
            b.artifact for _, b in run_plan((step,), store, given=given, watch=watch, say=say)
        ]
    return Made(corpus=corpus, models=tuple(models))


def _making(common: Common, chosen: Choice) -> tuple[Step, ...]:
    """Return the steps that make the corpus of a choice."""
    assert common.maker is not None
    wanted = _config(common, chosen, common.maker)
    needed = stage_named(common.maker).inputs_of(wanted).values()
    configs = {name: _config(common, chosen, name) for name in PRETRAINED if name in needed}
    configs[common.maker] = wanted
    return tuple(Step(stage_named(n), c, stage_named(n).inputs_of(c)) for n, c in configs.items())


def _config(common: Common, chosen: Choice, stage: str, **own: Any) -> Any:  # noqa: ANN401
    fixed = common.fixed.get(stage, {})
    options = {**fixed, **options_of(chosen, stage), **own}
    try:
        return parse_config(stage, options, f"gsx tune [{stage}]")
    except GsxError as error:
        raise UsageError(str(error)) from error
