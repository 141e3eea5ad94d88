"""Growth: enlarge environmental subgraphs by repeating one side of a cut.

A cut splits a subgraph into P1 + P2. Enlarged it is P1 + k·P2: structural linear extrapolation with
an integer coefficient. The first copy of P2 stays where it was. The bridge model decides once per
subgraph how the other copies are connected:

- A cut edge is *anchored* if its end in P1 is a more likely neighbor of a second P2 than the first
  P2 is, as the hub of a star. Every copy has an anchored edge.
- Otherwise consecutive copies are *linked*: bridges are drawn from nodes of a copy that are not
  ports of the cut to ports of the next copy. So a path stays a path.
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from gsx.ragged import Array, Ints, pointers, ranges, row_indices
from gsx.stages.generate.splice.component_columns import COPY, JOINT, bridge_columns
from gsx.stages.generate.splice.random_bridges import BridgeSource, RandomBridges, codebooks
from gsx.stages.graphs.cuts import sparse_cuts
from gsx.stages.graphs.splice import add_edges, union
from gsx.stages.graphs.subgraphs import Bools, Floats, global_edges, induced_subgraphs
from gsx.stages.graphs.weighted_sampling import sample_without_replacement
from gsx.stages.nn.bridge_sampling import pair_odds, sample_attributes_and_nodes
from gsx.table import GraphTable, concat

BATCH_SUBGRAPHS = 2048
"""Subgraphs enlarged at once."""
MAX_COPIES = 10_000
"""Copies of one side; slots are stored with 16 bits."""
MAX_LINKS = 8
"""Bridges between one copy and the next."""


@dataclass(frozen=True, slots=True, eq=False)
class CutSubgraphs:
    """Subgraphs cut into P1 and P2, and the X edges of the cuts."""

    first: GraphTable
    """P1 of every subgraph."""
    second: GraphTable
    """P2 of every subgraph; a row has no nodes if its subgraph cannot be cut."""
    subgraph: Ints
    """``[X]`` subgraph of every cut edge, in ascending order."""
    left: Ints
    """``[X]`` end in P1, numbered over all nodes of the subgraphs."""
    anchor: Ints
    """``[X]`` end in P1, numbered over all nodes of ``first``."""
    port: Ints
    """``[X]`` end in P2, numbered over all nodes of ``second``."""
    edge: Ints
    """``[X]`` the edge itself, numbered over all edges of the subgraphs."""
    second_nodes: Ints
    """``[N2]`` number of every node of ``second`` over all nodes of the subgraphs."""


def grow_subgraphs(
    subgraphs: GraphTable,
    source: BridgeSource,
    max_nodes: int,
    stream: np.random.Generator,
    *,
    fixed: bool = False,
) -> GraphTable:
    """Return every subgraph enlarged to between its own size and ``max_nodes`` nodes.

    Target sizes are uniform on a logarithmic scale. The node column ``COPY`` holds the copy of each
    node, and the edge column ``JOINT`` marks the edges between copies.
    """
    marked = subgraphs.with_columns(edge={JOINT: np.zeros(subgraphs.total_edges, dtype=np.int8)})
    enlarged = []
    for start in range(0, len(subgraphs), BATCH_SUBGRAPHS):
        batch = marked.slice(start, start + BATCH_SUBGRAPHS)
        cut = cut_subgraphs(batch, stream)
        copies = _draw_copies(cut, max_nodes, stream)
        is_anchored = draw_anchored(batch, cut, source, stream)
        links = draw_links(cut, ~is_anchored & (copies[cut.subgraph] > 1), source, stream)
        attribute = _draw_attributes(cut.second, links[1:], source, stream)
        link_columns = bridge_columns(batch, attribute, codebooks(source).attributes, fixed=fixed)
        enlarged.append(_assemble(batch, cut, copies, is_anchored, links, link_columns))
    return concat(enlarged)


def cut_subgraphs(subgraphs: GraphTable, stream: np.random.Generator) -> CutSubgraphs:
    """Cut every subgraph at an edge of a random spanning tree; P2 is a random side."""
    cuts = sparse_cuts(subgraphs, stream, tries=1)
    row = row_indices(subgraphs.node_ptr)
    flip = stream.integers(2, size=len(subgraphs))
    side = np.where(cuts.cut[row], cuts.side ^ flip[row], 0)
    plain = subgraphs.select((*subgraphs.node, *subgraphs.edge))
    first, _ = induced_subgraphs(plain, side == 0)
    second, _ = induced_subgraphs(plain, side == 1)
    number = np.where(side == 0, np.cumsum(side == 0), np.cumsum(side == 1)) - 1
    src, dst = global_edges(subgraphs)
    edge = np.flatnonzero((side[src] == 0) & (side[dst] == 1))
    return CutSubgraphs(
        first=first,
        second=second,
        subgraph=row[src[edge]],
        left=src[edge],
        anchor=number[src[edge]],
        port=number[dst[edge]],
        edge=edge,
        second_nodes=np.flatnonzero(side == 1),
    )


def draw_anchored(
    subgraphs: GraphTable,
    cut: CutSubgraphs,
    source: BridgeSource,
    stream: np.random.Generator,
) -> Bools:
    """Draw for every cut edge whether all copies have it, ``[X]``.

    The probability compares the odds of a bridge from another P2 to the same node of P1 with the
    odds of a bridge to the most likely node of the existing P2. All edges of a node of P1 share
    one draw.
    """
    if isinstance(source, RandomBridges):
        return (stream.random(len(subgraphs)) < 0.5)[cut.subgraph]
    whole, alone = source.encode(subgraphs).mean, source.encode(cut.second).mean
    latent = np.concatenate([whole, alone])
    port = subgraphs.total_nodes + cut.port
    anchor_odds = pair_odds(source, latent, cut.left, port)
    sizes = cut.second.num_nodes[cut.subgraph]
    candidates = cut.second_nodes[ranges(cut.second.node_ptr[cut.subgraph], sizes)]
    link_odds = pair_odds(source, latent, candidates, np.repeat(port, sizes))
    best = np.maximum.reduceat(link_odds, pointers(sizes)[:-1]) if len(sizes) else link_odds
    probability = anchor_odds / (anchor_odds + best)
    nodes, node = np.unique(cut.anchor, return_inverse=True)
    node_probability = np.zeros(len(nodes))
    np.maximum.at(node_probability, node, probability)
    return np.asarray((stream.random(len(nodes)) < node_probability)[node])


def draw_links(
    cut: CutSubgraphs,
    free: Bools,
    source: BridgeSource,
    stream: np.random.Generator,
) -> tuple[Ints, Ints, Ints]:
    """Draw the links between a copy of P2 and the next one.

    Returns the subgraph, the node of the copy and the node of the next copy of every link. Nodes
    are numbered over all nodes of ``cut.second``. Links end at ports of the ``free`` ``[X]`` cut
    edges. Their number is the expected number of the model, and no two links share a node.
    """
    second = cut.second
    port = np.unique(cut.port[free])
    subgraph = row_indices(second.node_ptr)[port]
    sizes = second.num_nodes[subgraph]
    node = ranges(second.node_ptr[subgraph], sizes)
    ptr = pointers(sizes)
    if isinstance(source, RandomBridges):
        odds: Floats = np.ones(len(node))
    else:
        latent = source.encode(second).mean
        odds = pair_odds(source, latent, node, np.repeat(port, sizes))
    port_weight = _segment_sums(odds / (1 + odds), ptr)
    ports = np.bincount(subgraph, minlength=len(second))
    expected = np.rint(np.bincount(subgraph, weights=port_weight, minlength=len(second)))
    wanted = np.clip(expected, np.minimum(ports, 1), np.minimum(ports, MAX_LINKS))
    _, chosen_ports = sample_without_replacement(
        port_weight, pointers(ports), wanted.astype(np.int64), stream
    )
    busy = np.zeros(second.total_nodes, dtype=bool)
    busy[port[chosen_ports]] = True
    first_of_subgraph = np.searchsorted(subgraph[chosen_ports], subgraph[chosen_ports])
    round_of_port = np.arange(len(chosen_ports)) - first_of_subgraph
    links: list[tuple[Ints, Ints]] = []
    for number in range(int(round_of_port.max(initial=-1)) + 1):
        chosen = chosen_ports[round_of_port == number]
        candidates = ranges(ptr[chosen], sizes[chosen])
        bounds = pointers(sizes[chosen])
        is_free = ~busy[node[candidates]]
        # If all nodes of a copy are busy, such as in a copy of one node, a busy node is used again.
        has_free = _segment_sums(is_free.astype(float), bounds) > 0
        weight = np.where(is_free | ~has_free[row_indices(bounds)], odds[candidates], 0)
        _, item = sample_without_replacement(
            weight, bounds, np.ones(len(chosen), dtype=np.int64), stream
        )
        start_node = node[candidates][item]
        busy[start_node] = True
        links.append((start_node, port[chosen]))
    u = np.concatenate([link[0] for link in links]) if links else port[:0]
    v = np.concatenate([link[1] for link in links]) if links else port[:0]
    return row_indices(second.node_ptr)[u], u, v


def _draw_attributes(
    second: GraphTable,
    links: tuple[Ints, Ints],
    source: BridgeSource,
    stream: np.random.Generator,
) -> Ints:
    """Draw the attribute of every link, as a row of the codebook."""
    if isinstance(source, RandomBridges):
        return source.sample_codes(len(links[0]), stream)[0]
    latent = source.encode(second).mean
    return sample_attributes_and_nodes(source, latent, *links, stream)[0]


def _segment_sums(values: Floats, ptr: Ints) -> Floats:
    """Return the sum of every segment ``values[ptr[i]:ptr[i + 1]]``."""
    total = np.concatenate([[0.0], np.cumsum(values)])
    return np.asarray(total[ptr[1:]] - total[ptr[:-1]])


def _draw_copies(cut: CutSubgraphs, max_nodes: int, stream: np.random.Generator) -> Ints:
    """Draw how many copies of P2 every enlarged subgraph has, ``[G]``; 0 without a P2."""
    first, second = cut.first.num_nodes, cut.second.num_nodes
    size = np.maximum(first + second, 1)
    log_range = np.log(np.maximum(max_nodes / size, 1))
    target = size * np.exp(stream.random(len(size)) * log_range)
    wanted = np.floor((target - first) / np.maximum(second, 1) + 1e-9)
    return np.where(second > 0, np.clip(wanted, 1, MAX_COPIES), 0).astype(np.int64)


def _assemble(
    subgraphs: GraphTable,
    cut: CutSubgraphs,
    copies: Ints,
    is_anchored: Bools,
    links: tuple[Ints, Ints, Ints],
    link_columns: dict[str, Array],
) -> GraphTable:
    """Return P1 + k·P2 of every subgraph with its anchored edges and links."""
    count = len(subgraphs)
    slots = pointers(1 + copies)
    subgraph = row_indices(slots)
    copy = np.arange(slots[-1]) - slots[subgraph]
    sides = concat([cut.first, cut.second])
    taken = sides.take(np.where(copy > 0, count + subgraph, subgraph))
    joined, _, first = union(taken, 1 + copies)

    def local_number(slot: Ints, node: Ints, table: GraphTable) -> Ints:
        """Return numbers within the enlarged subgraph of nodes of P1 or P2."""
        return first[slot] + node - table.node_ptr[subgraph[slot]]

    # Cut edges: anchored ones once per copy, the others for the first copy only.
    times = np.where(is_anchored, copies[cut.subgraph], 1)
    repeated = np.repeat(np.arange(len(times)), times)
    repetition = np.arange(len(repeated)) - np.repeat(pointers(times)[:-1], times)
    first_slot = slots[cut.subgraph[repeated]]
    cut_u = local_number(first_slot, cut.anchor[repeated], cut.first)
    cut_v = local_number(first_slot + 1 + repetition, cut.port[repeated], cut.second)
    # Links: from every copy to the next.
    owner, u, v = links
    times = np.maximum(copies[owner] - 1, 0)
    repeated_link = np.repeat(np.arange(len(times)), times)
    step = np.arange(len(repeated_link)) - np.repeat(pointers(times)[:-1], times)
    start_slot = slots[owner[repeated_link]] + 1 + step
    link_u = local_number(start_slot, u[repeated_link], cut.second)
    link_v = local_number(start_slot + 1, v[repeated_link], cut.second)
    edge = {
        name: np.concatenate(
            [
                subgraphs.dense("edge", name)[cut.edge[repeated]],
                link_columns[name][repeated_link],
            ]
        )
        for name in link_columns
    }
    edge[JOINT][:] = 1
    enlarged, _, _ = add_edges(
        joined,
        np.concatenate([cut.subgraph[repeated], owner[repeated_link]]),
        np.concatenate([cut_u, link_u]),
        np.concatenate([cut_v, link_v]),
        edge,
    )
    return enlarged.with_columns(node={COPY: np.repeat(copy, taken.num_nodes).astype(np.int32)})
