"""`gsx augment`: write an augmented corpus with a baseline method."""

from __future__ import annotations

from typing import Any

import click

from gsx.cli.options import (
    RunOptions,
    augmented_only_option,
    cluster_options,
    format_option,
    num_graphs_option,
    portable_out_option,
    raw_option,
    replicas_option,
    run_options,
    seed_option,
    shard_graphs_option,
)
from gsx.cli.run_plan import open_session, print_last_step
from gsx.pipeline.distributed.cluster_options import ClusterOptions


@click.command(short_help="Augment a corpus with a baseline: drop, mask or mix.")
@click.argument("source")
@click.argument("method", type=click.Choice(["drop-node", "drop-edge", "mask-feature", "g-mixup"]))
@click.option(
    "--rate",
    type=float,
    help="Probability that a node or edge is dropped or a feature is masked.  [default: 0.1]",
)
@click.option(
    "--masked",
    type=click.Choice(["columns", "nodes", "values"]),
    help="mask-feature: mask one feature of all nodes, all features of a node, or single values.  "
    "[default: columns]",
)
@click.option(
    "--mix", metavar="LOW..HIGH", help="g-mixup: range of the mixing weight λ.  [default: 0.1..0.2]"
)
@click.option("--pairs", type=int, help="g-mixup: pairs of classes to mix.  [default: 10]")
@click.option(
    "--ratio", type=float, help="New graphs per training graph.  [default: 1; g-mixup 0.2]"
)
@click.option("--count", type=int, help="Number of new graphs.")
@replicas_option
@augmented_only_option
@seed_option
@num_graphs_option
@shard_graphs_option
@format_option
@raw_option
@portable_out_option
@cluster_options
@run_options
def augment(
    source: str,
    out: str | None,
    cluster: ClusterOptions,
    run_options: RunOptions,
    **options: Any,  # noqa: ANN401
) -> None:
    """Augment SOURCE, a dataset or a corpus, with a baseline METHOD.

    The new corpus contains the source graphs too, unless --augmented-only is given. Graphs with
    dropped nodes or edges or masked features keep the environment of their source graph; mixed
    graphs get a new environment. With node-level targets, drop-edge and mask-feature add replicas
    of the graph; drop-node and g-mixup need graph-level targets.
    """
    from gsx.pipeline.commands.generate import augment as augment_corpus

    results = augment_corpus(source, options, open_session(run_options, cluster), out)
    print_last_step(results, run_options)
