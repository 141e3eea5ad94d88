"""Tune: try choices of options, keep the one whose models are best on OOD validation.

A trial is a run of the ordinary stages: what was made before is found by its key. Only the score
on OOD validation leaves a trial; test scores are read once, of the choice that was kept.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass
from pathlib import Path

from gsx.errors import StageError, UsageError
from gsx.pipeline.distributed.build_shards import Hire
from gsx.pipeline.runner import Watch
from gsx.pipeline.stage_order import stage_named
from gsx.pipeline.tuning.search_presets import check_applies
from gsx.pipeline.tuning.search_space import Space
from gsx.pipeline.tuning.study import Study, Trial, Tried, alone
from gsx.pipeline.tuning.trial import SPLIT, Common, Made, run_trial
from gsx.pipeline.tuning.trial_executor import trying
from gsx.schema import CorpusInfo
from gsx.storage.artifacts.digest import canonical_json, sha256_bytes
from gsx.storage.artifacts.publish import draft_folder
from gsx.storage.artifacts.store import Artifact, Store


@dataclass(frozen=True, slots=True, kw_only=True)
class Question:
    """What is tuned, and what stays the same in every trial."""

    source_key: str
    """Key of the source corpus."""
    space: Space
    common: Common
    round: int = 1
    """Trials that are proposed together, before any of them ends: workers try these at once."""

    def study_path(self, store: Store) -> Path:
        """Return where the study lies: in a local store, or in the cache for a remote one."""
        identity = {
            "source": self.source_key,
            "values": {name: list(values) for name, values in self.space.values.items()},
            "fixed": {
                stage: {k: v for k, v in options.items() if k not in stage_named(stage).places}
                for stage, options in self.common.fixed.items()
            },
            "seeds": self.common.seeds,
            "seed": self.common.seed,
            **({"round": self.round} if self.round > 1 else {}),
        }
        name = sha256_bytes(canonical_json(identity))[:32]
        return draft_folder(store).parent / ".studies" / f"{name}.journal"


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


def check_source(info: CorpusInfo, splits: Mapping[str, int], method: str) -> None:
    """Refuse a corpus by which nothing can be chosen; ``splits`` are those of what is labelled."""
    check_applies(method, info.level, info.name)
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
    hire: Hire | None = None,
) -> Tuned:
    """Try choices until ``trials`` have ended, those of earlier runs included.

    Which are tried does not depend on who tries them: proposals of a round know how the rounds
    before it ended, and nothing else. ``hire`` opens a crew that tries those of a round at once.
    """
    path, common = question.study_path(store), question.common
    with alone(path):
        study = Study(path, question.space, seed=common.seed, larger_is_better=larger_is_better)
        study.resume()
        with trying(common, source, store, hire=hire, watch=watch, say=say) as attempts:
            while (missing := trials - len(study.tried())) > 0:
                asked = _ask(study, question.round)
                if not asked:
                    say("every choice has been tried")
                    break
                # What is asked and not tried now comes first the next time.
                wanted = asked[:missing]
                for trial, attempt in zip(wanted, attempts(wanted), strict=True):
                    study.tell(trial, attempt.score, attempt.facts)
                    report(study.tried()[-1], study.best())
        ended, best = study.tried(), study.best()
    if best is None:
        reason = ended[-1].facts["reason"] if ended else "none was run"
        raise StageError(f"none of {len(ended)} trials could be scored; the last: {reason}")
    # Everything is found by its key here, unless somebody removed it meanwhile.
    made = run_trial(common, best.chosen, source, store, watch=watch)
    return Tuned(path=path, trials=ended, best=best, made=made)


def _ask(study: Study, size: int) -> list[Trial]:
    """Return what is left of a round; fewer when there are no more choices."""
    asked: list[Trial] = []
    for _ in range(size - len(study.tried()) % size):
        trial = study.ask(beside=asked)
        if trial is None:
            break
        asked.append(trial)
    return asked
