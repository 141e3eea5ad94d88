"""Commands that train what generation needs: extract, bridge, mask."""

from __future__ import annotations

from typing import Any

import click

from gsx.cli.options import Making, device_option, feature_domain_option, making_options
from gsx.cli.output import plain
from gsx.cli.resolve_corpus import corpus_named
from gsx.cli.run_plan import run_stage


@click.group(short_help="Train what generation needs, one stage at a time.")
def pretrain() -> None:
    """Train what generation needs, one stage at a time."""


@pretrain.command(short_help="Learn which piece of a graph carries its label.")
@click.argument("corpus")
@click.option(
    "--extractor",
    type=click.Choice(["posterior", "pair"]),
    default="posterior",
    show_default=True,
    help="How pieces are found; `pair` is the paper's pair learning.",
)
@click.option("--seed", type=int, default=0, show_default=True, help="Root of all random streams.")
@click.option("--width", type=int, default=64, show_default=True, help="Units of every layer.")
@click.option("--node-epochs", type=int, default=8, show_default=True, help="Passes over nodes.")
@click.option("--set-epochs", type=int, default=4, show_default=True, help="Passes over sets.")
@click.option(
    "--largest-piece", type=int, default=12, show_default=True, help="Nodes at which growth ends."
)
@device_option
@making_options
def extract(
    corpus: str,
    extractor: str,
    seed: int,
    width: int,
    node_epochs: int,
    set_epochs: int,
    largest_piece: int,
    device: str,
    making: Making,
) -> None:
    """Learn which connected piece of every training graph of CORPUS carries its label."""
    from gsx.storage.artifacts.store import Store

    artifact = corpus_named(Store.at(making.store), corpus)
    options = {
        "extractor": extractor,
        "seed": seed,
        "width": width,
        "node_epochs": node_epochs,
        "set_epochs": set_epochs,
        "largest_piece": largest_piece,
        "device": device,
    }
    run_stage("extract", options, {"prepare": artifact}, making)


@pretrain.command(short_help="Learn which nodes an edge between two parts joins.")
@click.argument("corpus")
@click.option(
    "--model",
    type=click.Choice(["vae", "diffusion"]),
    default="vae",
    show_default=True,
    help="How bridges are drawn.",
)
@click.option("--bridge-nodes", is_flag=True, help="Also learn nodes to put into bridges.")
@click.option("--seed", type=int, default=0, show_default=True, help="Root of all random streams.")
@click.option("--epochs", type=int, help="Passes over fresh cuts.  [default: 16]")
@click.option("--width", type=int, default=64, show_default=True, help="Units of every layer.")
@device_option
@making_options
def bridge(corpus: str, making: Making, **given: Any) -> None:  # noqa: ANN401
    """Learn from cuts of the training graphs of CORPUS how two parts are joined."""
    from gsx.storage.artifacts.store import Store

    artifact = corpus_named(Store.at(making.store), corpus)
    options = {name: value for name, value in given.items() if value is not None}
    run_stage("bridge", options, {"prepare": artifact}, making)


@pretrain.command(short_help="Learn which features FeatX may move.")
@click.argument("corpus")
@click.option("--seed", type=int, default=0, show_default=True, help="Root of all random streams.")
@click.option("--steps", type=int, help="Steps of the networks that judge masks.  [default: 200]")
@feature_domain_option
@making_options
def mask(corpus: str, making: Making, **given: Any) -> None:  # noqa: ANN401
    """Learn which features of CORPUS vary with the environment and do not make the label."""
    from gsx.storage.artifacts.store import Store

    artifact = corpus_named(Store.at(making.store), corpus)
    options = {name: value for name, value in given.items() if value not in (None, ())}
    built = run_stage("mask", options, {"prepare": artifact}, making)
    if built is not None and not making.quiet and not making.as_json:
        summary = built.artifact.manifest.summary
        click.echo(plain(summary["words"]))
        domains = ", ".join(summary.get("domains", ()))
        click.echo(plain(f"Domains of features: {domains or 'those of the training data'}."))
