"""`gsx describe`: write and print statistics of a corpus."""

from __future__ import annotations

import click

from gsx.cli.options import RunOptions, run_options
from gsx.cli.run_plan import open_session, print_result


@click.command(short_help="Compute statistics of a corpus and its distribution shift.")
@click.argument("corpus")
@run_options
def describe(corpus: str, run_options: RunOptions) -> None:
    """Compute sizes, degrees and labels of CORPUS by split and domain, and their shift."""
    from gsx.cli.format_statistics import print_statistics
    from gsx.pipeline.commands.describe import describe as describe_corpus
    from gsx.pipeline.commands.describe import read_statistics
    from gsx.pipeline.commands.resolve_corpus import resolve_corpus

    session = open_session(run_options)
    step = describe_corpus(resolve_corpus(session.store, corpus), session)
    print_result(step, run_options)
    if step is not None and not run_options.quiet and not run_options.as_json:
        print_statistics(read_statistics(step.built.artifact))
