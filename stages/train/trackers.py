"""Trackers: where the curves of a training run appear while it runs.

A tracker is any object with ``log_scores(step, values)`` and ``close()``. Its target is given as
``KIND:TARGET``. Two kinds are built in; other packages add kinds with an entry point in the group
``gsx.trackers``, whose value is called with target, name of the run and first step. A tracker is
opened after the checkpoint is restored. The steps from the first step on follow in order, so it
must drop those that an interrupted run has logged before.
"""

from __future__ import annotations

import contextlib
import csv
import io
from collections.abc import Callable, Iterator, Mapping, Sequence
from importlib.metadata import entry_points
from importlib.util import find_spec
from pathlib import Path
from typing import Any, Protocol

from gsx.errors import StoreError, UsageError, did_you_mean
from gsx.escape import folder_name
from gsx.schema import SPLITS
from gsx.stages.train.data import AUGMENTED
from gsx.storage.artifacts.atomic_files import atomic_write, translate_os_errors
from gsx.storage.artifacts.store import Artifact
from gsx.storage.corpora.summary import (
    TrainingOptions,
    model_scores,
    read_options,
    summary_name,
)

GROUP = "gsx.trackers"
"""Group of the entry points of other packages."""
COLUMNS = ("run", "step", "name", "value")
"""Columns of a CSV log."""
_EXTRA = "`pip install 'gsx[tensorboard]'`"


class Tracker(Protocol):
    """Receives the curves of one training run."""

    def log_scores(self, step: int, values: Mapping[str, float]) -> None:
        """Show the values of a step: an epoch, counted from 0."""

    def close(self) -> None:
        """Finish writing; called once, also after an error."""


OpenTracker = Callable[[str, str, int], Tracker]
"""Opens a tracker, given target, name of the run, and the first step that will be logged."""


class TensorBoardTracker:
    """Writes TensorBoard's event files to one directory per run."""

    def __init__(self, target: str, run: str, first_step: int) -> None:
        from torch.utils.tensorboard import SummaryWriter

        # Readers drop the steps from `purge_step` on that earlier files of the directory have.
        self._writer = SummaryWriter(str(_path(target) / run), purge_step=first_step)

    def log_scores(self, step: int, values: Mapping[str, float]) -> None:
        """Write the values of a step, visible to TensorBoard at once."""
        for name, value in values.items():
            self._writer.add_scalar(name, value, step)
        self._writer.flush()

    def close(self) -> None:
        """Close the event file."""
        self._writer.close()


class CsvTracker:
    """Appends rows of run, step, name and value to a CSV file, which several runs may share."""

    def __init__(self, target: str, run: str, first_step: int) -> None:
        self._path, self._run = _path(target), run
        self._path.parent.mkdir(parents=True, exist_ok=True)
        rows = list(self._rows_of_others(first_step))
        text = io.StringIO()
        csv.writer(text, lineterminator="\n").writerows([COLUMNS, *rows])
        atomic_write(self._path, text.getvalue().encode())

    def _rows_of_others(self, first_step: int) -> Iterator[list[str]]:
        """Yield the rows to keep: complete ones of other runs and of earlier steps."""
        if not self._path.exists():
            return
        with self._path.open(encoding="utf-8", errors="replace", newline="") as stream:
            if stream.readline().rstrip("\r\n") != ",".join(COLUMNS):
                raise StoreError(
                    f"{self._path} is not a log of gsx: its first line is not "
                    f"`{','.join(COLUMNS)}`. Nothing was written. Choose another file."
                )
            for line in stream:
                row = next(csv.reader([line]))
                if not line.endswith("\n") or len(row) != len(COLUMNS):
                    continue  # cut off by an interruption
                if row[0] != self._run or (row[1].isdigit() and int(row[1]) < first_step):
                    yield row

    def log_scores(self, step: int, values: Mapping[str, float]) -> None:
        """Append the values of a step with a single write."""
        text = io.StringIO()
        rows = [(self._run, step, name, repr(float(value))) for name, value in values.items()]
        csv.writer(text, lineterminator="\n").writerows(rows)
        with self._path.open("a", encoding="utf-8", newline="") as stream:
            stream.write(text.getvalue())

    def close(self) -> None:
        """Do nothing; every step is complete on disk."""


TRACKERS: Mapping[str, OpenTracker] = {"tensorboard": TensorBoardTracker, "csv": CsvTracker}
"""Built-in kinds."""


class TrackerSet:
    """Several trackers of one run as one."""

    def __init__(self, trackers: Sequence[Tracker]) -> None:
        self._trackers = trackers

    def log_scores(self, step: int, values: Mapping[str, float]) -> None:
        """Pass the values of a step to all trackers."""
        for tracker in self._trackers:
            tracker.log_scores(step, values)

    def close(self) -> None:
        """Close all trackers."""
        with contextlib.ExitStack() as stack:
            for tracker in self._trackers:
                stack.callback(tracker.close)


def check_targets(targets: Sequence[str]) -> None:
    """Raise UsageError for a target that names no known kind, or whose package is missing."""
    for text in targets:
        _find(text)


def open_trackers(targets: Sequence[str], run: str, first_step: int) -> TrackerSet:
    """Open the trackers of a run. It logs the steps from ``first_step`` on."""
    opened: list[Tracker] = []
    with contextlib.ExitStack() as stack:
        for text in targets:
            opener, target = _find(text)
            with translate_os_errors(
                target, consequence="The curves cannot be logged there.", option="--log KIND:TARGET"
            ):
                opened.append(opener(target, run, first_step))
            stack.callback(opened[-1].close)
        stack.pop_all()
    return TrackerSet(opened)


def run_name(name: str, learner: str, seed: int, key: str) -> str:
    """Return the name of a run, which is also a folder name: dataset, algorithm, seed and key."""
    return f"{folder_name(name, 'corpus')}-{learner}-seed{seed}-{key[:12]}"


def tracked_values(row: Mapping[str, Any], metric: str) -> dict[str, float]:
    """Return what trackers show of an epoch: loss, learning rate, and a score per scored split."""
    splits = (*SPLITS, AUGMENTED)
    return {
        f"{metric}/{name}" if name in splits else name: float(value)
        for name, value in row.items()
        if name != "epoch"
    }


def log_model(artifact: Artifact, targets: Sequence[str]) -> None:
    """Log the curves of a model that exists, as if it was trained now."""
    from gsx.stages.train.stage import CURVES, json_files

    manifest = artifact.manifest
    options = read_options(manifest, TrainingOptions)
    run = run_name(summary_name(manifest), options["learner"], options.get("seed", 0), manifest.key)
    curves = json_files()[CURVES].read(artifact.location, CURVES)
    metric = model_scores(manifest)["metric"]
    with contextlib.closing(open_trackers(targets, run, 0)) as tracker:
        for row in curves:
            tracker.log_scores(int(row["epoch"]), tracked_values(row, metric))


def _find(text: str) -> tuple[OpenTracker, str]:
    """Return the function that opens a tracker, and its target."""
    kind, colon, target = text.partition(":")
    if not colon or not target:
        raise UsageError(
            f"`{text}` is not a target of a log. Write KIND:TARGET, such as `tensorboard:runs` or "
            "`csv:curves.csv`."
        )
    if kind == "tensorboard" and find_spec("tensorboard") is None:
        raise UsageError(f"{text} needs the package tensorboard. Install it with {_EXTRA}.")
    if kind in TRACKERS:
        return TRACKERS[kind], target
    others = {point.name: point for point in entry_points(group=GROUP)}
    if kind not in others:
        known = [*TRACKERS, *others]
        raise UsageError(f"unknown kind of log `{kind}` in `{text}`. {did_you_mean(kind, known)}")
    opener: OpenTracker = others[kind].load()
    return opener, target


def _path(target: str) -> Path:
    return Path(target).expanduser()
