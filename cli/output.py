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
import time
from collections.abc import Iterator, Sequence
from typing import TYPE_CHECKING, Any, TextIO, cast

import click

from gsx.escape import printable, redact_urls
from gsx.text_table import format_bytes as format_bytes
from gsx.text_table import format_score as format_score
from gsx.text_table import format_table as format_table

if TYPE_CHECKING:
    from gsx.stages.stage import Progress
    from gsx.storage.artifacts.manifest import Manifest
    from gsx.storage.artifacts.publish import BuildResult

_STARTING_FORMAT = "{desc}: {n_fmt}/{total_fmt}, for {elapsed}{postfix}"
_BAR_FORMAT = (
    "{desc}: {percentage:3.0f}%|{bar}| {n_fmt}, {rate_noinv_fmt}, {remaining} left{postfix}"
)
"""Fits into 80 columns with workers, bytes and hours."""
_bars: list[Any] = []
"""Progress bars on display."""


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
    for bar in _bars:
        bar.clear()
    line = printable(redact_urls(text))
    click.echo(wrap(line) if sys.stderr.isatty() else line, err=True)
    for bar in _bars:
        bar.refresh()


def in_split_order(counts: dict[str, int]) -> dict[str, int]:
    """Return counts in the order of the splits; other counts come last."""
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
    unit = "groups" if manifest.kind == "statistics" else "graphs"
    unit = next((name for name in ("nodes", "recipes") if name in manifest.counts), unit)
    count = f"{sum(manifest.counts.values()):,} {unit}"
    state = "reused" if built.reused else f"built in {built.seconds:.1f} s"
    return f"{stage:<9} {manifest.key[:12]}  {count:<16} {state}"


@contextlib.contextmanager
def progress_bar(step: str, *, quiet: bool, unit: str = " graphs") -> Iterator[Progress]:
    """Show a progress bar on stderr if it is a terminal."""
    if quiet or not sys.stderr.isatty():
        yield lambda done, total, note="": None
        return
    from tqdm import tqdm

    terminal = sys.stderr.stream if isinstance(sys.stderr, PrintableStream) else sys.stderr
    bar = tqdm(
        desc=printable(step), unit=unit, unit_scale=True, file=terminal, leave=False,
        dynamic_ncols=True, bar_format="{desc}: starting",
    )  # fmt: skip

    def update(done: int, total: int, note: str = "") -> None:
        if bar.total is None:
            bar.reset(total)  # the time before the first update is not work on graphs
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
