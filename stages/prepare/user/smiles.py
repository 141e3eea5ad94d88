"""Read a user's table of molecules (``smiles``), and split them."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np

from gsx.seeds import rng
from gsx.stages.prepare.dataset import Order, Source
from gsx.stages.prepare.molecule_dataset import About, Asked, open_molecules
from gsx.stages.prepare.readers.csv_tables import open_table
from gsx.stages.prepare.targets import labels_of
from gsx.stages.prepare.user.options import describe, rule_of
from gsx.stages.prepare.user.parsed_dataset import label_warnings


def open_smiles(order: Order, chosen: Mapping[str, Any]) -> Source:
    """Read the table and return what is to be written; the table is never in memory as a whole."""
    path = Path(chosen["file"])
    table = open_table(path, path.name)
    hint = " Name it with `--smiles-column`." if chosen["smiles_column"] == "smiles" else ""
    texts = (cell.strip() for cell in table.cells(chosen["smiles_column"], hint))
    values = np.stack([table.numbers(target) for target in chosen["targets"]], axis=1)
    labels = labels_of(values, chosen["targets"], chosen["task"], chosen["metric"], path.name)
    domain = chosen["domain"].removeprefix("column:")
    asked = Asked(
        where=path.name,
        smiles=texts,
        labels=labels,
        domain=domain,
        column=table.keys(domain) if domain != chosen["domain"] else None,
        rule=rule_of(chosen),
        given=table.splits(chosen["split_column"]) if chosen["split_column"] else None,
        infer=chosen["environments"] == "infer",
        strict=chosen["strict"],
    )
    about = About(name=chosen["name"], description=describe(chosen, domain))
    source = open_molecules(asked, about, rng(order.seed, "prepare", order.name, "id"))
    more = label_warnings(labels, source.split_sizes, "graph")
    return replace(source, warnings=source.warnings + more)
