"""Compare recipes on validation data and recommend the one that helps, or none."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass

import numpy as np

from gsx.errors import GsxError
from gsx.pipeline.named_recipes import NONE
from gsx.pipeline.recommend.candidates import Candidates, applicable, train_models
from gsx.pipeline.recommend.config import RecommendConfig
from gsx.pipeline.recommend.confirm import (
    Confirmation,
    ConfirmationPlan,
    confirm,
    plan_confirmation,
)
from gsx.pipeline.recommend.decide import Difference, choose, paired_differences, threshold
from gsx.pipeline.recommend.evidence import Evidence, RecipeEvidence
from gsx.pipeline.recommend.sample import TRAIN_CODE, Sample, write_sample
from gsx.pipeline.recommend.screen import Screening, finalists, screen
from gsx.pipeline.recommend.task_runner import TaskRunner
from gsx.pipeline.recommend.worker import validation_labels
from gsx.ragged import Array
from gsx.schema import CorpusInfo
from gsx.stages.train.metrics import score, undefined_reason
from gsx.storage.artifacts.store import Artifact, Store
from gsx.storage.corpora.corpus import Corpus

MIN_TRAIN, MIN_VALIDATION = 50, 20
"""Fewer training or validation items are no evidence; the answer is then `none`."""


@dataclass(frozen=True, slots=True)
class Items:
    """Number of items of the sample, and the labels of its validation items."""

    train: int
    mean_edges: float
    y: Array


def recommend(
    config: RecommendConfig, source: Artifact, scratch: Store, runner: TaskRunner
) -> Evidence:
    """Return the recommendation for a corpus with all its evidence."""
    info = Corpus(source).info
    candidates = applicable(Corpus(source), config.recipes)
    try:
        sample = write_sample(source, scratch, graphs=config.graphs, seed=config.seed)
        items = _count_items(Corpus(sample.corpus))
    except GsxError as error:
        return _no_evidence(config, info, candidates, "", None, str(error))
    problem = _problem(info, items, candidates)
    if problem is not None:
        return _no_evidence(config, info, candidates, sample.validation, items, problem)
    return _compare(config, info, candidates, sample, items, scratch, runner)


def _compare(
    config: RecommendConfig,
    info: CorpusInfo,
    candidates: Candidates,
    sample: Sample,
    items: Items,
    scratch: Store,
    runner: TaskRunner,
) -> Evidence:
    url = sample.corpus.location.absolute_url
    candidates, models = train_models(
        candidates, sample.corpus, scratch, runner.announce, random_bridges=True
    )
    screening = screen(runner, url, _urls(models), candidates.names, info, items.y, config.seed)
    left_out = {**candidates.left_out, **screening.failed}
    screened = paired_differences(
        info.metric, info.task, items.y, screening.runs, NONE, "screen", config.seed
    )
    names = finalists(screened)
    plan = plan_confirmation(info, items.train, items.mean_edges, config.budget, len(names))
    confirmation = None
    if plan is not None:
        names = names[: plan.finalists]
        confirmed_candidates, models = train_models(
            Candidates(names, {}), sample.corpus, scratch, runner.announce
        )
        left_out |= confirmed_candidates.left_out
        confirmation = confirm(
            runner, plan, url, _urls(models), confirmed_candidates.names, info, items.y, config.seed
        )
        left_out |= confirmation.failed
    return _decide(config, info, sample, items, screening, screened, names, plan, confirmation,
                   left_out)  # fmt: skip


def _urls(models: Mapping[str, Artifact]) -> dict[str, str]:
    return {stage: artifact.location.absolute_url for stage, artifact in models.items()}


def _decide(
    config: RecommendConfig,
    info: CorpusInfo,
    sample: Sample,
    items: Items,
    screening: Screening,
    screened: Mapping[str, Difference],
    names: Sequence[str],
    plan: ConfirmationPlan | None,
    confirmation: Confirmation | None,
    left_out: Mapping[str, str],
) -> Evidence:
    """Apply the decision rule and collect the evidence."""
    if confirmation is not None:
        differences, compared, decided_by = confirmation.differences, len(names), "confirmation"
    else:
        differences, compared, decided_by = dict(screened), len(screened), "screen"
    choice = choose(differences, compared)
    recipes = []
    for name in (NONE, *screened, *(name for name in left_out if name not in screened)):
        runs = [] if confirmation is None else confirmation.runs.get(name, [])
        recipes.append(
            RecipeEvidence(
                name=name,
                left_out=left_out.get(name),
                screen_scores=_scores(info, screening.runs.get(name, []), items.y),
                screen=screened.get(name),
                scores=_scores(info, runs, items.y),
                confirmed=None if confirmation is None else confirmation.differences.get(name),
                dropped_after=None if confirmation is None else confirmation.dropped.get(name),
            )
        )
    return Evidence(
        dataset=info.name,
        metric=info.metric,
        choice=choice or NONE,
        reason=_reason(choice, differences, compared, decided_by, info.metric),
        decided_by=decided_by,
        threshold=round(threshold(compared), 4),
        validation=sample.validation,
        train_items=items.train,
        validation_items=len(items.y),
        budget=config.budget,
        linear=screening.linear,
        network=None if confirmation is None or plan is None else plan.network,
        recipes=tuple(recipes),
    )


def _scores(info: CorpusInfo, runs: Sequence[Array], y: Array) -> tuple[float, ...]:
    values = (score(info.metric, info.task, run, y) for run in runs)
    return tuple(value for value in values if value is not None)


def _reason(
    choice: str | None,
    differences: Mapping[str, Difference],
    compared: int,
    decided_by: str,
    metric: str,
) -> str:
    models = "trained networks" if decided_by == "confirmation" else "linear models only"
    limit = threshold(compared)
    if choice is None:
        if not differences:
            return f"no recipe is promising, by {models}"
        best = max(differences, key=lambda name: differences[name].probability)
        return (
            f"no recipe is better than `none` with a probability of {limit:.3f}, by {models}; the "
            f"most promising, {best}, has {differences[best].probability:.3f}"
        )
    value = differences[choice]
    return (
        f"{choice} improves {metric} on validation data by {value.mean:.2f} (95 % interval "
        f"{value.low:.2f} to {value.high:.2f}), by {models}"
    )


def _count_items(sample: Corpus) -> Items:
    y = validation_labels(sample)
    if sample.info.level == "graph":
        train = sample.table(split="train", columns=["graph_id"])
        return Items(len(train), float(train.num_edges.mean()), y)
    split = sample.table(columns=["node_split"]).dense("node", "node_split")
    return Items(int(np.sum(split == TRAIN_CODE)), 1.0, y)


def _problem(info: CorpusInfo, items: Items, candidates: Candidates) -> str | None:
    """Return why no comparison is possible; None if there is no obstacle."""
    if not candidates.names:
        return "no recipe applies to this corpus"
    if items.train < MIN_TRAIN:
        return (
            f"there are only {items.train} training {info.level}s; at least {MIN_TRAIN} are needed"
        )
    if len(items.y) < MIN_VALIDATION:
        return (
            f"there are only {len(items.y)} validation {info.level}s; at least {MIN_VALIDATION} "
            "are needed"
        )
    reason = undefined_reason(info.metric, info.task, items.y)
    return (
        None if reason is None else f"{info.metric} is undefined on the validation data: {reason}"
    )


def _no_evidence(
    config: RecommendConfig,
    info: CorpusInfo,
    candidates: Candidates,
    validation: str,
    items: Items | None,
    problem: str,
) -> Evidence:
    """Return the recommendation of `none` because nothing can be compared."""
    return Evidence(
        dataset=info.name,
        metric=info.metric,
        choice=NONE,
        reason=f"no comparison is possible: {problem}",
        decided_by="nothing",
        validation=validation,
        train_items=0 if items is None else items.train,
        validation_items=0 if items is None else len(items.y),
        budget=config.budget,
        recipes=tuple(
            RecipeEvidence(name=name, left_out=reason)
            for name, reason in candidates.left_out.items()
        ),
    )
