"""Subgraphs of the graphs of a batch, with edge or node weights.

All operations process all graphs of a batch at once, on the batch's device.
"""

from __future__ import annotations

from dataclasses import replace

import torch
from torch import Tensor

from gsx.stages.nn.batches import EdgeStructure, GraphBatch, SparseMatrix, csr_tensor
from gsx.stages.nn.weighted_spmm import CsrEdges

ROUNDING_TOLERANCE = 1e-9
"""Rounding error that must not select one more edge."""


def top_edges(scores: Tensor, structure: EdgeStructure, num_graphs: int, ratio: float) -> Tensor:
    """Return whether each edge ``[E]`` is among the highest-scoring edges of its graph.

    In every graph, a fraction ``ratio`` of the undirected edges is taken, rounded up. ``scores``
    ``[E]`` must be equal for both directions. Ties go to the first edge.
    """
    undirected = structure.undirected
    order = undirected[torch.argsort(scores.detach()[undirected], descending=True, stable=True)]
    order = order[torch.argsort(structure.edge_graph[order], stable=True)]
    count = torch.bincount(structure.edge_graph[undirected], minlength=num_graphs)
    num_selected = (count.double() * ratio - ROUNDING_TOLERANCE).ceil().long()
    first = count.cumsum(dim=0) - count
    rank = torch.arange(len(order), device=order.device) - first.repeat_interleave(count)
    chosen = order[rank < num_selected.repeat_interleave(count)]
    keep = torch.zeros(len(scores), dtype=torch.bool, device=scores.device)
    keep[chosen] = True
    keep[structure.reverse[chosen]] = True
    return keep


def edge_subgraphs(
    batch: GraphBatch, keep: Tensor, weights: Tensor, *, keep_edgeless: bool
) -> GraphBatch:
    """Return the subgraphs of the edges in ``keep`` ``[E]`` and their endpoints.

    ``weights`` ``[E]`` are the weights of all edges. Graphs without any edge stay whole with
    ``keep_edgeless``, and lose all nodes otherwise.
    """
    structure = batch.structure
    assert structure is not None  # built with edge indices
    edges, node_graph, num_graphs = structure.edges, structure.node_graph, len(batch.sizes)
    src, dst = edges.src[keep], edges.dst[keep]
    inside = torch.zeros(batch.num_nodes, dtype=torch.bool, device=keep.device)
    inside[src] = True
    if keep_edgeless:
        has_edges = torch.zeros(num_graphs, dtype=torch.bool, device=keep.device)
        has_edges[structure.edge_graph] = True
        inside |= ~has_edges[node_graph]
    new_index = inside.cumsum(dim=0) - 1
    num_nodes, src, dst = int(inside.sum()), new_index[src], new_index[dst]
    node_graph = node_graph[inside]
    sizes = torch.bincount(node_graph, minlength=num_graphs)
    attributed_edges = None
    if batch.attributed_edges is not None:
        attributed_edges = (src, dst, batch.attributed_edges[2][keep])
    return GraphBatch(
        rows=batch.rows[inside],
        num_nodes=num_nodes,
        rounds=(),
        pool=_mean_pool_matrix(node_graph, sizes),
        sizes=sizes,
        attributed_edges=attributed_edges,
        weighted_edges=CsrEdges(_pointers(torch.bincount(src, minlength=num_nodes)), src, dst),
        edge_weights=weights[keep],
    )


def with_edge_weights(batch: GraphBatch, edge_weights: Tensor) -> GraphBatch:
    """Return whole graphs with edge weights ``[E]``, equal for both directions of an edge."""
    structure = batch.structure
    assert structure is not None  # built with edge indices
    return replace(batch, weighted_edges=structure.edges, edge_weights=edge_weights)


def with_node_weights(batch: GraphBatch, node_weights: Tensor) -> GraphBatch:
    """Return whole graphs with node weights ``[N]``.

    An edge is weighted by the product of the weights of its endpoints.
    """
    structure = batch.structure
    assert structure is not None  # built with edge indices
    edges = structure.edges
    edge_weights = node_weights.index_select(0, edges.src) * node_weights.index_select(0, edges.dst)
    return replace(
        batch,
        weighted_edges=edges,
        edge_weights=edge_weights,
        node_weights=node_weights[:, None],
    )


def _pointers(counts: Tensor) -> Tensor:
    return torch.cat([counts.new_zeros(1), counts.cumsum(dim=0)])


def _mean_pool_matrix(node_graph: Tensor, sizes: Tensor) -> SparseMatrix:
    """Return the matrix ``[G, N]`` that takes the mean over the nodes of each graph."""
    num_nodes, num_graphs = len(node_graph), len(sizes)
    offsets = torch.arange(num_nodes + 1, device=node_graph.device)
    values = (1 / sizes.clamp_min(1).float())[node_graph]
    return SparseMatrix(
        csr_tensor(_pointers(sizes), offsets[:-1], values, (num_graphs, num_nodes)),
        csr_tensor(offsets, node_graph, values, (num_nodes, num_graphs)),
    )
