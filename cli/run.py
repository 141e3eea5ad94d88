"""`gsx run`: run all stages of a recipe."""

from __future__ import annotations

from pathlib import Path

import click

from gsx.cli.options import RunOptions, cluster_options, raw_option, run_options
from gsx.cli.output import print_json
from gsx.cli.run_plan import execute_plan, steps_json
from gsx.pipeline.distributed.cluster_options import ClusterOptions


@click.command(short_help="Run a recipe; existing artifacts are reused.")
@click.argument("recipe", type=click.Path(path_type=Path))
@raw_option
@cluster_options
@run_options
def run(recipe: Path, raw: str | None, cluster: ClusterOptions, run_options: RunOptions) -> None:
    """Run RECIPE, a TOML file with one section per stage. Existing artifacts are reused."""
    from gsx.pipeline.plan import make_plan
    from gsx.pipeline.recipe import read_recipe

    plan = make_plan(read_recipe(recipe, raw=raw))
    results = execute_plan(plan, {}, run_options, None, cluster)
    if run_options.as_json and not run_options.dry_run:
        print_json({"steps": steps_json(results)})
