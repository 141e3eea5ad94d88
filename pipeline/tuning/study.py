"""A study on disk: which choices were tried and how each scored on OOD validation.

Optuna proposes and remembers, in a journal of JSON lines; nothing is pickled. The journal holds no
test score, so nothing that proposes can read one.
"""

from __future__ import annotations

import contextlib
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any

from filelock import FileLock, Timeout

from gsx.errors import StoreError, UsageError
from gsx.pipeline.tuning.search_space import Space
from gsx.seeds import rng, stream_key

if TYPE_CHECKING:
    import optuna

NAME = "gsx"
DRAWN_AT_FIRST = 8
"""Trials before proposals lean on earlier ones."""
ATTEMPTS = 100


@dataclass(frozen=True, slots=True)
class Trial:
    """A choice to try."""

    number: int
    """How many were tried before it."""
    chosen: dict[str, str]
    handle: optuna.trial.Trial


@dataclass(frozen=True, slots=True, kw_only=True)
class Tried:
    """A choice that was tried."""

    number: int
    chosen: dict[str, str]
    score: float | None
    """On OOD validation, the mean over seeds; None where the trial failed."""
    facts: dict[str, Any]
    """Keys of what was made, or the ``reason`` of a failure."""


class Study:
    """Trials of one question; the same seed proposes the same, wherever a run was stopped."""

    def __init__(self, path: Path, space: Space, *, seed: int, larger_is_better: bool) -> None:
        try:
            import optuna
            from optuna.storages.journal import JournalFileBackend
        except ImportError as error:
            raise UsageError(
                f"tuning needs Optuna ({error}): pip install 'gsx[pipeline]'"
            ) from error
        optuna.logging.set_verbosity(optuna.logging.WARNING)
        self._optuna, self._space, self._seed = optuna, space, seed
        self._larger = larger_is_better
        there = path.is_file() and path.stat().st_size > 0
        try:
            storage = optuna.storages.JournalStorage(JournalFileBackend(str(path)))
            if there:
                self._study = optuna.load_study(study_name=NAME, storage=storage)
            else:
                self._study = optuna.create_study(
                    study_name=NAME,
                    storage=storage,
                    direction="maximize" if larger_is_better else "minimize",
                )
        except (ValueError, KeyError, TypeError, AssertionError) as error:
            raise StoreError(
                f"{path} is no study that Optuna {optuna.__version__} can read ({error}). Move it "
                "away: what was trained stays, and a new study finds it."
            ) from error

    def resume(self) -> None:
        """Ask again for what an earlier run was stopped in."""
        state = self._optuna.trial.TrialState
        waiting = [each.params for each in self._trials(state.WAITING)]
        for trial in self._trials(state.RUNNING):
            self._study.tell(trial.number, state=state.FAIL)
            if trial.params and trial.params not in waiting:
                self._study.enqueue_trial(trial.params)

    def ask(self, beside: Sequence[Trial] = ()) -> Trial | None:
        """Return the next choice; None when every one there is was tried.

        ``beside`` were asked before it and have not ended.
        """
        tried = self.tried()
        number = len(tried) + len(beside)
        trial = self._propose(number)
        chosen = [*(each.chosen for each in tried), *(each.chosen for each in beside)]
        known = {frozenset(each.items()) for each in chosen}
        if frozenset(trial.chosen.items()) not in known:
            return trial
        # Proposals repeat where values are few: forget this one and take one that is new.
        self._study.tell(trial.handle, state=self._optuna.trial.TrialState.FAIL)
        fresh = self._untried(known, trial.number)
        if fresh is None:
            return None
        self._study.enqueue_trial(fresh)
        return self._propose(number)

    def tell(self, trial: Trial, score: float | None, facts: dict[str, Any]) -> None:
        """Remember how a choice scored on OOD validation; without a score it cannot be tried."""
        for name, value in facts.items():
            trial.handle.set_user_attr(name, value)
        failed = self._optuna.trial.TrialState.FAIL
        self._study.tell(trial.handle, score, state=failed if score is None else None)

    def tried(self) -> list[Tried]:
        """Return all trials that ended, in order."""
        state = self._optuna.trial.TrialState
        ended = [
            each
            for each in self._trials(state.COMPLETE, state.FAIL)
            if each.state == state.COMPLETE or "reason" in each.user_attrs
        ]
        return [
            Tried(
                number=number,
                chosen=dict(each.params),
                score=each.value if each.state == state.COMPLETE else None,
                facts=dict(each.user_attrs),
            )
            for number, each in enumerate(ended)
        ]

    def best(self) -> Tried | None:
        """Return the best trial by OOD validation, the first of equals."""
        scored = [each for each in self.tried() if each.score is not None]
        sign = 1 if self._larger else -1
        return max(scored, key=lambda each: sign * (each.score or 0.0), default=None)

    def _propose(self, number: int) -> Trial:
        self._study.sampler = self._optuna.samplers.TPESampler(
            seed=stream_key(self._seed, "tune", number) % (1 << 32),
            n_startup_trials=DRAWN_AT_FIRST,
        )
        asked = self._study.ask()
        chosen: dict[str, str] = {}
        for name in self._space.names(chosen):
            chosen[name] = asked.suggest_categorical(name, self._space.labels(name))
        return Trial(number, chosen, asked)

    def _untried(
        self, known: set[frozenset[tuple[str, str]]], number: int
    ) -> dict[str, str] | None:
        stream = rng(self._seed, "tune", "fresh", number)
        for _ in range(ATTEMPTS):
            drawn = self._space.draw(stream)
            if frozenset(drawn.items()) not in known:
                return drawn
        every = self._space.all_choices()
        return next((each for each in every if frozenset(each.items()) not in known), None)

    def _trials(self, *states: optuna.trial.TrialState) -> list[optuna.trial.FrozenTrial]:
        return self._study.get_trials(deepcopy=False, states=states or None)


@contextlib.contextmanager
def alone(path: Path) -> Iterator[None]:
    """Let one process at a time work on a study."""
    path.parent.mkdir(parents=True, exist_ok=True)
    lock = FileLock(path.with_suffix(".lock"))
    try:
        lock.acquire(timeout=0)
    except Timeout as error:
        raise UsageError(
            f"another gsx tunes by {path}; wait for it, or change the study"
        ) from error
    try:
        yield
    finally:
        lock.release()
