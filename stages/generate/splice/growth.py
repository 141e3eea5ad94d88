"""Grow pieces of graphs by repeating one side of a cut.

A piece that is cut in two is P1 + P2; grown it is P1 + k·P2, structural linear extrapolation with
an integer coefficient. The first copy stays where it was. How the others follow is asked of the
bridge model, once per piece, and then repeated:

- An edge of the cut is *anchored* where its end in P1 would take a second copy sooner than P2
  itself would: the hub of a star. Every copy has it.
- Otherwise copies go on from one another: bridges are drawn between a copy and the next, from
  nodes that are not ports of the cut to nodes that are, so that a path stays a path.
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from gsx.ragged import Array, Ints, pointers, ranges, rows_of
from gsx.stages.augmented.derived_columns import COPY, JOINT, bridge_columns
from gsx.stages.graphs.cuts import sparse_cuts
from gsx.stages.graphs.splice import add_edges, union
from gsx.stages.graphs.subgraphs import Bools, Floats, global_edges, induced
from gsx.stages.graphs.weighted_sampling import draw_from_odds
from gsx.stages.nn.bridge_model import BridgeModel
from gsx.stages.nn.bridge_sampling import PairRule, draw_heads, pair_odds
from gsx.table import GraphTable, concat

GROWN_TOGETHER = 2048
"""Pieces grown at once."""
MOST_COPIES = 10_000
"""Copies of one side, at most: slots are numbered with 16 bits."""
MOST_LINKS = 8
"""Bridges between one copy and the next, at most."""


@dataclass(frozen=True, slots=True, eq=False)
class Halves:
    """Pieces cut in two, P1 and P2, and the edges of the cuts."""

    first: GraphTable
    second: GraphTable
    """Row ``g`` has no nodes where piece ``g`` cannot be cut."""
    piece: Ints
    """``[X]`` the piece every cut edge belongs to, in rising order."""
    left: Ints
    """``[X]`` its end in P1, numbered over all nodes of the pieces."""
    anchor: Ints
    """``[X]`` its end in P1, numbered over all nodes of ``first``."""
    port: Ints
    """``[X]`` its end in P2, numbered over all nodes of ``second``."""
    edge: Ints
    """``[X]`` the edge itself, numbered over all edges of the pieces."""
    inside: Ints
    """``[N2]`` the number every node of ``second`` has in the pieces."""


def grow(
    pieces: GraphTable,
    model: BridgeModel,
    largest: int,
    stream: np.random.Generator,
    *,
    pairs: PairRule = "learned",
    fixed: bool = False,
) -> GraphTable:
    """Return every piece grown to between its own size and ``largest`` nodes.

    Sizes are even on a logarithmic scale. A node column says which copy a node is of, an edge
    column marks the edges that join copies.
    """
    marked = pieces.with_columns(edge={JOINT: np.zeros(pieces.total_edges, dtype=np.int8)})
    grown = []
    for start in range(0, len(pieces), GROWN_TOGETHER):
        some = marked.slice(start, start + GROWN_TOGETHER)
        halves = cut_in_two(some, stream)
        copies = _copies(halves, largest, stream)
        stays = anchored(some, halves, model, stream, pairs)
        link = links(halves, ~stays & (copies[halves.piece] > 1), model, stream, pairs)
        latent = model.encode(halves.second).mean
        attribute, _ = draw_heads(model, latent, *link[1:], stream)
        bridge = bridge_columns(some, attribute, model, fixed=fixed)
        grown.append(_assemble(some, halves, copies, stays, link, bridge))
    return concat(grown)


def cut_in_two(pieces: GraphTable, stream: np.random.Generator) -> Halves:
    """Cut every piece at an edge of a random spanning tree; either side may be P2."""
    cuts = sparse_cuts(pieces, stream, tries=1)
    owner = rows_of(pieces.node_ptr)
    flip = stream.integers(2, size=len(pieces))
    side = np.where(cuts.cut[owner], cuts.side ^ flip[owner], 0)
    plain = pieces.select((*pieces.node, *pieces.edge))
    first, _ = induced(plain, side == 0)
    second, _ = induced(plain, side == 1)
    number = np.where(side == 0, np.cumsum(side == 0), np.cumsum(side == 1)) - 1
    src, dst = global_edges(pieces)
    edge = np.flatnonzero((side[src] == 0) & (side[dst] == 1))
    return Halves(
        first=first,
        second=second,
        piece=owner[src[edge]],
        left=src[edge],
        anchor=number[src[edge]],
        port=number[dst[edge]],
        edge=edge,
        inside=np.flatnonzero(side == 1),
    )


def anchored(
    pieces: GraphTable,
    halves: Halves,
    model: BridgeModel,
    stream: np.random.Generator,
    pairs: PairRule,
) -> Bools:
    """Say of every cut edge whether all copies have it, ``[X]``.

    Compared are the odds that another P2 would be joined to the same node of the piece, and to the
    likeliest node of the P2 that is there already. All edges of a node of P1 go together.
    """
    if pairs == "random":
        return (stream.random(len(pieces)) < 0.5)[halves.piece]
    whole, alone = model.encode(pieces).mean, model.encode(halves.second).mean
    latent = np.concatenate([whole, alone])
    port = pieces.total_nodes + halves.port
    stay = pair_odds(model, latent, halves.left, port)
    many = halves.second.num_nodes[halves.piece]
    other = halves.inside[ranges(halves.second.node_ptr[halves.piece], many)]
    onward = pair_odds(model, latent, other, np.repeat(port, many))
    best = np.maximum.reduceat(onward, pointers(many)[:-1]) if len(many) else onward
    sure = stay / (stay + best)
    nodes, node = np.unique(halves.anchor, return_inverse=True)
    surest = np.zeros(len(nodes))
    np.maximum.at(surest, node, sure)
    return np.asarray((stream.random(len(nodes)) < surest)[node])


def links(
    halves: Halves,
    free: Bools,
    model: BridgeModel,
    stream: np.random.Generator,
    pairs: PairRule,
) -> tuple[Ints, Ints, Ints]:
    """Draw the bridges between a copy of P2 and the next: piece, node of P2, node of the next P2.

    Nodes are numbered over all nodes of ``halves.second``. The next copy is joined by ports of the
    ``free`` ``[X]`` edges, as many as the model expects; no two links share a node.
    """
    second = halves.second
    port = np.unique(halves.port[free])
    piece = rows_of(second.node_ptr)[port]
    many = second.num_nodes[piece]
    node = ranges(second.node_ptr[piece], many)
    ptr = pointers(many)
    if pairs == "random":
        odds: Floats = np.ones(len(node))
    else:
        latent = model.encode(second).mean
        odds = pair_odds(model, latent, node, np.repeat(port, many))
    likely = _sums(odds / (1 + odds), ptr)
    ports = np.bincount(piece, minlength=len(second))
    expected = np.rint(np.bincount(piece, weights=likely, minlength=len(second)))
    wanted = np.clip(expected, np.minimum(ports, 1), np.minimum(ports, MOST_LINKS))
    _, taken = draw_from_odds(likely, pointers(ports), wanted.astype(np.int64), stream)
    busy = np.zeros(second.total_nodes, dtype=bool)
    busy[port[taken]] = True
    turn = np.arange(len(taken)) - np.searchsorted(piece[taken], piece[taken])
    found: list[tuple[Ints, Ints]] = []
    for number in range(int(turn.max(initial=-1)) + 1):
        chosen = taken[turn == number]
        at = ranges(ptr[chosen], many[chosen])
        bounds = pointers(many[chosen])
        open_ = ~busy[node[at]]
        # A copy that is all ports, such as a single node, is joined by one of them again.
        some = _sums(open_.astype(float), bounds) > 0
        weight = np.where(open_ | ~some[rows_of(bounds)], odds[at], 0)
        _, item = draw_from_odds(weight, bounds, np.ones(len(chosen), dtype=np.int64), stream)
        from_ = node[at][item]
        busy[from_] = True
        found.append((from_, port[chosen]))
    u = np.concatenate([part[0] for part in found]) if found else port[:0]
    v = np.concatenate([part[1] for part in found]) if found else port[:0]
    return rows_of(second.node_ptr)[u], u, v


def _sums(values: Floats, ptr: Ints) -> Floats:
    """Sum runs of values."""
    total = np.concatenate([[0.0], np.cumsum(values)])
    return np.asarray(total[ptr[1:]] - total[ptr[:-1]])


def _copies(halves: Halves, largest: int, stream: np.random.Generator) -> Ints:
    """Return how many copies of P2 every grown piece has, ``[G]``; 0 where there is no P2."""
    one, two = halves.first.num_nodes, halves.second.num_nodes
    size = np.maximum(one + two, 1)
    reach = np.log(np.maximum(largest / size, 1))
    target = size * np.exp(stream.random(len(size)) * reach)
    wanted = np.floor((target - one) / np.maximum(two, 1) + 1e-9)
    return np.where(two > 0, np.clip(wanted, 1, MOST_COPIES), 0).astype(np.int64)


def _assemble(
    pieces: GraphTable,
    halves: Halves,
    copies: Ints,
    stays: Bools,
    link: tuple[Ints, Ints, Ints],
    bridge: dict[str, Array],
) -> GraphTable:
    count = len(pieces)
    slots = pointers(1 + copies)
    piece = rows_of(slots)
    copy = np.arange(slots[-1]) - slots[piece]
    taken = concat([halves.first, halves.second]).take(np.where(copy > 0, count + piece, piece))
    joined, _, first = union(taken, 1 + copies)

    def place(slot: Ints, node: Ints, table: GraphTable) -> Ints:
        """Return numbers inside the grown piece of nodes of P1 or P2."""
        return first[slot] + node - table.node_ptr[piece[slot]]

    # Edges of the cut: anchored ones once per copy, the others for the first copy alone.
    times = np.where(stays, copies[halves.piece], 1)
    again = np.repeat(np.arange(len(times)), times)
    turn = np.arange(len(again)) - np.repeat(pointers(times)[:-1], times)
    here = slots[halves.piece[again]]
    cut_u = place(here, halves.anchor[again], halves.first)
    cut_v = place(here + 1 + turn, halves.port[again], halves.second)
    # Links: from every copy to the next.
    owner, u, v = link
    times = np.maximum(copies[owner] - 1, 0)
    again_link = np.repeat(np.arange(len(times)), times)
    step = np.arange(len(again_link)) - np.repeat(pointers(times)[:-1], times)
    from_ = slots[owner[again_link]] + 1 + step
    link_u = place(from_, u[again_link], halves.second)
    link_v = place(from_ + 1, v[again_link], halves.second)
    edge = {
        name: np.concatenate(
            [pieces.dense("edge", name)[halves.edge[again]], bridge[name][again_link]]
        )
        for name in bridge
    }
    edge[JOINT][:] = 1
    grown, _, _ = add_edges(
        joined,
        np.concatenate([halves.piece[again], owner[again_link]]),
        np.concatenate([cut_u, link_u]),
        np.concatenate([cut_v, link_v]),
        edge,
    )
    return grown.with_columns(node={COPY: np.repeat(copy, taken.num_nodes).astype(np.int32)})
