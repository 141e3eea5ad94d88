"""Update the tables of ``docs/results.md`` from the result files.

``python -m experiments.update_docs`` (part of ``make docs``) replaces the text between
``<!-- results: DATASET … -->``, ``<!-- field -->``, ``<!-- differences: SUITE -->`` or
``<!-- selection rules -->`` and ``<!-- end -->``. All other text stays unchanged. It also writes
``results/selection-rules.json``.
"""

from __future__ import annotations

import re

from experiments.analysis import differences, selection_rules
from experiments.analysis.baseline_comparison import comparison
from experiments.suite import RESULTS, ROOT
from gsx.stages.train.results_table import (
    Cell,
    published_markdown,
    read_published,
    read_results,
    summarize,
)

PAGE = ROOT / "docs" / "results.md"
PUBLISHED = RESULTS / "published.csv"
RESULT_TABLES = re.compile(r"(<!-- results: ([^>]+?) -->\n).*?(<!-- end -->)", re.DOTALL)


def update_tables(text: str) -> str:
    """Return the page with tables from the current result files."""
    results, _ = read_results(RESULTS)
    cells = summarize(results, read_published(PUBLISHED))
    text = RESULT_TABLES.sub(
        lambda match: f"{match[1]}\n{_tables(cells, match[2].split())}\n\n{match[3]}", text
    )
    tables = {
        "differences: recommend": differences.table("recommend"),
        "field": comparison(RESULTS / "field", PUBLISHED),
        "selection rules": selection_rules.table(selection_rules.summary(RESULTS)),
    }
    for name, table in tables.items():
        text = re.sub(
            rf"(<!-- {name} -->\n).*?(<!-- end -->)",
            lambda match, table=table: f"{match[1]}\n{table}\n\n{match[2]}",
            text,
            flags=re.DOTALL,
        )
    return text


def _tables(cells: list[Cell], datasets: list[str]) -> str:
    """Return one table per dataset, without methods that have only published scores."""
    measured = [cell for cell in cells if cell.mean is not None]
    return "\n\n".join(
        published_markdown([cell for cell in measured if cell.dataset == dataset])
        for dataset in datasets
    )


if __name__ == "__main__":
    selection_rules.write()
    PAGE.write_text(update_tables(PAGE.read_text(encoding="utf-8")), encoding="utf-8")
