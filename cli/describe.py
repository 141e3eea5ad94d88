"""`gsx describe`: write and print statistics of a corpus."""

from __future__ import annotations

import click

from gsx.cli.options import RunOptions, run_options
from gsx.cli.output import artifact_json, print_json
from gsx.cli.resolve_corpus import resolve_corpus
from gsx.cli.run_plan import run_single_stage


@click.command(short_help="Compute statistics of a corpus and its distribution shift.")
@click.argument("corpus")
@run_options
def describe(corpus: str, run_options: RunOptions) -> None:
    """Compute sizes, labels, features and domains of CORPUS by split, and their shift."""
    from gsx.cli.format_statistics import print_statistics
    from gsx.stages.describe.statistics_file import STATISTICS, STATISTICS_FILE
    from gsx.storage.artifacts.store import Store

    artifact = resolve_corpus(Store.at(run_options.store), corpus)
    built = run_single_stage("describe", {}, {"prepare": artifact}, run_options, print_result=False)
    if built is None:
        return
    document = STATISTICS_FILE.read(built.artifact.location, STATISTICS)
    if run_options.as_json:
        statistics = {name: value for name, value in document.items() if name != "corpus"}
        warnings = built.artifact.manifest.warnings
        print_json({**artifact_json(built), "warnings": warnings, "statistics": statistics})
    elif not run_options.quiet:
        print_statistics(document)
