"""`gsx table`: compare training runs in a table of methods and datasets."""

from __future__ import annotations

from pathlib import Path

import click

from gsx.cli.options import json_option
from gsx.cli.output import echo, notify, print_json


@click.command("table", short_help="Compare training runs: methods by datasets.")
@click.argument("results", type=click.Path(path_type=Path))
@click.option(
    "--format",
    "table_format",
    type=click.Choice(["markdown", "csv", "latex", "json"]),
    default="markdown",
    show_default=True,
    help="Format of the table.",
)
@click.option(
    "--published",
    type=click.Path(path_type=Path, exists=True, dir_okay=False),
    help="CSV file of published scores to compare with.  [default: published.csv in RESULTS or its "
    "parent]",
)
@click.option(
    "--baseline",
    metavar="METHOD",
    help="Method that gains refer to.  [default: baseline, none, source or erm]",
)
@json_option
def table(
    *,
    results: Path,
    table_format: str,
    published: Path | None,
    baseline: str | None,
    as_json: bool,
) -> None:
    """Compare the result files of `gsx train` in RESULTS: test scores, mean ± std (seeds).

    `id_test` is in distribution, `ood_test` out of distribution; ↑ marks metrics whose larger
    values are better. The gain is the mean difference of `ood_test` to the baseline over common
    seeds, with Student's t interval of 95 %; positive is better. `gsx compare` gives intervals that
    also cover the test graphs. Each run is scored at the epoch that its `--select` names.
    """
    import dataclasses

    from gsx.stages.train import results_table

    runs, num_ignored = results_table.read_results(results)
    if published is None:
        candidates = (results / "published.csv", results.resolve().parent / "published.csv")
        published = next((path for path in candidates if path.is_file()), None)
    published_scores = results_table.read_published(published) if published else {}
    cells = results_table.summarize(runs, published_scores, baseline)
    if num_ignored:
        notify(f"{num_ignored} JSON files in {results} are not results of `gsx train`; left out")
    if as_json or table_format == "json":
        print_json({"cells": [dataclasses.asdict(cell) for cell in cells]})
        return
    formats = {
        "markdown": results_table.markdown,
        "latex": results_table.latex,
        "csv": results_table.csv_text,
    }
    echo(*formats[table_format](cells).split("\n"))
