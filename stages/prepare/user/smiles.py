"""Read a user's table of molecules (``smiles``), and split them."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np

from gsx.seeds import rng
from gsx.stages.prepare.dataset import DatasetRequest, PreparedDataset
from gsx.stages.prepare.molecule_dataset import CorpusDescription, MoleculeRequest, open_molecules
from gsx.stages.prepare.readers.csv_tables import open_table
from gsx.stages.prepare.targets import parse_labels
from gsx.stages.prepare.user.options import describe, split_rule
from gsx.stages.prepare.user.parsed_dataset import label_warnings


def open_smiles(order: DatasetRequest, chosen: Mapping[str, Any]) -> PreparedDataset:
    """Read the table and return what is to be written; the table is never in memory as a whole."""
    path = Path(chosen["file"])
    table = open_table(path, path.name)
    hint = " Name it with `--smiles-column`." if chosen["smiles_column"] == "smiles" else ""
    texts = (cell.strip() for cell in table.cells(chosen["smiles_column"], hint))
    values = np.stack([table.numbers(target) for target in chosen["targets"]], axis=1)
    labels = parse_labels(values, chosen["targets"], chosen["task"], chosen["metric"], path.name)
    domain = chosen["domain"].removeprefix("column:")
    asked = MoleculeRequest(
        where=path.name,
        smiles=texts,
        labels=labels,
        domain=domain,
        column=table.keys(domain) if domain != chosen["domain"] else None,
        rule=split_rule(chosen),
        given=table.splits(chosen["split_column"]) if chosen["split_column"] else None,
        infer=chosen["environments"] == "infer",
        strict=chosen["strict"],
        executor=order.executor,
    )
    about = CorpusDescription(name=chosen["name"], description=describe(chosen, domain))
    source = open_molecules(asked, about, rng(order.seed, "prepare", order.name, "id"))
    more = label_warnings(labels, source.split_sizes, "graph")
    return replace(source, warnings=source.warnings + more)
