"""Read a dataset in the layout of GOOD (``good``): one folder per domain, files per shift.

``<name>/<domain>/processed`` contains ``covariate_train.pt``, ``covariate_val.pt`` and so on for
graph-level tasks, and ``covariate.pt`` for node-level tasks. Splits and environments are read from
the files, unless the user sets another rule.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np

from gsx.errors import StageError, UsageError
from gsx.ragged import Array, pointers
from gsx.stages.prepare.readers.parsed import ParsedGraphs
from gsx.stages.prepare.readers.pt_files import GraphFields, read_pt_graphs
from gsx.stages.prepare.readers.pyg import parse_graphs
from gsx.stages.prepare.readers.raw_files import exists_as_file
from gsx.stages.prepare.split_methods import ID_TEST, ID_VAL, OOD_TEST, OOD_VAL, TRAIN

SHIFTS = ("covariate", "concept", "no_shift")
_SPLITS = {"train": TRAIN, "id_val": ID_VAL, "id_test": ID_TEST, "val": OOD_VAL, "test": OOD_TEST}
_REQUIRED = ("train", "val", "test")
_OPTIONAL_FIELDS = ("env_id", "domain_id")
"""Fields that some files lack; their value is then -1."""


def good_files(path: Path, options: Mapping[str, Any]) -> dict[str, Path]:
    """Return the name and path of the files of one shift."""
    shift = options["split_column"]
    folder = path / "processed" if (path / "processed").is_dir() else path
    if not folder.is_dir():
        raise UsageError(f"no folder {path}. Pass an existing one: `gsx prepare --good DIR`.")
    node_file = folder / f"{shift}.pt"
    if exists_as_file(node_file):
        return {node_file.name: node_file}
    files = {
        file.name: file
        for split in _SPLITS
        if exists_as_file(file := folder / f"{shift}_{split}.pt")
    }  # fmt: skip
    missing = [split for split in _REQUIRED if f"{shift}_{split}.pt" not in files]
    if missing:
        raise UsageError(
            f"{path} has neither {shift}_{missing[0]}.pt nor {shift}.pt. {_advice(path, folder)}"
        )
    return files


def _advice(path: Path, folder: Path) -> str:
    """Return a suggestion: another shift of this folder, or the folder of one domain."""
    shifts = [shift for shift in SHIFTS if list(folder.glob(f"{shift}*.pt"))]
    if shifts:
        return f"It has the shift {' and '.join(shifts)}: `--split-column {shifts[0]}`."
    domains = sorted(processed.parent for processed in path.glob("*/processed"))
    domains += sorted(processed.parent for processed in path.glob("*/*/processed"))
    if domains:
        return f"Pass the folder of one domain, such as `--good {domains[0]}`."
    return "Pass the folder of one domain, such as `--good GOODMotif/size`."


def read_good(path: Path, options: Mapping[str, Any]) -> ParsedGraphs:
    """Read the files of one shift."""
    files = good_files(path, options)
    where = f"{path.name} ({options['split_column']})"
    file_fields = [read_pt_graphs(file, name) for name, file in files.items()]
    parsed = parse_graphs(_concatenate(file_fields, list(files)), ("y",), where)
    if len(file_fields) > 1:
        shift = options["split_column"]
        codes = [code for split, code in _SPLITS.items() if f"{shift}_{split}.pt" in files]
        splits = np.repeat(codes, [fields.count for fields in file_fields])
        return replace(parsed, splits=splits.astype(np.int64))
    if parsed.splits is None:
        raise StageError(
            f"{where}: no mask assigns nodes to splits. Add `train_mask`, `val_mask` and "
            "`test_mask`."
        )
    return parsed


def _concatenate(file_fields: list[GraphFields], names: list[str]) -> GraphFields:
    """Concatenate the graphs of all files."""
    if len(file_fields) == 1:
        return file_fields[0]
    all_names = {name: None for fields in file_fields for name in fields.values}
    values, unread = {}, {name: None for fields in file_fields for name in fields.unread}
    for name in all_names:
        columns = [
            fields.values.get(name) or _missing_field(name, fields.count) for fields in file_fields
        ]
        present = [column for column in columns if column is not None]
        if len(present) < len(file_fields) and name in ("x", "edge_index", "edge_attr", "y"):
            without = names[[column is None for column in columns].index(True)]
            raise StageError(f"{without} has no field `{name}`, but other files have it.")
        joined = (
            _join([column[1] for column in present]) if len(present) == len(file_fields) else None
        )
        if joined is None:
            unread[name] = None
        else:
            counts = np.concatenate([np.diff(column[0]) for column in present])
            values[name] = (pointers(counts), joined)
    return GraphFields(sum(fields.count for fields in file_fields), values, tuple(unread))


def _join(values: list[Array | list[str]]) -> Array | list[str] | None:
    """Concatenate the values of a field; None if their types or shapes differ."""
    if all(isinstance(column, list) for column in values):
        return [text for column in values for text in column]
    arrays = [column for column in values if isinstance(column, np.ndarray)]
    if len(arrays) < len(values) or len({array.shape[1:] for array in arrays}) > 1:
        return None
    return np.concatenate(arrays)


def _missing_field(name: str, count: int) -> tuple[Any, Array] | None:
    if name not in _OPTIONAL_FIELDS:
        return None
    return pointers([1] * count), np.full(count, -1, dtype=np.int64)
