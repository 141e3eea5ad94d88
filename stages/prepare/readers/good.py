"""Read a dataset in the layout of GOOD (``good``): a folder per domain, a file per shift and split.

``<name>/<domain>/processed`` holds ``covariate_train.pt``, ``covariate_val.pt`` and so on where
graphs are labelled, and ``covariate.pt`` where nodes are. Splits and environments are those of the
files, unless a rule says otherwise.
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
from gsx.stages.prepare.readers.pt_files import Fields, read_fields
from gsx.stages.prepare.readers.pyg import found_of
from gsx.stages.prepare.split_methods import ID_TEST, ID_VAL, OOD_TEST, OOD_VAL, TRAIN

SHIFTS = ("covariate", "concept", "no_shift")
_PARTS = {"train": TRAIN, "id_val": ID_VAL, "id_test": ID_TEST, "val": OOD_VAL, "test": OOD_TEST}
_NEEDED = ("train", "val", "test")
_UNKNOWN = ("env_id", "domain_id")
"""Fields that a file may leave out; -1 stands for them."""


def good_files(path: Path, chosen: Mapping[str, Any]) -> dict[str, Path]:
    """Return the files of one shift, by name."""
    shift = chosen["split_column"]
    folder = path / "processed" if (path / "processed").is_dir() else path
    if not folder.is_dir():
        raise UsageError(f"no folder {path}. Name it: `gsx prepare --good DIR`.")
    alone = folder / f"{shift}.pt"
    if alone.is_file():
        return {alone.name: alone}
    found = {
        each.name: each
        for part in _PARTS
        if (each := folder / f"{shift}_{part}.pt").is_file()
    }  # fmt: skip
    missing = [part for part in _NEEDED if f"{shift}_{part}.pt" not in found]
    if missing:
        raise UsageError(
            f"{path} has no file {shift}_{missing[0]}.pt, nor {shift}.pt. {_advice(path, folder)}"
        )
    return found


def _advice(path: Path, folder: Path) -> str:
    """Say which folder or shift may have been meant."""
    shifts = [each for each in SHIFTS if list(folder.glob(f"{each}*.pt"))]
    if shifts:
        return f"It has the shift {' and '.join(shifts)}: `--split-column {shifts[0]}`."
    inside = sorted(each.parent for each in path.glob("*/processed"))
    inside += sorted(each.parent for each in path.glob("*/*/processed"))
    if inside:
        return f"Name the folder of one domain, such as `--good {inside[0]}`."
    return "Name the folder of one domain, such as `--good GOODMotif/size`."


def read_good(path: Path, chosen: Mapping[str, Any]) -> ParsedGraphs:
    """Read the files of one shift."""
    files = good_files(path, chosen)
    where = f"{path.name} ({chosen['split_column']})"
    parts = [read_fields(each, name) for name, each in files.items()]
    found = found_of(_together(parts, list(files)), ("y",), where)
    if len(parts) > 1:
        shift = chosen["split_column"]
        code = [code for part, code in _PARTS.items() if f"{shift}_{part}.pt" in files]
        given = np.repeat(code, [part.count for part in parts])
        return replace(found, given=given.astype(np.int64))
    if found.given is None:
        raise StageError(f"{where}: no mask says which node is trained on (`train_mask`, …).")
    return found


def _together(parts: list[Fields], names: list[str]) -> Fields:
    """Put the graphs of all files one after the other."""
    if len(parts) == 1:
        return parts[0]
    known = {name: None for part in parts for name in part.values}
    values, unread = {}, {name: None for part in parts for name in part.unread}
    for name in known:
        held = [part.values.get(name) or _unknown(name, part.count) for part in parts]
        whole = [each for each in held if each is not None]
        if len(whole) < len(parts) and name in ("x", "edge_index", "edge_attr", "y"):
            lacking = names[[each is None for each in held].index(True)]
            raise StageError(f"{lacking} has no `{name}`; the other files have.")
        joined = _joined([each[1] for each in whole]) if len(whole) == len(parts) else None
        if joined is None:
            unread[name] = None
        else:
            counts = np.concatenate([np.diff(each[0]) for each in whole])
            values[name] = (pointers(counts), joined)
    return Fields(sum(part.count for part in parts), values, tuple(unread))


def _joined(values: list[Array | list[str]]) -> Array | list[str] | None:
    if all(isinstance(each, list) for each in values):
        return [text for each in values for text in each]
    arrays = [each for each in values if isinstance(each, np.ndarray)]
    if len(arrays) < len(values) or len({each.shape[1:] for each in arrays}) > 1:
        return None
    return np.concatenate(arrays)


def _unknown(name: str, count: int) -> tuple[Any, Array] | None:
    if name not in _UNKNOWN:
        return None
    return pointers([1] * count), np.full(count, -1, dtype=np.int64)
