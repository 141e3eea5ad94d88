"""Training data of the bridge model: graphs cut in two, with the edges that the cut removes."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from gsx.ragged import Array, Ints, Ragged, concat_ragged, pointers, row_indices
from gsx.stages.graphs.cuts import all_pairs, sparse_cuts
from gsx.stages.graphs.subgraphs import Bools, Floats, global_edges, induced_subgraphs
from gsx.stages.nn.bridge_features import BridgeEncoding, bridge_inputs
from gsx.table import GraphTable, concat

PAIRS_PER_CUT = 20_000
"""Node pairs per cut. Pairs without a bridge are sampled from larger cuts."""
MIN_RECUT_NODES = 4
"""Smallest side that is cut again, in nodes."""


@dataclass(frozen=True, slots=True, eq=False)
class CutGraphs:
    """Graphs cut in two; row ``g`` of both tables are the sides of one cut."""

    left: GraphTable
    right: GraphTable
    bridge_left: Ragged
    """Per cut, the left nodes of its bridges, numbered within the side."""
    bridge_right: Ragged
    bridge_attr: Ragged
    """Per cut, the row of ``edge_attr`` of each bridge; rows have width 0 without attributes."""

    def __len__(self) -> int:
        return len(self.left)

    def take(self, rows: Ints) -> CutGraphs:
        """Return some of the cuts."""
        return CutGraphs(
            self.left.take(rows),
            self.right.take(rows),
            self.bridge_left.take(rows),
            self.bridge_right.take(rows),
            self.bridge_attr.take(rows),
        )


@dataclass(frozen=True, slots=True, eq=False)
class NodePairs:
    """Node pairs across cuts. Nodes of the left table are numbered first, then the right table."""

    cut: Ints
    left: Ints
    right: Ints
    bridged: Bools
    attr: Array
    """``[B, A]`` attributes of the bridged pairs, in the order of the pairs."""
    weight: Floats
    """Number of pairs that each pair represents."""


@dataclass(frozen=True, slots=True, eq=False)
class CutDataset:
    """Graphs to cut, and the edges that may be cut."""

    table: GraphTable
    may_cut: Bools | None = None
    """``[E]`` edges that may be cut; None allows all."""
    hydrogens: int | None = None
    """Node feature that counts hydrogens, for molecules."""

    def sample_graphs(self, count: int, stream: np.random.Generator) -> CutDataset:
        """Return ``count`` random graphs, in their order; all of them if there are not more."""
        if len(self.table) <= count:
            return self
        rows = np.sort(stream.permutation(len(self.table))[:count])
        if self.may_cut is None:
            return CutDataset(self.table.take(rows), None, self.hydrogens)
        taken = self.table.with_columns(edge={"may_cut": self.may_cut}).take(rows)
        plain = taken.select((*taken.node, *(set(taken.edge) - {"may_cut"})))
        return CutDataset(plain, taken.dense("edge", "may_cut"), self.hydrogens)

    def sample_cuts(self, encoding: BridgeEncoding, stream: np.random.Generator) -> CutGraphs:
        """Cut all graphs at random."""
        return cut_graphs(
            self.table, encoding, stream, may_cut=self.may_cut, hydrogens=self.hydrogens
        )


def cut_graphs(
    table: GraphTable,
    encoding: BridgeEncoding,
    stream: np.random.Generator,
    *,
    may_cut: Bools | None = None,
    hydrogens: int | None = None,
    levels: int = 2,
) -> CutGraphs:
    """Cut every graph in two, and large sides again, so that components of all sizes occur.

    ``hydrogens`` is the node feature that counts hydrogens. A hydrogen replaces each bond of a
    molecule that is cut.
    """
    levels_of_cuts = []
    for level in range(levels):
        drawn = sparse_cuts(table, stream, may_cut=may_cut)
        table = _add_hydrogens(table, drawn.side, hydrogens)
        cuts, rows = _split_sides(table, drawn.side, drawn.cut)
        levels_of_cuts.append(cuts)
        if level + 1 < levels:
            marked = table.with_columns(edge={} if may_cut is None else {"may_cut": may_cut})
            sides, _ = induced_subgraphs(
                marked.select((*table.node, *table.edge, "may_cut")), drawn.side == 1
            )
            table = sides.take(rows).filter(sides.take(rows).num_nodes >= MIN_RECUT_NODES)
            may_cut = None if may_cut is None else table.dense("edge", "may_cut")
            table = table.select((*table.node, *(set(table.edge) - {"may_cut"})))
    return _with_inputs(_concat_cuts(levels_of_cuts), encoding)


def cross_pairs(cuts: CutGraphs, stream: np.random.Generator) -> NodePairs:
    """Return the node pairs across every cut: all of them, or a weighted sample of large cuts."""
    shift = cuts.left.total_nodes
    bridge_cut = row_indices(cuts.bridge_left.ptr)
    bridge_left = cuts.left.node_ptr[bridge_cut] + cuts.bridge_left.values
    bridge_right = shift + cuts.right.node_ptr[bridge_cut] + cuts.bridge_right.values
    sizes = cuts.left.num_nodes * cuts.right.num_nodes
    is_small = sizes <= PAIRS_PER_CUT
    pairs = all_pairs(
        cuts.left.node_ptr[:-1],
        np.where(is_small, cuts.left.num_nodes, 0),
        shift + cuts.right.node_ptr[:-1],
        cuts.right.num_nodes,
    )
    owner = row_indices(pairs.ptr)
    large = np.repeat(np.flatnonzero(~is_small), PAIRS_PER_CUT)
    left = cuts.left.node_ptr[large] + (
        stream.random(len(large)) * cuts.left.num_nodes[large]
    ).astype(np.int64)
    right = (
        shift
        + cuts.right.node_ptr[large]
        + (stream.random(len(large)) * cuts.right.num_nodes[large]).astype(np.int64)
    )
    owner = np.concatenate([owner, large])
    left, right = np.concatenate([pairs.left, left]), np.concatenate([pairs.right, right])
    # Bridges come first, once each, and are removed from the other pairs.
    num_nodes = shift + cuts.right.total_nodes
    bridge_code = bridge_left * num_nodes + bridge_right
    is_other = ~np.isin(left * num_nodes + right, bridge_code)
    num_others = np.bincount(owner[is_other], minlength=len(cuts))
    num_bridges = np.diff(cuts.bridge_left.ptr)
    weight = (sizes - num_bridges) / np.maximum(num_others, 1)
    return NodePairs(
        cut=np.concatenate([bridge_cut, owner[is_other]]),
        left=np.concatenate([bridge_left, left[is_other]]),
        right=np.concatenate([bridge_right, right[is_other]]),
        bridged=np.arange(len(bridge_code) + int(is_other.sum())) < len(bridge_code),
        attr=cuts.bridge_attr.values,
        weight=np.concatenate([np.ones(len(bridge_code)), weight[owner[is_other]]]),
    )


@dataclass(frozen=True, slots=True, eq=False)
class RemovedNodes:
    """Graphs with one node removed that connected two others."""

    graphs: GraphTable
    """The remaining nodes of each graph, with network inputs."""
    left: Ints
    """``[G]`` one neighbor of the removed node, numbered within the remaining graph."""
    right: Ints
    """``[G]`` another neighbor."""
    middle: Array
    """``[G, F]`` features of the removed node."""


def remove_middle_nodes(
    table: GraphTable, encoding: BridgeEncoding, stream: np.random.Generator
) -> RemovedNodes:
    """Remove one random node with two neighbors from every graph.

    Graphs without such a node have no row.
    """
    src, dst = global_edges(table)
    order = np.lexsort((stream.random(len(src)), src))
    neighbors = dst[order]
    degree = np.bincount(src, minlength=table.total_nodes)
    start = pointers(degree)[:-1]
    owner = row_indices(table.node_ptr)
    first = neighbors[np.minimum(start, max(len(neighbors) - 1, 0))]
    second = neighbors[np.minimum(start + 1, max(len(neighbors) - 1, 0))]
    node = np.arange(table.total_nodes)
    is_candidate = (degree >= 2) & (first != second) & (first != node) & (second != node)
    priority = np.where(is_candidate, stream.random(table.total_nodes), -1.0)
    removed = np.lexsort((-priority, owner))[table.node_ptr[:-1][table.num_nodes > 0]]
    removed = removed[is_candidate[removed]]
    keep = np.ones(table.total_nodes, dtype=bool)
    keep[removed] = False
    remaining, _ = induced_subgraphs(table.select((*table.node, *table.edge)), keep)
    graphs = owner[removed]
    new_index = np.cumsum(keep) - 1 - remaining.node_ptr[owner]
    remaining = remaining.take(graphs)
    return RemovedNodes(
        graphs=_inputs_only(remaining, encoding),
        left=new_index[first[removed]],
        right=new_index[second[removed]],
        middle=table.dense("node", "node_feat")[removed],
    )


def _add_hydrogens(table: GraphTable, side: Array, hydrogens: int | None) -> GraphTable:
    """Add a hydrogen for every bond that a cut removes.

    Without them, missing valences would reveal where the bridges were.
    """
    if hydrogens is None:
        return table
    src, dst = global_edges(table)
    cut_nodes = src[(side[src] >= 0) & (side[dst] >= 0) & (side[src] != side[dst])]
    features = table.dense("node", "node_feat").copy()
    count = np.bincount(cut_nodes, minlength=table.total_nodes).astype(features.dtype)
    features[:, hydrogens] += count
    return table.with_columns(node={"node_feat": features})


def _split_sides(table: GraphTable, side: Array, is_cut: Bools) -> tuple[CutGraphs, Ints]:
    """Return the two sides of the graphs that are cut, and the rows of these graphs."""
    rows = np.flatnonzero(is_cut)
    plain = table.select((*table.node, *table.edge))
    left, _ = induced_subgraphs(plain, side == 0)
    right, _ = induced_subgraphs(plain, side == 1)
    src, dst = global_edges(table)
    bridges = np.flatnonzero((side[src] == 0) & (side[dst] == 1))
    owner = row_indices(table.node_ptr)
    number = np.where(side == 0, np.cumsum(side == 0), np.cumsum(side == 1)) - 1
    first = np.where(side == 0, left.node_ptr[owner], right.node_ptr[owner])
    local = number - first
    ptr = pointers(np.bincount(owner[src[bridges]], minlength=len(table)))
    attr = (
        table.dense("edge", "edge_attr")[bridges]
        if "edge_attr" in table.edge
        else np.zeros((len(bridges), 0), dtype=np.float32)
    )
    cuts = CutGraphs(
        left,
        right,
        Ragged(ptr, local[src[bridges]]),
        Ragged(ptr, local[dst[bridges]]),
        Ragged(ptr, attr),
    )
    return cuts.take(rows), rows


def _concat_cuts(parts: list[CutGraphs]) -> CutGraphs:
    return CutGraphs(
        concat([part.left for part in parts]),
        concat([part.right for part in parts]),
        concat_ragged([part.bridge_left for part in parts]),
        concat_ragged([part.bridge_right for part in parts]),
        concat_ragged([part.bridge_attr for part in parts]),
    )


def _with_inputs(cuts: CutGraphs, encoding: BridgeEncoding) -> CutGraphs:
    """Replace features by network inputs, so that a batch is a mere slice."""
    left, right = _inputs_only(cuts.left, encoding), _inputs_only(cuts.right, encoding)
    return CutGraphs(left, right, cuts.bridge_left, cuts.bridge_right, cuts.bridge_attr)


def _inputs_only(table: GraphTable, encoding: BridgeEncoding) -> GraphTable:
    return GraphTable(
        table.node_ptr,
        table.edge_ptr,
        node={"inputs": bridge_inputs(table, encoding)},
        edge={name: table.dense("edge", name) for name in ("edge_src", "edge_dst")},
    )
