"""Options of training, shared by `gsx train` and `gsx compare`."""

from __future__ import annotations

import functools
from collections.abc import Callable

import click

from gsx.cli.options import OptionWithAliases
from gsx.pipeline.commands.option_values import PRESETS as PRESETS


class TrainCommand(click.Command):
    """Command with the hyper-parameters of all algorithms as options, after its first argument.

    The options are created on first use, so that other commands start without importing the
    algorithms.
    """

    @functools.cached_property
    def algorithm_options(self) -> list[click.Parameter]:
        """The options of algorithms."""
        from gsx.stages.train.algorithms import ALGORITHMS
        from gsx.stages.train.algorithms.options import OPTIONS

        names = [algorithm.name for algorithm in ALGORITHMS]
        algorithm = OptionWithAliases(
            ["--algorithm", "--learner", "learner"],
            type=click.Choice(names),
            metavar="NAME",
            help=f"Training algorithm: {', '.join(names)} (alias: --learner).  [default: erm]",
        )
        hyperparameters = [
            click.Option(["--" + option.name.replace("_", "-")], type=option.type, help=option.help)
            for option in OPTIONS.values()
        ]
        return [algorithm, *hyperparameters]

    def get_params(self, ctx: click.Context) -> list[click.Parameter]:
        """Return the argument, the options of algorithms, then all other options."""
        argument, *options = super().get_params(ctx)
        return [argument, *self.algorithm_options, *options]


_TRAINING_OPTIONS = (
    click.option(
        "--preset",
        type=click.Choice(list(PRESETS)),
        default="default",
        show_default=True,
        help="Values of width, epochs, learning rate and dropout; `paper` needs a GPU.",
    ),
    click.option(
        "--backbone",
        type=click.Choice(["gin", "vgin", "gcn", "wl", "morgan", "size", "mean", "node"]),
        help="Graph neural network (first three) or linear model of Weisfeiler-Lehman counts, "
        "Morgan fingerprints, size, means of node features, or features of nodes and their "
        "neighbors.  [default: gcn for nodes, vgin for molecules, else gin]",
    ),
    click.option(
        "--counts",
        type=click.Choice(["auto", "counts", "log", "shares"]),
        help="wl, morgan: how counts become features.  [default: the best by validation]",
    ),
    click.option(
        "--strength",
        type=float,
        help="Linear models: L2 penalty.  [default: the best by validation]",
    ),
    click.option("--epochs", type=int, help="Epochs over the training graphs."),
    click.option(
        "--steps",
        type=int,
        help="Gradient steps instead of epochs, rounded to whole epochs: corpora of different "
        "sizes get the same training.",
    ),
    click.option("--width", type=int, help="Hidden units per layer."),
    click.option("--layers", type=int, help="Message-passing layers; for `wl`, rounds."),
    click.option(
        "--batch-size", type=int, help="Graphs per batch; for nodes, random walks per sample."
    ),
    click.option("--samples", type=int, help="Nodes: batches per epoch.  [default: 10]"),
    click.option("--learning-rate", type=float, help="Initial learning rate."),
    click.option("--weight-decay", type=float, help="L2 penalty in Adam.  [default: 0]"),
    click.option("--dropout", type=float, help="Dropout probability after every layer."),
    click.option(
        "--readout",
        type=click.Choice(["mean", "sum", "mean+size"]),
        help="Features of a graph from its node states; `mean+size` adds its size.  "
        "[default: mean]",
    ),
    click.option(
        "--average",
        type=float,
        help="Decay of an exponential moving average of weights; 0: off.  [default: 0.99]",
    ),
    click.option(
        "--select",
        type=click.Choice(["last", "ood_val", "id_val", "augmented"]),
        help="Epoch to report: the last, or the best by OOD validation, by ID validation or on "
        "augmented graphs of held-out parents.  [default: last; with --preset paper: ood_val]",
    ),
    click.option("--env-balanced", is_flag=True, help="Sample all environments equally often."),
)
precision_option = click.option(
    "--precision",
    type=click.Choice(["full", "bf16", "auto"]),
    default="full",
    show_default=True,
    help="bf16: 16-bit matrix products; `auto` uses them on GPUs that support them.",
)


def training_options(command: Callable[..., None]) -> Callable[..., None]:
    """Add the options of training other than those of algorithms, seeds and devices."""
    for option in reversed(_TRAINING_OPTIONS):
        command = option(command)
    return command
