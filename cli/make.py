"""Commands that make corpora, or anything a recipe names: prepare, describe, generate, run."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import click

from gsx.cli.options import (
    FORMATS,
    Asked,
    Making,
    augmented_only_option,
    crew_options,
    feature_domain_option,
    format_option,
    making_options,
    num_graphs_option,
    out_option,
    portable_option,
    raw_option,
    replicas_option,
    seed_option,
    shard_graphs_option,
)
from gsx.cli.output import print_json
from gsx.cli.resolve_corpus import corpus_named
from gsx.cli.run_plan import execute, print_last, run_stage, steps_of
from gsx.cli.share import portable_copy
from gsx.cli.user_data_options import own_config, own_options


@click.command(short_help="Prepare the source corpus of a dataset, or of your own data.")
@click.argument("dataset", required=False)
@click.option("--num-graphs", type=int, help="Graphs of all splits.  [default: as published]")
@click.option("--seed", type=int, default=0, show_default=True, help="Root of all random streams.")
@shard_graphs_option
@click.option(
    "--format",
    "form",
    type=click.Choice(list(FORMATS)),
    default="parquet",
    show_default=True,
    help="How graphs are stored.",
)
@click.option(
    "--envs",
    metavar="K|WORD",
    help="How many environments, or what one is; `infer` groups your own that look alike.  "
    "[default: per dataset]",
)
@click.option(
    "--protocol",
    type=click.Choice(["paper", "mid"]),
    help="dd-size, nci1-size: leave middle sizes out, or validate on them.  [default: mid]",
)
@click.option(
    "--features",
    type=click.Choice(["hashed", "minilm"]),
    help="sst2-length, twitter-length: vectors of words.  [default: hashed]",
)
@own_options
@raw_option
@out_option
@crew_options
@making_options
def prepare(
    dataset: str | None,
    form: str,
    envs: str | None,
    out: str | None,
    asked: Asked,
    making: Making,
    **given: Any,  # noqa: ANN401
) -> None:
    """Prepare the source corpus of DATASET: graphs, labels, splits, environments.

    `gsx datasets` lists the names. Your own data is named instead with --smiles, --tu, --ogb,
    --pyg, --good, or --nodes and --edges. Molecules and images are read by the workers that are
    asked for, else by one process per processor (GSX_WORKERS); other data is quick to read.
    """
    options = {**own_config(dataset, given), "formats": FORMATS[form], "raw": given["raw"]}
    if envs is not None:
        options["environments"] = int(envs) if envs.isdecimal() else envs
    run_stage("prepare", options, {}, making, out, asked=asked)


@click.command(short_help="Describe a corpus and how far its splits shift.")
@click.argument("corpus")
@making_options
def describe(corpus: str, making: Making) -> None:
    """Describe CORPUS: sizes, degrees and labels per split and domain, and how far they shift."""
    from gsx.cli.format_statistics import show_statistics
    from gsx.storage.artifacts.store import Store

    artifact = corpus_named(Store.at(making.store), corpus)
    built = run_stage("describe", {}, {"prepare": artifact}, making)
    if built is not None and not making.quiet and not making.as_json:
        show_statistics(built)


@click.command(short_help="Generate a corpus: spliced graphs, moved features.")
@click.argument("source")
@click.option(
    "--options",
    "code",
    help="Three bits: pieces alone, pieces with surroundings, whole graphs.  [default: 111]",
)
@click.option(
    "--f", "f", metavar="N|N..M", help="Graphs or surroundings per splice.  [default: 2..4]"
)
@click.option(
    "--ratio", type=float, help="New graphs of each option per training graph.  [default: 1]"
)
@click.option("--count", type=int, help="New graphs of each option, exactly.")
@click.option(
    "--partners",
    type=click.Choice(["any", "same-class", "same-piece"]),
    help="Which graphs meet in a splice.  [default: any]",
)
@click.option("--balanced", is_flag=True, help="Every class leads as many new graphs.")
@click.option(
    "--grow", type=float, help="Grow surroundings to so many largest graphs.  [default: 0, off]"
)
@click.option("--chords", type=float, help="Random edges added per edge.  [default: 0]")
@click.option("--fragments", type=int, help="Cuts of surroundings to splice too.  [default: 0]")
@click.option(
    "--labels",
    type=click.Choice(["average", "any", "all"]),
    help="What whole graphs say together: their mean, yes if any, if all do.  [default: average]",
)
@click.option(
    "--attach",
    type=click.Choice(["tree", "chain", "star"]),
    help="What a component is joined to.  [default: tree]",
)
@click.option(
    "--bridges",
    type=click.Choice(["vae", "diffusion", "random", "none"]),
    help="How components are joined.  [default: vae]",
)
@click.option(
    "--ports",
    type=click.Choice(["any", "own"]),
    help="Where pieces take bridges: anywhere, or where they had them.  [default: any]",
)
@click.option(
    "--bridge-count",
    type=click.Choice(["expected", "sampled"]),
    help="How many bridges a joint gets.  [default: expected]",
)
@click.option("--fixed-attributes", is_flag=True, help="Bridges all have the commonest attributes.")
@click.option("--bridge-nodes", is_flag=True, help="Bridges lead over nodes of their own.")
@click.option("--featx", is_flag=True, help="Move features too; alone unless --options are given.")
@click.option(
    "--featx-features",
    type=click.Choice(["selected", "all"]),
    help="Features to move: those of the mask, or all.  [default: selected]",
)
@click.option(
    "--featx-direction",
    type=click.Choice(["extrapolate", "interpolate"]),
    help="Away from a partner, or towards it.  [default: extrapolate]",
)
@click.option("--featx-shape", type=float, help="Shape a of λ ~ Gamma(a, b).  [default: 2]")
@click.option("--featx-scale", type=float, help="Scale b of λ ~ Gamma(a, b).  [default: 0.5]")
@click.option("--featx-rounds", type=int, help="Times a sample is moved.  [default: 1]")
@click.option(
    "--featx-partner",
    type=click.Choice(["node", "ranked"]),
    help="Away from one node of the partner, or each node from that of its rank.  [default: node]",
)
@click.option(
    "--featx-ends",
    type=click.Choice(["around", "mirror"]),
    help="At the ends of a domain go around it, or back.  [default: around]",
)
@feature_domain_option
@replicas_option
@click.option("--mask", "mask_key", metavar="KEY", help="Mask of features to use.")
@click.option("--extractor", metavar="KEY", help="Pieces to use instead of training anew.")
@click.option("--bridge", "bridge_key", metavar="KEY", help="Bridge model to use.")
@augmented_only_option
@seed_option
@num_graphs_option
@click.option(
    "--preset",
    type=click.Choice(["quick", "default"]),
    default="default",
    show_default=True,
    help="How long pretraining takes.",
)
@shard_graphs_option
@format_option
@raw_option
@portable_option
@crew_options
@making_options
def generate(
    source: str,
    out: str | None,
    asked: Asked,
    making: Making,
    **given: Any,  # noqa: ANN401
) -> None:
    """Generate a corpus from SOURCE: a recipe, the name of a dataset, or a corpus.

    Whatever SOURCE lacks is made first: the source corpus, the pieces of its graphs, a model of
    bridges, a mask of features. The new corpus holds the source graphs too, unless
    --augmented-only. Graphs whose nodes have labels are not spliced: --featx repeats them.
    """
    from gsx.cli.generate_plan import generating_plan

    plan, artifacts = generating_plan(source, given, making.store)
    made = execute(plan, artifacts, making, out, asked, hand_out=portable_copy)
    print_last(made, making)


@click.command(short_help="Run a recipe: make what is missing.")
@click.argument("recipe", type=click.Path(path_type=Path))
@raw_option
@crew_options
@making_options
def run(recipe: Path, raw: str | None, asked: Asked, making: Making) -> None:
    """Run RECIPE, a TOML file with one section per stage: only what is missing is made."""
    from gsx.pipeline.plan import make_plan
    from gsx.pipeline.recipe import read_recipe

    made = execute(make_plan(read_recipe(recipe, raw=raw)), {}, making, None, asked)
    if making.as_json and not making.dry_run:
        print_json({"steps": steps_of(made)})
