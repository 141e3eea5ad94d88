"""Read a table of molecules from a user (``smiles``) and split them."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import replace
from pathlib import Path
from typing import Any

from gsx.seeds import rng
from gsx.stages.prepare.dataset import DatasetRequest, PreparedDataset
from gsx.stages.prepare.molecule_dataset import CorpusDescription, MoleculeRequest, open_molecules
from gsx.stages.prepare.readers.csv_tables import open_table
from gsx.stages.prepare.readers.target_columns import read_targets
from gsx.stages.prepare.targets import parse_labels
from gsx.stages.prepare.user.options import corpus_description, split_rule
from gsx.stages.prepare.user.parsed_dataset import label_warnings


def open_smiles(request: DatasetRequest, options: Mapping[str, Any]) -> PreparedDataset:
    """Open a table of molecules; the table is streamed and never held in memory as a whole."""
    path = Path(options["file"])
    table = open_table(path, path.name)
    hint = "Name it with `--smiles-column`." if options["smiles_column"] == "smiles" else ""
    smiles = (cell.strip() for cell in table.cells(options["smiles_column"], hint))
    domain = options["domain"].removeprefix("column:")
    column_domain = {domain} if domain != options["domain"] else set()
    taken = {options["smiles_column"], options["split_column"], *column_domain}
    targets = read_targets(table, options["targets"], options["task"], taken)
    labels = parse_labels(
        targets.values, targets.names, options["task"], options["metric"], path.name,
        targets.classes,
    )  # fmt: skip
    molecules = MoleculeRequest(
        where=path.name,
        smiles=smiles,
        labels=labels,
        domain=domain,
        column=table.keys(domain) if domain != options["domain"] else None,
        rule=split_rule(options),
        preset_split=table.splits(options["split_column"]) if options["split_column"] else None,
        infer=options["environments"] == "infer",
        check_ratios=True,
        strict=options["strict"],
        max_atoms=options["max_atoms"],
        executor=request.executor,
        progress=request.progress,
    )
    description = CorpusDescription(
        name=options["name"], description=corpus_description(options, domain)
    )
    stream = rng(request.seed, "prepare", request.name, "id")
    dataset = open_molecules(molecules, description, stream)
    warnings = label_warnings(labels, dataset.split_sizes, "graph")
    return replace(dataset, warnings=dataset.warnings + warnings)
