"""Progress bars and notes of the Python API, for notebooks, terminals and scripts."""

from __future__ import annotations

import contextlib
import sys
import warnings
from collections.abc import Iterator
from typing import TYPE_CHECKING, Any

from gsx.escape import printable, redact_urls

if TYPE_CHECKING:
    from gsx.stages.stage import Progress


def is_interactive() -> bool:
    """Return whether a user watches: a notebook, or a terminal."""
    ipython = sys.modules.get("IPython")
    shell = None if ipython is None else ipython.get_ipython()
    return (shell is not None and hasattr(shell, "kernel")) or sys.stderr.isatty()


def notify(text: str) -> None:
    """Print a note to stderr, above the progress bar if there is one."""
    line = printable(redact_urls(text))
    tqdm = sys.modules.get("tqdm")
    if tqdm is None:
        print(line, file=sys.stderr)  # noqa: T201
    else:
        tqdm.tqdm.write(line, file=sys.stderr)


@contextlib.contextmanager
def progress_bar(step: str, *, shown: bool, unit: str = " graphs") -> Iterator[Progress]:
    """Show a progress bar: a widget in a notebook that has widgets, else a line of text."""
    if not shown:
        yield lambda done, total, note="": None
        return
    bar = _bar_class()(desc=printable(step), unit=unit, unit_scale=True, leave=False)

    def update(done: int, total: int, note: str = "") -> None:
        if bar.total != total:
            bar.reset(total)
        bar.set_postfix_str(printable(note), refresh=False)
        bar.update(done - bar.n)

    try:
        yield update
    finally:
        bar.close()


def _bar_class() -> Any:  # noqa: ANN401
    """Return the class of bars for this environment; tqdm warns if a notebook has no widgets."""
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        from tqdm.auto import tqdm

        return tqdm
