"""Read graphs from the text files of TUDataset, and from the one-file layout of DD.

A TU dataset ``DS`` consists of ``DS_A.txt`` (pairs of node ids), ``DS_graph_indicator.txt`` (the
graph of every node), ``DS_graph_labels.txt`` and some of ``node_labels``, ``node_attributes``,
``edge_labels``, ``edge_attributes`` and ``graph_attributes``; ids start at 1. The one-file layout
contains the number of graphs, then for each graph a line ``nodes label`` and for each node a line
``tag degree neighbors…``; ids start at 0. Both layouts are read from zip files and folders.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass
from functools import partial
from pathlib import Path, PurePosixPath

import numpy as np

from gsx.errors import StageError
from gsx.names import shown
from gsx.ragged import Array, Ints, pointers, ranges
from gsx.schema import Feature
from gsx.stages.prepare.readers.archives import Archive
from gsx.stages.prepare.readers.parsed import add_reverse_edges, encode_features
from gsx.stages.prepare.readers.raw_files import file_problem, read_raw_file
from gsx.stages.prepare.readers.text_numbers import parse_text_numbers
from gsx.table import GraphTable

REQUIRED = ("A", "graph_indicator")
OPTIONAL = (
    "graph_labels", "graph_attributes", "node_labels", "node_attributes", "edge_labels",
    "edge_attributes",
)  # fmt: skip


@dataclass(frozen=True, slots=True, eq=False)
class TuGraphs:
    """Graphs of a TU dataset."""

    table: GraphTable
    """Structure and features, edges in both directions and sorted; no graph columns."""
    node_words: tuple[Feature, ...]
    """Categories of node features; empty if the features are numeric."""
    edge_words: tuple[Feature, ...]
    """Categories of edge features; empty if the features are numeric."""
    labels: Ints | None
    """``[G]`` labels as in the file; None if there are none."""
    values: Array | None
    """``[G, T]`` graph attributes; None if there are none."""
    completed: int
    """Number of edges that the files contain in one direction only; the reverse was added."""


@dataclass(frozen=True, slots=True)
class _Files:
    """Files of one dataset by kind, such as ``A`` and ``graph_indicator``."""

    where: str
    read: Mapping[str, Callable[[], bytes]]

    def name(self, kind: str) -> str:
        return f"{self.where}: {kind}.txt"

    def numbers(self, kind: str, dtype: type) -> Array:
        """Return the numbers of a file, one row per line."""
        width = 2 if kind == "A" else 1
        return parse_text_numbers(self.read[kind](), (dtype,), self.name(kind), width=width)

    def checked(self, kind: str, dtype: type, rows: int, items: str) -> Array | None:
        """Return the numbers of an optional file with ``rows`` lines; None if it is missing."""
        if kind not in self.read:
            return None
        numbers = self.numbers(kind, dtype)
        if len(numbers) != rows:
            raise StageError(
                f"{self.name(kind)} has {len(numbers):,} lines, but there are {rows:,} {items}. "
                "Use files of the same dataset."
            )
        invalid = np.flatnonzero(~np.isfinite(numbers).all(axis=1))
        if len(invalid) and items != "graphs":  # targets may be missing
            raise StageError(
                f"{self.name(kind)}, line {int(invalid[0]) + 1}: a value is not finite "
                f"({len(invalid):,} lines in total). Replace NaN and infinite values; gsx does not "
                "impute features."
            )
        return numbers


def read_tu(path: Path, name: str) -> TuGraphs:
    """Read a zip file or a folder in either layout; errors call it ``name``."""
    if path.is_dir():
        files = {file.name: file for file in sorted(path.iterdir()) if file_problem(file) is None}
        return _read(
            name, {member: partial(read_raw_file, file, member) for member, file in files.items()}
        )
    archive = Archive(path, name)
    return _read(name, {member: partial(archive.read, member) for member in archive.members})


def group_tu_files(members: list[str]) -> dict[str, dict[str, str]]:
    """Group file names by dataset: prefix → kind of file → name."""
    datasets: dict[str, dict[str, str]] = {}
    for member in members:
        stem = PurePosixPath(member).name.removesuffix(".txt")
        for kind in (*REQUIRED, *OPTIONAL):
            if member.endswith(".txt") and stem.endswith(f"_{kind}"):
                prefix = member.removesuffix(".txt").removesuffix(f"_{kind}")
                datasets.setdefault(prefix, {})[kind] = member
    return {prefix: files for prefix, files in datasets.items() if "A" in files}


def _read(where: str, read: Mapping[str, Callable[[], bytes]]) -> TuGraphs:
    datasets = group_tu_files(list(read))
    if len(datasets) > 1:
        names = ", ".join(shown(PurePosixPath(prefix).name) for prefix in list(datasets)[:5])
        raise StageError(f"{where} contains more than one dataset: {names}. Keep one.")
    for files in datasets.values():
        missing = [kind for kind in REQUIRED if kind not in files]
        if missing:
            raise StageError(f"{where} has no file that ends in `_{missing[0]}.txt`.")
        return _read_tu(_Files(where, {kind: read[member] for kind, member in files.items()}))
    single = [member for member in read if _is_single_file(PurePosixPath(member))]
    if len(single) == 1:
        return _read_single_file(
            read[single[0]](), f"{where}: {PurePosixPath(single[0]).name[:200]}"
        )
    present = ", ".join(shown(member) for member in sorted(read)[:5]) or "no files"
    raise StageError(
        f"{where} is not a TU dataset: no file ends in `_A.txt` (found {present}"
        f"{', …' if len(read) > 5 else ''})."
    )


def _is_single_file(member: PurePosixPath) -> bool:
    """Return whether a file may contain a whole dataset, such as DD/DD.txt."""
    return member.suffix == ".txt" and member.parent.name in ("", member.stem)


def _read_tu(files: _Files) -> TuGraphs:
    graph = files.numbers("graph_indicator", np.int64)
    nodes = len(graph)
    if not nodes:
        raise StageError(
            f"{files.name('graph_indicator')} is empty; expected the graph of every node."
        )
    graph = graph[:, 0]
    decreases = np.flatnonzero(graph[1:] < graph[:-1])
    if graph[0] < 1 or len(decreases):
        line = int(decreases[0]) + 2 if len(decreases) else 1
        raise StageError(
            f"{files.name('graph_indicator')}, line {line}: graph {int(graph[line - 1])}; graph "
            "ids must start at 1 and never decrease."
        )
    graph = graph - 1
    labels, values, count = _graph_targets(files, int(graph[-1]) + 1)
    node_ptr = pointers(np.bincount(graph, minlength=count))
    src, dst = _endpoints(files, graph)
    node_labels = files.checked("node_labels", np.int64, nodes, "nodes")
    node_values = files.checked("node_attributes", np.float32, nodes, "nodes")
    edge_labels = files.checked("edge_labels", np.int64, len(src), "edges")
    edge_values = files.checked("edge_attributes", np.float32, len(src), "edges")
    node_feat, node_words = encode_features(node_labels, node_values, "node_label")
    edge_attr, edge_words = encode_features(edge_labels, edge_values, "edge_label")
    if node_feat is None:
        node_feat = np.ones((nodes, 1), dtype=np.float32)
    src, dst, edge_attr, completed = add_reverse_edges(src, dst, edge_attr, nodes)
    owner = graph[src]
    edge: dict[str, Array] = {
        "edge_src": (src - node_ptr[owner]).astype(np.int32),
        "edge_dst": (dst - node_ptr[owner]).astype(np.int32),
    }
    if edge_attr is not None:
        edge["edge_attr"] = edge_attr
    edge_ptr = pointers(np.bincount(owner, minlength=count))
    table = GraphTable(node_ptr, edge_ptr, node={"node_feat": node_feat}, edge=edge)
    return TuGraphs(table, node_words, edge_words, labels, values, completed)


def _graph_targets(files: _Files, count: int) -> tuple[Ints | None, Array | None, int]:
    """Return labels, attributes and the number of graphs; the last graphs may have no nodes."""
    labels = files.numbers("graph_labels", np.int64) if "graph_labels" in files.read else None
    if labels is not None:
        if len(labels) < count:
            raise StageError(
                f"{files.name('graph_labels')} has {len(labels):,} lines, but graph_indicator.txt "
                f"has {count:,} graphs. Use files of the same dataset."
            )
        count = len(labels)
    values = files.checked("graph_attributes", np.float32, count, "graphs")
    if labels is None and values is None:
        raise StageError(
            f"{files.where} has no targets: neither `_graph_labels.txt` nor "
            "`_graph_attributes.txt` exists."
        )
    return None if labels is None else labels[:, 0], values, count


def _endpoints(files: _Files, graph: Ints) -> tuple[Ints, Ints]:
    """Return sources and targets of all edges; node ids start at 0."""
    pairs = files.numbers("A", np.int64)
    if pairs.shape[1] != 2:
        raise StageError(
            f"{files.name('A')} has {pairs.shape[1]} numbers per line; expected two node ids."
        )
    invalid = np.flatnonzero(((pairs < 1) | (pairs > len(graph))).any(axis=1))
    if len(invalid):
        raise StageError(
            f"{files.name('A')}, line {int(invalid[0]) + 1}: edge between nodes "
            f"{pairs[invalid[0]].tolist()}, but node ids in graph_indicator.txt are "
            f"1..{len(graph)}. Use files of the same dataset."
        )
    pairs = pairs - 1
    crossing = np.flatnonzero(graph[pairs[:, 0]] != graph[pairs[:, 1]])
    if len(crossing):
        one, other = (graph[pairs[crossing[0]]] + 1).tolist()
        raise StageError(
            f"{files.name('A')}, line {int(crossing[0]) + 1}: edge between graph {one} and graph "
            f"{other}. Use files of the same dataset."
        )
    return pairs[:, 0], pairs[:, 1]


def _read_single_file(data: bytes, where: str) -> TuGraphs:
    """Read the one-file layout."""
    lines = data.split(b"\n")
    while lines and not lines[-1].strip():
        lines.pop()
    try:
        flat = np.array(data.split(), dtype=np.int64)
    except (ValueError, OverflowError) as error:
        raise StageError(f"{where} must contain only integers: {str(error)[:300]}") from error
    start = pointers([len(line.split()) for line in lines])
    graph_lines = _graph_lines(flat, start, where)
    is_node = np.ones(len(lines), dtype=bool)
    is_node[0] = is_node[graph_lines] = False
    rows = np.flatnonzero(is_node)
    tag, degree = flat[start[rows]], flat[np.minimum(start[rows] + 1, len(flat) - 1)]
    invalid = np.flatnonzero((np.diff(start)[rows] < 2) | (np.diff(start)[rows] - 2 != degree))
    if len(invalid):
        raise StageError(
            f"{where}, line {int(rows[invalid[0]]) + 1}: expected a tag, a degree, and one id per "
            "neighbor."
        )
    node_ptr = pointers(flat[start[graph_lines]])
    graph = np.repeat(np.arange(len(graph_lines)), np.diff(node_ptr))
    src = np.repeat(np.arange(len(rows)), degree)
    dst = flat[ranges(start[rows] + 2, degree)]
    invalid = np.flatnonzero((dst < 0) | (dst >= np.diff(node_ptr)[graph[src]]))
    if len(invalid):
        line = int(rows[src[invalid[0]]]) + 1
        raise StageError(f"{where}, line {line}: this graph has no node {int(dst[invalid[0]])}.")
    offset = node_ptr[graph[src]]
    src, dst, _, completed = add_reverse_edges(src, dst + offset, None, len(rows))
    offset = node_ptr[graph[src]]
    node_feat, node_words = encode_features(tag[:, None], None, "node_label")
    table = GraphTable(
        node_ptr=node_ptr,
        edge_ptr=pointers(np.bincount(graph[src], minlength=len(graph_lines))),
        node={"node_feat": node_feat} if node_feat is not None else {},
        edge={
            "edge_src": (src - offset).astype(np.int32),
            "edge_dst": (dst - offset).astype(np.int32),
        },
    )
    return TuGraphs(table, node_words, (), flat[start[graph_lines] + 1], None, completed)


def _graph_lines(flat: Ints, start: Ints, where: str) -> Ints:
    """Return the index of the first line of every graph."""
    lines = len(start) - 1
    graph_lines, line = [], 1
    count = int(flat[0]) if len(flat) else 0
    for number in range(count):
        if line >= lines or start[line + 1] - start[line] != 2 or flat[start[line]] < 0:
            raise StageError(
                f"{where}, line {line + 1}: expected the number of nodes and the label of graph "
                f"{number + 1} of {count}."
            )
        graph_lines.append(line)
        line += int(flat[start[line]]) + 1
    if line != lines or not count:
        raise StageError(
            f"{where}: {count} graphs should end at line {line}, but the file has {lines} lines."
        )
    return np.array(graph_lines, dtype=np.int64)
