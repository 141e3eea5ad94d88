"""Table of all baselines: methods in groups by datasets, published scores below measured ones."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from pathlib import Path

from experiments.suite import Suite, load_suite
from gsx.stages.train.results_table import (
    Cell,
    published_text,
    read_published,
    read_results,
    score_text,
    summarize,
)

NOT_APPLICABLE = "n/a"
Cells = Mapping[tuple[str, str], Cell]
"""Cells by method and dataset."""


def comparison(folder: Path, published: Path) -> str:
    """Return the table of the result files in a folder, and lists of methods that do not apply."""
    if not any(folder.glob("*/*.json")):
        return "No results yet. Run `make experiments SUITE=baselines`."
    suite = load_suite("baselines")
    results, _ = read_results(folder)
    cells = {
        (cell.method, cell.dataset): cell for cell in summarize(results, read_published(published))
    }
    planned = list(suite.runs())
    finished = sum(
        cells[pair].seeds for pair in {(r.method, r.dataset) for r in planned} & {*cells}
    )
    groups = dict.fromkeys(method["group"] for method in suite.methods.values())
    lines = [
        f"{finished} of {len(planned)} runs are finished.",
        "",
        *_table(suite, cells),
        "",
        *(f"- {_not_applicable(suite, group)}" for group in groups),
    ]
    return "\n".join(lines)


def _table(suite: Suite, cells: Cells) -> list[str]:
    metrics = {cell.dataset: cell.metric for cell in cells.values()}
    headers = [f"{dataset}<br>{metrics.get(dataset, '')}" for dataset in suite.datasets]
    lines = [_row("method", headers), "|---" * (len(headers) + 1) + "|"]
    best = {dataset: _best(cells, dataset) for dataset in suite.datasets}
    group = None
    for method, values in suite.methods.items():
        if values["group"] != group:
            group = values["group"]
            lines.append(_row(f"**{group}**", [""] * len(headers)))
        scores = [
            _scores(
                cells.get((method, dataset)),
                best[dataset],
                "" if suite.applies(method, dataset) else NOT_APPLICABLE,
            )
            for dataset in suite.datasets
        ]
        lines.append(_row(f"{values['title']} `{method}`", scores))
    return lines


def _row(first: str, others: Sequence[str]) -> str:
    return "| " + " | ".join([first, *others]) + " |"


def _best(cells: Cells, dataset: str) -> str:
    """Return the best measured mean on a dataset as text; empty without any."""
    measured = [c for (_, name), c in cells.items() if name == dataset and c.mean is not None]
    best = max(measured, key=lambda cell: cell.mean or 0.0, default=None)
    return score_text(best, "±").split(" ")[0]


def _scores(cell: Cell | None, best: str, missing: str) -> str:
    """Return the measured score, bold if none is better, and below it the published one."""
    measured, published = score_text(cell, "±") or missing, published_text(cell, "±")
    if measured and measured.split(" ")[0] == best:
        measured = f"**{measured}**"
    return "<br>".join(filter(None, [measured, published and f"*{published}*"]))


def _not_applicable(suite: Suite, group: str) -> str:
    """Return the methods of a group that do not apply to all datasets, with those datasets."""
    methods_by_datasets: dict[tuple[str, ...], list[str]] = {}
    for method, values in suite.methods.items():
        excluded = tuple(name for name in suite.datasets if not suite.applies(method, name))
        if values["group"] == group and excluded:
            methods_by_datasets.setdefault(excluded, []).append(f"`{method}`")
    parts = [f"{', '.join(m)} ({', '.join(d)})" for d, m in methods_by_datasets.items()]
    return f"{group}, not applicable: {'; '.join(parts) or 'none'}."
