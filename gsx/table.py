"""Graph tables: many graphs as concatenated arrays. All layers exchange graphs in this form."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace

import numpy as np

from gsx.errors import TableError
from gsx.ragged import Array, Ints, Ragged, Runs, arrays_equal, concat_ragged, pointers, row_indices
from gsx.schema import Axis

Values = Array | Ragged
"""The values of a column: one row per graph, node or edge, or one list per row."""


@dataclass(frozen=True, slots=True, eq=False)
class GraphTable:
    """Graphs as concatenated arrays; graph ``g`` has the nodes ``node_ptr[g]:node_ptr[g + 1]``.

    Edges contain local node indices, so slices and permutations do not change them. Tables are
    immutable: every operation returns a new table. Slices share memory with their source.
    """

    node_ptr: Ints
    """``[G + 1]`` pointers into every node column."""
    edge_ptr: Ints
    """``[G + 1]`` pointers into every edge column."""
    graph: Mapping[str, Values] = field(default_factory=dict)
    """Columns with one row per graph."""
    node: Mapping[str, Values] = field(default_factory=dict)
    """Columns with one row per node."""
    edge: Mapping[str, Values] = field(default_factory=dict)
    """Columns with one row per edge; always includes ``edge_src`` and ``edge_dst``."""

    def __len__(self) -> int:
        return len(self.node_ptr) - 1

    def __repr__(self) -> str:
        columns = ", ".join((*self.graph, *self.node, *self.edge))
        return (
            f"GraphTable({len(self)} graphs, {self.total_nodes} nodes, "
            f"{self.total_edges} edges: {columns})"
        )

    def _repr_html_(self) -> str:
        """Show columns and the first graphs in a notebook."""
        from html import escape

        from gsx.graph_svg import MAX_NODES, graph_svg

        axes: tuple[Axis, ...] = ("graph", "node", "edge")
        rows = "".join(
            f"<tr><td>{axis}</td><td><code>{escape(name)}</code></td><td>{_dtype(values)}</td></tr>"
            for axis in axes
            for name, values in self.columns(axis).items()
        )
        small = np.flatnonzero(self.num_nodes <= MAX_NODES)[:4].tolist()
        drawn = "".join(
            graph_svg(one.dense("edge", "edge_src"), one.dense("edge", "edge_dst"), one.total_nodes)
            for one in (self.slice(row, row + 1) for row in small)
        )
        head = f"{len(self):,} graphs, {self.total_nodes:,} nodes, {self.total_edges:,} edges"
        return (
            f"<div><b>GraphTable</b> {head}<div>{drawn}</div><table><thead><tr><th>per</th>"
            f"<th>column</th><th>values</th></tr></thead><tbody>{rows}</tbody></table></div>"
        )

    @property
    def num_nodes(self) -> Ints:
        """Number of nodes of each graph, ``[G]``."""
        return np.diff(self.node_ptr)

    @property
    def num_edges(self) -> Ints:
        """Number of stored edges of each graph, with both directions counted, ``[G]``."""
        return np.diff(self.edge_ptr)

    @property
    def total_nodes(self) -> int:
        """Number of nodes of all graphs."""
        return int(self.node_ptr[-1])

    @property
    def total_edges(self) -> int:
        """Number of stored edges of all graphs."""
        return int(self.edge_ptr[-1])

    def columns(self, axis: Axis) -> Mapping[str, Values]:
        """Return the columns of one axis."""
        return {"graph": self.graph, "node": self.node, "edge": self.edge}[axis]

    def slice(self, start: int, stop: int) -> GraphTable:
        """Return graphs ``start:stop`` without copying values."""
        start, stop, _ = slice(start, stop).indices(len(self))
        stop = max(start, stop)
        node_ptr = self.node_ptr[start : stop + 1]
        edge_ptr = self.edge_ptr[start : stop + 1]
        return GraphTable(
            node_ptr=node_ptr - node_ptr[0],
            edge_ptr=edge_ptr - edge_ptr[0],
            graph=_slice(self.graph, start, stop),
            node=_slice(self.node, int(node_ptr[0]), int(node_ptr[-1])),
            edge=_slice(self.edge, int(edge_ptr[0]), int(edge_ptr[-1])),
        )

    def take(self, graphs: Ints) -> GraphTable:
        """Return ``graphs`` in the given order; repetitions are allowed."""
        graphs = np.asarray(graphs, dtype=np.int64)
        nodes, edges = (
            Runs(ptr[graphs], ptr[graphs + 1] - ptr[graphs])
            for ptr in (self.node_ptr, self.edge_ptr)
        )
        return GraphTable(
            node_ptr=pointers(nodes.counts),
            edge_ptr=pointers(edges.counts),
            graph=_take(self.graph, graphs),
            node=_take_runs(self.node, nodes),
            edge=_take_runs(self.edge, edges),
        )

    def filter(self, keep: Array) -> GraphTable:
        """Return the graphs where the mask ``keep`` ``[G]`` is true."""
        return self.take(np.flatnonzero(keep))

    def select(self, names: Iterable[str]) -> GraphTable:
        """Return the table with only the named columns, ``edge_src`` and ``edge_dst``."""
        wanted = {*names, "edge_src", "edge_dst"}
        return GraphTable(
            node_ptr=self.node_ptr,
            edge_ptr=self.edge_ptr,
            graph={name: values for name, values in self.graph.items() if name in wanted},
            node={name: values for name, values in self.node.items() if name in wanted},
            edge={name: values for name, values in self.edge.items() if name in wanted},
        )

    def with_columns(
        self,
        *,
        graph: Mapping[str, Values] | None = None,
        node: Mapping[str, Values] | None = None,
        edge: Mapping[str, Values] | None = None,
    ) -> GraphTable:
        """Return the table with columns added or replaced."""
        return replace(
            self,
            graph={**self.graph, **(graph or {})},
            node={**self.node, **(node or {})},
            edge={**self.edge, **(edge or {})},
        )

    def edge_graph(self) -> Ints:
        """Return the graph index of every edge, ``[E]``."""
        return row_indices(self.edge_ptr)

    def dense(self, axis: Axis, name: str) -> Array:
        """Return a dense column; raise TableError if it is ragged or missing."""
        values = self.columns(axis).get(name)
        if not isinstance(values, np.ndarray):
            available = ", ".join(self.columns(axis)) or "none"
            raise TableError(f"no dense {axis} column `{name}` in this table; it has: {available}")
        return values

    def lists(self, axis: Axis, name: str) -> Ragged:
        """Return a ragged column; raise TableError if it is dense or missing."""
        values = self.columns(axis).get(name)
        if not isinstance(values, Ragged):
            raise TableError(f"no ragged column `{name}` on the {axis} axis of this table")
        return values

    def equals(self, other: GraphTable) -> bool:
        """Return whether both tables have the same columns and values; NaN equals NaN."""
        return (
            np.array_equal(self.node_ptr, other.node_ptr)
            and np.array_equal(self.edge_ptr, other.edge_ptr)
            and all(
                left.keys() == right.keys() and all(_same(left[k], right[k]) for k in left)
                for left, right in (
                    (self.graph, other.graph),
                    (self.node, other.node),
                    (self.edge, other.edge),
                )
            )
        )

    def validate(self) -> GraphTable:
        """Return the table if pointers, lengths and edges are valid, else raise TableError."""
        _check_pointers("node_ptr", self.node_ptr)
        _check_pointers("edge_ptr", self.edge_ptr)
        if len(self.node_ptr) != len(self.edge_ptr):
            raise TableError(
                f"node_ptr describes {len(self.node_ptr) - 1} graphs, "
                f"edge_ptr {len(self.edge_ptr) - 1}"
            )
        expected = {"graph": len(self), "node": self.total_nodes, "edge": self.total_edges}
        axes: tuple[Axis, ...] = ("graph", "node", "edge")
        for axis in axes:
            for name, values in self.columns(axis).items():
                _check_rows(axis, name, values, expected[axis])
        self._check_edges()
        return self

    def _check_edges(self) -> None:
        limit = np.repeat(self.num_nodes.astype(np.uint32), self.num_edges)
        for name in ("edge_src", "edge_dst"):
            ends = self.dense("edge", name)
            # As unsigned integers, negative values exceed every limit.
            invalid = np.flatnonzero(ends.view(f"u{ends.itemsize}") >= limit)
            if len(invalid):
                edge = int(invalid[0])
                graph = int(np.searchsorted(self.edge_ptr, edge, side="right")) - 1
                raise TableError(
                    f"{self.describe(graph)}: edge {edge - int(self.edge_ptr[graph])} has {name} "
                    f"{int(ends[edge])}, but the graph has {int(self.num_nodes[graph])} nodes"
                    f" ({len(invalid)} such edges in total)"
                )

    def describe(self, graph: int) -> str:
        """Return the name of a graph for error messages."""
        ids = self.graph.get("graph_id")
        return f"graph {ids[graph]}" if isinstance(ids, np.ndarray) else f"graph at row {graph}"


def concat(tables: Sequence[GraphTable]) -> GraphTable:
    """Return the graphs of all tables, which must have the same columns."""
    if not tables:
        raise TableError("concat needs at least one table")
    first = tables[0]
    if len(tables) == 1:
        return first
    for table in tables[1:]:
        for axis in ("graph", "node", "edge"):
            names, expected = table.columns(axis).keys(), first.columns(axis).keys()
            if names != expected:
                different = ", ".join(sorted(names ^ expected))
                raise TableError(f"cannot concatenate: {axis} columns differ in {different}")
    return GraphTable(
        node_ptr=pointers(np.concatenate([table.num_nodes for table in tables])),
        edge_ptr=pointers(np.concatenate([table.num_edges for table in tables])),
        graph=_concat([table.graph for table in tables]),
        node=_concat([table.node for table in tables]),
        edge=_concat([table.edge for table in tables]),
    )


def rechunk(tables: Iterable[GraphTable], size: int) -> Iterator[GraphTable]:
    """Yield tables of ``size`` graphs; the last one may be smaller.

    ``tables`` must contain at least one table. If all are empty, one empty table is yielded.
    """
    buffer: list[GraphTable] = []
    count, first = 0, True
    for table in tables:
        buffer.append(table)
        count += len(table)
        if count < size:
            continue
        merged, first = concat(buffer), False
        buffer.clear()  # frees the inputs while the merged table is in use
        full = count - count % size
        yield from (merged.slice(start, start + size) for start in range(0, full, size))
        if full < count:
            buffer.append(merged.take(np.arange(full, count)))
        count -= full
        del merged
    if count or first:
        yield concat(buffer)


def _dtype(values: Values) -> str:
    """Return dtype and width of a column for display."""
    inner = values.values if isinstance(values, Ragged) else values
    width = f" x {inner.shape[1]}" if inner.ndim == 2 else ""
    return f"{'lists of ' if isinstance(values, Ragged) else ''}{inner.dtype}{width}"


def _slice(columns: Mapping[str, Values], start: int, stop: int) -> dict[str, Values]:
    return {
        name: values.slice(start, stop) if isinstance(values, Ragged) else values[start:stop]
        for name, values in columns.items()
    }


def _take(columns: Mapping[str, Values], rows: Ints) -> dict[str, Values]:
    return {
        name: values.take(rows) if isinstance(values, Ragged) else values.take(rows, axis=0)
        for name, values in columns.items()
    }


def _take_runs(columns: Mapping[str, Values], runs: Runs) -> dict[str, Values]:
    return {
        name: runs.take_ragged(values) if isinstance(values, Ragged) else runs.take(values)
        for name, values in columns.items()
    }


def _concat(parts: Sequence[Mapping[str, Values]]) -> dict[str, Values]:
    merged: dict[str, Values] = {}
    for name in parts[0]:
        lists = [values for part in parts if isinstance(values := part[name], Ragged)]
        arrays = [values for part in parts if isinstance(values := part[name], np.ndarray)]
        if lists and arrays:
            raise TableError(f"cannot concatenate: `{name}` is ragged in some tables only")
        merged[name] = concat_ragged(lists) if lists else np.concatenate(arrays)
    return merged


def _same(left: Values, right: Values) -> bool:
    if isinstance(left, Ragged) and isinstance(right, Ragged):
        return left.equals(right)
    if isinstance(left, Ragged) or isinstance(right, Ragged):
        return False
    return arrays_equal(left, right)


def _check_pointers(name: str, ptr: Ints) -> None:
    if ptr.ndim != 1 or len(ptr) == 0 or ptr[0] != 0:
        raise TableError(f"{name} must be a one-dimensional pointer array that starts at 0")
    if len(ptr) > 1 and int(np.diff(ptr).min()) < 0:
        row = int(np.argmin(np.diff(ptr)))
        raise TableError(f"{name} decreases at row {row}, from {ptr[row]} to {ptr[row + 1]}")


def _check_rows(axis: Axis, name: str, values: Values, expected: int) -> None:
    if len(values) != expected:
        raise TableError(
            f"{axis} column `{name}` has {len(values)} rows; the table has {expected} {axis}s"
        )
    if isinstance(values, Ragged):
        _check_pointers(f"pointers of `{name}`", values.ptr)
        if int(values.ptr[-1]) != len(values.values):
            raise TableError(
                f"`{name}` has {len(values.values)} values, but its pointers end at "
                f"{values.ptr[-1]}"
            )
