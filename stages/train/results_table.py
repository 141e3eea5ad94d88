"""Results of training runs as tables: methods by datasets, mean and spread over seeds."""

from __future__ import annotations

import csv
import io
import json
import statistics
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from gsx.errors import UsageError
from gsx.stages.train.confidence_intervals import t_interval

NEEDED = {"dataset", "method", "seed", "metric", "ood_test"}
NAMES = {
    "All": "g-splice-123",
    "All / Extrapolation": "featx-all",
    "All / Interpolation": "featx-all-interpolate",
    "Deep Coral": "coral",
    "DropEdge": "drop-edge",
    "DropNode": "drop-node",
    "f·G": "g-splice-3",
    "G-Splice-Rand": "g-splice-random",
    "Ginv": "g-splice-1",
    "Ginv + f·Genv": "g-splice-2",
    "GMixup": "g-mixup",
    "Graph Mixup": "mixup",
    "LiSA": "lisa-subgraph",
    "Maskfeat": "mask-feature",
    "MaskFeature": "mask-feature",
    "Selected / Extrapolation": "featx",
    "Selected / Interpolation": "featx-interpolate",
}
"""Names of the paper that are others here; LISA and LiSA are two methods."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Cell:
    """What is known of one method on one dataset."""

    method: str
    dataset: str
    metric: str
    mean: float | None = None
    std: float | None = None
    """Over seeds, unbiased; None for one seed."""
    seeds: int = 0
    low: float | None = None
    high: float | None = None
    """Student's 95 % interval of the mean; None for one seed."""
    published: float | None = None
    published_std: float | None = None


def read_results(folder: Path) -> tuple[list[dict[str, Any]], int]:
    """Return the result files of a folder, and how many JSON files are something else.

    They lie in it or in folders of datasets; further down lie other comparisons.
    """
    if not folder.is_dir():
        raise UsageError(f"no folder {folder}. `gsx train … --results DIR --method NAME` makes it.")
    found, others = [], 0
    for path in sorted([*folder.glob("*.json"), *folder.glob("*/*.json")]):
        try:
            document = json.loads(path.read_text(encoding="utf-8"))
        except (json.JSONDecodeError, UnicodeDecodeError) as error:
            raise UsageError(f"{path} is not JSON: {error}") from error
        if isinstance(document, dict) and document.keys() >= NEEDED:
            found.append(document)
        else:
            others += 1
    if not found:
        raise UsageError(f"no results of `gsx train` in {folder}.")
    return found, others


def read_published(path: Path) -> dict[tuple[str, str], tuple[float, float]]:
    """Return published OOD scores by method and dataset; the first of each pair counts."""
    published: dict[tuple[str, str], tuple[float, float]] = {}
    with path.open(encoding="utf-8", newline="") as stream:
        for row in csv.DictReader(stream):
            if row["split"] == "ood":
                name = (method_name(row["method"]), row["dataset"])
                published.setdefault(name, (float(row["mean"]), float(row["std"])))
    return published


def method_name(text: str) -> str:
    """Return the name under which result files have a method of the paper.

    >>> method_name("Deep Coral"), method_name("LISA"), method_name("LiSA")
    ('coral', 'lisa', 'lisa-subgraph')
    """
    return NAMES.get(text, "-".join(text.lower().split()))


def summarize(
    results: Sequence[dict[str, Any]], published: dict[tuple[str, str], tuple[float, float]]
) -> list[Cell]:
    """Return a cell for every method and dataset we ran, then for those only published."""
    groups: dict[tuple[str, str], list[dict[str, Any]]] = {}
    for result in results:
        groups.setdefault((result["method"], result["dataset"]), []).append(result)
    metrics: dict[str, str] = {}
    for result in results:
        if metrics.setdefault(result["dataset"], result["metric"]) != result["metric"]:
            raise UsageError(f"results of {result['dataset']} have different metrics.")
    cells = [
        _cell(method, dataset, metrics[dataset], runs, published.get((method, dataset)))
        for (method, dataset), runs in groups.items()
    ]
    cells += [
        Cell(
            method=method,
            dataset=dataset,
            metric=metrics[dataset],
            published=mean,
            published_std=std,
        )
        for (method, dataset), (mean, std) in published.items()
        if dataset in metrics and (method, dataset) not in groups
    ]
    return cells


def _cell(
    method: str,
    dataset: str,
    metric: str,
    runs: Sequence[dict[str, Any]],
    published: tuple[float, float] | None,
) -> Cell:
    scores = {run["seed"]: run["ood_test"] for run in runs}
    if len(scores) != len(runs):
        raise UsageError(f"{method} on {dataset}: two result files have the same seed.")
    known = [score for score in scores.values() if score is not None]
    low, high = t_interval(known) or (None, None)
    return Cell(
        method=method,
        dataset=dataset,
        metric=metric,
        mean=statistics.fmean(known) if known else None,
        std=statistics.stdev(known) if len(known) > 1 else None,
        seeds=len(known),
        low=low,
        high=high,
        published=published[0] if published else None,
        published_std=published[1] if published else None,
    )


def grid(cells: Sequence[Cell], plus_minus: str) -> list[list[str]]:
    """Lay cells out: a row per method, two columns per dataset, ours and the published one."""
    datasets = sorted({cell.dataset for cell in cells})
    by_place = {(cell.method, cell.dataset): cell for cell in cells}
    header = ["method"]
    for dataset in datasets:
        header += [dataset, f"{dataset} published"]
    rows = [header]
    for method in dict.fromkeys(cell.method for cell in cells):
        row = [method]
        for dataset in datasets:
            cell = by_place.get((method, dataset))
            row += [score_of(cell, plus_minus), score_published(cell, plus_minus)]
        rows.append(row)
    return rows


def score_of(cell: Cell | None, plus_minus: str) -> str:
    """Return our score as text: mean, spread and number of seeds; empty without any."""
    if cell is None or cell.mean is None:
        return ""
    spread = "" if cell.std is None else f" {plus_minus} {_number(cell.std, cell.metric)}"
    return f"{_number(cell.mean, cell.metric)}{spread} ({cell.seeds})"


def score_published(cell: Cell | None, plus_minus: str) -> str:
    """Return the published score as text; empty without one."""
    if cell is None or cell.published is None or cell.published_std is None:
        return ""
    spread = _number(cell.published_std, cell.metric)
    return f"{_number(cell.published, cell.metric)} {plus_minus} {spread}"


def _number(value: float, metric: str) -> str:
    return f"{value:.1f}" if metric in ("accuracy", "roc_auc") else f"{value:.3f}"


def markdown(cells: Sequence[Cell]) -> str:
    """Return a table per dataset as Markdown: what we ran, then what is only published."""
    parts = []
    for dataset in sorted({cell.dataset for cell in cells}):
        here = [cell for cell in cells if cell.dataset == dataset]
        lines = [
            f"### {dataset}",
            "",
            f"| method | {here[0].metric} | published |",
            "|---|---|---|",
        ]
        lines += [f"| {c.method} | {score_of(c, '±')} | {score_published(c, '±')} |" for c in here]
        parts.append("\n".join(lines))
    return "\n\n".join(parts)


def latex(cells: Sequence[Cell]) -> str:
    """Return the table as a LaTeX tabular."""
    header, *rows = grid(cells, r"$\pm$")
    lines = [rf"\begin{{tabular}}{{l{'r' * (len(header) - 1)}}}", r"\hline"]
    lines += [" & ".join(map(_escape, header)) + r" \\", r"\hline"]
    lines += [" & ".join(map(_escape, row)) + r" \\" for row in rows]
    return "\n".join([*lines, r"\hline", r"\end{tabular}"])


def _escape(text: str) -> str:
    for letter in "&%_#":
        text = text.replace(letter, f"\\{letter}")
    return text


def comma_separated(cells: Sequence[Cell]) -> str:
    """Return one line per cell as CSV."""
    stream = io.StringIO()
    writer = csv.writer(stream, lineterminator="\n")
    names = Cell.__slots__
    writer.writerow(names)
    writer.writerows([getattr(cell, name) for name in names] for cell in cells)
    return stream.getvalue().rstrip("\n")
