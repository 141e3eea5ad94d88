"""Display of progress: a bar on a terminal or in a notebook, lines in a log file."""

from __future__ import annotations

import contextlib
import sys
import time
from collections.abc import Iterator
from typing import TYPE_CHECKING, Any, TextIO

from gsx.escape import printable

if TYPE_CHECKING:
    from gsx.stages.stage import Progress

EPOCH = "epoch "
"""Start of the notes of training; their progress is logged more often."""
RESUMED = "resumed "
"""Start of a note about work that an earlier run has done; it is printed as a message."""
SECONDS_PER_EPOCH_LINE = 1.0
"""Shortest time between two lines about epochs in a log file."""
SECONDS_PER_LINE = 60.0
"""Shortest time between two other lines in a log file."""
_STARTING_FORMAT = "{desc}: {n_fmt}/{total_fmt}, for {elapsed}{postfix}"
_BAR_FORMAT = (
    "{desc}: {percentage:3.0f}%|{bar}| {n_fmt}, {rate_noinv_fmt}, {remaining} left{postfix}"
)
"""Fits into 80 columns with workers, bytes and hours."""
_SHOWN_PARTS = 2
"""Parts of a note about an epoch that fit next to a bar: its number and the loss."""
_NOTEBOOK_COLUMNS = 80
_bars: list[Any] = []
"""Progress bars on display."""


@contextlib.contextmanager
def show_progress(step: str, stream: TextIO, *, unit: str = " graphs") -> Iterator[Progress]:
    """Show the progress of a step on a stream."""
    if stream.isatty() or in_notebook():
        with _progress_bar(step, stream, unit) as update:
            yield update
    else:
        yield LogLines(step, stream)


@contextlib.contextmanager
def above_bars() -> Iterator[None]:
    """Clear all progress bars while a message is printed."""
    for bar in _bars:
        bar.clear()
    yield
    for bar in _bars:
        bar.refresh()


def in_notebook() -> bool:
    """Return whether this process is the kernel of a notebook."""
    ipython = sys.modules.get("IPython")
    if ipython is None or "ipykernel" not in sys.modules:
        return False
    shell = ipython.get_ipython()
    return shell is not None and type(shell).__name__ == "ZMQInteractiveShell"


class LogLines:
    """Progress as lines: one per epoch, or per minute, with the time that is left."""

    def __init__(self, step: str, stream: TextIO) -> None:
        self._step, self._stream = printable(step), stream
        self._start = self._last_line = time.monotonic()
        self._first = self._last_done = 0

    def __call__(self, done: int, total: int, note: str = "") -> None:
        """Print a line, unless the last one is too recent."""
        now = time.monotonic()
        if note.startswith(RESUMED):
            self._first, self._start = done, now
            self._print(note)
            return
        seconds = SECONDS_PER_EPOCH_LINE if note.startswith(EPOCH) else SECONDS_PER_LINE
        if now - self._last_line < seconds or done <= self._last_done:
            return
        self._last_line, self._last_done = now, done
        elapsed = now - self._start
        left = elapsed * max(total - done, 0) / max(done - self._first, 1)
        parts = [note, f"{done / max(total, 1):.0%} in {_clock(elapsed)}", f"{_clock(left)} left"]
        self._print(", ".join(filter(None, parts)))

    def _print(self, text: str) -> None:
        self._stream.write(f"{self._step}: {printable(text)}\n")
        self._stream.flush()


def _clock(seconds: float) -> str:
    """Return a duration as ``1:05`` or ``2:01:05``."""
    minutes, second = divmod(round(seconds), 60)
    hours, minute = divmod(minutes, 60)
    return f"{hours}:{minute:02}:{second:02}" if hours else f"{minute}:{second:02}"


@contextlib.contextmanager
def _progress_bar(step: str, stream: TextIO, unit: str) -> Iterator[Progress]:
    from tqdm import tqdm

    # The width of a notebook is unknown.
    width: dict[str, Any] = (
        {"dynamic_ncols": True} if stream.isatty() else {"ncols": _NOTEBOOK_COLUMNS}
    )
    bar = tqdm(
        desc=printable(step), unit=unit, unit_scale=True, file=stream, leave=False,
        bar_format="{desc}: starting", **width,
    )  # fmt: skip

    def update(done: int, total: int, note: str = "") -> None:
        resumed = note.startswith(RESUMED)
        if resumed:
            with above_bars():
                stream.write(f"{printable(step)}: {printable(note)}\n")
            note = ""
        if note.startswith(EPOCH):
            note = ", ".join(note.split(", ")[:_SHOWN_PARTS])
        if bar.total is None:
            bar.reset(total)  # the time before the first update is not work on graphs
            bar.initial = done if resumed else 0
        # The rate is the mean since then, because workers finish their shards in bursts.
        bar.n, bar.bar_format = done, _BAR_FORMAT if done else _STARTING_FORMAT
        bar.set_postfix_str(printable(note), refresh=False)
        if time.monotonic() - last_refresh[0] >= bar.mininterval or done >= total:
            last_refresh[0] = time.monotonic()
            bar.refresh()

    last_refresh = [0.0]
    _bars.append(bar)
    try:
        yield update
    finally:
        _bars.remove(bar)
        bar.close()
