"""Read a graph-property dataset in the layout of OGB (``ogb``).

``raw/`` contains tables without headers: ``edge``, ``num-node-list``, ``num-edge-list``,
``graph-label`` and optionally ``node-feat`` and ``edge-feat`` (``.csv.gz`` or ``.csv``), or arrays
in ``data.npz`` and ``graph-label.npz``. ``mapping/mol.csv.gz`` contains the names of the tasks and
columns per graph, such as SMILES. ``split/<name>/`` contains ``train``, ``valid`` and ``test``
tables of graph ids, or ``split_dict.pt``.
"""

from __future__ import annotations

import re
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

import numpy as np

from gsx.errors import StageError, UsageError
from gsx.ragged import Array, Ints, pointers
from gsx.stages.prepare.readers.archives import Archive
from gsx.stages.prepare.readers.csv_tables import Table, read_bytes, read_table
from gsx.stages.prepare.readers.npy import parse_npy
from gsx.stages.prepare.readers.parsed import (
    ParsedGraphs,
    check_local_endpoints,
    flatten_rows,
    graph_table,
    infer_features,
    one_way_warning,
)
from gsx.stages.prepare.readers.pt_files import PtFile
from gsx.stages.prepare.readers.raw_files import exists_as_file
from gsx.stages.prepare.readers.text_numbers import parse_text_numbers
from gsx.stages.prepare.split_methods import OOD_TEST, OOD_VAL, TRAIN, UNUSED
from gsx.stages.prepare.splitting import DomainKey
from gsx.stages.prepare.targets import check_num_targets, infer_task

_REQUIRED = {"edge": "edge_index", "num-node-list": "num_nodes_list",
             "num-edge-list": "num_edges_list"}  # fmt: skip
_OPTIONAL = {"node-feat": "node_feat", "edge-feat": "edge_feat"}
_LABELS = {"graph-label": "graph_label"}
_SPLITS = {"train": TRAIN, "valid": OOD_VAL, "test": OOD_TEST}
_MAPPING = "mapping/mol.csv.gz"
_EMPTY_CELL = re.compile(rb'(?m)(^|,)(?:"")?(?=,|\r?$)')
"""An empty cell, as written by pandas."""
_ID_COLUMNS = ("smiles", "mol_id", "mol_num")


def ogb_files(path: Path, options: Mapping[str, Any]) -> dict[str, Path]:
    """Return the files to read, by their path below the folder of the dataset."""
    if not path.is_dir():
        raise UsageError(f"no folder {path}. Pass an existing one: `gsx prepare --ogb DIR`.")
    _check_kind(path)
    files: dict[str, Path] = {}
    for names, archive in (({**_REQUIRED, **_OPTIONAL}, "data"), (_LABELS, "graph-label")):
        tables: dict[str, Path] = {}
        for name in names:
            tables |= _table_file(path, f"raw/{name}")
        arrays = path / "raw" / f"{archive}.npz"
        files |= {f"raw/{archive}.npz": arrays} if exists_as_file(arrays) else tables
    for name in (*_REQUIRED, *_LABELS):
        npz = "raw/graph-label.npz" if name in _LABELS else "raw/data.npz"
        if npz not in files and not any(file.startswith(f"raw/{name}.csv") for file in files):
            raise UsageError(
                f"{path} has no file raw/{name}.csv.gz. Pass the unpacked folder of an OGB "
                "graph-property dataset, such as ogbg_molhiv."
            )
    if exists_as_file(path / _MAPPING):
        files[_MAPPING] = path / _MAPPING
    return {**files, **_split_files(path, options)}


def _check_kind(path: Path) -> None:
    """Reject heterogeneous graphs and node-property datasets."""
    raw = path / "raw"
    if (raw / "relations").is_dir() or exists_as_file(raw / "triplet-type-list.csv.gz"):
        raise UsageError(f"{path} has several node types; gsx reads graphs with one node type.")
    if any(exists_as_file(raw / f"node-label{suffix}") for suffix in (".csv.gz", ".csv", ".npz")):
        raise UsageError(
            f"{path} is a node-property dataset. Export its nodes and edges to two tables and run "
            "`gsx prepare --nodes nodes.csv --edges edges.csv`."
        )


def _table_file(path: Path, name: str) -> dict[str, Path]:
    """Return the name and path of a table, compressed or not; empty if it does not exist."""
    for suffix in (".csv.gz", ".csv"):
        if exists_as_file(path / f"{name}{suffix}"):
            return {f"{name}{suffix}": path / f"{name}{suffix}"}
    return {}


def _split_files(path: Path, options: Mapping[str, Any]) -> dict[str, Path]:
    """Return the files of the selected split."""
    if options["rule"] != "column":
        return {}
    available = sorted(folder.name for folder in (path / "split").glob("*") if folder.is_dir())
    name = options["split_column"] or (available[0] if len(available) == 1 else "")
    if name not in available:
        raise UsageError(
            f"{path} has these splits: {', '.join(available) or 'none'}. Select one: "
            "`--rule column --split-column NAME`."
        )
    split_dict = path / "split" / name / "split_dict.pt"
    if exists_as_file(split_dict):
        return {f"split/{name}/split_dict.pt": split_dict}
    files: dict[str, Path] = {}
    for split in _SPLITS:
        file = _table_file(path, f"split/{name}/{split}")
        if not file:
            raise UsageError(f"{path} has no file split/{name}/{split}.csv.gz.")
        files |= file
    return files


def read_ogb(path: Path, options: Mapping[str, Any]) -> ParsedGraphs:
    """Read the files of a dataset."""
    files = ogb_files(path, options)
    raw = _RawArrays(path.name, files)
    nodes, edges = (raw.counts(name) for name in ("num-node-list", "num-edge-list"))
    if len(nodes) != len(edges) or not len(nodes):
        raise StageError(
            f"{path.name}: num-node-list has {len(nodes):,} graphs, num-edge-list has "
            f"{len(edges):,}. Use files of the same dataset."
        )
    node_ptr, edge_ptr = pointers(nodes), pointers(edges)
    ends = raw.endpoints(int(edge_ptr[-1]))
    check_local_endpoints(ends, node_ptr, edge_ptr, f"{path.name}: edge")
    node_feat, node_words = infer_features(
        raw.rows("node-feat", int(node_ptr[-1]), "nodes"), "node_feature",
        f"{path.name}: node-feat",
    )  # fmt: skip
    edge_attr, edge_words = infer_features(
        raw.rows("edge-feat", len(ends[0]), "edges"), "edge_feature", f"{path.name}: edge-feat"
    )
    table, completed = graph_table(node_ptr, edge_ptr, ends, node_feat, edge_attr, path.name)
    labels = raw.rows("graph-label", len(nodes), "graphs", missing=True)
    if labels is None:
        raise StageError(f"{path.name}: raw/graph-label.npz has no array `graph_label`.")
    check_num_targets(labels.shape[1], path.name)
    mapping = _mapping(files, len(nodes), path.name)
    names = _task_names(mapping, labels.shape[1])
    labels, names = _select_tasks(labels.astype(np.float64), names, options["targets"], path.name)
    return ParsedGraphs(
        where=path.name,
        table=table,
        node_words=node_words,
        edge_words=edge_words,
        targets=labels,
        names=names,
        task=infer_task(labels),
        columns=_columns(mapping, options["domain"]),
        splits=_splits(files, len(nodes), path.name),
        # OGB stores every edge once. Warn only if some edges have both directions and others not.
        warnings=() if completed == len(ends[0]) else one_way_warning(completed),
    )


class _RawArrays:
    """Arrays of one dataset, read from tables or from npz files."""

    def __init__(self, where: str, files: Mapping[str, Path]) -> None:
        self._where = where
        self._files = files

    def counts(self, name: str) -> Ints:
        """Return counts ``[G]``."""
        array = self._read(name, _REQUIRED)
        if array is None or array.size != len(array) or array.dtype.kind not in "iu":
            raise StageError(f"{self._where}: {name} must contain one integer per line.")
        counts = array.reshape(-1).astype(np.int64)
        if len(counts) and (counts.min() < 0 or counts.sum() > 1 << 40 or counts.max() > 1 << 31):
            raise StageError(
                f"{self._where}: {name} must contain counts (found {counts.min()} to "
                f"{counts.max()})."
            )
        return counts

    def endpoints(self, count: int) -> Ints:
        """Return sources and targets ``[2, E]`` of ``count`` edges."""
        pairs = self._read("edge", _REQUIRED)
        if pairs is not None and not pairs.size:
            pairs = np.zeros((0, 2), dtype=np.int64)
        if pairs is not None and "raw/data.npz" in self._files and pairs.ndim == 2:
            pairs = pairs.T
        if pairs is None or pairs.ndim != 2 or pairs.shape[1] != 2 or pairs.dtype.kind not in "iu":
            raise StageError(f"{self._where}: edge must contain two integers per line.")
        if len(pairs) != count:
            raise StageError(
                f"{self._where}: edge has {len(pairs):,} lines, but num-edge-list adds up to "
                f"{count:,}. Use files of the same dataset."
            )
        return pairs.astype(np.int64).T

    def rows(self, name: str, count: int, items: str, *, missing: bool = False) -> Array | None:
        """Return an array ``[count, F]``; None if it does not exist."""
        array = self._read(name, _LABELS if name in _LABELS else _OPTIONAL, missing=missing)
        if array is None:
            return None
        array = flatten_rows(array)
        if len(array) != count:
            raise StageError(
                f"{self._where}: {name} has {len(array):,} lines, but there are {count:,} {items}. "
                "Use files of the same dataset."
            )
        return array

    def _read(self, name: str, keys: Mapping[str, str], *, missing: bool = False) -> Array | None:
        npz = "raw/graph-label.npz" if name in _LABELS else "raw/data.npz"
        if npz in self._files:
            return _npz_array(self._files[npz], npz, keys[name])
        for file, path in self._files.items():
            if file.startswith(f"raw/{name}.csv"):
                return _numbers(path, file, missing=missing)
        return None


def _npz_array(path: Path, name: str, key: str) -> Array | None:
    archive = Archive(path, name)
    if f"{key}.npy" not in archive.members:
        return None
    array = parse_npy(archive.read(f"{key}.npy"), f"{name}: `{key}`")
    if array.dtype.kind not in "biuf" or not array.ndim:
        raise StageError(f"{name}: `{key}` must be a numeric array (found {array.dtype}).")
    return array


def _numbers(path: Path, name: str, *, missing: bool = False) -> Array:
    """Return the numbers of a table without a header, as integers if all of them are."""
    data = read_bytes(path, name)
    if missing:
        lines = data.rstrip(b"\r\n")
        data = _EMPTY_CELL.sub(rb"\1nan", lines) if lines else lines
    return parse_text_numbers(data, (np.int64, np.float64), name, width=1)


def _mapping(files: Mapping[str, Path], count: int, where: str) -> Table | None:
    if _MAPPING not in files:
        return None
    table = read_table(files[_MAPPING], _MAPPING)
    if table.count != count:
        raise StageError(
            f"{where}: {_MAPPING} has {table.count:,} rows, but there are {count:,} graphs. Use "
            "files of the same dataset."
        )
    return table


def _task_names(mapping: Table | None, count: int) -> tuple[str, ...]:
    """Return task names: the columns of the mapping without ids, if their number is ``count``."""
    names = [] if mapping is None else [n for n in mapping.header if n not in _ID_COLUMNS]
    if len(names) != count:
        names = ["label"] if count == 1 else [f"task_{number}" for number in range(count)]
    return tuple(names)


def _select_tasks(
    labels: Array, names: tuple[str, ...], targets: tuple[str, ...], where: str
) -> tuple[Array, tuple[str, ...]]:
    """Return labels and names of the tasks in ``targets``, or of all tasks if it is empty."""
    for name in targets:
        if name not in names:
            raise StageError(f"{where} has no task `{name}`. Its tasks: {', '.join(names[:20])}.")
    selected = [names.index(name) for name in targets] or list(range(len(names)))
    return labels[:, selected], tuple(names[index] for index in selected)


def _columns(mapping: Table | None, domain: str) -> dict[str, Sequence[DomainKey]]:
    """Return the columns per graph that ``domain`` needs."""
    if mapping is None:
        return {}
    if domain == "scaffold":
        return {"smiles": mapping.column("smiles")}
    name = domain.removeprefix("column:")
    return {name: mapping.keys(name).cells} if name != domain else {}


def _splits(files: Mapping[str, Path], count: int, where: str) -> Ints | None:
    """Return the split of every graph, -1 for none; None if no split is selected."""
    split_files = {name: path for name, path in files.items() if name.startswith("split/")}
    if not split_files:
        return None
    splits = np.full(count, UNUSED, dtype=np.int64)
    for split, code in _SPLITS.items():
        name, ids = _graph_ids(split_files, split)
        invalid = np.flatnonzero((ids < 0) | (ids >= count))
        if len(invalid):
            raise StageError(
                f"{where}: {name} assigns graph {ids[invalid[0]]} to {split}, but graph ids are "
                f"0..{count - 1}."
            )
        assigned = np.flatnonzero(splits[ids] != UNUSED)
        if len(assigned) or len(np.unique(ids)) != len(ids):
            graph = f"graph {ids[assigned[0]]}" if len(assigned) else "a graph"
            raise StageError(f"{where}: {name} assigns {graph} to a split a second time.")
        splits[ids] = code
    return splits


def _graph_ids(split_files: Mapping[str, Path], split: str) -> tuple[str, Ints]:
    """Return the name of the file of a split and the graph ids in it."""
    for name, path in split_files.items():
        if name.endswith("split_dict.pt"):
            file = PtFile(path, name)
            values = file.content.get(split) if isinstance(file.content, dict) else None
            ids = np.zeros(0, dtype=np.int64) if values == [] else file.array(values, split)
        elif Path(name).name.startswith(f"{split}.csv"):
            ids = _numbers(path, name)
        else:
            continue
        if ids is None or (ids.size and ids.dtype.kind not in "iu"):
            raise StageError(f"{name} must contain graph ids for train, valid and test.")
        return name, ids.reshape(-1).astype(np.int64)
    return split, np.zeros(0, dtype=np.int64)
