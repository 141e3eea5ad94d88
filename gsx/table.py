"""The graph table: many graphs as concatenated arrays, the one type that crosses layers."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace

import numpy as np

from gsx.errors import TableError
from gsx.ragged import Array, Ints, Ragged, Runs, concat_ragged, pointers, rows_of, same_array
from gsx.schema import Axis

Values = Array | Ragged
"""The values of a column: one row per graph, node or edge, or one list per row."""


@dataclass(frozen=True, slots=True, eq=False)
class GraphTable:
    """Graphs as concatenated arrays; graph ``g`` owns nodes ``node_ptr[g]:node_ptr[g + 1]``.

    Edges hold local node numbers, so slices and permutations never rewrite them. Tables are values:
    every operation returns a new one, and slices share memory with their source.
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
    """Columns with one row per edge; ``edge_src`` and ``edge_dst`` are always there."""

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

        from gsx.graph_svg import LARGEST, graph_svg

        axes: tuple[Axis, ...] = ("graph", "node", "edge")
        rows = "".join(
            f"<tr><td>{axis}</td><td><code>{escape(name)}</code></td><td>{_kind(values)}</td></tr>"
            for axis in axes
            for name, values in self.columns(axis).items()
        )
        small = np.flatnonzero(self.num_nodes <= LARGEST)[:4].tolist()
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
        """Nodes of each graph, ``[G]``."""
        return np.diff(self.node_ptr)

    @property
    def num_edges(self) -> Ints:
        """Stored edges of each graph, both directions counted, ``[G]``."""
        return np.diff(self.edge_ptr)

    @property
    def total_nodes(self) -> int:
        """Nodes of all graphs."""
        return int(self.node_ptr[-1])

    @property
    def total_edges(self) -> int:
        """Stored edges of all graphs."""
        return int(self.edge_ptr[-1])

    def columns(self, axis: Axis) -> Mapping[str, Values]:
        """Return the columns of one axis."""
        return {"graph": self.graph, "node": self.node, "edge": self.edge}[axis]

    def slice(self, start: int, stop: int) -> GraphTable:
        """Return graphs ``start:stop`` without copying their values."""
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
        """Return the given graphs in the given order; a graph may be taken many times."""
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
        """Return the table with only the named columns; structure always stays."""
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
        """Return the graph of every edge, ``[E]``."""
        return rows_of(self.edge_ptr)

    def dense(self, axis: Axis, name: str) -> Array:
        """Return a column that holds plain rows; TableError when it holds lists or is absent."""
        values = self.columns(axis).get(name)
        if not isinstance(values, np.ndarray):
            have = ", ".join(self.columns(axis)) or "none"
            raise TableError(f"no plain {axis} column `{name}` in this table; it has: {have}")
        return values

    def lists(self, axis: Axis, name: str) -> Ragged:
        """Return a column that holds lists; TableError when it holds plain rows or is absent."""
        values = self.columns(axis).get(name)
        if not isinstance(values, Ragged):
            raise TableError(f"no list column `{name}` on the {axis} axis of this table")
        return values

    def equals(self, other: GraphTable) -> bool:
        """Say whether both tables hold the same columns with the same content; NaN equals NaN."""
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
        """Return the table if its structure holds together, else say which graph breaks it."""
        _check_pointers("node_ptr", self.node_ptr)
        _check_pointers("edge_ptr", self.edge_ptr)
        if len(self.node_ptr) != len(self.edge_ptr):
            raise TableError(
                f"node_ptr is for {len(self.node_ptr) - 1} graphs, "
                f"edge_ptr for {len(self.edge_ptr) - 1}"
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
            # Read without a sign, what is negative is beyond every limit.
            bad = np.flatnonzero(ends.view(f"u{ends.itemsize}") >= limit)
            if len(bad):
                at = int(bad[0])
                graph = int(np.searchsorted(self.edge_ptr, at, side="right")) - 1
                raise TableError(
                    f"{self.describe(graph)}: edge {at - int(self.edge_ptr[graph])} has {name} "
                    f"{int(ends[at])}, but the graph has {int(self.num_nodes[graph])} nodes"
                    f" ({len(bad)} such edges in all)"
                )

    def describe(self, graph: int) -> str:
        """Name one graph in an error message."""
        ids = self.graph.get("graph_id")
        return f"graph {ids[graph]}" if isinstance(ids, np.ndarray) else f"graph at row {graph}"


def concat(tables: Sequence[GraphTable]) -> GraphTable:
    """Stack the graphs of tables that have the same columns."""
    if not tables:
        raise TableError("concat needs at least one table")
    first = tables[0]
    if len(tables) == 1:
        return first
    for table in tables[1:]:
        for axis in ("graph", "node", "edge"):
            have, want = table.columns(axis).keys(), first.columns(axis).keys()
            if have != want:
                odd = ", ".join(sorted(have ^ want))
                raise TableError(f"cannot concatenate: {axis} columns differ in {odd}")
    return GraphTable(
        node_ptr=pointers(np.concatenate([table.num_nodes for table in tables])),
        edge_ptr=pointers(np.concatenate([table.num_edges for table in tables])),
        graph=_concat([table.graph for table in tables]),
        node=_concat([table.node for table in tables]),
        edge=_concat([table.edge for table in tables]),
    )


def cut(parts: Iterable[GraphTable], size: int) -> Iterator[GraphTable]:
    """Yield the graphs of tables ``size`` at a time, and the rest; without any, one empty table."""
    held: list[GraphTable] = []
    count, first = 0, True
    for part in parts:
        held.append(part)
        count += len(part)
        if count < size:
            continue
        whole, first = concat(held), False
        held.clear()  # while the whole is used, its parts need not be there
        full = count - count % size
        yield from (whole.slice(start, start + size) for start in range(0, full, size))
        if full < count:
            held.append(whole.take(np.arange(full, count)))
        count -= full
        del whole
    if count or first:
        yield concat(held)


def _kind(values: Values) -> str:
    """Say what a column holds."""
    inner = values.values if isinstance(values, Ragged) else values
    wide = f" x {inner.shape[1]}" if inner.ndim == 2 else ""
    return f"{'lists of ' if isinstance(values, Ragged) else ''}{inner.dtype}{wide}"


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
        name: runs.of_lists(values) if isinstance(values, Ragged) else runs.of(values)
        for name, values in columns.items()
    }


def _concat(parts: Sequence[Mapping[str, Values]]) -> dict[str, Values]:
    merged: dict[str, Values] = {}
    for name in parts[0]:
        lists = [values for part in parts if isinstance(values := part[name], Ragged)]
        arrays = [values for part in parts if isinstance(values := part[name], np.ndarray)]
        if lists and arrays:
            raise TableError(f"cannot concatenate: `{name}` holds lists here and plain rows there")
        merged[name] = concat_ragged(lists) if lists else np.concatenate(arrays)
    return merged


def _same(left: Values, right: Values) -> bool:
    if isinstance(left, Ragged) and isinstance(right, Ragged):
        return left.equals(right)
    if isinstance(left, Ragged) or isinstance(right, Ragged):
        return False
    return same_array(left, right)


def _check_pointers(name: str, ptr: Ints) -> None:
    if ptr.ndim != 1 or len(ptr) == 0 or ptr[0] != 0:
        raise TableError(f"{name} must be a list of pointers that starts at 0")
    if len(ptr) > 1 and int(np.diff(ptr).min()) < 0:
        row = int(np.argmin(np.diff(ptr)))
        raise TableError(f"{name} goes backwards at row {row}: {ptr[row]} then {ptr[row + 1]}")


def _check_rows(axis: Axis, name: str, values: Values, expected: int) -> None:
    if len(values) != expected:
        raise TableError(
            f"{axis} column `{name}` has {len(values)} rows; the table has {expected} {axis}s"
        )
    if isinstance(values, Ragged):
        _check_pointers(f"pointers of `{name}`", values.ptr)
        if int(values.ptr[-1]) != len(values.values):
            raise TableError(
                f"`{name}` holds {len(values.values)} values, its pointers end at {values.ptr[-1]}"
            )
