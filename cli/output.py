"""Output of the command line: results go to stdout, messages and progress to stderr.

Everything that commands print passes this module. Names, warnings and error messages may contain
text from artifacts and raw files, so control characters are escaped and URLs are redacted here.
"""

from __future__ import annotations

import contextlib
import itertools
import json
import shlex
import shutil
import sys
import textwrap
from collections.abc import Iterator, Mapping, Sequence
from typing import TYPE_CHECKING, Any, TextIO, TypeVar, cast

import click

from gsx.escape import printable, redact_urls
from gsx.plurals import counted

if TYPE_CHECKING:
    from gsx.stages.stage import Progress
    from gsx.storage.artifacts.manifest import Manifest
    from gsx.storage.artifacts.publish import BuildResult


_T = TypeVar("_T")
SELECTION_RULES = {
    "ood_val": "best epoch by ood_val",
    "id_val": "best epoch by id_val",
    "augmented": "best epoch by augmented graphs",
    "last": "last epoch",
}
"""Rules that select an epoch of a training run, with their descriptions."""
MIN_WRAPPED_WIDTH = 16
"""Smallest width of a column that is wrapped."""
_UNITS = {"nodes": "node", "recipes": "recipe", "splits": "split", "groups": "group"}
"""Counts in a manifest that are not graphs, and what one of them is called."""
MAX_CELL_WIDTH = 200
"""Longest text in a cell of a table."""


def echo(*lines: str, err: bool = False) -> None:
    """Print lines; line breaks and control characters inside of a line are escaped."""
    for line in lines:
        click.echo(printable(redact_urls(line)), err=err)


def echo_error(text: str) -> None:
    """Print an error message to stderr; its lines after the first are indented.

    A message has line breaks of its own. Text of unknown origin inside of it can add lines, but
    they cannot pass for another message.
    """
    first, *others = text.rstrip("\n").split("\n")
    echo(first, *(f"  {line.strip()}" for line in others), err=True)


def command_line() -> str:
    """Return the command line of this process, without credentials."""
    return redact_urls(shlex.join(["gsx", *sys.argv[1:]]))


def print_json(value: object) -> None:
    """Print one JSON object; strings contain escapes in place of control characters."""
    import msgspec

    text = json.dumps(msgspec.to_builtins(value), ensure_ascii=False, allow_nan=False)
    # Outside of strings, all characters are printable.
    if not text.isprintable():
        text = "".join(c if c.isprintable() else json.dumps(c)[1:-1] for c in text)
    click.echo(text)


class PrintableStream:
    """A text stream that escapes all control characters but line breaks.

    Warnings, tracebacks and log messages of libraries reach the terminal through it.
    """

    def __init__(self, stream: TextIO) -> None:
        self.stream = stream

    def write(self, text: str) -> int:
        """Write text and return its length."""
        escaped = "\n".join(map(printable, text.split("\n")))
        encoding = self.stream.encoding or "utf-8"
        self.stream.write(escaped.encode(encoding, "backslashreplace").decode(encoding))
        return len(text)

    def writelines(self, lines: Sequence[str]) -> None:
        """Write several texts."""
        for line in lines:
            self.write(line)

    def __getattr__(self, name: str) -> Any:  # noqa: ANN401
        return getattr(self.stream, name)


@contextlib.contextmanager
def printable_streams() -> Iterator[None]:
    """Escape control characters in everything that this process prints."""
    with (
        contextlib.redirect_stdout(cast("TextIO", PrintableStream(sys.stdout))),
        contextlib.redirect_stderr(cast("TextIO", PrintableStream(sys.stderr))),
    ):
        yield


def wrap(text: str, margin: int = 0) -> str:
    """Wrap ``text`` at the width of the terminal; continuation lines are indented."""
    columns = shutil.get_terminal_size().columns - margin
    return textwrap.fill(
        text, max(columns, 40), subsequent_indent="  ", break_long_words=False,
        break_on_hyphens=False,
    )  # fmt: skip


def notify(text: str) -> None:
    """Print a message to stderr, above the progress bar if there is one."""
    from gsx.pipeline.progress import above_bars

    line = printable(redact_urls(text))
    with above_bars():
        click.echo(wrap(line) if sys.stderr.isatty() else line, err=True)


def format_table(
    rows: Sequence[Sequence[object]], headers: Sequence[str], wrapped: str | None = None
) -> list[str]:
    """Return lines of aligned columns under headers: numbers to the right, text to the left.

    The column ``wrapped`` takes several lines if the table is wider than the terminal.
    """
    cells = [[_cell(value) for value in row] for row in rows]
    header = [_cell(name) for name in headers]
    widths = [max(map(len, column)) for column in zip(header, *cells, strict=True)]
    numeric = [
        bool(rows) and all(isinstance(row[i], int | float) or row[i] is None for row in rows)
        for i in range(len(headers))
    ]
    if wrapped in headers:
        index = headers.index(wrapped)
        excess = sum(widths) + 2 * (len(widths) - 1) - shutil.get_terminal_size().columns
        widths[index] = max(widths[index] - max(excess, 0), min(widths[index], MIN_WRAPPED_WIDTH))
    lines = []
    for line in [header, *cells]:
        parts = [
            textwrap.wrap(text, width) or [""] if name == wrapped else [text]
            for name, text, width in zip(headers, line, widths, strict=True)
        ]
        lines += [
            "  ".join(
                text.rjust(width) if right else text.ljust(width)
                for text, width, right in zip(cells_of_line, widths, numeric, strict=True)
            ).rstrip()
            for cells_of_line in itertools.zip_longest(*parts, fillvalue="")
        ]
    return lines


def _cell(value: object) -> str:
    if value is None:
        return "-"
    if isinstance(value, bool):
        return "yes" if value else "no"
    if isinstance(value, int):
        return f"{value:,}"
    if isinstance(value, float):
        return f"{value:.1f}"
    text = printable(str(value))
    return text if len(text) <= MAX_CELL_WIDTH else f"{text[: MAX_CELL_WIDTH - 1]}…"


def format_score(value: float | None) -> str | None:
    """Return a score with two decimals; None stays None."""
    return None if value is None else f"{value:.2f}"


def format_bytes(size: int) -> str:
    """Return a size with a decimal unit, such as ``1.2 MB``."""
    number = float(size)
    for unit in ("B", "kB", "MB", "GB"):
        if number < 1000:
            return f"{number:.0f} {unit}" if unit == "B" else f"{number:.1f} {unit}"
        number /= 1000
    return f"{number:.1f} TB"


def in_split_order(counts: Mapping[str, _T]) -> dict[str, _T]:
    """Return values by split in the order of the splits; other names come last."""
    from gsx.schema import SPLITS

    splits = [name for name in SPLITS if name in counts]
    others = [name for name in counts if name not in splits]
    return {name: counts[name] for name in [*splits, *others]}


def labelled_nodes(manifest: Manifest) -> dict[str, int]:
    """Return the labelled nodes per split; empty for a corpus with graph-level targets."""
    from gsx.storage.corpora.summary import corpus_summary

    counts: dict[str, int] = {}
    if manifest.kind != "corpus":
        return counts
    for group in corpus_summary(manifest).get("node_groups", []):
        counts[group["split"]] = counts.get(group["split"], 0) + group["count"]
    return counts


def artifact_json(built: BuildResult, path: str | None = None) -> dict[str, Any]:
    """Return the JSON output of a command that built or reused an artifact."""
    manifest = built.artifact.manifest
    nodes = labelled_nodes(manifest)
    return {
        "key": manifest.key,
        "kind": manifest.kind,
        "path": path or built.artifact.location.url,
        "digest": manifest.digest,
        "reused": built.reused,
        "counts": in_split_order(manifest.counts),
        **({"nodes": nodes} if nodes else {}),
        "seconds": round(built.seconds, 3),
    }


def artifact_line(stage: str, built: BuildResult) -> str:
    """Return one line about an artifact that was built or reused."""
    manifest = built.artifact.manifest
    unit = next((name for name in _UNITS if name in manifest.counts), "graphs")
    count = counted(sum(manifest.counts.values()), _UNITS.get(unit, "graph"))
    state = "reused" if built.reused else f"built in {built.seconds:.1f} s"
    return f"{stage:<9} {manifest.key[:12]}  {count:<16} {state}"


@contextlib.contextmanager
def progress_bar(step: str, *, quiet: bool, unit: str = " graphs") -> Iterator[Progress]:
    """Show progress on stderr: a bar if it is a terminal, otherwise lines."""
    if quiet:
        yield lambda done, total, note="": None
        return
    from gsx.pipeline.progress import show_progress

    stream = sys.stderr.stream if isinstance(sys.stderr, PrintableStream) else sys.stderr
    with show_progress(step, stream, unit=unit) as update:
        yield update
