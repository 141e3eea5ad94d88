"""Tune: search for the options whose models score best on OOD validation.

A trial runs the ordinary stages, so existing artifacts are reused. Trials return only their score
on OOD validation. Test scores are read once, for the best trial.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass
from pathlib import Path

import msgspec

from gsx.errors import StageError, UsageError
from gsx.pipeline.distributed.tasks import ExecutorFactory
from gsx.pipeline.runner import OpenProgress
from gsx.pipeline.stage_order import stage_named
from gsx.pipeline.tuning.search_presets import check_applies
from gsx.pipeline.tuning.search_space import SearchSpace
from gsx.pipeline.tuning.study import FinishedTrial, Study, Trial, study_lock
from gsx.pipeline.tuning.trial import (
    SELECTION_SPLIT,
    SharedOptions,
    TrialArtifacts,
    TrialResult,
    run_trial,
    score_trial,
)
from gsx.pipeline.tuning.trial_executor import trial_executor
from gsx.schema import CorpusInfo
from gsx.storage.artifacts.atomic_files import translate_os_errors
from gsx.storage.artifacts.digest import canonical_json, sha256_bytes
from gsx.storage.artifacts.publish import draft_folder
from gsx.storage.artifacts.store import Artifact, Store


@dataclass(frozen=True, slots=True, kw_only=True)
class TuningRequest:
    """What to tune, and the options that all trials share."""

    source_key: str
    """Key of the source corpus."""
    space: SearchSpace
    shared: SharedOptions
    round_size: int = 1
    """Trials that are proposed together, before any of them ends. Workers run them in parallel."""

    def study_path(self, store: Store) -> Path:
        """Return the path of the study: in a local store, or in the cache of a remote one."""
        identity = {
            "source": self.source_key,
            "values": {name: list(values) for name, values in self.space.values.items()},
            "fixed": {
                stage: {
                    name: value
                    for name, value in options.items()
                    if name not in stage_named(stage).local_options
                }
                for stage, options in self.shared.fixed.items()
            },
            "seeds": self.shared.seeds,
            "seed": self.shared.seed,
            **({"round": self.round_size} if self.round_size > 1 else {}),
        }
        name = sha256_bytes(canonical_json(identity))[:32]
        return draft_folder(store).parent / ".studies" / f"{name}.journal"


@dataclass(frozen=True, slots=True, kw_only=True)
class TuningResult:
    """Result of tuning."""

    path: Path
    """Path of the study."""
    baseline: TrialResult
    """Result without augmentation: training on the source corpus with the shared options."""
    trials: list[FinishedTrial]
    best: FinishedTrial
    artifacts: TrialArtifacts
    """Artifacts of the best trial."""


OnTrial = Callable[[FinishedTrial, FinishedTrial | None], None]
"""Called with every finished trial and the best trial so far."""


def check_source_corpus(info: CorpusInfo, splits: Mapping[str, int], method: str) -> None:
    """Raise `UsageError` if a corpus has no split for selection, or the method does not apply.

    ``splits`` count the labelled graphs or nodes per split.
    """
    check_applies(method, info.level, info.name)
    if SELECTION_SPLIT not in splits:
        raise UsageError(
            f"tuning selects by `{SELECTION_SPLIT}`, which {info.name} does not have; it has "
            f"{', '.join(splits)}."
        )


def tune(
    request: TuningRequest,
    source: Artifact,
    store: Store,
    *,
    trials: int,
    larger_is_better: bool,
    open_progress: OpenProgress,
    notify: Callable[[str], None],
    on_trial: OnTrial,
    open_executor: ExecutorFactory | None = None,
) -> TuningResult:
    """Run trials until ``trials`` have ended, including those of earlier runs.

    The proposed trials do not depend on where they run: a round depends only on the results of the
    rounds before it. ``open_executor`` starts workers that run the trials of a round in parallel.
    """
    path, shared = request.study_path(store), request.shared
    with (
        translate_os_errors(str(path.parent), consequence="Finished trials are kept."),
        study_lock(path),
    ):
        study = Study(path, request.space, seed=shared.seed, larger_is_better=larger_is_better)
        study.resume()
        baseline = _score_baseline(shared, source, store, open_progress, notify)
        with trial_executor(
            shared,
            source,
            store,
            open_executor=open_executor,
            open_progress=open_progress,
            notify=notify,
        ) as run_trials:
            while (missing := trials - len(study.finished_trials())) > 0:
                proposed = _propose_round(study, request.round_size)
                if not proposed:
                    notify("all combinations of values have been tried")
                    break
                # Proposed trials that do not run now are the first ones of the next run.
                selected = proposed[:missing]
                for trial, result in zip(selected, run_trials(selected), strict=True):
                    study.tell(trial, result.score, result.details)
                    on_trial(study.finished_trials()[-1], study.best())
        finished, best = study.finished_trials(), study.best()
    if best is None:
        reason = finished[-1].details["reason"] if finished else "no trial was run"
        raise StageError(f"none of {len(finished)} trials has a score; the last one: {reason}")
    # All artifacts exist already, unless they were removed during the search.
    artifacts = run_trial(shared, best.params, source, store, open_progress=open_progress)
    return TuningResult(
        path=path, baseline=baseline, trials=finished, best=best, artifacts=artifacts
    )


def _score_baseline(
    shared: SharedOptions,
    source: Artifact,
    store: Store,
    open_progress: OpenProgress,
    notify: Callable[[str], None],
) -> TrialResult:
    """Train on the source corpus, with the options that all trials share."""
    unaugmented = msgspec.structs.replace(shared, corpus_stage=None)
    result = score_trial(unaugmented, {}, source, store, open_progress=open_progress, notify=notify)
    if result.score is None:
        raise StageError(f"training on the source corpus failed: {result.details['reason']}")
    notify(f"none: {SELECTION_SPLIT} {result.score:.2f}")
    return result


def _propose_round(study: Study, size: int) -> list[Trial]:
    """Propose the remaining trials of the current round; fewer if no combination is left."""
    proposed: list[Trial] = []
    for _ in range(size - len(study.finished_trials()) % size):
        trial = study.ask(pending=proposed)
        if trial is None:
            break
        proposed.append(trial)
    return proposed
