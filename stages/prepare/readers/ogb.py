"""Read a graph-property dataset in the layout of OGB (``ogb``).

``raw/`` holds one table per part, without headers: ``edge``, ``num-node-list``, ``num-edge-list``,
``graph-label`` and maybe ``node-feat`` and ``edge-feat`` (``.csv.gz`` or ``.csv``), or the arrays
of all in ``data.npz`` with ``graph-label.npz``. ``mapping/mol.csv.gz`` names the tasks and has
facts per graph, such as SMILES. ``split/<name>/`` holds ``train``, ``valid`` and ``test`` tables of
graph numbers, or ``split_dict.pt``.
"""

from __future__ import annotations

import io
import re
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

import numpy as np

from gsx.errors import StageError, UsageError
from gsx.ragged import Array, Ints, pointers
from gsx.stages.prepare.readers.archives import Archive
from gsx.stages.prepare.readers.csv_tables import Table, read_bytes, read_table
from gsx.stages.prepare.readers.parsed import (
    ParsedGraphs,
    as_rows,
    check_local_ends,
    graph_table,
    one_way_warning,
    told_features,
)
from gsx.stages.prepare.readers.pt_files import load
from gsx.stages.prepare.split_methods import OOD_TEST, OOD_VAL, TRAIN, UNUSED
from gsx.stages.prepare.splitting import DomainKey
from gsx.stages.prepare.targets import infer_task

_NEEDED = {"edge": "edge_index", "num-node-list": "num_nodes_list",
           "num-edge-list": "num_edges_list"}  # fmt: skip
_OPTIONAL = {"node-feat": "node_feat", "edge-feat": "edge_feat"}
_LABELS = {"graph-label": "graph_label"}
_SPLITS = {"train": TRAIN, "valid": OOD_VAL, "test": OOD_TEST}
_MAPPING = "mapping/mol.csv.gz"
_GAP = re.compile(rb'(?m)(^|,)(?:"")?(?=,|\r?$)')
"""A cell without a value, as pandas writes them."""
_IDS = ("smiles", "mol_id", "mol_num")


def ogb_files(path: Path, chosen: Mapping[str, Any]) -> dict[str, Path]:
    """Return the files of a dataset that are read, by their path under its folder."""
    if not path.is_dir():
        raise UsageError(f"no folder {path}. Name it: `gsx prepare --ogb DIR`.")
    _check_kind(path)
    found: dict[str, Path] = {}
    for names, alone in (({**_NEEDED, **_OPTIONAL}, "data"), (_LABELS, "graph-label")):
        tables: dict[str, Path] = {}
        for part in names:
            tables |= _one(path, f"raw/{part}")
        arrays = path / "raw" / f"{alone}.npz"
        found |= {f"raw/{alone}.npz": arrays} if arrays.is_file() else tables
    for part in (*_NEEDED, *_LABELS):
        whole = "raw/graph-label.npz" if part in _LABELS else "raw/data.npz"
        if whole not in found and not any(name.startswith(f"raw/{part}.csv") for name in found):
            raise UsageError(
                f"{path} has no file raw/{part}.csv.gz. It should be the folder of a "
                "graph-property dataset of OGB, such as ogbg_molhiv, unpacked."
            )
    if (path / _MAPPING).is_file():
        found[_MAPPING] = path / _MAPPING
    return {**found, **_split_files(path, chosen)}


def _check_kind(path: Path) -> None:
    raw = path / "raw"
    if (raw / "relations").is_dir() or (raw / "triplet-type-list.csv.gz").is_file():
        raise UsageError(f"{path} has several kinds of nodes; gsx reads graphs of one kind.")
    if any((raw / f"node-label{end}").is_file() for end in (".csv.gz", ".csv", ".npz")):
        raise UsageError(
            f"{path} labels nodes, not graphs. Write its nodes and edges as two tables: "
            "`gsx prepare --nodes nodes.csv --edges edges.csv`."
        )


def _one(path: Path, name: str) -> dict[str, Path]:
    for end in (".csv.gz", ".csv"):
        if (path / f"{name}{end}").is_file():
            return {f"{name}{end}": path / f"{name}{end}"}
    return {}


def _split_files(path: Path, chosen: Mapping[str, Any]) -> dict[str, Path]:
    """Return the files of the split that is asked for."""
    if chosen["rule"] != "column":
        return {}
    known = sorted(each.name for each in (path / "split").glob("*") if each.is_dir())
    name = chosen["split_column"] or (known[0] if len(known) == 1 else "")
    if name not in known:
        have = ", ".join(known) or "none"
        raise UsageError(
            f"{path} has these splits: {have}. Name one: `--rule column --split-column NAME`."
        )
    alone = path / "split" / name / "split_dict.pt"
    if alone.is_file():
        return {f"split/{name}/split_dict.pt": alone}
    found: dict[str, Path] = {}
    for part in _SPLITS:
        one = _one(path, f"split/{name}/{part}")
        if not one:
            raise UsageError(f"{path} has no file split/{name}/{part}.csv.gz.")
        found |= one
    return found


def read_ogb(path: Path, chosen: Mapping[str, Any]) -> ParsedGraphs:
    """Read the files of a dataset."""
    files = ogb_files(path, chosen)
    parts = _Parts(path.name, files)
    nodes, edges = (parts.counts(name) for name in ("num-node-list", "num-edge-list"))
    if len(nodes) != len(edges) or not len(nodes):
        raise StageError(
            f"{path.name}: num-node-list is of {len(nodes):,} graphs, num-edge-list of "
            f"{len(edges):,}. The files do not belong together."
        )
    node_ptr, edge_ptr = pointers(nodes), pointers(edges)
    ends = parts.ends(int(edge_ptr[-1]))
    check_local_ends(ends, node_ptr, edge_ptr, f"{path.name}: edge")
    node_feat, node_words = told_features(
        parts.rows("node-feat", int(node_ptr[-1]), "nodes"), "node_feature",
        f"{path.name}: node-feat",
    )  # fmt: skip
    edge_attr, edge_words = told_features(
        parts.rows("edge-feat", len(ends[0]), "edges"), "edge_feature", f"{path.name}: edge-feat"
    )
    table, completed = graph_table(node_ptr, edge_ptr, ends, node_feat, edge_attr)
    labels = parts.rows("graph-label", len(nodes), "graphs", missing=True)
    assert labels is not None
    mapping = _mapping(files, len(nodes), path.name)
    names = _task_names(mapping, labels.shape[1])
    labels, names = _asked(labels.astype(np.float64), names, chosen["targets"], path.name)
    return ParsedGraphs(
        where=path.name,
        table=table,
        node_words=node_words,
        edge_words=edge_words,
        targets=labels,
        names=names,
        task=infer_task(labels),
        columns=_columns(mapping, chosen["domain"]),
        given=_given(files, len(nodes), path.name),
        # OGB stores every edge once; only where some are in both directions are others odd.
        warnings=() if completed == len(ends[0]) else one_way_warning(completed),
    )


class _Parts:
    """The numbers of the files of one dataset, whichever way they are stored."""

    def __init__(self, where: str, files: Mapping[str, Path]) -> None:
        self._where = where
        self._files = files

    def counts(self, part: str) -> Ints:
        """Return whole numbers, one per graph."""
        found = self._read(part, _NEEDED)
        if found is None or found.size != len(found) or found.dtype.kind not in "iu":
            raise StageError(f"{self._where}: {part} should hold one whole number in a line.")
        counts = found.reshape(-1).astype(np.int64)
        if len(counts) and (counts.min() < 0 or counts.sum() > 1 << 40 or counts.max() > 1 << 31):
            raise StageError(f"{self._where}: {part} should hold counts; found {counts.min()}.")
        return counts

    def ends(self, count: int) -> Ints:
        """Return the ends of all edges, ``[2, E]``."""
        found = self._read("edge", _NEEDED)
        if found is not None and not found.size:
            found = np.zeros((0, 2), dtype=np.int64)
        if found is not None and "raw/data.npz" in self._files and found.ndim == 2:
            found = found.T
        if found is None or found.ndim != 2 or found.shape[1] != 2 or found.dtype.kind not in "iu":
            raise StageError(f"{self._where}: edge should hold two whole numbers in a line.")
        if len(found) != count:
            raise StageError(
                f"{self._where}: edge has {len(found):,} lines; num-edge-list adds up to "
                f"{count:,}. The files do not belong together."
            )
        return found.astype(np.int64).T

    def rows(self, part: str, count: int, of: str, *, missing: bool = False) -> Array | None:
        """Return the rows ``[count, F]`` of a part that may be there."""
        found = self._read(part, _LABELS if part in _LABELS else _OPTIONAL, missing=missing)
        if found is None:
            return None
        found = as_rows(found)
        if len(found) != count:
            raise StageError(
                f"{self._where}: {part} has {len(found):,} lines; there are {count:,} {of}. "
                "The files do not belong together."
            )
        return found

    def _read(self, part: str, arrays: Mapping[str, str], *, missing: bool = False) -> Array | None:
        alone = "raw/graph-label.npz" if part in _LABELS else "raw/data.npz"
        if alone in self._files:
            return _array(self._files[alone], alone, arrays[part])
        for name, path in self._files.items():
            if name.startswith(f"raw/{part}.csv"):
                return _numbers(path, name, missing=missing)
        return None


def _array(path: Path, name: str, key: str) -> Array | None:
    archive = Archive(path, name)
    if f"{key}.npy" not in archive.members:
        return None
    try:
        data = io.BytesIO(archive.read(f"{key}.npy"))
        found: Array = np.lib.format.read_array(data, allow_pickle=False)
    except (ValueError, EOFError, OSError) as error:
        raise StageError(f"{name}: `{key}` cannot be read: {error}.") from error
    if found.dtype.kind not in "biuf" or not found.ndim:
        raise StageError(f"{name}: `{key}` should hold numbers; found {found.dtype}.")
    return found


def _numbers(path: Path, name: str, *, missing: bool = False) -> Array:
    """Return the numbers of a table without a header: whole where all are."""
    data = read_bytes(path, name)
    if missing:
        lines = data.rstrip(b"\r\n")
        data = _GAP.sub(rb"\1nan", lines) if lines else lines
    if not data.strip():
        return np.zeros((0, 1), dtype=np.int64)
    for dtype in (np.int64, np.float64):
        try:
            return np.loadtxt(
                io.BytesIO(data), dtype=dtype, delimiter=",", comments=None, ndmin=2,
                encoding="utf-8",
            )  # fmt: skip
        except (ValueError, OverflowError) as error:
            said = str(error).split("; use ")[0].rstrip(".")
    raise StageError(f"{name} should hold numbers only: {said}")


def _mapping(files: Mapping[str, Path], count: int, where: str) -> Table | None:
    if _MAPPING not in files:
        return None
    table = read_table(files[_MAPPING], _MAPPING)
    if table.count != count:
        raise StageError(
            f"{where}: {_MAPPING} has {table.count:,} rows; there are {count:,} graphs. The "
            "files do not belong together."
        )
    return table


def _task_names(mapping: Table | None, count: int) -> tuple[str, ...]:
    """Return the names of tasks: those of the columns that are no ids, where they are as many."""
    names = [] if mapping is None else [each for each in mapping.header if each not in _IDS]
    if len(names) != count:
        names = ["label"] if count == 1 else [f"task_{number}" for number in range(count)]
    return tuple(names)


def _asked(
    labels: Array, names: tuple[str, ...], targets: tuple[str, ...], where: str
) -> tuple[Array, tuple[str, ...]]:
    """Return the tasks that are asked for, all where none is."""
    for name in targets:
        if name not in names:
            raise StageError(f"{where} has no task `{name}`; it has {', '.join(names[:20])}.")
    kept = [names.index(name) for name in targets] or list(range(len(names)))
    return labels[:, kept], tuple(names[place] for place in kept)


def _columns(mapping: Table | None, domain: str) -> dict[str, Sequence[DomainKey]]:
    """Return the facts per graph that ``domain`` needs."""
    if mapping is None:
        return {}
    if domain == "scaffold":
        return {"smiles": mapping.column("smiles")}
    name = domain.removeprefix("column:")
    return {name: mapping.keys(name).cells} if name != domain else {}


def _given(files: Mapping[str, Path], count: int, where: str) -> Ints | None:
    """Return the split of every graph, -1 for none; None where no split is asked for."""
    named = {name: path for name, path in files.items() if name.startswith("split/")}
    if not named:
        return None
    given = np.full(count, UNUSED, dtype=np.int64)
    for part, code in _SPLITS.items():
        name, numbers = _split_numbers(named, part)
        bad = np.flatnonzero((numbers < 0) | (numbers >= count))
        if len(bad):
            raise StageError(
                f"{where}: {name} names graph {numbers[bad[0]]} for {part}; graphs are numbered "
                f"0..{count - 1}."
            )
        again = np.flatnonzero(given[numbers] != UNUSED)
        if len(again) or len(np.unique(numbers)) != len(numbers):
            which = numbers[again[0]] if len(again) else "twice the same"
            raise StageError(f"{where}: {name} names graph {which}, which has a split already.")
        given[numbers] = code
    return given


def _split_numbers(named: Mapping[str, Path], part: str) -> tuple[str, Ints]:
    for name, path in named.items():
        if name.endswith("split_dict.pt"):
            held = load(path, name)
            numbers = held.get(part) if isinstance(held, Mapping) else None
            found = None if numbers is None else np.asarray(numbers)
        elif Path(name).name.startswith(f"{part}.csv"):
            found = _numbers(path, name)
        else:
            continue
        if found is None or (found.size and found.dtype.kind not in "iu"):
            raise StageError(f"{name} should hold numbers of graphs for train, valid and test.")
        return name, found.reshape(-1).astype(np.int64)
    return part, np.zeros(0, dtype=np.int64)
