"""Molecules as chemists pass them on: SMILES lines, or structures with what is known of them."""

from __future__ import annotations

from functools import partial
from pathlib import Path

import numpy as np

from gsx.errors import UsageError
from gsx.ragged import Ragged, decode_texts
from gsx.schema import ORIGINS
from gsx.stages.export.request import Given
from gsx.storage.sharing.bundle import Bundle
from gsx.table import GraphTable

_KEPT = ["graph_id", "env_id", "domain_id", "origin", "y", "smiles"]


def fill_smiles(bundle: Bundle, given: Given) -> None:
    """Write ``<split>.smi``: SMILES, a tab and the number of the graph, line by line."""
    _require_molecules(given)
    for split in given.corpus.splits:
        bundle.write(f"{split}.smi", partial(_write_smiles, given=given, split=split))
    _carry(bundle, given)


def fill_structures(bundle: Bundle, given: Given) -> None:
    """Write ``<split>.sdf``: structures without coordinates, with labels and environments."""
    _require_molecules(given)
    for split in given.corpus.splits:
        bundle.write(f"{split}.sdf", partial(_write_structures, given=given, split=split))
    _carry(bundle, given)


def _carry(bundle: Bundle, given: Given) -> None:
    for name in ("env_table.json", "corpus.json"):
        bundle.copy_file(given.corpus.artifact, name)


def _require_molecules(given: Given) -> None:
    if not any(column.name == "smiles" for column in given.corpus.info.columns):
        raise UsageError(
            f"{given.corpus.info.name} holds no molecules: it has no column `smiles`. "
            "Export it with `--to portable`, `csv` or `pyg`."
        )


def without_smiles(given: Given) -> dict[str, int]:
    """Return how many graphs of every split are no molecules, and so are not written."""
    found = dict.fromkeys(given.corpus.splits, 0)
    for number, shard in enumerate(given.corpus.shards):
        texts = given.corpus.graph_columns(number, ["smiles"])["smiles"]
        if isinstance(texts, Ragged):
            found[shard.split] += int((np.diff(texts.ptr) == 0).sum())
    return found


def _write_smiles(path: Path, given: Given, split: str) -> None:
    with path.open("w", encoding="utf-8") as stream:
        for table in given.corpus.iter_tables(split=split, columns=["graph_id", "smiles"]):
            texts = decode_texts(table.lists("graph", "smiles"))
            ids = table.dense("graph", "graph_id").tolist()
            rows = zip(texts, ids, strict=True)
            stream.writelines(f"{text}\t{id_}\n" for text, id_ in rows if text)


def _write_structures(path: Path, given: Given, split: str) -> None:
    from rdkit import Chem

    from gsx.stages.chem.smiles_reader import parse_smiles

    number = 0
    with path.open("w", encoding="utf-8") as stream:  # RDKit's own says nothing of a full disk
        for table in given.corpus.iter_tables(split=split, columns=_KEPT):
            texts = decode_texts(table.lists("graph", "smiles"))
            for row, text in enumerate(texts):
                if not text:
                    continue
                molecule = parse_smiles(text)
                for name, value in _properties(given, table, row).items():
                    molecule.SetProp(name, value)
                stream.write(Chem.SDWriter.GetText(molecule, molid=number))
                number += 1


def _properties(given: Given, table: GraphTable, row: int) -> dict[str, str]:
    y = table.dense("graph", "y")[row]
    found = {
        "_Name": str(table.dense("graph", "graph_id")[row]),
        "graph_id": str(table.dense("graph", "graph_id")[row]),
        "env_id": str(table.dense("graph", "env_id")[row]),
        "domain_id": str(table.dense("graph", "domain_id")[row]),
        "origin": ORIGINS[table.dense("graph", "origin")[row]],
    }
    for name, value in zip(given.corpus.info.outputs, y.tolist(), strict=True):
        if not np.isnan(value):
            found[name] = f"{value:g}"
    return found
