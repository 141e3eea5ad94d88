"""Options of `gsx prepare` for user data, and their translation into options of the stage."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Any

import click

from gsx.errors import UsageError

_SOURCES = ("smiles", "tu", "ogb", "pyg", "good", "nodes")
_SOURCE_OPTIONS = "--smiles FILE, --tu DIR|ZIP, --ogb DIR, --pyg FILE, --good DIR or --nodes FILE"
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


def prepare_config(dataset: str | None, options: Mapping[str, Any]) -> dict[str, Any]:
    """Return the options of the stage `prepare` for the options of the command line."""
    sources = {name: options[name] for name in _SOURCES}
    given_sources = [name for name, file in sources.items() if file is not None]
    if options["edges"] is not None and options["nodes"] is None:
        raise UsageError("--edges needs --nodes FILE, the table of the nodes.")
    if len(given_sources) + (dataset is not None) > 1:
        raise UsageError(f"give exactly one source: a dataset, {_SOURCE_OPTIONS}")
    if not given_sources and dataset is None:
        raise UsageError(
            "Missing argument 'DATASET'. `gsx datasets` lists the datasets; for your own data use "
            f"{_SOURCE_OPTIONS}."
        )
    config: dict[str, Any] = {"dataset": given_sources[0] if given_sources else dataset}
    if given_sources:
        config["file"] = sources[given_sources[0]]
    for name, value in options.items():
        is_unset = value is None or value is False or value == ()
        if name not in sources and not is_unset:
            config[name] = _parse_ratios(value) if name == "ratios" else value
    return config


def _parse_ratios(text: str) -> tuple[float, ...]:
    try:
        ratios = tuple(float(number) for number in text.split("/"))
    except ValueError:
        ratios = ()
    if len(ratios) != 3:
        raise UsageError(f"--ratios takes three fractions such as 0.8/0.1/0.1; got `{text}`")
    return ratios
