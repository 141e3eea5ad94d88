"""Formats ``smi`` and ``sdf``: molecules as SMILES lines or as structure-data files."""

from __future__ import annotations

from functools import partial
from pathlib import Path

import numpy as np

from gsx.errors import UsageError
from gsx.ragged import Ragged, decode_texts
from gsx.schema import ORIGINS
from gsx.stages.export.request import ExportRequest
from gsx.storage.sharing.bundle import Bundle
from gsx.table import GraphTable

_SDF_COLUMNS = ["graph_id", "env_id", "domain_id", "origin", "y", "smiles"]


def write_smi(bundle: Bundle, request: ExportRequest) -> None:
    """Write ``<split>.smi``: a SMILES string, a tab and the graph id per line."""
    _require_molecules(request)
    for split in request.corpus.splits:
        bundle.write(f"{split}.smi", partial(_write_smi_file, request=request, split=split))
    _copy_metadata(bundle, request)


def write_sdf(bundle: Bundle, request: ExportRequest) -> None:
    """Write ``<split>.sdf``: structures without coordinates, with labels and environments."""
    _require_molecules(request)
    for split in request.corpus.splits:
        bundle.write(f"{split}.sdf", partial(_write_sdf_file, request=request, split=split))
    _copy_metadata(bundle, request)


def _copy_metadata(bundle: Bundle, request: ExportRequest) -> None:
    for name in ("env_table.json", "corpus.json"):
        bundle.copy_file(request.corpus.artifact, name)


def _require_molecules(request: ExportRequest) -> None:
    if not any(column.name == "smiles" for column in request.corpus.info.columns):
        raise UsageError(
            f"{request.corpus.info.name} has no molecules (no column `smiles`). Export it "
            "with `--to portable`, `csv` or `pyg`."
        )


def count_without_smiles(request: ExportRequest) -> dict[str, int]:
    """Return the number of graphs without a SMILES string, by split; they are not written."""
    counts = dict.fromkeys(request.corpus.splits, 0)
    for shard_index, shard in enumerate(request.corpus.shards):
        texts = request.corpus.graph_columns(shard_index, ["smiles"])["smiles"]
        if isinstance(texts, Ragged):
            counts[shard.split] += int((np.diff(texts.ptr) == 0).sum())
    return counts


def _write_smi_file(path: Path, request: ExportRequest, split: str) -> None:
    with path.open("w", encoding="utf-8") as stream:
        for table in request.corpus.iter_tables(split=split, columns=["graph_id", "smiles"]):
            texts = decode_texts(table.lists("graph", "smiles"))
            ids = table.dense("graph", "graph_id").tolist()
            rows = zip(texts, ids, strict=True)
            stream.writelines(f"{text}\t{id_}\n" for text, id_ in rows if text)


def _write_sdf_file(path: Path, request: ExportRequest, split: str) -> None:
    from rdkit import Chem

    from gsx.stages.chem.smiles_reader import parse_smiles

    molecule_index = 0
    with path.open("w", encoding="utf-8") as stream:  # RDKit's writer ignores a full disk
        for table in request.corpus.iter_tables(split=split, columns=_SDF_COLUMNS):
            texts = decode_texts(table.lists("graph", "smiles"))
            for row, text in enumerate(texts):
                if not text:
                    continue
                molecule = parse_smiles(text)
                for name, value in _properties(request, table, row).items():
                    molecule.SetProp(name, value)
                stream.write(Chem.SDWriter.GetText(molecule, molid=molecule_index))
                molecule_index += 1


def _properties(request: ExportRequest, table: GraphTable, row: int) -> dict[str, str]:
    y = table.dense("graph", "y")[row]
    properties = {
        "_Name": str(table.dense("graph", "graph_id")[row]),
        "graph_id": str(table.dense("graph", "graph_id")[row]),
        "env_id": str(table.dense("graph", "env_id")[row]),
        "domain_id": str(table.dense("graph", "domain_id")[row]),
        "origin": ORIGINS[table.dense("graph", "origin")[row]],
    }
    for name, value in zip(request.corpus.info.outputs, y.tolist(), strict=True):
        if not np.isnan(value):
            properties[name] = f"{value:g}"
    return properties
