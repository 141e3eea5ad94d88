"""Format the quality metrics of an artifact as text."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from typing import Any

from gsx.cli.output import format_table
from gsx.plurals import counted

HEADERS = ("OPTION", "GRAPHS", "NODES", "SMALLER", "LARGER", "DISTINCT", "BRIDGES", "REJECTED")
LEGEND = "smaller, larger: than any training graph; bridges: per pair of joined components"


def format_quality(quality: Mapping[str, Any]) -> list[str]:
    """Return one line per metric, or a table of options for a generated corpus."""
    options = {name: row for name, row in quality.items() if name.startswith("option_")}
    featx = quality.get("featx")
    if not options and featx is None:
        return [f"  {name:<40} {value}" for name, value in _flatten(quality)]
    try:
        rows = [_option_row(name, row) for name, row in options.items()]
        lines = [] if featx is None else [_format_featx(featx)]
    except (KeyError, TypeError, AttributeError):
        return [str(dict(quality))]
    if not rows:
        return lines
    lines += [*format_table(rows, HEADERS), LEGEND]
    for name, row in options.items():
        lines += [
            f"option {name.removeprefix('option_')}: {counted(count, 'draw')} rejected: {reason}"
            for reason, count in row["rejected"].items()
        ]
        left_out = row.get("molecules", {}).get("components_left_out")
        if left_out:
            components = "component" if left_out == 1 else "components"
            lines.append(
                f"option {name.removeprefix('option_')}: {left_out:,} {components} left out, "
                "because RDKit rejects them or SMILES cannot describe them"
            )
        lines += _format_labels(name.removeprefix("option_"), row)
    return lines


def _option_row(name: str, row: Mapping[str, Any]) -> tuple[Any, ...]:
    return (
        name.removeprefix("option_"),
        row["graphs"],
        f"{row['min_nodes']}-{row['max_nodes']}",
        f"{row['smaller_than_training']:.1%}",
        f"{row['larger_than_training']:.1%}",
        row["distinct"],
        row["bridges_per_joint"],
        sum(row["rejected"].values()),
    )


def _format_labels(option: str, row: Mapping[str, Any]) -> Iterator[str]:
    """Yield lines about label conflicts of an option."""
    causal = row.get("causal_subgraphs")
    if causal is not None:
        yield (
            f"option {option}: {causal['subgraphs']:,} causal subgraphs, "
            f"{causal['too_small']:,} too small, {causal['in_conflict']:,} with label conflicts"
        )
    if row.get("label_conflicts"):
        conflicts = counted(row["label_conflicts"], "label conflict")
        yield f"option {option}: {conflicts} between equal graphs"
    if row.get("contradicts_training"):
        yield (
            f"option {option}: {counted(row['contradicts_training'], 'graph')} with the structure "
            "of a training graph and another label"
        )


def _format_featx(featx: Mapping[str, Any]) -> str:
    """Return one line about extrapolated features."""
    if "replicas" in featx:
        items = f"{counted(featx['replicas'], 'replica')}, {featx['extrapolated_nodes']:,} nodes"
    else:
        origins = ", ".join(f"{name} {count:,}" for name, count in featx["of"].items())
        items = f"{counted(featx['graphs'], 'graph')} ({origins})"
    return (
        f"extrapolated: {items}, {counted(featx['extrapolated_features'], 'feature')}; "
        f"{featx['unchanged']:,} unchanged"
    )


def _flatten(values: Mapping[str, Any], prefix: str = "") -> Iterator[tuple[str, Any]]:
    """Yield dotted names and values of nested mappings; lists are left out."""
    for name, value in values.items():
        if isinstance(value, dict):
            yield from _flatten(value, f"{prefix}{name}.")
        elif not isinstance(value, list):
            yield f"{prefix}{name}", value
