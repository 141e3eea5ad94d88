"""Cuts as lessons: two sides of a graph, and the bridges that were between them."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from gsx.ragged import Array, Ints, Ragged, concat_ragged, pointers, row_indices
from gsx.stages.graphs.cuts import all_pairs, sparse_cuts
from gsx.stages.graphs.subgraphs import Bools, Floats, global_edges, induced_subgraphs
from gsx.stages.nn.bridge_features import BridgeEncoding, bridge_inputs
from gsx.table import GraphTable, concat

PAIRS_PER_CUT = 20_000
"""Pairs of nodes looked at per cut; of larger cuts the pairs without a bridge are sampled."""
MIN_RECUT_NODES = 4
"""Nodes a side must have to be cut again."""


@dataclass(frozen=True, slots=True, eq=False)
class CutGraphs:
    """Graphs cut in two; row ``g`` of both tables are the sides of one graph."""

    left: GraphTable
    right: GraphTable
    bridge_left: Ragged
    """Per cut, the left ends of its bridges, numbered inside the side."""
    bridge_right: Ragged
    bridge_attr: Ragged
    """Per cut, the row of ``edge_attr`` of each bridge; rows of width 0 without attributes."""

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
    """Pairs of nodes across some cuts; nodes are numbered left table first, then right table."""

    cut: Ints
    left: Ints
    right: Ints
    bridged: Bools
    attr: Array
    """``[B, A]`` attributes of the bridged pairs, in the order of the pairs."""
    weight: Floats
    """How many pairs each stands for."""


@dataclass(frozen=True, slots=True, eq=False)
class CutDataset:
    """Graphs to learn bridges from, and how they may be cut."""

    table: GraphTable
    may_cut: Bools | None = None
    """``[E]`` edges that may be cut; all may without it."""
    hydrogens: int | None = None
    """Feature that counts what replaces a bond of a molecule that is cut."""

    def cut(self, code: BridgeEncoding, stream: np.random.Generator) -> CutGraphs:
        """Cut all graphs, anew with every stream."""
        return cut_graphs(self.table, code, stream, may_cut=self.may_cut, hydrogens=self.hydrogens)


def cut_graphs(
    table: GraphTable,
    code: BridgeEncoding,
    stream: np.random.Generator,
    *,
    may_cut: Bools | None = None,
    hydrogens: int | None = None,
    levels: int = 2,
) -> CutGraphs:
    """Cut every graph in two, and larger sides again, so that parts of every size are seen.

    ``hydrogens`` is the feature that counts what replaces a bond of a molecule that is cut.
    """
    cuts = []
    for level in range(levels):
        drawn = sparse_cuts(table, stream, may_cut=may_cut)
        table = _add_hydrogens(table, drawn.side, hydrogens)
        done, rows = _sides(table, drawn.side, drawn.cut)
        cuts.append(done)
        if level + 1 < levels:
            whole = table.with_columns(edge={} if may_cut is None else {"may_cut": may_cut})
            part, _ = induced_subgraphs(whole.select((*table.node, *table.edge, "may_cut")), drawn.side == 1)
            table = part.take(rows).filter(part.take(rows).num_nodes >= MIN_RECUT_NODES)
            may_cut = None if may_cut is None else table.dense("edge", "may_cut")
            table = table.select((*table.node, *(set(table.edge) - {"may_cut"})))
    return _with_inputs(_concat_cuts(cuts), code)


def cross_pairs(cut: CutGraphs, stream: np.random.Generator) -> NodePairs:
    """Return the pairs of nodes across every cut, all of them or a weighted sample."""
    shift = cut.left.total_nodes
    bridged_cut = row_indices(cut.bridge_left.ptr)
    true_left = cut.left.node_ptr[bridged_cut] + cut.bridge_left.values
    true_right = shift + cut.right.node_ptr[bridged_cut] + cut.bridge_right.values
    sizes = cut.left.num_nodes * cut.right.num_nodes
    small = sizes <= PAIRS_PER_CUT
    pairs = all_pairs(
        cut.left.node_ptr[:-1],
        np.where(small, cut.left.num_nodes, 0),
        shift + cut.right.node_ptr[:-1],
        cut.right.num_nodes,
    )
    owner = row_indices(pairs.ptr)
    large = np.repeat(np.flatnonzero(~small), PAIRS_PER_CUT)
    left = cut.left.node_ptr[large] + (
        stream.random(len(large)) * cut.left.num_nodes[large]
    ).astype(np.int64)
    right = (
        shift
        + cut.right.node_ptr[large]
        + (stream.random(len(large)) * cut.right.num_nodes[large]).astype(np.int64)
    )
    owner = np.concatenate([owner, large])
    left, right = np.concatenate([pairs.left, left]), np.concatenate([pairs.right, right])
    # True bridges go first, once each; among the other pairs they are left out.
    nodes = shift + cut.right.total_nodes
    true = true_left * nodes + true_right
    other = ~np.isin(left * nodes + right, true)
    others = np.bincount(owner[other], minlength=len(cut))
    bridges = np.diff(cut.bridge_left.ptr)
    share = (sizes - bridges) / np.maximum(others, 1)
    return NodePairs(
        cut=np.concatenate([bridged_cut, owner[other]]),
        left=np.concatenate([true_left, left[other]]),
        right=np.concatenate([true_right, right[other]]),
        bridged=np.arange(len(true) + int(other.sum())) < len(true),
        attr=cut.bridge_attr.values,
        weight=np.concatenate([np.ones(len(true)), share[owner[other]]]),
    )


@dataclass(frozen=True, slots=True, eq=False)
class RemovedNodes:
    """Graphs with one node taken out that stood between two others."""

    graphs: GraphTable
    """The rest of each graph, with inputs."""
    left: Ints
    """``[G]`` one neighbor of the node taken out, numbered inside the rest."""
    right: Ints
    middle: Array
    """``[G, F]`` features of the node taken out."""


def remove_middle_nodes(table: GraphTable, code: BridgeEncoding, stream: np.random.Generator) -> RemovedNodes:
    """Take out of every graph one node that joins two neighbors; others have no row."""
    src, dst = global_edges(table)
    order = np.lexsort((stream.random(len(src)), src))
    near = dst[order]
    degree = np.bincount(src, minlength=table.total_nodes)
    start = pointers(degree)[:-1]
    owner = row_indices(table.node_ptr)
    one = near[np.minimum(start, max(len(near) - 1, 0))]
    two = near[np.minimum(start + 1, max(len(near) - 1, 0))]
    node = np.arange(table.total_nodes)
    fit = (degree >= 2) & (one != two) & (one != node) & (two != node)
    drawn = np.where(fit, stream.random(table.total_nodes), -1.0)
    best = np.lexsort((-drawn, owner))[table.node_ptr[:-1][table.num_nodes > 0]]
    best = best[fit[best]]
    keep = np.ones(table.total_nodes, dtype=bool)
    keep[best] = False
    rest, _ = induced_subgraphs(table.select((*table.node, *table.edge)), keep)
    graphs = owner[best]
    number = np.cumsum(keep) - 1 - rest.node_ptr[owner]
    rest = rest.take(graphs)
    return RemovedNodes(
        graphs=_inputs_only(rest, code),
        left=number[one[best]],
        right=number[two[best]],
        middle=table.dense("node", "node_feat")[best],
    )


def _add_hydrogens(table: GraphTable, side: Array, hydrogens: int | None) -> GraphTable:
    """Count a hydrogen for every bond a cut takes from an atom; else features tell where it was."""
    if hydrogens is None:
        return table
    src, dst = global_edges(table)
    lost = src[(side[src] >= 0) & (side[dst] >= 0) & (side[src] != side[dst])]
    features = table.dense("node", "node_feat").copy()
    count = np.bincount(lost, minlength=table.total_nodes).astype(features.dtype)
    features[:, hydrogens] += count
    return table.with_columns(node={"node_feat": features})


def _sides(table: GraphTable, side: Array, cut: Bools) -> tuple[CutGraphs, Ints]:
    rows = np.flatnonzero(cut)
    plain = table.select((*table.node, *table.edge))
    left, _ = induced_subgraphs(plain, side == 0)
    right, _ = induced_subgraphs(plain, side == 1)
    src, dst = global_edges(table)
    across = np.flatnonzero((side[src] == 0) & (side[dst] == 1))
    owner = row_indices(table.node_ptr)
    number = np.where(side == 0, np.cumsum(side == 0), np.cumsum(side == 1)) - 1
    first = np.where(side == 0, left.node_ptr[owner], right.node_ptr[owner])
    local = number - first
    ptr = pointers(np.bincount(owner[src[across]], minlength=len(table)))
    attr = (
        table.dense("edge", "edge_attr")[across]
        if "edge_attr" in table.edge
        else np.zeros((len(across), 0), dtype=np.float32)
    )
    found = CutGraphs(
        left,
        right,
        Ragged(ptr, local[src[across]]),
        Ragged(ptr, local[dst[across]]),
        Ragged(ptr, attr),
    )
    return found.take(rows), rows


def _concat_cuts(cuts: list[CutGraphs]) -> CutGraphs:
    return CutGraphs(
        concat([cut.left for cut in cuts]),
        concat([cut.right for cut in cuts]),
        concat_ragged([cut.bridge_left for cut in cuts]),
        concat_ragged([cut.bridge_right for cut in cuts]),
        concat_ragged([cut.bridge_attr for cut in cuts]),
    )


def _with_inputs(cut: CutGraphs, code: BridgeEncoding) -> CutGraphs:
    """Replace features by what the networks read, so that batches need only be sliced."""
    left, right = _inputs_only(cut.left, code), _inputs_only(cut.right, code)
    return CutGraphs(left, right, cut.bridge_left, cut.bridge_right, cut.bridge_attr)


def _inputs_only(table: GraphTable, code: BridgeEncoding) -> GraphTable:
    return GraphTable(
        table.node_ptr,
        table.edge_ptr,
        node={"inputs": bridge_inputs(table, code)},
        edge={name: table.dense("edge", name) for name in ("edge_src", "edge_dst")},
    )
