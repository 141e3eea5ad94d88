"""`gsx run`: run all stages of a recipe."""

from __future__ import annotations

from pathlib import Path

import click

from gsx.cli.options import RunOptions, cluster_options, raw_option, run_options
from gsx.cli.output import print_json
from gsx.cli.run_plan import open_session, steps_json
from gsx.pipeline.distributed.cluster_options import ClusterOptions


@click.command(short_help="Run a recipe; existing artifacts are reused.")
@click.argument("recipe", type=click.Path(path_type=Path))
@raw_option
@cluster_options
@run_options
def run(recipe: Path, raw: str | None, cluster: ClusterOptions, run_options: RunOptions) -> None:
    """Run RECIPE, a TOML file with one section per stage. Existing artifacts are reused."""
    from gsx.pipeline.commands.run import run as run_recipe

    results = run_recipe(recipe, open_session(run_options, cluster), raw=raw)
    if run_options.as_json and not run_options.dry_run:
        print_json({"steps": steps_json(results)})
