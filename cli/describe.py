"""`gsx describe`: write and print statistics of a corpus."""

from __future__ import annotations

import click

from gsx.cli.options import RunOptions, run_options
from gsx.cli.output import artifact_json, print_json
from gsx.cli.run_plan import open_session


@click.command(short_help="Compute statistics of a corpus and its distribution shift.")
@click.argument("corpus")
@run_options
def describe(corpus: str, run_options: RunOptions) -> None:
    """Compute sizes, labels, features and domains of CORPUS by split, and their shift."""
    from gsx.cli.format_statistics import print_statistics
    from gsx.pipeline.commands.describe import describe as describe_corpus
    from gsx.pipeline.commands.describe import read_statistics
    from gsx.pipeline.commands.resolve_corpus import resolve_corpus

    session = open_session(run_options)
    step = describe_corpus(resolve_corpus(session.store, corpus), session)
    if step is None:
        return
    document = read_statistics(step.built.artifact)
    if run_options.as_json:
        statistics = {name: value for name, value in document.items() if name != "corpus"}
        warnings = step.built.artifact.manifest.warnings
        print_json({**artifact_json(step.built), "warnings": warnings, "statistics": statistics})
    elif not run_options.quiet:
        print_statistics(document)
