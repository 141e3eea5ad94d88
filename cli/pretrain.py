"""`gsx pretrain`: train the models that generation needs (extract, bridge, mask)."""

from __future__ import annotations

from typing import Any

import click

from gsx.cli.options import (
    RunOptions,
    device_option,
    feature_range_option,
    run_options,
    seed_option_with_default,
)
from gsx.cli.output import printable
from gsx.cli.resolve_corpus import resolve_corpus
from gsx.cli.run_plan import run_single_stage

_width_option = click.option(
    "--width", type=int, default=64, show_default=True, help="Hidden units per layer."
)


@click.group(short_help="Train the models that generation needs.")
def pretrain() -> None:
    """Train the models that generation needs, one at a time.

    `gsx generate` trains missing models itself. Use these commands to choose their options.
    """


@pretrain.command(short_help="Train the extractor of causal subgraphs.")
@click.argument("corpus")
@click.option(
    "--extractor",
    type=click.Choice(["posterior", "pair"]),
    default="posterior",
    show_default=True,
    help="Kind of extractor; `pair` is the pair learning of the paper.",
)
@seed_option_with_default
@_width_option
@click.option(
    "--node-epochs", type=int, default=8, show_default=True, help="Epochs over whole graphs."
)
@click.option(
    "--set-epochs",
    type=int,
    default=4,
    show_default=True,
    help="posterior: epochs over sets of nodes.",
)
@click.option(
    "--largest-piece",
    type=int,
    default=12,
    show_default=True,
    help="posterior: maximum number of nodes of a causal subgraph.",
)
@device_option
@run_options
def extract(corpus: str, run_options: RunOptions, **options: Any) -> None:  # noqa: ANN401
    """Train an extractor and split every training graph of CORPUS with it.

    The extractor finds the causal subgraph of a graph, a connected subgraph that determines the
    label. The remaining nodes are the environmental subgraph.
    """
    from gsx.storage.artifacts.store import Store

    artifact = resolve_corpus(Store.at(run_options.store), corpus)
    run_single_stage("extract", options, {"prepare": artifact}, run_options)


@pretrain.command(short_help="Train the bridge model.")
@click.argument("corpus")
@click.option(
    "--model",
    type=click.Choice(["vae", "diffusion"]),
    default="vae",
    show_default=True,
    help="Model that samples bridges.",
)
@click.option(
    "--bridge-nodes", is_flag=True, help="Also learn features of nodes to insert into bridges."
)
@seed_option_with_default
@click.option("--epochs", type=int, help="Epochs; each draws new cuts.  [default: 16]")
@_width_option
@device_option
@run_options
def bridge(corpus: str, run_options: RunOptions, **options: Any) -> None:  # noqa: ANN401
    """Train a bridge model on cuts of the training graphs of CORPUS.

    A cut splits a graph into two components. The model learns to predict the edges between them.
    """
    from gsx.storage.artifacts.store import Store

    artifact = resolve_corpus(Store.at(run_options.store), corpus)
    overrides = {name: value for name, value in options.items() if value is not None}
    run_single_stage("bridge", overrides, {"prepare": artifact}, run_options)


@pretrain.command(short_help="Train the feature mask of FeatX.")
@click.argument("corpus")
@seed_option_with_default
@click.option(
    "--steps", type=int, help="Training steps of the networks that score masks.  [default: 200]"
)
@feature_range_option
@run_options
def mask(corpus: str, run_options: RunOptions, **options: Any) -> None:  # noqa: ANN401
    """Select the features of CORPUS that depend on the environment and not on the label."""
    from gsx.storage.artifacts.store import Store

    artifact = resolve_corpus(Store.at(run_options.store), corpus)
    overrides = {name: value for name, value in options.items() if value not in (None, ())}
    built = run_single_stage("mask", overrides, {"prepare": artifact}, run_options)
    if built is not None and not run_options.quiet and not run_options.as_json:
        summary = built.artifact.manifest.summary
        click.echo(printable(summary["words"]))
        ranges = ", ".join(summary.get("domains", ()))
        click.echo(printable(f"Feature ranges: {ranges or 'those of the training data'}."))
