"""A study on disk: the params of every trial and its score on OOD validation.

Optuna proposes params and stores trials in a journal of JSON lines; nothing is pickled. The journal
contains no test scores, so no proposal can depend on one.
"""

from __future__ import annotations

import contextlib
import math
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any, TypedDict, cast

import msgspec
from filelock import FileLock, Timeout

from gsx import typed_values
from gsx.errors import ArtifactError, StoreError, UsageError
from gsx.limits import JSON_BYTES
from gsx.pipeline.tuning.search_space import SearchSpace
from gsx.seeds import rng, stream_key
from gsx.storage.artifacts.safe_files import make_directory, open_regular, stamp_of

if TYPE_CHECKING:
    import optuna

STUDY_NAME = "gsx"
NUM_STARTUP_TRIALS = 8
"""Random trials before proposals depend on earlier scores."""
MAX_DRAWS = 100
"""Random draws of new params before all combinations are enumerated."""


class TrialDetails(TypedDict, total=False):
    """Keys of the artifacts of a trial, or the ``reason`` of the failure."""

    reason: str
    corpus_key: str
    model_keys: list[str]
    seconds: float


@dataclass(frozen=True, slots=True)
class Trial:
    """A proposed trial."""

    number: int
    """Number of trials before it."""
    params: dict[str, str]
    handle: optuna.trial.Trial


@dataclass(frozen=True, slots=True, kw_only=True)
class FinishedTrial:
    """A trial that has ended."""

    number: int
    params: dict[str, str]
    score: float | None
    """Score on OOD validation, mean over seeds; None if the trial failed."""
    details: TrialDetails


class Study:
    """The trials of one tuning request. The same seed gives the same proposals after a restart."""

    def __init__(
        self, path: Path, space: SearchSpace, *, seed: int, larger_is_better: bool
    ) -> None:
        try:
            import optuna
            from optuna.storages.journal import JournalFileBackend
        except ImportError as error:
            raise UsageError(
                f"tuning needs Optuna ({error}): pip install 'gsx[pipeline]'"
            ) from error
        optuna.logging.set_verbosity(optuna.logging.WARNING)
        self._optuna, self._space, self._seed = optuna, space, seed
        self._larger_is_better, self._path = larger_is_better, path
        exists = self._require_readable() > 0
        try:
            storage = optuna.storages.JournalStorage(JournalFileBackend(str(path)))
            if exists:
                self._study = optuna.load_study(study_name=STUDY_NAME, storage=storage)
            else:
                self._study = optuna.create_study(
                    study_name=STUDY_NAME,
                    storage=storage,
                    direction="maximize" if larger_is_better else "minimize",
                )
        except (
            ValueError,
            LookupError,
            TypeError,
            AttributeError,
            AssertionError,
            RecursionError,
        ) as error:
            raise self._unreadable(str(error)) from error

    def _require_readable(self) -> int:
        """Return the size of the journal; raise StoreError if it is a link, special or too large.

        Optuna opens the journal by its path, and appends to it.
        """
        folder = self._path.parent
        try:
            with open_regular(folder.parent, f"{folder.name}/{self._path.name}") as stream:
                size = stamp_of(stream).size
        except FileNotFoundError:
            return 0
        except ArtifactError as error:
            raise self._unreadable(str(error)) from error
        if size > JSON_BYTES.value:
            raise self._unreadable(
                f"it has more than {JSON_BYTES.value:,} bytes; {JSON_BYTES.variable} is the limit"
            )
        return size

    def resume(self) -> None:
        """Enqueue the trials that an earlier run did not finish."""
        state = self._optuna.trial.TrialState
        waiting = [trial.params for trial in self._trials(state.WAITING)]
        for trial in self._trials(state.RUNNING):
            self._study.tell(trial.number, state=state.FAIL)
            if trial.params and trial.params not in waiting:
                self._study.enqueue_trial(trial.params)

    def ask(self, pending: Sequence[Trial] = ()) -> Trial | None:
        """Return the next trial; None if all combinations have been tried.

        ``pending`` are trials that were proposed before it and have not ended.
        """
        finished = self.finished_trials()
        number = len(finished) + len(pending)
        trial = self._propose(number)
        earlier = [*(t.params for t in finished), *(t.params for t in pending)]
        tried = {frozenset(params.items()) for params in earlier}
        if frozenset(trial.params.items()) not in tried:
            return trial
        # Proposals repeat in small search spaces: discard this one and enqueue untried params.
        self._study.tell(trial.handle, state=self._optuna.trial.TrialState.FAIL)
        untried = self._untried_params(tried, trial.number)
        if untried is None:
            return None
        self._study.enqueue_trial(untried)
        return self._propose(number)

    def tell(self, trial: Trial, score: float | None, details: dict[str, Any]) -> None:
        """Store the score of a trial on OOD validation; None if the trial failed."""
        for name, value in details.items():
            trial.handle.set_user_attr(name, value)
        failed = self._optuna.trial.TrialState.FAIL
        self._study.tell(trial.handle, score, state=failed if score is None else None)

    def finished_trials(self) -> list[FinishedTrial]:
        """Return all trials that have ended, in order."""
        state = self._optuna.trial.TrialState
        ended = [
            trial
            for trial in self._trials(state.COMPLETE, state.FAIL)
            if trial.state == state.COMPLETE or "reason" in trial.user_attrs
        ]
        return [
            FinishedTrial(
                number=number,
                params=dict(trial.params),
                score=trial.value if trial.state == state.COMPLETE else None,
                details=cast("TrialDetails", dict(trial.user_attrs)),
            )
            for number, trial in enumerate(ended)
        ]

    def best(self) -> FinishedTrial | None:
        """Return the trial with the best score on OOD validation; the first of equals."""
        scored = [trial for trial in self.finished_trials() if trial.score is not None]
        sign = 1 if self._larger_is_better else -1
        return max(scored, key=lambda trial: sign * (trial.score or 0.0), default=None)

    def _propose(self, number: int) -> Trial:
        """Return a proposal of Optuna's TPE sampler."""
        self._study.sampler = self._optuna.samplers.TPESampler(
            seed=stream_key(self._seed, "tune", number) % (1 << 32),
            n_startup_trials=NUM_STARTUP_TRIALS,
        )
        handle = self._study.ask()
        params: dict[str, str] = {}
        for name in self._space.active_options(params):
            params[name] = handle.suggest_categorical(name, self._space.encoded_values(name))
        return Trial(number, params, handle)

    def _untried_params(
        self, tried: set[frozenset[tuple[str, str]]], number: int
    ) -> dict[str, str] | None:
        """Draw params that were not tried; None if there are none."""
        stream = rng(self._seed, "tune", "fresh", number)
        for _ in range(MAX_DRAWS):
            params = self._space.sample(stream)
            if frozenset(params.items()) not in tried:
                return params
        candidates = self._space.all_params()
        return next((p for p in candidates if frozenset(p.items()) not in tried), None)

    def _trials(self, *states: optuna.trial.TrialState) -> list[optuna.trial.FrozenTrial]:
        trials = self._study.get_trials(deepcopy=False, states=states or None)
        for trial in trials:
            self._check(trial)
        return trials

    def _check(self, trial: optuna.trial.FrozenTrial) -> None:
        """Raise StoreError if a trial has other options, values or details than gsx writes."""
        values = trial.values or ()
        complete = trial.state == self._optuna.trial.TrialState.COMPLETE
        options = self._space.values.keys()
        if (
            any(
                name not in options or value not in self._space.encoded_values(name)
                for name, value in trial.params.items()
            )
            or (complete and len(values) != 1)
            or not all(math.isfinite(value) for value in values)
        ):
            raise self._unreadable(f"trial {trial.number} has other options or scores")
        try:
            typed_values.convert(trial.user_attrs, TrialDetails)
        except (msgspec.ValidationError, RecursionError) as error:
            raise self._unreadable(f"trial {trial.number}: {error}") from error

    def _unreadable(self, reason: str) -> StoreError:
        return StoreError(
            f"{self._path} is not a study that Optuna {self._optuna.__version__} can read "
            f"({reason}). Move the file away: trained models are kept, and a new study reuses them."
        )


@contextlib.contextmanager
def study_lock(path: Path) -> Iterator[None]:
    """Lock a study, so that only one process works on it."""
    path.parent.parent.mkdir(parents=True, exist_ok=True)
    make_directory(path.parent.parent, path.parent.name)  # not a link to another folder
    lock = FileLock(path.with_suffix(".lock"))
    try:
        lock.acquire(timeout=0)
    except Timeout as error:
        raise UsageError(
            f"another gsx process uses the study {path}. Wait until it ends, or change the study."
        ) from error
    try:
        yield
    finally:
        lock.release()
