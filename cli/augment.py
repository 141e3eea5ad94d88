"""The command that makes the augmented corpora others compare with."""

from __future__ import annotations

from typing import Any

import click

from gsx.cli.options import (
    Asked,
    Making,
    augmented_only_option,
    crew_options,
    format_option,
    making_options,
    num_graphs_option,
    portable_option,
    raw_option,
    replicas_option,
    seed_option,
    shard_graphs_option,
)
from gsx.cli.run_plan import execute, print_last
from gsx.cli.share import portable_copy


@click.command(short_help="Augment a corpus by dropping, masking or mixing.")
@click.argument("source")
@click.argument("method", type=click.Choice(["drop-node", "drop-edge", "mask-feature", "g-mixup"]))
@click.option(
    "--rate", type=float, help="Share of nodes, edges or features that go.  [default: 0.1]"
)
@click.option(
    "--masked",
    type=click.Choice(["columns", "nodes", "values"]),
    help="mask-feature: a feature of all nodes, all of a node, or one.  [default: columns]",
)
@click.option(
    "--mix", metavar="LOW..HIGH", help="g-mixup: range of the weight λ.  [default: 0.1..0.2]"
)
@click.option("--pairs", type=int, help="g-mixup: pairs of classes to mix.  [default: 10]")
@click.option(
    "--ratio", type=float, help="New graphs per training graph.  [default: 1; g-mixup 0.2]"
)
@click.option("--count", type=int, help="New graphs, exactly.")
@replicas_option
@augmented_only_option
@seed_option
@num_graphs_option
@shard_graphs_option
@format_option
@raw_option
@portable_option
@crew_options
@making_options
def augment(
    source: str,
    out: str | None,
    asked: Asked,
    making: Making,
    **given: Any,  # noqa: ANN401
) -> None:
    """Augment SOURCE, a dataset or a corpus, by METHOD: what gsx is compared with.

    The new corpus holds the source graphs too, unless --augmented-only. Graphs that lack nodes,
    edges or features stay in the environment of their parent; mixed graphs have one of their own.
    Where nodes have labels, drop-edge and mask-feature repeat the graph; the others are graph-level
    only.
    """
    from gsx.cli.generate_plan import augmenting_plan

    plan, artifacts = augmenting_plan(source, given, making.store)
    made = execute(plan, artifacts, making, out, asked, hand_out=portable_copy)
    print_last(made, making)
