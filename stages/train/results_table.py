"""Tables of training results: methods by datasets, mean and standard deviation over seeds."""

from __future__ import annotations

import csv
import io
import json
import re
import statistics
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from gsx.errors import UsageError, did_you_mean
from gsx.escape import latex_text, markdown_text, one_line, spreadsheet_text
from gsx.stages.train.confidence_intervals import t_interval
from gsx.stages.train.metrics import arrow, lower_is_better
from gsx.stages.train.result_documents import published_rows, read_result_file

BASELINES = ("baseline", "none", "source", "erm")
"""Names of methods that gains refer to by default, in this order."""
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

_NUMBERS = re.compile(r"\[\n([^\[\]{}\"]*)\n *\]")
"""A list of numbers or nulls over several lines of indented JSON."""


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
    id_mean: float | None = None
    """Mean of ``id_test``."""
    id_std: float | None = None
    id_seeds: int = 0
    baseline: str | None = None
    """Method that the gain refers to."""
    gain: float | None = None
    """Mean difference of ``ood_test`` to the baseline over common seeds; positive is better."""
    gain_low: float | None = None
    gain_high: float | None = None
    """95 % t interval of the gain; None for one seed."""
    gain_seeds: int = 0
    epochs: tuple[int, ...] = ()
    """Distinct numbers of epochs of the runs."""


def read_results(folder: Path) -> tuple[list[dict[str, Any]], int]:
    """Return the result files of a folder, and the number of other JSON files.

    Reads the folder and its subfolders, one per dataset. Deeper folders hold other comparisons.
    """
    files, others = result_files(folder)
    return [document for _, document in files], others


def result_files(folder: Path) -> tuple[list[tuple[Path, dict[str, Any]]], int]:
    """Return path and content of the result files of a folder; count the other JSON files."""
    if not folder.is_dir():
        raise UsageError(
            f"{folder} does not exist. `gsx train … --results DIR --method NAME` creates it."
        )
    results, others = [], 0
    for path in sorted([*folder.glob("*.json"), *folder.glob("*/*.json")]):
        document = read_result_file(path)
        if document is None:
            others += 1
        else:
            results.append((path, document))
    if not results:
        raise UsageError(
            f"{folder} has no results. Write some with `gsx train … --results {folder} "
            "--method NAME`."
        )
    return results, others


def result_json(document: dict[str, Any]) -> bytes:
    """Encode a result file: indented JSON with every list of numbers on one line.

    >>> result_json({"a": "[ 1 ]", "b": [1, None]}).decode().splitlines()[1:-1]
    ['  "a": "[ 1 ]",', '  "b": [1, null]']
    """
    text = json.dumps(document, indent=2)
    # Strings have no line breaks, because JSON escapes them.
    text = _NUMBERS.sub(lambda match: f"[{' '.join(match[1].split())}]", text)
    return f"{text}\n".encode()


def read_published(path: Path) -> dict[tuple[str, str], tuple[float, float]]:
    """Return published OOD scores (mean, std) by method and dataset; the first row counts."""
    published: dict[tuple[str, str], tuple[float, float]] = {}
    for method, dataset, mean, std in published_rows(path):
        published.setdefault((method_name(method), dataset), (mean, std))
    return published


def method_name(text: str) -> str:
    """Return the name that result files use for a method of the paper.

    >>> method_name("Deep Coral"), method_name("LISA"), method_name("LiSA")
    ('coral', 'lisa', 'lisa-subgraph')
    """
    return METHOD_NAMES.get(text, "-".join(text.lower().split()))


def summarize(
    results: Sequence[dict[str, Any]],
    published: Mapping[tuple[str, str], tuple[float, float]],
    baseline: str | None = None,
) -> list[Cell]:
    """Return a cell per method and dataset: results of gsx, then those that are only published.

    Gains refer to the method ``baseline``, else to the first of ``BASELINES`` that a dataset has.
    """
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
    if baseline is not None and baseline not in {method for method, _ in groups}:
        hint = did_you_mean(baseline, {method for method, _ in groups})
        raise UsageError(f"no method `{baseline}` among the results. {hint}")
    references = {
        dataset: next(
            (name for name in ([baseline] if baseline else BASELINES) if (name, dataset) in groups),
            None,
        )
        for dataset in metrics
    }
    cells = [
        _cell(
            runs,
            published.get((method, dataset)),
            references[dataset],
            groups.get((references[dataset] or "", dataset), ()),
        )
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
    runs: Sequence[dict[str, Any]],
    published: tuple[float, float] | None,
    baseline: str | None,
    reference: Sequence[dict[str, Any]],
) -> Cell:
    """Return the cell of the runs of one method on one dataset.

    ``reference`` are the runs of the method ``baseline``.
    """
    method, dataset, metric = (runs[0][name] for name in ("method", "dataset", "metric"))
    scores = _scores_by_seed(runs, "ood_test")
    if len(scores) != len(runs):
        raise UsageError(
            f"{method} on {dataset}: two result files have the same seed. Remove one of them."
        )
    defined = [score for score in scores.values() if score is not None]
    low, high = t_interval(defined) or (None, None)
    in_distribution = [
        score for score in _scores_by_seed(runs, "id_test").values() if score is not None
    ]
    gains: list[float] = []
    if method != baseline:
        sign = -1 if lower_is_better(metric) else 1
        others = _scores_by_seed(reference, "ood_test")
        gains = [
            sign * (score - other)
            for seed, score in scores.items()
            if score is not None and (other := others.get(seed)) is not None
        ]
    gain_low, gain_high = t_interval(gains) or (None, None)
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
        id_mean=statistics.fmean(in_distribution) if in_distribution else None,
        id_std=statistics.stdev(in_distribution) if len(in_distribution) > 1 else None,
        id_seeds=len(in_distribution),
        baseline=baseline,
        gain=statistics.fmean(gains) if gains else None,
        gain_low=gain_low,
        gain_high=gain_high,
        gain_seeds=len(gains),
        epochs=tuple(sorted({run["epochs"] for run in runs if isinstance(run.get("epochs"), int)})),
    )


def _scores_by_seed(runs: Sequence[dict[str, Any]], split: str) -> dict[int, float | None]:
    return {run["seed"]: run.get(split) for run in runs}


def table_rows(cells: Sequence[Cell], plus_minus: str) -> list[list[str]]:
    """Return a header and a row per method.

    Every dataset has a column for ``id_test``, one for ``ood_test`` and, if there are published
    scores, one for these.
    """
    datasets = sorted({cell.dataset for cell in cells})
    by_name = {(cell.method, cell.dataset): cell for cell in cells}
    with_published = {cell.dataset for cell in cells if cell.published is not None}
    header = ["method"]
    for dataset in datasets:
        header += [f"{dataset} ID", f"{dataset} OOD"]
        header += [f"{dataset} published"] if dataset in with_published else []
    rows = [header]
    for method in dict.fromkeys(cell.method for cell in cells):
        row = [method]
        for dataset in datasets:
            cell = by_name.get((method, dataset))
            row += [id_text(cell, plus_minus), score_text(cell, plus_minus)]
            row += [published_text(cell, plus_minus)] if dataset in with_published else []
        rows.append(row)
    return rows


def score_text(cell: Cell | None, plus_minus: str) -> str:
    """Return mean, standard deviation and number of seeds as text; empty without results."""
    if cell is None:
        return ""
    return _mean_text(cell.mean, cell.std, cell.seeds, cell.metric, plus_minus)


def id_text(cell: Cell | None, plus_minus: str) -> str:
    """Return the same for scores in distribution."""
    if cell is None:
        return ""
    return _mean_text(cell.id_mean, cell.id_std, cell.id_seeds, cell.metric, plus_minus)


def _mean_text(
    mean: float | None, std: float | None, seeds: int, metric: str, plus_minus: str
) -> str:
    if mean is None:
        return ""
    spread = "" if std is None else f" {plus_minus} {_number(std, metric)}"
    return f"{_number(mean, metric)}{spread} ({seeds})"


def gain_text(cell: Cell) -> str:
    """Return the gain and its interval as text; empty without a baseline."""
    if cell.gain is None:
        return ""
    numbers = (cell.gain, cell.gain_low, cell.gain_high)
    values = [_number(value, cell.metric, "+") for value in numbers if value is not None]
    return values[0] + (f" ({values[1]} to {values[2]})" if len(values) == 3 else "")


def published_text(cell: Cell | None, plus_minus: str) -> str:
    """Return the published mean and standard deviation as text; empty without one."""
    if cell is None or cell.published is None or cell.published_std is None:
        return ""
    std = _number(cell.published_std, cell.metric)
    return f"{_number(cell.published, cell.metric)} {plus_minus} {std}"


def _number(value: float, metric: str, sign: str = "-") -> str:
    return f"{value:{sign}.{1 if metric in ('accuracy', 'roc_auc') else 3}f}"


def markdown(cells: Sequence[Cell]) -> str:
    """Return a Markdown table per dataset, with scores, gains and epochs.

    Published scores have a column if there are any.
    """
    tables = []
    for dataset in sorted({cell.dataset for cell in cells}):
        dataset_cells = [cell for cell in cells if cell.dataset == dataset]
        metric = dataset_cells[0].metric
        baseline = next((cell.baseline for cell in dataset_cells if cell.baseline), None)
        header = ["method", "id_test", "ood_test", "epochs"]
        if baseline is not None:
            header.insert(3, f"gain over {markdown_text(baseline)}")
        if any(cell.published is not None for cell in dataset_cells):
            header.append("published")
        lines = [
            f"### {markdown_text(dataset)}: {markdown_text(metric)} {arrow(metric)}",
            "",
            f"| {' | '.join(header)} |",
            "|---" * len(header) + "|",
        ]
        for cell in dataset_cells:
            values = [id_text(cell, "±"), score_text(cell, "±")]
            values += [gain_text(cell)] if baseline is not None else []
            values.append(" or ".join(map(str, cell.epochs)))
            values += [published_text(cell, "±")] if header[-1] == "published" else []
            lines.append(f"| {' | '.join([markdown_text(cell.method), *values])} |")
        tables.append("\n".join(lines))
    return "\n\n".join(tables)


def published_markdown(cells: Sequence[Cell]) -> str:
    """Return a Markdown table per dataset: results of gsx next to published ones."""
    tables = []
    for dataset in sorted({cell.dataset for cell in cells}):
        dataset_cells = [cell for cell in cells if cell.dataset == dataset]
        lines = [
            f"### {markdown_text(dataset)}",
            "",
            f"| method | {markdown_text(dataset_cells[0].metric)} | published |",
            "|---|---|---|",
        ]
        lines += [
            f"| {markdown_text(cell.method)} | {score_text(cell, '±')} "
            f"| {published_text(cell, '±')} |"
            for cell in dataset_cells
        ]
        tables.append("\n".join(lines))
    return "\n\n".join(tables)


def latex(cells: Sequence[Cell]) -> str:
    """Return the table as a LaTeX tabular."""
    header, *rows = table_rows(cells, r"$\pm$")
    lines = [rf"\begin{{tabular}}{{l{'r' * (len(header) - 1)}}}", r"\hline"]
    lines += [" & ".join(map(latex_text, header)) + r" \\", r"\hline"]
    lines += [" & ".join([latex_text(name), *scores]) + r" \\" for name, *scores in rows]
    return "\n".join([*lines, r"\hline", r"\end{tabular}"])


def csv_text(cells: Sequence[Cell]) -> str:
    """Return CSV text with one line per cell."""
    stream = io.StringIO()
    writer = csv.writer(stream, lineterminator="\n")
    names = Cell.__slots__
    writer.writerow(names)
    for cell in cells:
        values = [_csv_value(getattr(cell, name)) for name in names]
        writer.writerow(spreadsheet_text(one_line(v)) if isinstance(v, str) else v for v in values)
    return stream.getvalue().rstrip("\n")


def _csv_value(value: object) -> object:
    return " ".join(map(str, value)) if isinstance(value, tuple) else value
