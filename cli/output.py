"""Output of the command line: results go to stdout, messages and progress to stderr.

Everything that commands print passes this module. Names, warnings and error messages may contain
text from artifacts and raw files, so control characters are escaped and URLs are redacted here.
"""

from __future__ import annotations

import contextlib
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
from gsx.text_table import format_bytes as format_bytes
from gsx.text_table import format_score as format_score
from gsx.text_table import format_table as format_table

if TYPE_CHECKING:
    from gsx.stages.stage import Progress
    from gsx.storage.artifacts.manifest import Manifest
    from gsx.storage.artifacts.publish import BuildResult

_T = TypeVar("_T")
_UNITS = {"nodes": "node", "recipes": "recipe", "splits": "split", "groups": "group"}
"""Counts in a manifest that are not graphs, and what one of them is called."""


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
