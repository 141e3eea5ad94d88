"""Write the tables of ``docs/results.md`` anew from the result files: ``python results/page.py``.

Text stays as it is; tables stand between ``<!-- results: DATASET … -->`` and ``<!-- end -->``, that
of ``results/field`` between ``<!-- field -->`` and ``<!-- end -->``.
"""

from __future__ import annotations

import re

from comparison import comparison
from runs import FOLDER

from gsx.cli.tables import Cell, markdown, read_published, read_results, summarize

PAGE = FOLDER.parent / "docs" / "results.md"
PLACE = re.compile(r"(<!-- results: ([^>]+?) -->\n).*?(<!-- end -->)", re.DOTALL)
FIELD = re.compile(r"(<!-- field -->\n).*?(<!-- end -->)", re.DOTALL)


def page(text: str) -> str:
    """Return a page with all its tables as the result files have them."""
    runs, _ = read_results(FOLDER)
    published = FOLDER / "published.csv"
    cells = summarize(runs, read_published(published))

    def table(found: re.Match[str]) -> str:
        wanted = found[2].split()
        return f"{found[1]}\n{_tables(cells, wanted)}\n\n{found[3]}"

    text = PLACE.sub(table, text)
    return FIELD.sub(
        lambda found: f"{found[1]}\n{comparison(FOLDER / 'field', published)}\n\n{found[2]}", text
    )


def _tables(cells: list[Cell], datasets: list[str]) -> str:
    """Return tables of what was run, in the order asked for."""
    chosen = [cell for cell in cells if cell.mean is not None]
    return "\n\n".join(
        markdown([cell for cell in chosen if cell.dataset == dataset]) for dataset in datasets
    )


if __name__ == "__main__":
    PAGE.write_text(page(PAGE.read_text(encoding="utf-8")), encoding="utf-8")
