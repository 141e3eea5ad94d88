"""Tune: try choices of options, keep the one whose models are best on OOD validation.

A trial is a run of the ordinary stages: what was made before is found by its key. Only the score
on OOD validation leaves a trial; test scores are read once, of the choice that was kept.
"""

from __future__ import annotations

import statistics
import time
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from gsx.columns import CorpusInfo
from gsx.errors import GsxError, StageError, UsageError
from gsx.pipeline.plan import Step
from gsx.pipeline.recipe import parse_config
from gsx.pipeline.runner import Watch, run_plan
from gsx.pipeline.space import Choice, Space, options_of
from gsx.pipeline.stages import stage_named
from gsx.pipeline.study import Study, Trial, Tried, alone
from gsx.storage.digest import canonical_json, sha256_bytes
from gsx.storage.publish import draft_folder
from gsx.storage.store import Artifact, Store

SPLIT = "ood_val"
"""The split that decides."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Question:
    """What is tuned, and what stays the same in every trial."""

    source_key: str
    """Key of the source corpus."""
    space: Space
    fixed: Mapping[str, Mapping[str, Any]] = field(default_factory=dict)
    """Options of stages that are not chosen, by stage."""
    seeds: int = 1
    """Trainings of every trial; the mean decides."""
    seed: int = 0
    """Root of the streams that propose choices; the first of the training seeds."""

    def study_path(self, store: Store) -> Path:
        """Return where the study lies: in a local store, or in the cache for a remote one."""
        identity = {
            "source": self.source_key,
            "values": {name: list(values) for name, values in self.space.values.items()},
            "fixed": {
                stage: {k: v for k, v in options.items() if k not in stage_named(stage).places}
                for stage, options in self.fixed.items()
            },
            "seeds": self.seeds,
            "seed": self.seed,
        }
        name = sha256_bytes(canonical_json(identity))[:32]
        return draft_folder(store).parent / ".studies" / f"{name}.journal"


@dataclass(frozen=True, slots=True, kw_only=True)
class Made:
    """What a trial made."""

    corpus: Artifact
    models: tuple[Artifact, ...]


@dataclass(frozen=True, slots=True, kw_only=True)
class Tuned:
    """How tuning ended."""

    path: Path
    trials: list[Tried]
    best: Tried
    made: Made
    """Of the best trial."""


Report = Callable[[Tried, Tried | None], None]
"""Told of every trial that ended, with the best so far."""


def check_source(info: CorpusInfo, splits: Mapping[str, int]) -> None:
    """Refuse a corpus by which nothing can be chosen."""
    if info.level == "node":
        raise UsageError(
            f"{info.name} labels nodes, and tuning searches over splices of labelled graphs. "
            "`gsx train` learns from it as it is."
        )
    if SPLIT not in splits:
        raise UsageError(
            f"tuning picks by `{SPLIT}`, which {info.name} lacks; it has {', '.join(splits)}."
        )


def tune(
    question: Question,
    source: Artifact,
    store: Store,
    *,
    trials: int,
    larger_is_better: bool,
    watch: Watch,
    say: Callable[[str], None],
    report: Report,
) -> Tuned:
    """Try choices until ``trials`` have ended, those of earlier runs included."""
    path = question.study_path(store)

    def make(chosen: Choice, say: Callable[[str], None] = say) -> Made:
        return run_trial(question, chosen, source, store, watch=watch, say=say)

    with alone(path):
        study = Study(path, question.space, seed=question.seed, larger_is_better=larger_is_better)
        study.resume()
        while len(study.tried()) < trials:
            trial = study.ask()
            if trial is None:
                say("every choice has been tried")
                break
            _try(study, trial, make)
            report(study.tried()[-1], study.best())
        ended, best = study.tried(), study.best()
    if best is None:
        reason = ended[-1].facts["reason"] if ended else "none was run"
        raise StageError(f"none of {len(ended)} trials could be scored; the last: {reason}")
    # Everything is found by its key here, unless somebody removed it meanwhile.
    return Tuned(path=path, trials=ended, best=best, made=make(best.chosen, lambda _: None))


def _try(study: Study, trial: Trial, make: Callable[[Choice], Made]) -> None:
    began = time.perf_counter()
    try:
        made = make(trial.chosen)
    except (StageError, UsageError) as error:
        study.fail(trial, str(error))
        return
    facts = {
        "corpus_key": made.corpus.key,
        "model_keys": [model.key for model in made.models],
        "seconds": round(time.perf_counter() - began, 1),
    }
    study.tell(trial, statistics.fmean(map(validation, made.models)), facts)


def validation(model: Artifact) -> float:
    """Return the best score of a model on OOD validation: all that a study may see."""
    score: float = model.manifest.summary["quality"]["selection"][SPLIT][SPLIT]
    return score


def run_trial(
    question: Question,
    chosen: Choice,
    source: Artifact,
    store: Store,
    *,
    watch: Watch,
    say: Callable[[str], None],
) -> Made:
    """Make the corpus and the models of a choice, or find them."""
    from gsx.stages.splicing.inputs import preflight

    generate = _config(question, chosen, "generate")
    preflight(generate, {"corpus": source})
    needed = stage_named("generate").inputs_of(generate).values()
    configs = {
        name: _config(question, chosen, name) for name in ("extract", "bridge") if name in needed
    }
    configs["generate"] = generate
    plan = tuple(Step(stage_named(n), c, stage_named(n).inputs_of(c)) for n, c in configs.items())
    *_, (_, built) = run_plan(plan, store, given={"prepare": source}, watch=watch, say=say)
    stage = stage_named("train")
    models = []
    for seed in range(question.seed, question.seed + question.seeds):
        config = _config(question, chosen, "train", seed=seed)
        step = Step(stage, config, stage.inputs_of(config))
        given = {"generate": built.artifact}
        models += [
            b.artifact for _, b in run_plan((step,), store, given=given, watch=watch, say=say)
        ]
    return Made(corpus=built.artifact, models=tuple(models))


def _config(question: Question, chosen: Choice, stage: str, **own: Any) -> Any:  # noqa: ANN401
    fixed = question.fixed.get(stage, {})
    options = {**fixed, **options_of(chosen, stage), **own}
    try:
        return parse_config(stage, options, f"gsx tune [{stage}]")
    except GsxError as error:
        raise UsageError(str(error)) from error
