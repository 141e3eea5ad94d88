"""Tables of training results: methods by datasets, mean and standard deviation over seeds."""

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

REQUIRED_KEYS = {"dataset", "method", "seed", "metric", "ood_test"}
METHOD_NAMES = {
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
"""Method name in the paper → in result files, where they differ. LISA and LiSA are two methods."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Cell:
    """Results of one method on one dataset."""

    method: str
    dataset: str
    metric: str
    mean: float | None = None
    std: float | None = None
    """Unbiased standard deviation over seeds; None for one seed."""
    seeds: int = 0
    low: float | None = None
    high: float | None = None
    """95 % t interval of the mean; None for one seed."""
    published: float | None = None
    published_std: float | None = None


def read_results(folder: Path) -> tuple[list[dict[str, Any]], int]:
    """Return the result files of a folder, and the number of other JSON files.

    Reads the folder and its subfolders, one per dataset. Deeper folders hold other comparisons.
    """
    if not folder.is_dir():
        raise UsageError(
            f"{folder} does not exist. `gsx train … --results DIR --method NAME` creates it."
        )
    results, others = [], 0
    for path in sorted([*folder.glob("*.json"), *folder.glob("*/*.json")]):
        try:
            document = json.loads(path.read_text(encoding="utf-8"))
        except (json.JSONDecodeError, UnicodeDecodeError) as error:
            raise UsageError(f"{path}: invalid JSON ({error}). Remove the file.") from error
        if isinstance(document, dict) and document.keys() >= REQUIRED_KEYS:
            results.append(document)
        else:
            others += 1
    if not results:
        raise UsageError(
            f"{folder} has no results. Write some with `gsx train … --results {folder} "
            "--method NAME`."
        )
    return results, others


def read_published(path: Path) -> dict[tuple[str, str], tuple[float, float]]:
    """Return published OOD scores (mean, std) by method and dataset; the first row counts."""
    published: dict[tuple[str, str], tuple[float, float]] = {}
    with path.open(encoding="utf-8", newline="") as stream:
        for row in csv.DictReader(stream):
            if row["split"] == "ood":
                name = (method_name(row["method"]), row["dataset"])
                published.setdefault(name, (float(row["mean"]), float(row["std"])))
    return published


def method_name(text: str) -> str:
    """Return the name that result files use for a method of the paper.

    >>> method_name("Deep Coral"), method_name("LISA"), method_name("LiSA")
    ('coral', 'lisa', 'lisa-subgraph')
    """
    return METHOD_NAMES.get(text, "-".join(text.lower().split()))


def summarize(
    results: Sequence[dict[str, Any]], published: dict[tuple[str, str], tuple[float, float]]
) -> list[Cell]:
    """Return a cell per method and dataset: results of gsx, then those that are only published."""
    groups: dict[tuple[str, str], list[dict[str, Any]]] = {}
    for result in results:
        groups.setdefault((result["method"], result["dataset"]), []).append(result)
    metrics: dict[str, str] = {}
    for result in results:
        dataset, metric = result["dataset"], result["metric"]
        if metrics.setdefault(dataset, metric) != metric:
            raise UsageError(
                f"results of {dataset} have different metrics ({metrics[dataset]}, {metric}). Put "
                "them into separate folders."
            )
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
        raise UsageError(
            f"{method} on {dataset}: two result files have the same seed. Remove one of them."
        )
    defined = [score for score in scores.values() if score is not None]
    low, high = t_interval(defined) or (None, None)
    return Cell(
        method=method,
        dataset=dataset,
        metric=metric,
        mean=statistics.fmean(defined) if defined else None,
        std=statistics.stdev(defined) if len(defined) > 1 else None,
        seeds=len(defined),
        low=low,
        high=high,
        published=published[0] if published else None,
        published_std=published[1] if published else None,
    )


def table_rows(cells: Sequence[Cell], plus_minus: str) -> list[list[str]]:
    """Return a header and a row per method; every dataset has a gsx and a published column."""
    datasets = sorted({cell.dataset for cell in cells})
    by_name = {(cell.method, cell.dataset): cell for cell in cells}
    header = ["method"]
    for dataset in datasets:
        header += [dataset, f"{dataset} published"]
    rows = [header]
    for method in dict.fromkeys(cell.method for cell in cells):
        row = [method]
        for dataset in datasets:
            cell = by_name.get((method, dataset))
            row += [score_text(cell, plus_minus), published_text(cell, plus_minus)]
        rows.append(row)
    return rows


def score_text(cell: Cell | None, plus_minus: str) -> str:
    """Return mean, standard deviation and number of seeds as text; empty without results."""
    if cell is None or cell.mean is None:
        return ""
    std = "" if cell.std is None else f" {plus_minus} {_number(cell.std, cell.metric)}"
    return f"{_number(cell.mean, cell.metric)}{std} ({cell.seeds})"


def published_text(cell: Cell | None, plus_minus: str) -> str:
    """Return the published mean and standard deviation as text; empty without one."""
    if cell is None or cell.published is None or cell.published_std is None:
        return ""
    std = _number(cell.published_std, cell.metric)
    return f"{_number(cell.published, cell.metric)} {plus_minus} {std}"


def _number(value: float, metric: str) -> str:
    return f"{value:.1f}" if metric in ("accuracy", "roc_auc") else f"{value:.3f}"


def markdown(cells: Sequence[Cell]) -> str:
    """Return a Markdown table per dataset: results of gsx, then those that are only published."""
    tables = []
    for dataset in sorted({cell.dataset for cell in cells}):
        dataset_cells = [cell for cell in cells if cell.dataset == dataset]
        lines = [
            f"### {dataset}",
            "",
            f"| method | {dataset_cells[0].metric} | published |",
            "|---|---|---|",
        ]
        lines += [
            f"| {cell.method} | {score_text(cell, '±')} | {published_text(cell, '±')} |"
            for cell in dataset_cells
        ]
        tables.append("\n".join(lines))
    return "\n\n".join(tables)


def latex(cells: Sequence[Cell]) -> str:
    """Return the table as a LaTeX tabular."""
    header, *rows = table_rows(cells, r"$\pm$")
    lines = [rf"\begin{{tabular}}{{l{'r' * (len(header) - 1)}}}", r"\hline"]
    lines += [" & ".join(map(_escape, header)) + r" \\", r"\hline"]
    lines += [" & ".join(map(_escape, row)) + r" \\" for row in rows]
    return "\n".join([*lines, r"\hline", r"\end{tabular}"])


def _escape(text: str) -> str:
    for letter in "&%_#":
        text = text.replace(letter, f"\\{letter}")
    return text


def csv_text(cells: Sequence[Cell]) -> str:
    """Return CSV text with one line per cell."""
    stream = io.StringIO()
    writer = csv.writer(stream, lineterminator="\n")
    names = Cell.__slots__
    writer.writerow(names)
    writer.writerows([getattr(cell, name) for name in names] for cell in cells)
    return stream.getvalue().rstrip("\n")
