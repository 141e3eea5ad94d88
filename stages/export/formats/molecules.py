"""Formats ``smi``, ``sdf`` and ``chemprop``: molecules as text, structure-data files or tables."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from functools import partial
from pathlib import Path

import numpy as np

from gsx.errors import MoleculeError, UsageError
from gsx.escape import column_names, one_line, sdf_property_names
from gsx.ragged import Ragged, decode_texts
from gsx.schema import ORIGINS
from gsx.stages.export.hard_labels import apply_label_mode, is_soft
from gsx.stages.export.request import ExportRequest
from gsx.storage.sharing.bundle import Bundle
from gsx.storage.sharing.csv_file import Columns, write_csv
from gsx.table import GraphTable

_LABELS = ("y", "label", "smiles")
_STEREO = ("@", "/", "\\")
"""Characters that SMILES with stereo contain."""
_CHEMPROP_FILES: Mapping[str, Mapping[str, str]] = {
    "chemprop.csv": {"train": "train", "ood_val": "val", "ood_test": "test"},
    "id.csv": {"id_val": "val", "id_test": "test"},
}
"""File → its splits, with their names for chemprop."""
_SDF_COLUMNS = ["graph_id", "env_id", "domain_id", "origin", "y", "smiles"]


def write_smi(bundle: Bundle, request: ExportRequest) -> None:
    """Write ``<split>.smi``: SMILES, graph id and labels per line, separated by tabs.

    Labels are the values of ``y``, one column per output in the order of ``corpus.json``; a missing
    one is empty.
    """
    _require_molecules(request)
    for split in request.corpus.splits:
        bundle.write(f"{split}.smi", partial(_write_smi_file, request=request, split=split))
    _copy_metadata(bundle, request)


def write_sdf(bundle: Bundle, request: ExportRequest) -> None:
    """Write ``<split>.sdf``: structures with labels and environments.

    Molecules with stereo get 2-D coordinates, which encode it; all coordinates of others are 0.
    """
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


def count_without_smiles(request: ExportRequest, *, hard_labels: bool = False) -> dict[str, int]:
    """Return the number of graphs without a SMILES string, by split; they are not written.

    With ``hard_labels``, graphs that the label mode leaves out are not counted.
    """
    counts = dict.fromkeys(request.corpus.splits, 0)
    for shard_index, shard in enumerate(request.corpus.shards):
        columns = request.corpus.graph_columns(shard_index, ["smiles", "y", "label"])
        texts = columns["smiles"]
        if not isinstance(texts, Ragged):
            continue
        missing = np.diff(texts.ptr) == 0
        if hard_labels and request.labels == "same-class":
            missing &= ~is_soft(request.corpus.info, columns)
        counts[shard.split] += int(missing.sum())
    return counts


def write_chemprop(bundle: Bundle, request: ExportRequest) -> None:
    """Write tables that chemprop trains on: SMILES, targets, and ``train``, ``val`` or ``test``.

    ``chemprop.csv`` holds the training split, OOD validation and OOD test; ``id.csv`` the
    in-distribution splits. Classes are numbers.
    """
    _require_molecules(request)
    if request.labels == "soft" and request.corpus.info.task == "classification":
        raise UsageError(
            "chemprop reads one class per molecule, and `--labels soft` keeps distributions. Use "
            "`--labels argmax` or `same-class`."
        )
    for name, splits in _CHEMPROP_FILES.items():
        if any(split in request.corpus.splits for split in splits):
            bundle.write(name, partial(write_csv, blocks=_chemprop_blocks(request, splits)))
    info = request.corpus.info
    task = {"regression": "regression", "classification": "multiclass"}.get(
        info.task, "classification"
    )
    classes = f" --multiclass-num-classes {len(info.outputs)}" if task == "multiclass" else ""
    command = (
        f"chemprop train --data-path chemprop.csv --task-type {task}{classes} "
        "--splits-column split\n"
    )
    bundle.add("train.sh", command.encode())
    _copy_metadata(bundle, request)


def _chemprop_blocks(request: ExportRequest, splits: Mapping[str, str]) -> Iterator[Columns]:
    info = request.corpus.info
    outputs = ["class"] if info.task == "classification" else info.outputs
    names = column_names(outputs, taken=("smiles", "split"))
    empty = True
    for split, word in splits.items():
        if split not in request.corpus.splits:
            continue
        for table in request.corpus.iter_tables(split=split, columns=["graph_id", *_LABELS]):
            kept, y = apply_label_mode(table, info, request.labels)
            texts = _checked_smiles(kept)
            rows = np.array([bool(text) for text in texts], dtype=bool)
            values = y.reshape(len(y), -1)[rows]
            if info.task == "classification":  # -1 marks a missing class
                values = np.where(values < 0, np.nan, values)
            if not rows.any() and not empty:
                continue
            empty = False
            yield {
                "smiles": [text for text in texts if text],
                **{name: values[:, column] for column, name in enumerate(names)},
                "split": [word] * int(rows.sum()),
            }


def _checked_smiles(table: GraphTable) -> list[str]:
    """Return SMILES; raise for text that would break a line or a column."""
    texts = decode_texts(table.lists("graph", "smiles"))
    for row, text in enumerate(texts):
        if not text.isprintable() or " " in text:
            raise MoleculeError(
                f"{table.describe(row)}: its SMILES string contains white space or control "
                f"characters ({one_line(text[:80])}). Nothing was written."
            )
    return texts


def _write_smi_file(path: Path, request: ExportRequest, split: str) -> None:
    names = ["graph_id", "smiles", "y"]
    with path.open("w", encoding="utf-8") as stream:
        for table in request.corpus.iter_tables(split=split, columns=names):
            texts = _checked_smiles(table)
            ids = table.dense("graph", "graph_id").tolist()
            labels = table.dense("graph", "y").tolist()
            for text, id_, y in zip(texts, ids, labels, strict=True):
                if text:
                    values = ("" if value != value else f"{value:g}" for value in y)
                    stream.write("\t".join([text, str(id_), *values]) + "\n")


def _write_sdf_file(path: Path, request: ExportRequest, split: str) -> None:
    from rdkit import Chem

    from gsx.stages.chem.limits import CORPUS_LIMITS
    from gsx.stages.chem.smiles_reader import parse_smiles

    def _flat_conformer(atoms: int) -> Chem.Conformer:
        conformer = Chem.Conformer(atoms)
        conformer.Set3D(False)  # noqa: FBT003
        return conformer

    limits = CORPUS_LIMITS
    molecule_index = 0
    with path.open("w", encoding="utf-8") as stream:  # RDKit's writer ignores a full disk
        for table in request.corpus.iter_tables(split=split, columns=_SDF_COLUMNS):
            texts = decode_texts(table.lists("graph", "smiles"))
            for row, text in enumerate(texts):
                if not text:
                    continue
                molecule = parse_smiles(text, limits)
                if not any(letter in text for letter in _STEREO):
                    # Without coordinates, RDKit computes some, which takes most of the time.
                    molecule.AddConformer(_flat_conformer(molecule.GetNumAtoms()))
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
    names = sdf_property_names(request.corpus.info.outputs, taken=properties)
    for name, value in zip(names, y.tolist(), strict=True):
        if not np.isnan(value):
            properties[name] = f"{value:g}"
    return properties
