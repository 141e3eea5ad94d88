"""One trial: run the stages with the params of a trial and return the validation score."""

from __future__ import annotations

import statistics
import time
from collections.abc import Callable
from contextlib import nullcontext
from dataclasses import dataclass
from typing import Any

import msgspec

from gsx.errors import ArtifactError, GsxError, StageError, UsageError
from gsx.pipeline.plan import Step
from gsx.pipeline.recipe import parse_config
from gsx.pipeline.runner import OpenProgress, run_plan
from gsx.pipeline.stage_order import stage_named
from gsx.pipeline.tuning.search_space import Params, stage_options
from gsx.stages.stage import ignore_progress
from gsx.storage.artifacts.store import Artifact, Store
from gsx.storage.corpora.summary import model_scores, selected_rule

PRETRAINED_STAGES = ("extract", "bridge", "mask")
"""Stages whose artifacts generation may need, in order."""
SELECTION_SPLIT = "ood_val"
"""The split whose score selects the best trial."""


class SharedOptions(msgspec.Struct, frozen=True, kw_only=True):
    """Options that are the same in all trials."""

    corpus_stage: str | None = "generate"
    """Stage that writes the training corpus; None trains on the source corpus."""
    fixed: dict[str, dict[str, Any]] = {}
    """Stage → options that are not tuned."""
    seeds: int = 1
    """Training runs per trial; the score is their mean."""
    seed: int = 0
    """Root seed of the proposals, and the first training seed."""


class TrialResult(msgspec.Struct, frozen=True, kw_only=True):
    """Result of a trial."""

    score: float | None
    """Score on OOD validation, mean over seeds; None if the params cannot be used."""
    details: dict[str, Any]
    """Keys of the artifacts, or the ``reason`` of the failure."""


@dataclass(frozen=True, slots=True, kw_only=True)
class TrialArtifacts:
    """Artifacts of a trial."""

    corpus: Artifact
    models: tuple[Artifact, ...]


def score_trial(
    shared: SharedOptions,
    params: Params,
    source: Artifact,
    store: Store,
    *,
    open_progress: OpenProgress = lambda _: nullcontext(ignore_progress),
    notify: Callable[[str], None] = lambda _: None,
) -> TrialResult:
    """Run a trial and return its score. Params that cannot be used give a result without score."""
    started = time.perf_counter()
    try:
        artifacts = run_trial(
            shared, params, source, store, open_progress=open_progress, notify=notify
        )
    except (StageError, UsageError) as error:
        return TrialResult(score=None, details={"reason": str(error)})
    details = {
        "corpus_key": artifacts.corpus.key,
        "model_keys": [model.key for model in artifacts.models],
        "seconds": round(time.perf_counter() - started, 1),
    }
    score = statistics.fmean(map(validation_score, artifacts.models))
    return TrialResult(score=score, details=details)


def validation_score(model: Artifact) -> float:
    """Return the score of a model on OOD validation, the only score that a study may use.

    The epoch is the one that the model's selection rule reports.
    """
    quality = model_scores(model.manifest)
    scores = quality["selection"].get(selected_rule(quality), {})
    score: float | None = scores.get(SELECTION_SPLIT)
    if score is None:
        raise ArtifactError(
            f"model {model.key[:12]} has no score on {SELECTION_SPLIT}. Train it again with "
            "`--force`."
        )
    return score


def run_trial(
    shared: SharedOptions,
    params: Params,
    source: Artifact,
    store: Store,
    *,
    open_progress: OpenProgress = lambda _: nullcontext(ignore_progress),
    notify: Callable[[str], None] = lambda _: None,
) -> TrialArtifacts:
    """Build the corpus and the models of a trial; existing artifacts are reused."""
    corpus = source
    if shared.corpus_stage is not None:
        *_, (_, built) = run_plan(
            _corpus_plan(shared.corpus_stage, shared, params),
            store,
            artifacts={"prepare": source},
            open_progress=open_progress,
            notify=notify,
        )
        corpus = built.artifact
    train, training_source = stage_named("train"), shared.corpus_stage or "prepare"
    models = []
    for seed in range(shared.seed, shared.seed + shared.seeds):
        config = _config(shared, params, "train", seed=seed, source=training_source)
        steps = run_plan(
            (Step(train, config, train.inputs_of(config)),),
            store,
            artifacts={training_source: corpus},
            open_progress=open_progress,
            notify=notify,
        )
        models += [built.artifact for _, built in steps]
    return TrialArtifacts(corpus=corpus, models=tuple(models))


def _corpus_plan(corpus_stage: str, shared: SharedOptions, params: Params) -> tuple[Step, ...]:
    """Return the steps that write the corpus of a trial."""
    corpus_config = _config(shared, params, corpus_stage)
    needed = stage_named(corpus_stage).inputs_of(corpus_config).values()
    configs = {name: _config(shared, params, name) for name in PRETRAINED_STAGES if name in needed}
    configs[corpus_stage] = corpus_config
    return tuple(
        Step(stage_named(name), config, stage_named(name).inputs_of(config))
        for name, config in configs.items()
    )


def _config(
    shared: SharedOptions,
    params: Params,
    stage: str,
    **overrides: Any,  # noqa: ANN401
) -> Any:  # noqa: ANN401
    """Return the config of a stage: fixed options, then params, then overrides."""
    options = {**shared.fixed.get(stage, {}), **stage_options(params, stage), **overrides}
    try:
        return parse_config(stage, options, f"gsx tune [{stage}]")
    except GsxError as error:
        raise UsageError(str(error)) from error
