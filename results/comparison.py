"""The table of the field: methods in groups by datasets, published scores under ours."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from pathlib import Path

from field import AUGMENTERS, GRAPH_LEARNERS, NODE_LEARNERS, TASKS, methods
from runs import SEEDS

from gsx.cli.tables import Cell, read_published, read_results, score_of, score_published, summarize
from gsx.stages.learners.kinds import KINDS

TITLES = {
    "drop-node": "DropNode",
    "drop-edge": "DropEdge",
    "mask-feature": "MaskFeature",
    "g-mixup": "G-Mixup",
    "g-splice": "G-Splice",
    "g-splice+r": "G-Splice+R",
    "g-splice-x": "G-Splice, extended",
    "featx": "FeatX",
    "g-splice+featx": "G-Splice+FeatX",
}
GROUPS: Mapping[str, tuple[str, ...]] = {
    "Learners": tuple(dict.fromkeys((*GRAPH_LEARNERS, *NODE_LEARNERS))),
    "Augmenters": AUGMENTERS,
    "Ours": ("g-splice", "g-splice+r", "g-splice-x", "featx", "g-splice+featx"),
}
NOWHERE = "n/a"


def comparison(folder: Path, published: Path) -> str:
    """Return the table of the runs in a folder, and what it does not say by itself."""
    if not any(folder.glob("*/*.json")):
        return "No run is here yet; `make field` makes them."
    runs, _ = read_results(folder)
    cells = summarize(runs, read_published(published))
    found = {(cell.method, cell.dataset): cell for cell in cells}
    wanted = [(name, dataset) for dataset in TASKS for name in methods(dataset)]
    here = sum(found[place].seeds for place in wanted if place in found)
    lines = [
        f"{here} of {len(wanted) * len(SEEDS)} runs are here.",
        "",
        *_table(found),
        "",
        *(f"- {line}" for line in map(_not_applicable, GROUPS)),
    ]
    return "\n".join(lines)


def _table(found: Mapping[tuple[str, str], Cell]) -> list[str]:
    best = {dataset: _best(found, dataset) for dataset in TASKS}
    metrics = {cell.dataset: cell.metric for cell in found.values()}
    heads = [f"{dataset}<br>{metrics.get(dataset, '')}" for dataset in TASKS]
    lines = [_row("method", heads), "|---" * (len(TASKS) + 1) + "|"]
    for group, names in GROUPS.items():
        lines.append(_row(f"**{group}**", [""] * len(TASKS)))
        for name in names:
            cells = [_text(found.get((name, each)), name, each, best[each]) for each in TASKS]
            lines.append(_row(f"{_title(name)} `{name}`", cells))
    return lines


def _row(first: str, others: Sequence[str]) -> str:
    return "| " + " | ".join([first, *others]) + " |"


def _best(found: Mapping[tuple[str, str], Cell], dataset: str) -> str:
    """Return the best score on a dataset as it is written; empty without any."""
    cells = [
        cell for (_, where), cell in found.items() if where == dataset and cell.mean is not None
    ]
    best = max(cells, key=lambda cell: cell.mean or 0.0, default=None)
    return score_of(best, "±").split(" ")[0]


def _text(cell: Cell | None, name: str, dataset: str, best: str) -> str:
    """Return our score, in bold where none is better, and under it the published one."""
    ours, theirs = score_of(cell, "±"), score_published(cell, "±")
    if ours and ours.split(" ")[0] == best:
        ours = f"**{ours}**"
    if not ours and name not in methods(dataset):
        ours = NOWHERE
    return "<br>".join(filter(None, [ours, theirs and f"*{theirs}*"]))


def _title(name: str) -> str:
    return TITLES[name] if name in TITLES else KINDS[name].title


def _not_applicable(group: str) -> str:
    """Say to which datasets the methods of a group do not apply."""
    alike: dict[tuple[str, ...], list[str]] = {}
    for name in GROUPS[group]:
        where = tuple(dataset for dataset in TASKS if name not in methods(dataset))
        if where:
            alike.setdefault(where, []).append(f"`{name}`")
    parts = [f"{', '.join(names)} ({', '.join(where)})" for where, names in alike.items()]
    return f"{group}, not applicable: {'; '.join(parts) or 'none'}."
