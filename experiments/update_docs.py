"""Update the tables of ``docs/results.md`` from the result files.

``python -m experiments.update_docs`` (part of ``make docs``) replaces the text between
``<!-- results: DATASET … -->`` or ``<!-- field -->`` and ``<!-- end -->``. All other text stays
unchanged.
"""

from __future__ import annotations

import re

from experiments.analysis.baseline_comparison import comparison
from experiments.suite import RESULTS, ROOT
from gsx.stages.train.results_table import Cell, markdown, read_published, read_results, summarize

PAGE = ROOT / "docs" / "results.md"
PUBLISHED = RESULTS / "published.csv"
RESULT_TABLES = re.compile(r"(<!-- results: ([^>]+?) -->\n).*?(<!-- end -->)", re.DOTALL)
BASELINES_TABLE = re.compile(r"(<!-- field -->\n).*?(<!-- end -->)", re.DOTALL)


def update_tables(text: str) -> str:
    """Return the page with tables from the current result files."""
    results, _ = read_results(RESULTS)
    cells = summarize(results, read_published(PUBLISHED))
    text = RESULT_TABLES.sub(
        lambda match: f"{match[1]}\n{_tables(cells, match[2].split())}\n\n{match[3]}", text
    )
    baselines = comparison(RESULTS / "field", PUBLISHED)
    return BASELINES_TABLE.sub(lambda match: f"{match[1]}\n{baselines}\n\n{match[2]}", text)


def _tables(cells: list[Cell], datasets: list[str]) -> str:
    """Return one table per dataset, without methods that have only published scores."""
    measured = [cell for cell in cells if cell.mean is not None]
    return "\n\n".join(
        markdown([cell for cell in measured if cell.dataset == dataset]) for dataset in datasets
    )


if __name__ == "__main__":
    PAGE.write_text(update_tables(PAGE.read_text(encoding="utf-8")), encoding="utf-8")
