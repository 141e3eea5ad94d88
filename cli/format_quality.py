"""How good an artifact is, as lines for a person."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from typing import Any

from gsx.cli.output import plain, table

HEADERS = ("OPTION", "GRAPHS", "NODES", "SMALLER", "LARGER", "DISTINCT", "BRIDGES", "REFUSED")


def quality_text(quality: Mapping[str, Any]) -> str:
    """Return one line per figure, or a table of options for a generated corpus."""
    options = {name: row for name, row in quality.items() if name.startswith("option_")}
    featx = quality.get("featx")
    if not options and featx is None:
        return "\n".join(f"  {name:<40} {plain(str(value))}" for name, value in _flat(quality))
    try:
        rows = [_row(name, row) for name, row in options.items()]
        lines = [] if featx is None else [_moved(featx)]
    except (KeyError, TypeError, AttributeError):
        return plain(str(dict(quality)))
    if not rows:
        return "\n".join(lines)
    lines += [table(rows, HEADERS), "smaller, larger: than any training graph; bridges: per joint"]
    for name, row in options.items():
        lines += [
            f"option {name.removeprefix('option_')}: {count:,} draws refused: {plain(reason)}"
            for reason, count in row["refused"].items()
        ]
    return "\n".join(lines)


def _row(name: str, row: Mapping[str, Any]) -> tuple[Any, ...]:
    return (
        name.removeprefix("option_"),
        row["graphs"],
        f"{row['min_nodes']}-{row['max_nodes']}",
        f"{row['smaller_than_training']:.1%}",
        f"{row['larger_than_training']:.1%}",
        row["distinct"],
        row["bridges_per_joint"],
        sum(row["refused"].values()),
    )


def _moved(featx: Mapping[str, Any]) -> str:
    """Say what became of features that were moved."""
    if "replicas" in featx:
        what = f"{featx['replicas']} replicas, {featx['moved_nodes']:,} nodes"
    else:
        of = ", ".join(f"{plain(origin)} {count:,}" for origin, count in featx["of"].items())
        what = f"{featx['graphs']:,} graphs ({of})"
    return (
        f"features moved: {what}, {featx['moved_features']:,} features; "
        f"{featx['unchanged']:,} came out as they were"
    )


def _flat(values: Mapping[str, Any], before: str = "") -> Iterator[tuple[str, Any]]:
    for name, value in values.items():
        if isinstance(value, dict):
            yield from _flat(value, f"{before}{name}.")
        elif not isinstance(value, list):
            yield f"{before}{name}", value
