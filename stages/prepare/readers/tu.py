"""Read graphs from the text files of TUDataset, and from the one-file layout DD is also found in.

A TU dataset ``DS`` is ``DS_A.txt`` (pairs of node numbers), ``DS_graph_indicator.txt`` (the graph
of every node), ``DS_graph_labels.txt`` and some of ``node_labels``, ``node_attributes``,
``edge_labels``, ``edge_attributes`` and ``graph_attributes``; numbers count from 1. The other
layout is one text: the number of graphs, then per graph a line ``nodes label`` and per node a line
``tag degree neighbors…``; numbers count from 0. Both may lie in a zip file or in a folder.
"""

from __future__ import annotations

import io
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from pathlib import Path, PurePosixPath

import numpy as np

from gsx.errors import StageError
from gsx.ragged import Array, Ints, pointers, ranges
from gsx.schema import Feature
from gsx.stages.prepare.readers.archives import Archive
from gsx.stages.prepare.readers.parsed import both_ways, features
from gsx.table import GraphTable

NEEDED = ("A", "graph_indicator")
OPTIONAL = (
    "graph_labels", "graph_attributes", "node_labels", "node_attributes", "edge_labels",
    "edge_attributes",
)  # fmt: skip


@dataclass(frozen=True, slots=True, eq=False)
class TuGraphs:
    """What the files hold."""

    table: GraphTable
    """Structure and features, edges in both directions and sorted; no graph columns."""
    node_words: tuple[Feature, ...]
    """Words of the node features, where those are labels."""
    edge_words: tuple[Feature, ...]
    """Words of the edge features, where those are labels."""
    labels: Ints | None
    """``[G]`` labels as in the file, where there are any."""
    values: Array | None
    """``[G, T]`` attributes of graphs, where there are any."""
    completed: int
    """Edges that the files have in one direction only; the other was added."""


@dataclass(frozen=True, slots=True)
class _Files:
    """The files of one dataset, by what they hold."""

    where: str
    read: Mapping[str, Callable[[], bytes]]

    def name(self, part: str) -> str:
        return f"{self.where}: {part}.txt"

    def numbers(self, part: str, dtype: type) -> Array:
        """Return the numbers of a file, one row per line."""
        data = self.read[part]()
        if not data.strip():
            return np.zeros((0, 2 if part == "A" else 1), dtype=dtype)
        try:
            return np.loadtxt(
                io.BytesIO(data), dtype=dtype, delimiter=",", comments=None, ndmin=2,
                encoding="utf-8",
            )  # fmt: skip
        except (ValueError, UnicodeDecodeError) as error:
            what = str(error).split("; use ")[0].rstrip(".")
            kind = "whole numbers" if dtype is np.int64 else "numbers"
            raise StageError(f"{self.name(part)} should hold {kind} only: {what}") from error

    def checked(self, part: str, dtype: type, rows: int, of: str) -> Array | None:
        """Return the numbers of a file that may be there, and must have as many rows as ``of``."""
        if part not in self.read:
            return None
        found = self.numbers(part, dtype)
        if len(found) != rows:
            raise StageError(
                f"{self.name(part)} has {len(found):,} lines; there are {rows:,} {of}. "
                "The files do not belong together."
            )
        bad = np.flatnonzero(~np.isfinite(found).all(axis=1))
        if len(bad) and of != "graphs":  # targets may be missing
            raise StageError(
                f"{self.name(part)}, line {int(bad[0]) + 1}: a value is not finite ({len(bad):,} "
                "such lines). Clean the data; gsx does not guess features."
            )
        return found


def read_graphs(path: Path, name: str) -> TuGraphs:
    """Read a zip file or a folder in either layout; ``name`` stands for it in errors."""
    if path.is_dir():
        found = {each.name: each for each in sorted(path.iterdir()) if each.is_file()}
        return _read(name, {member: each.read_bytes for member, each in found.items()})
    archive = Archive(path, name)
    return _read(name, {member: _member(archive, member) for member in archive.members})


def tu_parts(members: list[str]) -> dict[str, dict[str, str]]:
    """Return, per dataset among file names, which file holds which part."""
    found: dict[str, dict[str, str]] = {}
    for member in members:
        stem = PurePosixPath(member).name.removesuffix(".txt")
        for part in (*NEEDED, *OPTIONAL):
            if member.endswith(".txt") and stem.endswith(f"_{part}"):
                prefix = member.removesuffix(".txt").removesuffix(f"_{part}")
                found.setdefault(prefix, {})[part] = member
    return {prefix: parts for prefix, parts in found.items() if "A" in parts}


def _member(archive: Archive, member: str) -> Callable[[], bytes]:
    return lambda: archive.read(member)


def _read(where: str, read: Mapping[str, Callable[[], bytes]]) -> TuGraphs:
    datasets = tu_parts(list(read))
    if len(datasets) > 1:
        names = ", ".join(f"`{PurePosixPath(prefix).name}`" for prefix in datasets)
        raise StageError(f"{where} holds more than one dataset: {names}. Keep one.")
    for parts in datasets.values():
        missing = [part for part in NEEDED if part not in parts]
        if missing:
            raise StageError(f"{where} has no file that ends in `_{missing[0]}.txt`")
        return _read_tu(_Files(where, {part: read[member] for part, member in parts.items()}))
    single = [each for each in read if _is_single(PurePosixPath(each))]
    if len(single) == 1:
        return _read_counted(read[single[0]](), f"{where}: {PurePosixPath(single[0]).name}")
    shown = ", ".join(f"`{each}`" for each in sorted(read)[:5]) or "no files"
    raise StageError(
        f"{where} is no TU dataset: no file ends in `_A.txt`. It holds {shown}"
        f"{', …' if len(read) > 5 else ''}."
    )


def _is_single(member: PurePosixPath) -> bool:
    """Say whether a file may be a dataset of its own: DD/DD.txt."""
    return member.suffix == ".txt" and member.parent.name in ("", member.stem)


def _read_tu(files: _Files) -> TuGraphs:
    graph = files.numbers("graph_indicator", np.int64)
    nodes = len(graph)
    if not nodes:
        raise StageError(f"{files.name('graph_indicator')} is empty; there are no graphs to read.")
    graph = graph[:, 0] - 1
    back = np.flatnonzero(np.diff(graph) < 0)
    if graph[0] < 0 or len(back):
        line = int(back[0]) + 2 if len(back) else 1
        raise StageError(
            f"{files.name('graph_indicator')}, line {line}: graph {int(graph[line - 1]) + 1}; "
            "numbers should start at 1 and never fall."
        )
    labels, values, count = _of_graphs(files, int(graph[-1]) + 1)
    node_ptr = pointers(np.bincount(graph, minlength=count))
    src, dst = _ends(files, graph)
    node_labels = files.checked("node_labels", np.int64, nodes, "nodes")
    node_values = files.checked("node_attributes", np.float32, nodes, "nodes")
    edge_labels = files.checked("edge_labels", np.int64, len(src), "edges")
    edge_values = files.checked("edge_attributes", np.float32, len(src), "edges")
    node_feat, node_words = features(node_labels, node_values, "node_label")
    edge_attr, edge_words = features(edge_labels, edge_values, "edge_label")
    if node_feat is None:
        node_feat = np.ones((nodes, 1), dtype=np.float32)
    src, dst, edge_attr, completed = both_ways(src, dst, edge_attr, nodes)
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


def _of_graphs(files: _Files, count: int) -> tuple[Ints | None, Array | None, int]:
    """Return labels, values and the number of graphs; the last ones may have no nodes."""
    labels = files.numbers("graph_labels", np.int64) if "graph_labels" in files.read else None
    if labels is not None:
        if len(labels) < count:
            raise StageError(
                f"{files.name('graph_labels')} has {len(labels):,} lines; graph_indicator.txt "
                f"names {count:,} graphs. The files do not belong together."
            )
        count = len(labels)
    values = files.checked("graph_attributes", np.float32, count, "graphs")
    if labels is None and values is None:
        raise StageError(
            f"{files.where} has neither `_graph_labels.txt` nor `_graph_attributes.txt`: "
            "there is nothing to learn."
        )
    return None if labels is None else labels[:, 0], values, count


def _ends(files: _Files, graph: Ints) -> tuple[Ints, Ints]:
    """Return both ends of all edges as numbers of nodes from 0."""
    pairs = files.numbers("A", np.int64)
    if pairs.shape[1] != 2:
        raise StageError(
            f"{files.name('A')} has {pairs.shape[1]} numbers in a line; expected two, of nodes."
        )
    pairs = pairs - 1
    bad = np.flatnonzero(((pairs < 0) | (pairs >= len(graph))).any(axis=1))
    if len(bad):
        raise StageError(
            f"{files.name('A')}, line {int(bad[0]) + 1}: an edge between nodes "
            f"{(pairs[bad[0]] + 1).tolist()}; graph_indicator.txt knows nodes 1..{len(graph)}."
        )
    bad = np.flatnonzero(graph[pairs[:, 0]] != graph[pairs[:, 1]])
    if len(bad):
        one, other = (graph[pairs[bad[0]]] + 1).tolist()
        raise StageError(
            f"{files.name('A')}, line {int(bad[0]) + 1}: an edge between graph {one} and graph "
            f"{other}. The files do not belong together."
        )
    return pairs[:, 0], pairs[:, 1]


def _read_counted(data: bytes, where: str) -> TuGraphs:
    """Read the layout of one text file."""
    lines = data.split(b"\n")
    while lines and not lines[-1].strip():
        lines.pop()
    try:
        flat = np.array(data.split(), dtype=np.int64)
    except ValueError as error:
        raise StageError(f"{where} should hold whole numbers only: {error}") from error
    start = pointers([len(line.split()) for line in lines])
    heads = _heads(flat, start, where)
    is_node = np.ones(len(lines), dtype=bool)
    is_node[0] = is_node[heads] = False
    rows = np.flatnonzero(is_node)
    tag, degree = flat[start[rows]], flat[np.minimum(start[rows] + 1, len(flat) - 1)]
    bad = np.flatnonzero(np.diff(start)[rows] != degree + 2)
    if len(bad):
        raise StageError(
            f"{where}, line {int(rows[bad[0]]) + 1}: expected a tag, a degree and as many neighbors"
        )
    node_ptr = pointers(flat[start[heads]])
    graph = np.repeat(np.arange(len(heads)), np.diff(node_ptr))
    src = np.repeat(np.arange(len(rows)), degree)
    dst = flat[ranges(start[rows] + 2, degree)]
    bad = np.flatnonzero((dst < 0) | (dst >= np.diff(node_ptr)[graph[src]]))
    if len(bad):
        line = int(rows[src[bad[0]]]) + 1
        raise StageError(f"{where}, line {line}: no node {int(dst[bad[0]])} in this graph")
    offset = node_ptr[graph[src]]
    src, dst, _, completed = both_ways(src, dst + offset, None, len(rows))
    offset = node_ptr[graph[src]]
    node_feat, words = features(tag[:, None], None, "node_label")
    table = GraphTable(
        node_ptr=node_ptr,
        edge_ptr=pointers(np.bincount(graph[src], minlength=len(heads))),
        node={"node_feat": node_feat} if node_feat is not None else {},
        edge={
            "edge_src": (src - offset).astype(np.int32),
            "edge_dst": (dst - offset).astype(np.int32),
        },
    )
    return TuGraphs(table, words, (), flat[start[heads] + 1], None, completed)


def _heads(flat: Ints, start: Ints, where: str) -> Ints:
    """Return the lines that open a graph."""
    lines = len(start) - 1
    heads, at = [], 1
    count = int(flat[0]) if len(flat) else 0
    for number in range(count):
        if at >= lines or start[at + 1] - start[at] != 2 or flat[start[at]] < 0:
            raise StageError(
                f"{where}, line {at + 1}: expected the number of nodes and the label of graph "
                f"{number + 1} of {count}"
            )
        heads.append(at)
        at += int(flat[start[at]]) + 1
    if at != lines or not count:
        raise StageError(
            f"{where}: {count} graphs should end at line {at}; the file has {lines} lines."
        )
    return np.array(heads, dtype=np.int64)
