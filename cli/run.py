"""`gsx run`: run all stages of a recipe."""

from __future__ import annotations

from pathlib import Path

import click

from gsx.cli.format_scores import format_scores
from gsx.cli.options import RunOptions, cluster_options, raw_option, run_options
from gsx.cli.output import echo, print_json
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
    from gsx.storage.corpora.summary import model_scores

    results = run_recipe(recipe, open_session(run_options, cluster), raw=raw)
    if run_options.dry_run:
        return
    steps = steps_json(results)
    for step, result in zip(steps, results, strict=True):
        manifest = result.built.artifact.manifest
        if manifest.kind == "model":
            step["scores"] = model_scores(manifest)
            if not (run_options.quiet or run_options.as_json):
                echo(*format_scores({**step["scores"]}))
    if run_options.as_json:
        print_json({"steps": steps})
