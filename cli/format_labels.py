"""Format labels of splits and environments: class counts, means, counts per task."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from gsx.cli.output import format_table, in_split_order

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence

    from gsx.storage.corpora.target_statistics import TargetStatistics

MAX_TARGETS = 40
"""Targets that are listed; `--json` lists all."""
MAX_CLASSES = 10
"""Classes whose names are printed."""


def format_counts(counts: Sequence[int]) -> str:
    """Return class counts, such as ``12/30``."""
    return "/".join(map(str, counts))


def format_target(target: TargetStatistics) -> str:
    """Return one cell: ``12/30`` for a task (without soft labels), ``1.20 ± 0.35`` for a number."""
    if "negative" in target:
        return f"{target['negative']}/{target['positive']}"
    return f"{target['mean']:.3g} ± {target['std']:.2g}" if "mean" in target else "-"


def label_note(task: str, outputs: Sequence[str], items: str) -> str:
    """Return what the cells with labels mean."""
    if task == "classification":
        names = "/".join(outputs[:MAX_CLASSES]) + ("/…" if len(outputs) > MAX_CLASSES else "")
        return f"labels: {items} per class, {names}"
    if task == "regression":
        what = f" of {outputs[0]}" if len(outputs) == 1 else ""
        return f"labels: mean ± standard deviation{what}"
    what = f"{outputs[0]} = " if len(outputs) == 1 else "label "
    return f"labels: {items} with {what}0/1"


def format_targets(groups: Mapping[str, Sequence[TargetStatistics]]) -> list[str]:
    """Return a table of targets by splits; empty for a single target."""
    groups = in_split_order(groups)
    names = [target["target"] for target in next(iter(groups.values()), ())]
    if len(names) < 2:
        return []
    rows: list[tuple[Any, ...]] = []
    for index, name in enumerate(names[:MAX_TARGETS]):
        targets = [targets[index] for targets in groups.values()]
        missing = sum(target["missing"] for target in targets)
        rows.append((_short(name), *map(format_target, targets), missing))
    lines = format_table(rows, ("TARGET", *(split.upper() for split in groups), "MISSING"))
    more = len(names) - MAX_TARGETS
    return [*lines, f"… and {more:,} more targets (`--json` lists them)"] if more > 0 else lines


def _short(name: str, width: int = 24) -> str:
    return name if len(name) <= width else f"{name[: width - 1]}…"
