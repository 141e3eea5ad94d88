"""Run tasks on an executor and keep each result as a unit of the draft, so that runs resume."""

from __future__ import annotations

from collections.abc import Callable, Mapping

from gsx.pipeline.recommend.worker import SECONDS, Task, predict_validation
from gsx.ragged import Array
from gsx.stages.block_executor import BlockExecutor
from gsx.storage.artifacts.draft import Draft
from gsx.storage.artifacts.location import Location
from gsx.storage.corpora.artifact_files import read_arrays

OnTask = Callable[[int, int, str], None]
"""Receives the number of finished tasks, of all tasks so far, and a note."""


class TaskRunner:
    """Runs named tasks; a task with a finished unit is not run again."""

    def __init__(self, draft: Draft, executor: BlockExecutor, on_task: OnTask) -> None:
        self._draft, self._executor, self._on_task = draft, executor, on_task
        self._done = self._total = 0
        self.seconds: dict[str, float] = {}
        """Duration of the tasks of every recipe, without those of earlier runs."""

    def announce(self, note: str) -> None:
        """Report what is being computed apart from tasks."""
        self._on_task(self._done, max(self._total, 1), note)

    def run(self, tasks: Mapping[str, Task], note: str) -> dict[str, dict[str, Array]]:
        """Return the result of every task, by name."""
        self._total += len(tasks)
        results = {
            name: read_arrays(Location.at(self._draft.content), _unit(name))
            for name in tasks
            if self._draft.find_finished(_unit(name)) is not None
        }
        self._done += len(results)
        self._on_task(self._done, self._total, note)
        missing = {name: task for name, task in tasks.items() if name not in results}
        outputs = self._executor.map(
            predict_validation, (task.block() for task in missing.values())
        )
        for (name, task), arrays in zip(missing.items(), outputs, strict=True):
            seconds = float(arrays.pop(SECONDS)[0])
            self.seconds[task.recipe] = self.seconds.get(task.recipe, 0.0) + seconds
            self._draft.write_arrays(_unit(name), arrays)
            results[name] = arrays
            self._done += 1
            self._on_task(self._done, self._total, note)
        return results


def error_text(result: Mapping[str, Array]) -> str | None:
    """Return the error of a task; None if it has logits."""
    error = result.get("error")
    return None if error is None else error.tobytes().decode()


def _unit(name: str) -> str:
    return f"runs/{name}.safetensors"
