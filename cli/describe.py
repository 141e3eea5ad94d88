"""`gsx describe`: write and print statistics of a corpus."""

from __future__ import annotations

import click

from gsx.cli.options import RunOptions, run_options
from gsx.cli.resolve_corpus import resolve_corpus
from gsx.cli.run_plan import run_single_stage


@click.command(short_help="Compute statistics of a corpus and its distribution shift.")
@click.argument("corpus")
@run_options
def describe(corpus: str, run_options: RunOptions) -> None:
    """Compute sizes, degrees and labels of CORPUS by split and domain, and their shift."""
    from gsx.cli.format_statistics import print_statistics
    from gsx.storage.artifacts.store import Store

    artifact = resolve_corpus(Store.at(run_options.store), corpus)
    built = run_single_stage("describe", {}, {"prepare": artifact}, run_options)
    if built is not None and not run_options.quiet and not run_options.as_json:
        print_statistics(built)
