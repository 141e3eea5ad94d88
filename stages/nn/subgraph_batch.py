"""Parts of graphs: some edges of each graph, cut out of a batch and weighed.

All of it works on all graphs of a batch at once and stays where the batch lies.
"""

from __future__ import annotations

from dataclasses import replace

import torch
from torch import Tensor

from gsx.stages.nn.batches import GraphBatch, Pair, Structure, csr
from gsx.stages.nn.weighted_spmm import Links

SLACK = 1e-9
"""Rounding error that must not ask for one more edge."""


def top_edges(scores: Tensor, structure: Structure, graphs: int, ratio: float) -> Tensor:
    """Say of every edge, ``[E]``, whether it is among the best of its graph.

    Of each graph's edges, counted once for both directions, ``ratio`` are taken, rounded up.
    ``scores`` ``[E]`` must be the same in both directions; of equal ones the first is better.
    """
    once = structure.once
    order = once[torch.argsort(scores.detach()[once], descending=True, stable=True)]
    order = order[torch.argsort(structure.edge_owner[order], stable=True)]
    count = torch.bincount(structure.edge_owner[once], minlength=graphs)
    wanted = (count.double() * ratio - SLACK).ceil().long()
    first = count.cumsum(dim=0) - count
    rank = torch.arange(len(order), device=order.device) - first.repeat_interleave(count)
    chosen = order[rank < wanted.repeat_interleave(count)]
    keep = torch.zeros(len(scores), dtype=torch.bool, device=scores.device)
    keep[chosen] = True
    keep[structure.back[chosen]] = True
    return keep


def cut(batch: GraphBatch, keep: Tensor, weights: Tensor, *, bare: bool) -> GraphBatch:
    """Return the parts of graphs that the edges in ``keep`` ``[E]`` make, with their ends.

    ``weights`` ``[E]`` are those of all edges. With ``bare`` a graph without any edge is its own
    part; without, nothing of it is left.
    """
    structure = batch.structure
    assert structure is not None  # laid out for cutting
    links, owner, graphs = structure.links, structure.owner, len(batch.sizes)
    src, dst = links.src[keep], links.dst[keep]
    inside = torch.zeros(batch.nodes, dtype=torch.bool, device=keep.device)
    inside[src] = True
    if bare:
        linked = torch.zeros(graphs, dtype=torch.bool, device=keep.device)
        linked[structure.edge_owner] = True
        inside |= ~linked[owner]
    number = inside.cumsum(dim=0) - 1
    nodes, src, dst = int(inside.sum()), number[src], number[dst]
    owner = owner[inside]
    sizes = torch.bincount(owner, minlength=graphs)
    edges = None
    if batch.edges is not None:
        edges = (src, dst, batch.edges[2][keep])
    return GraphBatch(
        rows=batch.rows[inside],
        nodes=nodes,
        rounds=(),
        pool=_means(owner, sizes),
        sizes=sizes,
        edges=edges,
        links=Links(_pointers(torch.bincount(src, minlength=nodes)), src, dst),
        weights=weights[keep],
    )


def weighted(batch: GraphBatch, share: Tensor) -> GraphBatch:
    """Return whole graphs of whose nodes only a share ``[N]`` is there, and so of the edges."""
    structure = batch.structure
    assert structure is not None  # laid out for cutting
    links = structure.links
    weights = share.index_select(0, links.src) * share.index_select(0, links.dst)
    return replace(batch, links=links, weights=weights, share=share[:, None])


def _pointers(counts: Tensor) -> Tensor:
    return torch.cat([counts.new_zeros(1), counts.cumsum(dim=0)])


def _means(owner: Tensor, sizes: Tensor) -> Pair:
    """Return the matrix that takes means over the nodes of each graph, and its transpose."""
    nodes, graphs = len(owner), len(sizes)
    every = torch.arange(nodes + 1, device=owner.device)
    values = (1 / sizes.clamp_min(1).float())[owner]
    return Pair(
        csr(_pointers(sizes), every[:-1], values, (graphs, nodes)),
        csr(every, owner, values, (nodes, graphs)),
    )
