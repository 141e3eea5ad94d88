"""`gsx generate`: write an augmented corpus with G-Splice, FeatX or both."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import click

from gsx.cli.options import (
    AliasedChoice,
    RunOptions,
    augmented_only_option,
    cluster_options,
    feature_range_option,
    format_option,
    num_graphs_option,
    portable_out_option,
    pretraining_preset_option,
    raw_option,
    replicas_option,
    run_options,
    seed_option,
    shard_graphs_option,
)
from gsx.cli.output import notify
from gsx.cli.run_plan import open_session, print_last_step
from gsx.pipeline.distributed.cluster_options import ClusterOptions

if TYPE_CHECKING:
    from gsx.pipeline.recommend.evidence import Evidence

NONE = "none"
"""The recipe that adds no graphs."""


@click.command(short_help="Generate graphs by splicing and feature extrapolation.")
@click.argument("source")
@click.option(
    "--recipe",
    metavar="NAME",
    help="Named recipe, such as grow; `gsx recipes` lists them. Other options override its own. "
    "`auto` is the one that `gsx recommend` finds.  [default: auto; with options that say how to "
    "make graphs, those of the paper]",
)
@click.option(
    "--budget",
    metavar="TIME",
    help="With auto: computing time to compare recipes, such as 90s or 10m.  [default: 3m]",
)
@click.option(
    "--options",
    "option_bits",
    metavar="BITS",
    help="Components to splice, three bits: causal subgraphs alone, causal with environmental "
    "subgraphs, whole graphs.  [default: 111]",
)
@click.option(
    "--f",
    "f",
    metavar="N|N..M",
    help="Environmental subgraphs, or whole graphs, per spliced graph.  [default: 2..4]",
)
@click.option(
    "--ratio", type=float, help="New graphs per training graph, for each option.  [default: 1]"
)
@click.option("--count", type=int, help="Number of new graphs, for each option.")
@click.option(
    "--partners",
    type=AliasedChoice(["any", "same-class", "same-component"], {"same-piece": "same-component"}),
    help="Graphs that may be spliced together: any, those of one class, or copies of one "
    "component.  [default: any]",
)
@click.option(
    "--balanced", is_flag=True, help="Draw lead components with equal probability per class."
)
@click.option(
    "--grow",
    type=float,
    help="Enlarge environmental subgraphs up to FLOAT times the largest training graph.  "
    "[default: 0, off]",
)
@click.option(
    "--chords", type=float, help="Random extra edges per edge of a spliced graph.  [default: 0]"
)
@click.option(
    "--fragments",
    type=int,
    help="Also splice fragments of environmental subgraphs: number of cuts.  [default: 0]",
)
@click.option(
    "--labels",
    type=click.Choice(["average", "any", "all", "sum", "size-scaled"]),
    help="Label rule for spliced whole graphs: mean label; positive if any is, positive if all "
    "are; for regression the sum, or the mean moved along the training trend over size.  "
    "[default: average]",
)
@click.option(
    "--label-conflicts",
    type=click.Choice(["merge", "reject", "keep"]),
    help="Equal causal subgraphs with different labels, for option 1: give them their mean label, "
    "leave them out, or keep all labels.  [default: merge]",
)
@click.option(
    "--min-causal-nodes",
    type=int,
    help="Smallest causal subgraph that becomes a graph of its own, for option 1.  [default: 3]",
)
@click.option(
    "--attach",
    type=click.Choice(["tree", "chain", "star"]),
    help="Join a component to any earlier one, to the previous one or to the first.  "
    "[default: tree]",
)
@click.option(
    "--bridges",
    type=AliasedChoice(["vae", "diffusion", "random", "none"], {"learned": "vae"}),
    help="Model that samples bridges; `none` leaves components unconnected.  [default: vae]",
)
@click.option(
    "--ports",
    type=click.Choice(["any", "own"]),
    help="Nodes of causal subgraphs that bridges may use: any, or those that had edges to the rest "
    "of their graph.  [default: any]",
)
@click.option(
    "--bridge-count",
    type=click.Choice(["expected", "sampled"]),
    help="Number of bridges between two components: expected value, or sampled.  "
    "[default: expected]",
)
@click.option(
    "--fixed-attributes", is_flag=True, help="Give all bridges the most frequent edge attributes."
)
@click.option("--bridge-nodes", is_flag=True, help="Insert a new node into every bridge.")
@click.option(
    "--featx",
    is_flag=True,
    help="Extrapolate features; also splice only if --options is given.",
)
@click.option(
    "--featx-features",
    type=click.Choice(["selected", "all"]),
    help="Features to extrapolate: those of the feature mask, or all.  [default: selected]",
)
@click.option(
    "--featx-direction",
    type=click.Choice(["extrapolate", "interpolate"]),
    help="Move features away from a partner, or towards it.  [default: extrapolate]",
)
@click.option("--featx-shape", type=float, help="Shape a of λ ~ Gamma(a, b).  [default: 2]")
@click.option("--featx-scale", type=float, help="Scale b of λ ~ Gamma(a, b).  [default: 0.5]")
@click.option(
    "--featx-rounds",
    type=int,
    help="Extrapolations per sample, each with another partner.  [default: 1]",
)
@click.option(
    "--featx-partner",
    type=click.Choice(["node", "ranked"]),
    help="Graph-level targets: pair all nodes with one random node of the partner, or each with "
    "the node of equal rank.  [default: node]",
)
@click.option(
    "--featx-ends",
    type=click.Choice(["around", "mirror"]),
    help="Values outside the feature range: wrap around or reflect.  [default: around]",
)
@feature_range_option
@replicas_option
@click.option(
    "--mask", "mask_key", metavar="KEY", help="Feature mask to use instead of training one."
)
@click.option("--extractor", metavar="KEY", help="Extractor to use instead of training one.")
@click.option(
    "--bridge", "bridge_key", metavar="KEY", help="Bridge model to use instead of training one."
)
@augmented_only_option
@seed_option
@num_graphs_option
@pretraining_preset_option
@shard_graphs_option
@format_option
@raw_option
@portable_out_option
@cluster_options
@run_options
def generate(
    source: str,
    out: str | None,
    cluster: ClusterOptions,
    run_options: RunOptions,
    **options: Any,  # noqa: ANN401
) -> None:
    """Generate an augmented corpus from SOURCE: a recipe, a dataset or a corpus.

    Missing inputs are built first: the source corpus, the extractor, the bridge model and the
    feature mask. The new corpus contains the source graphs too, unless --augmented-only is given.
    Corpora with node-level targets are not spliced; --featx adds replicas with extrapolated
    features.
    """
    from gsx.pipeline.commands.generate import generate as generate_corpus

    results = generate_corpus(
        source,
        options,
        open_session(run_options, cluster),
        out,
        on_choice=(lambda _: None) if run_options.quiet else _print_choice,
    )
    print_last_step(results, run_options)


def _print_choice(evidence: Evidence) -> None:
    """Print the recommendation, and what it means if no recipe is recommended."""
    from gsx.cli.recommend import format_choice

    for line in format_choice(evidence):
        notify(line)
    if evidence.choice == NONE:
        notify(
            "No graphs are added: the result is the source corpus. `--recipe NAME` adds them "
            "anyway; `gsx recipes` lists the names."
        )
