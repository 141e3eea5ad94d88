"""How the command line speaks: results on stdout, everything else on stderr."""

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
    from gsx.storage.artifacts.publish import Built


RULES = {
    "ood_val": "best epoch by ood_val",
    "id_val": "best epoch by id_val",
    "last": "last epoch",
}
"""Which epoch of a training run is taken, by the name of the rule."""
_WAITING = "{desc}: {n_fmt}/{total_fmt}, for {elapsed}{postfix}"
_BAR = "{desc}: {percentage:3.0f}%|{bar}| {n_fmt}, {rate_noinv_fmt}, {remaining} left{postfix}"
"""What a bar says; short enough for 80 columns with workers, bytes and hours."""
_bars: list[Any] = []
"""Progress bars that are shown now."""


def print_json(value: object) -> None:
    """Print one JSON object."""
    import msgspec

    text = json.dumps(msgspec.to_builtins(value), ensure_ascii=False, allow_nan=False)
    click.echo(text.encode(errors="backslashreplace"))  # file names may hold bytes that are no text


def plain(text: str) -> str:
    """Return ``text`` with everything escaped that could move the cursor or change the terminal.

    Names and warnings may come from an artifact that somebody else made.
    """
    return "".join(
        letter if letter.isprintable() else letter.encode("unicode_escape").decode()
        for letter in text
    )


def plain_lines(text: str) -> str:
    """Return ``text`` as ``plain`` does, but leave its lines."""
    return "\n".join(map(plain, text.split("\n")))


def wrapped(text: str) -> str:
    """Return ``text`` in lines that a terminal shows whole, the later ones indented."""
    columns = shutil.get_terminal_size().columns
    return textwrap.fill(
        text, max(columns, 40), subsequent_indent="  ", break_long_words=False,
        break_on_hyphens=False,
    )  # fmt: skip


def say(text: str) -> None:
    """Tell the user something that is not the result, above the progress bar if there is one."""
    for bar in _bars:
        bar.clear()
    click.echo(wrapped(plain(text)) if sys.stderr.isatty() else plain(text), err=True)
    for bar in _bars:
        bar.refresh()


def table(rows: Sequence[Sequence[object]], headers: Sequence[str]) -> str:
    """Lay out rows under headers; numbers to the right, words to the left."""
    cells = [[_cell(value) for value in row] for row in rows]
    widths = [max(map(len, column)) for column in zip(headers, *cells, strict=True)]
    right = [
        bool(rows) and all(isinstance(row[i], int | float) or row[i] is None for row in rows)
        for i in range(len(headers))
    ]
    lines = [
        "  ".join(
            text.rjust(width) if flush else text.ljust(width)
            for text, width, flush in zip(line, widths, right, strict=True)
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
    return plain(str(value))


def score_text(value: float | None) -> str | None:
    """Return a score as tables show it."""
    return None if value is None else f"{value:.2f}"


def readable_bytes(size: int) -> str:
    """Return a size in the unit a person would use."""
    number = float(size)
    for unit in ("B", "kB", "MB", "GB"):
        if number < 1000:
            return f"{number:.0f} {unit}" if unit == "B" else f"{number:.1f} {unit}"
        number /= 1000
    return f"{number:.1f} TB"


def ordered(counts: dict[str, int]) -> dict[str, int]:
    """Return counts in the order of splits; other counts after them."""
    from gsx.schema import SPLITS

    names = [name for name in SPLITS if name in counts]
    return {name: counts[name] for name in [*names, *(n for n in counts if n not in names)]}


def node_counts(manifest: Manifest) -> dict[str, int]:
    """Return labelled nodes per split, of a corpus that labels nodes; empty for others."""
    counts: dict[str, int] = {}
    for group in manifest.summary.get("node_groups", []):
        counts[group["split"]] = counts.get(group["split"], 0) + group["count"]
    return counts


def built_object(built: Built, path: str | None = None) -> dict[str, Any]:
    """Return what scripts are told about an artifact that was made or found."""
    manifest = built.artifact.manifest
    nodes = node_counts(manifest)
    return {
        "key": manifest.key,
        "kind": manifest.kind,
        "path": path or built.artifact.place.url,
        "digest": manifest.digest,
        "reused": built.reused,
        "counts": ordered(manifest.counts),
        **({"nodes": nodes} if nodes else {}),
        "seconds": round(built.seconds, 3),
    }


def built_line(stage: str, built: Built) -> str:
    """Return one line about an artifact that was made or found."""
    manifest = built.artifact.manifest
    what = "groups" if manifest.kind == "statistics" else "graphs"
    what = "nodes" if "nodes" in manifest.counts else what
    count = f"{sum(manifest.counts.values()):,} {what}"
    how = "already there" if built.reused else f"made in {built.seconds:.1f} s"
    return f"{stage:<9} {manifest.key[:12]}  {count:<16} {how}"


@contextlib.contextmanager
def progress_bar(step: str, *, quiet: bool, unit: str = " graphs") -> Iterator[Progress]:
    """Show progress on stderr when it is a terminal; silent otherwise."""
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
            bar.reset(total)  # what came before the first news is no work on graphs
        # Speed is the mean since then: workers end their shards in bursts.
        bar.n, bar.bar_format = done, _BAR if done else _WAITING
        bar.set_postfix_str(note, refresh=False)
        if time.monotonic() - shown[0] >= bar.mininterval or done >= total:
            shown[0] = time.monotonic()
            bar.refresh()

    shown = [0.0]
    _bars.append(bar)
    try:
        yield update
    finally:
        _bars.remove(bar)
        bar.close()
