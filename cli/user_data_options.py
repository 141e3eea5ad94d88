"""Options of `gsx prepare` for user data."""

from __future__ import annotations

from collections.abc import Callable

import click

_OPTIONS = (
    click.option("--smiles", metavar="FILE", help="Your molecules: a CSV file with SMILES."),
    click.option("--tu", metavar="DIR|ZIP", help="Your graphs: TUDataset files."),
    click.option("--ogb", metavar="DIR", help="Your graphs: directory of an OGB dataset."),
    click.option(
        "--pyg", metavar="FILE", help="Your graphs or labelled nodes: PyG data in a .pt file."
    ),
    click.option("--good", metavar="DIR", help="One domain of a dataset in GOOD layout."),
    click.option("--nodes", metavar="FILE", help="Your labelled nodes: a CSV file, with --edges."),
    click.option("--edges", metavar="FILE", help="CSV file with pairs of node ids."),
    click.option(
        "--name", help="Name of the corpus.  [default: name of the file; motif: DATASET-custom]"
    ),
    click.option(
        "--smiles-column", metavar="COLUMN", help="Column with SMILES.  [default: smiles]"
    ),
    click.option("--id-column", metavar="COLUMN", help="Column with node ids.  [default: id]"),
    click.option(
        "--feature-column",
        "feature_columns",
        metavar="COLUMN",
        multiple=True,
        help="Column with a node feature; repeatable.  [default: all other columns]",
    ),
    click.option(
        "--target",
        "targets",
        metavar="COLUMN",
        multiple=True,
        help="Column with a target, a pattern such as `assay_*`, or `all`; `!name` leaves a column "
        "out; repeatable for several tasks. Empty cells are missing values.",
    ),
    click.option(
        "--task",
        type=click.Choice(["binary", "multitask", "classification", "regression"]),
        help="Type of the targets.  [default: binary or multitask for values 0 and 1]",
    ),
    click.option(
        "--metric",
        type=click.Choice(["accuracy", "roc_auc", "mcc", "rmse"]),
        help="Metric of predictions.  [default: depends on the task]",
    ),
    click.option(
        "--domain",
        metavar="size|scaffold|degree|column:NAME",
        help="Quantity that shifts between splits.  [default: size; degree for nodes]",
    ),
    click.option(
        "--rule",
        type=click.Choice(["domain-sorted", "quantile", "random", "column"]),
        help="How to split.  [default: domain-sorted]",
    ),
    click.option(
        "--direction",
        type=click.Choice(["ascending", "descending"]),
        help="Train on the lowest or on the highest domains (also motif-size).  "
        "[default: ascending]",
    ),
    click.option(
        "--ratios",
        metavar="A/B/C",
        help="Fractions of train, of ood_val, and of id_val and id_test each.  [default: .8/.1/.1]",
    ),
    click.option(
        "--divide-domains",
        is_flag=True,
        help="Divide domains that are too large for the ratios; their parts are in several splits.",
    ),
    click.option(
        "--min-test-per-class",
        type=int,
        metavar="N",
        help="Smallest number of examples of every class in id_test and ood_test.  [default: 0]",
    ),
    click.option(
        "--split-column",
        metavar="COLUMN",
        help="With --rule column: column with the split (OGB: split name, GOOD: shift).",
    ),
    click.option(
        "--max-atoms",
        type=int,
        metavar="N",
        help="Molecules with more atoms are unreadable rows.  [default: 600]",
    ),
    click.option("--strict", is_flag=True, help="Fail if a row cannot be read."),
)


def user_data_options(command: Callable[..., None]) -> Callable[..., None]:
    """Add the options for user data to a command."""
    for option in reversed(_OPTIONS):
        command = option(command)
    return command
