"""`gsx pretrain`: train the models that generation needs (extract, bridge, mask)."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import click

from gsx.cli.options import (
    OptionWithAliases,
    RunOptions,
    device_option,
    feature_range_option,
    pretraining_preset_option,
    run_options,
    seed_option_with_default,
)
from gsx.cli.output import echo
from gsx.cli.run_plan import open_session, print_result

if TYPE_CHECKING:
    from gsx.pipeline.commands.session import StepResult

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
    "--node-epochs", type=int, help="Epochs over whole graphs.  [default: 8; with quick 4]"
)
@click.option(
    "--set-epochs",
    type=int,
    help="posterior: epochs over sets of nodes.  [default: 4; with quick 2]",
)
@click.option(
    "--max-causal-nodes",
    "--largest-piece",
    "max_causal_nodes",
    cls=OptionWithAliases,
    type=int,
    default=12,
    show_default=True,
    help="posterior: maximum number of nodes of a causal subgraph (alias: --largest-piece).",
)
@click.option(
    "--subgraph-samples",
    type=int,
    help="pair: subgraphs to sample from every graph with the node scores as probabilities, as in "
    "the paper.  [default: 0, one subgraph by threshold]",
)
@pretraining_preset_option
@device_option
@run_options
def extract(corpus: str, run_options: RunOptions, **options: Any) -> None:  # noqa: ANN401
    """Train an extractor and split every training graph of CORPUS with it.

    The extractor finds the causal subgraph of a graph, a connected subgraph that determines the
    label. The remaining nodes are the environmental subgraph.
    """
    _pretrain("extract", corpus, options, run_options)


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
@click.option(
    "--epochs",
    type=int,
    help="Maximum number of epochs; each draws new cuts.  [default: 16; with quick 4]",
)
@click.option(
    "--epoch-graphs",
    type=int,
    help="Maximum number of graphs that are cut in an epoch.  [default: 8192]",
)
@click.option(
    "--patience",
    type=int,
    help="Stop after this many epochs without a higher likelihood of held-out bridges; 0 never "
    "stops early.  [default: 4]",
)
@_width_option
@pretraining_preset_option
@device_option
@run_options
def bridge(corpus: str, run_options: RunOptions, **options: Any) -> None:  # noqa: ANN401
    """Train a bridge model on cuts of the training graphs of CORPUS.

    A cut splits a graph into two components. The model learns to predict the edges between them.
    """
    _pretrain("bridge", corpus, options, run_options)


@pretrain.command(short_help="Train the feature mask of FeatX.")
@click.argument("corpus")
@seed_option_with_default
@click.option(
    "--mask-rule",
    "rule",
    type=click.Choice(["search", "paper"]),
    help="search: the mask that hides the environment and preserves the label; paper: the paper's "
    "variance score, with k1, k2 and T trained jointly with a classifier.  [default: search]",
)
@click.option(
    "--features",
    metavar="LIST",
    help="Select these features instead of learning a mask: names or numbers, such as 0,2 or 3-5.",
)
@click.option(
    "--steps",
    type=int,
    help="Training steps of the networks that score masks, or of the classifier.  [default: 200]",
)
@feature_range_option
@pretraining_preset_option
@run_options
def mask(
    corpus: str,
    run_options: RunOptions,
    **options: Any,  # noqa: ANN401
) -> None:
    """Select the features of CORPUS that depend on the environment and not on the label.

    Training takes seconds; the preset `quick` changes nothing.
    """
    from gsx.storage.corpora.summary import mask_summary

    step = _pretrain("mask", corpus, options, run_options)
    if step is not None and not run_options.quiet and not run_options.as_json:
        summary = mask_summary(step.built.artifact.manifest)
        echo(summary.get("description", ""))
        ranges = ", ".join(summary.get("feature_ranges", ()))
        default = "those of the training data (default); `--feature-range +50%` widens them"
        echo(f"Feature ranges: {ranges or default}.")


def _pretrain(
    stage: str, corpus: str, options: dict[str, Any], run_options: RunOptions
) -> StepResult | None:
    """Train a model and print the result; return None for a dry run."""
    from gsx.pipeline.commands.pretrain import pretrain as pretrain_model
    from gsx.pipeline.commands.resolve_corpus import resolve_corpus

    session = open_session(run_options)
    step = pretrain_model(stage, resolve_corpus(session.store, corpus), options, session)
    print_result(step, run_options)
    return step
