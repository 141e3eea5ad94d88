"""Output of the command line: results go to stdout, messages and progress to stderr."""

from __future__ import annotations

import contextlib
import json
import shutil
import sys
import textwrap
import time
from collections.abc import Iterator, Sequence
from typing import TYPE_CHECKING, Any

import click

if TYPE_CHECKING:
    from gsx.stages.stage import Progress
    from gsx.storage.artifacts.manifest import Manifest
    from gsx.storage.artifacts.publish import BuildResult


SELECTION_RULES = {
    "ood_val": "best epoch by ood_val",
    "id_val": "best epoch by id_val",
    "last": "last epoch",
}
"""Rules that select an epoch of a training run, with their descriptions."""
_STARTING_FORMAT = "{desc}: {n_fmt}/{total_fmt}, for {elapsed}{postfix}"
_BAR_FORMAT = (
    "{desc}: {percentage:3.0f}%|{bar}| {n_fmt}, {rate_noinv_fmt}, {remaining} left{postfix}"
)
"""Fits into 80 columns with workers, bytes and hours."""
_bars: list[Any] = []
"""Progress bars on display."""


def print_json(value: object) -> None:
    """Print one JSON object."""
    import msgspec

    text = json.dumps(msgspec.to_builtins(value), ensure_ascii=False, allow_nan=False)
    click.echo(text.encode(errors="backslashreplace"))  # file names may contain undecodable bytes


def printable(text: str) -> str:
    """Escape all characters that could move the cursor or control the terminal.

    Names and warnings may come from an artifact of an unknown author.
    """
    return "".join(
        character if character.isprintable() else character.encode("unicode_escape").decode()
        for character in text
    )


def printable_lines(text: str) -> str:
    """Escape control characters as `printable` does, except for line breaks."""
    return "\n".join(map(printable, text.split("\n")))


def wrap(text: str) -> str:
    """Wrap ``text`` at the width of the terminal; continuation lines are indented."""
    columns = shutil.get_terminal_size().columns
    return textwrap.fill(
        text, max(columns, 40), subsequent_indent="  ", break_long_words=False,
        break_on_hyphens=False,
    )  # fmt: skip


def notify(text: str) -> None:
    """Print a message to stderr, above the progress bar if there is one."""
    for bar in _bars:
        bar.clear()
    click.echo(wrap(printable(text)) if sys.stderr.isatty() else printable(text), err=True)
    for bar in _bars:
        bar.refresh()


def format_table(rows: Sequence[Sequence[object]], headers: Sequence[str]) -> str:
    """Return rows under headers as aligned columns: numbers to the right, text to the left."""
    cells = [[_cell(value) for value in row] for row in rows]
    widths = [max(map(len, column)) for column in zip(headers, *cells, strict=True)]
    numeric = [
        bool(rows) and all(isinstance(row[i], int | float) or row[i] is None for row in rows)
        for i in range(len(headers))
    ]
    lines = [
        "  ".join(
            text.rjust(width) if right else text.ljust(width)
            for text, width, right in zip(line, widths, numeric, strict=True)
        ).rstrip()
        for line in [list(headers), *cells]
    ]
    return "\n".join(lines)


def _cell(value: object) -> str:
    if value is None:
        return "-"
    if isinstance(value, bool):
        return "yes" if value else "no"
    if isinstance(value, int):
        return f"{value:,}"
    if isinstance(value, float):
        return f"{value:.1f}"
    return printable(str(value))


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


def in_split_order(counts: dict[str, int]) -> dict[str, int]:
    """Return counts in the order of the splits; other counts come last."""
    from gsx.schema import SPLITS

    splits = [name for name in SPLITS if name in counts]
    others = [name for name in counts if name not in splits]
    return {name: counts[name] for name in [*splits, *others]}


def labelled_nodes(manifest: Manifest) -> dict[str, int]:
    """Return the labelled nodes per split; empty for a corpus with graph-level targets."""
    counts: dict[str, int] = {}
    for group in manifest.summary.get("node_groups", []):
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
    unit = "nodes" if "nodes" in manifest.counts else unit
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

    bar = tqdm(
        desc=step, unit=unit, unit_scale=True, file=sys.stderr, leave=False, dynamic_ncols=True,
        bar_format="{desc}: starting",
    )  # fmt: skip

    def update(done: int, total: int, note: str = "") -> None:
        if bar.total is None:
            bar.reset(total)  # the time before the first update is not work on graphs
        # The rate is the mean since then, because workers finish their shards in bursts.
        bar.n, bar.bar_format = done, _BAR_FORMAT if done else _STARTING_FORMAT
        bar.set_postfix_str(note, refresh=False)
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
