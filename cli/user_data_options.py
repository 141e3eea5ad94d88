"""Options of `gsx prepare` for a user's own data, and what they mean as options of the stage."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Any

import click

from gsx.errors import UsageError

_SOURCES = ("smiles", "tu", "ogb", "pyg", "good", "nodes")
_LIST = "--smiles FILE, --tu DIR|ZIP, --ogb DIR, --pyg FILE, --good DIR or --nodes FILE"
_OPTIONS = (
    click.option("--smiles", metavar="FILE", help="Your own molecules: a CSV table with SMILES."),
    click.option("--tu", metavar="DIR|ZIP", help="Your own graphs: a dataset in TU files."),
    click.option("--ogb", metavar="DIR", help="Your own graphs: the folder of an OGB dataset."),
    click.option("--pyg", metavar="FILE", help="Your own graphs or nodes: PyG data in a .pt file."),
    click.option("--good", metavar="DIR", help="A domain of a dataset in the layout of GOOD."),
    click.option("--nodes", metavar="FILE", help="Your own nodes: a CSV table, with --edges."),
    click.option("--edges", metavar="FILE", help="A CSV table of pairs of node ids."),
    click.option("--name", help="What to call your own corpus.  [default: that of the file]"),
    click.option("--smiles-column", metavar="COLUMN", help="Where SMILES are.  [default: smiles]"),
    click.option("--id-column", metavar="COLUMN", help="Where ids of nodes are.  [default: id]"),
    click.option(
        "--feature-column",
        "feature_columns",
        metavar="COLUMN",
        multiple=True,
        help="A feature of nodes; name several.  [default: all columns left]",
    ),
    click.option(
        "--target",
        "targets",
        metavar="COLUMN",
        multiple=True,
        help="What to learn; name several for several tasks. Empty cells are missing values.",
    ),
    click.option(
        "--task",
        type=click.Choice(["binary", "multitask", "classification", "regression"]),
        help="What targets are.  [default: told from 0 and 1]",
    ),
    click.option(
        "--metric",
        type=click.Choice(["accuracy", "roc_auc", "mcc", "rmse"]),
        help="How predictions are scored.  [default: per task]",
    ),
    click.option(
        "--domain",
        metavar="size|scaffold|degree|column:NAME",
        help="What shifts between splits.  [default: size; of nodes degree]",
    ),
    click.option(
        "--rule",
        type=click.Choice(["domain-sorted", "quantile", "random", "column"]),
        help="How graphs are split.  [default: domain-sorted]",
    ),
    click.option(
        "--direction",
        type=click.Choice(["ascending", "descending"]),
        help="Train on the lowest domains, or on the highest.  [default: ascending]",
    ),
    click.option(
        "--ratios",
        metavar="A/B/C",
        help="Shares to train on, in ood_val, in each of id_val and id_test.  [default: .8/.1/.1]",
    ),
    click.option(
        "--split-column",
        metavar="COLUMN",
        help="Column (split of OGB, shift of GOOD) that names splits, for --rule column.",
    ),
    click.option("--strict", is_flag=True, help="Refuse a table with rows that cannot be read."),
)


def own_options(command: Callable[..., None]) -> Callable[..., None]:
    """Give a command the options for a user's own data."""
    for option in reversed(_OPTIONS):
        command = option(command)
    return command


def own_config(dataset: str | None, given: Mapping[str, Any]) -> dict[str, Any]:
    """Return the options of the stage that a command line stands for."""
    sources = {name: given[name] for name in _SOURCES}
    named = [name for name, file in sources.items() if file is not None]
    if given["edges"] is not None and given["nodes"] is None:
        raise UsageError("--edges goes with --nodes FILE, the table of the nodes it joins.")
    if len(named) + (dataset is not None) > 1:
        raise UsageError(f"name one thing to prepare: a dataset, {_LIST}")
    if not named and dataset is None:
        raise UsageError(
            f"Missing argument 'DATASET'. `gsx datasets` lists them; your own data is named with "
            f"{_LIST}."
        )
    options: dict[str, Any] = {"dataset": named[0] if named else dataset}
    if named:
        options["file"] = sources[named[0]]
    for name, value in given.items():
        left_open = value is None or value is False or value == ()
        if name not in sources and not left_open:
            options[name] = _ratios(value) if name == "ratios" else value
    return options


def _ratios(text: str) -> tuple[float, ...]:
    try:
        found = tuple(float(part) for part in text.split("/"))
    except ValueError:
        found = ()
    if len(found) != 3:
        raise UsageError(f"--ratios takes three shares such as 0.8/0.1/0.1; got `{text}`")
    return found
