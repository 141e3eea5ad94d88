"""`gsx recommend`: find out which named recipe helps on a corpus."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import click

from gsx.cli.options import (
    RunOptions,
    cluster_options,
    num_graphs_option,
    out_option,
    raw_option,
    run_options,
    seed_option_with_default,
)
from gsx.cli.output import artifact_json, echo, format_table, print_json, wrap
from gsx.cli.run_plan import open_session
from gsx.pipeline.commands.option_values import RECOMMEND_BUDGET as BUDGET
from gsx.pipeline.distributed.cluster_options import ClusterOptions

if TYPE_CHECKING:
    from gsx.pipeline.recommend.evidence import Evidence
    from gsx.storage.artifacts.publish import BuildResult


@click.command(short_help="Find out which recipe helps on a corpus.")
@click.argument("source")
@click.option(
    "--budget",
    default=BUDGET,
    show_default=True,
    metavar="TIME",
    help="Computing time of the confirmation on one core, such as 90s, 10m or 1h; 0s only screens.",
)
@click.option(
    "--recipes",
    metavar="NAME,NAME",
    help="Recipes to compare with none.  [default: all that apply]",
)
@click.option(
    "--graphs",
    type=int,
    default=3000,
    show_default=True,
    help="Largest number of training graphs, and of validation graphs, to compare on.",
)
@seed_option_with_default
@num_graphs_option
@raw_option
@out_option
@cluster_options
@run_options
def recommend(
    source: str,
    *,
    budget: str,
    recipes: str | None,
    graphs: int,
    seed: int,
    num_graphs: int | None,
    raw: str | None,
    out: str | None,
    cluster: ClusterOptions,
    run_options: RunOptions,
) -> None:
    """Compare the named recipes on SOURCE, a dataset or a corpus, and recommend one, or none.

    Linear models screen all recipes that apply. Then small networks are trained with and without
    the most promising ones. Only training and validation data are read. A recipe is recommended if
    it is better than no augmentation with high probability; otherwise the answer is `none`.
    """
    from gsx.pipeline.commands.recommend import read_evidence
    from gsx.pipeline.commands.recommend import recommend as recommend_recipe

    results = recommend_recipe(
        source,
        {"num_graphs": num_graphs, "raw": raw},
        open_session(run_options, cluster),
        out,
        budget=budget,
        recipes=recipes,
        graphs=graphs,
        seed=seed,
    )
    if run_options.dry_run:
        return
    _, built, path = results[-1]
    evidence = read_evidence(built.artifact)
    if run_options.as_json:
        print_json({**artifact_json(built, path), **evidence_json(evidence, built)})
    elif not run_options.quiet:
        echo(*format_evidence(evidence, built), f"evidence: {path}/evidence.json",
             f"recipe:   {path}/recommended.toml")  # fmt: skip


def evidence_json(evidence: Evidence, built: BuildResult) -> dict[str, Any]:
    """Return the evidence as JSON, with the seconds of every recipe."""
    import msgspec

    from gsx.pipeline.commands.recommend import recipe_seconds

    document: dict[str, Any] = msgspec.to_builtins(evidence)
    return {**document, "recipe_seconds": recipe_seconds(built.artifact)}


def format_evidence(evidence: Evidence, built: BuildResult) -> list[str]:
    """Return a table of all compared recipes, and the recommendation."""
    from gsx.pipeline.commands.recommend import evidence_table, recipe_seconds

    rows, headers = evidence_table(evidence, recipe_seconds(built.artifact))
    lines = format_table(rows, headers) if rows else []
    left_out = [recipe for recipe in evidence.recipes if recipe.left_out is not None]
    if left_out:
        lines += wrap(
            "not compared: " + ", ".join(recipe.name for recipe in left_out)
        ).split("\n")  # fmt: skip
    lines += wrap(
        f"{evidence.metric} on {evidence.validation or 'no validation data'}: "
        f"{evidence.validation_items:,} items; {evidence.train_items:,} training items"
    ).split("\n")
    return [*lines, "", *format_choice(evidence)]


def format_choice(evidence: Evidence) -> list[str]:
    """Return the recommendation and its reason in two lines or a few more."""
    return [f"recommended: {evidence.choice}", *wrap(evidence.reason).split("\n")]
