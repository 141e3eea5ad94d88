"""Growing pieces by repeating one side of a cut, and random chords."""

from dataclasses import replace

import msgspec
import numpy as np
import pytest
import torch

from gsx.errors import UsageError
from gsx.ragged import rows_of
from gsx.seeds import rng
from gsx.stages.augmented.derived_columns import COPY, JOINT
from gsx.stages.generate.splice.component_pool import NUMBER
from gsx.stages.generate.splice.growth import cut_in_two, grow, links
from gsx.stages.generate.splice.random_edges import draw_chords
from gsx.stages.generate.stage import GenerateConfig, resolve
from gsx.stages.graphs.subgraphs import global_edges, induced, is_connected
from gsx.stages.nn.bridge_features import InputCode
from gsx.stages.nn.bridge_model import BridgeModel, BridgeShape
from gsx.table import GraphTable
from tests.conftest import motif_split


@pytest.fixture(scope="module")
def model():
    """A bridge model as it is before training: it joins, if not wisely."""
    shape = BridgeShape(
        model="vae",
        code=InputCode(node=(), edge=(), num_node_features=1, num_edge_features=0),
        attributes=(),
        attribute_rates=(),
        largest_count=4,
        width=8,
        layers=2,
        latent=4,
        terms=4,
    )
    fresh = BridgeModel.fresh(shape, 0, torch.device("cpu"))
    return BridgeModel.load(
        shape,
        {name: torch.from_numpy(values) for name, values in fresh.weights().items()},
        torch.device("cpu"),
    )


@pytest.fixture(scope="module")
def pieces():
    """The bases of Motif graphs, each node numbered as in its graph."""
    table = motif_split("train", 0, 200)
    part, number = induced(
        table.select(("node_feat", "edge_src", "edge_dst")), table.node["node_truth"] == 0
    )
    part = part.with_columns(node={NUMBER: number.astype(np.int32)})
    return part.filter((part.num_nodes > 0) & is_connected(part))


def path_of(nodes):
    src = np.repeat(np.arange(nodes), 2)[1:-1]
    dst = src + np.where(np.arange(len(src)) % 2 == 0, 1, -1)
    return GraphTable(
        node_ptr=np.array([0, nodes]),
        edge_ptr=np.array([0, len(src)]),
        graph={},
        node={"node_feat": np.ones((nodes, 1), dtype=np.float32)},
        edge={"edge_src": src.astype(np.int32), "edge_dst": dst.astype(np.int32)},
    )


@pytest.mark.parametrize("pairs", ["learned", "random"])
def test_grown_pieces_are_connected_and_no_larger_than_asked(pieces, model, pairs):
    grown = grow(pieces, model, 120, rng(0, "growth"), pairs=pairs)
    assert len(grown) == len(pieces)
    assert is_connected(grown).all()
    assert (grown.num_nodes >= pieces.num_nodes).all()
    assert grown.num_nodes.max() <= 120
    assert grown.num_nodes.max() > 2 * pieces.num_nodes.max()


def test_the_first_copy_stays_where_it_was(pieces, model):
    """P1 and the first P2 are the piece, node for node and edge for edge."""
    grown = grow(pieces, model, 120, rng(0, "growth"))
    old, _ = induced(grown, grown.node[COPY] <= 1)
    assert old.num_nodes.tolist() == pieces.num_nodes.tolist()
    assert edges_by_number(old) == edges_by_number(pieces)


def test_every_copy_has_the_edges_of_the_first(pieces, model):
    grown = grow(pieces, model, 120, rng(0, "growth"))
    plain = grown.edge[JOINT] == 0
    src, dst = global_edges(grown)
    assert (grown.node[COPY][src[plain]] == grown.node[COPY][dst[plain]]).all()
    owner, copy = rows_of(grown.node_ptr), grown.node[COPY]
    number = grown.node[NUMBER]

    def inside(graph, which):
        at = plain & (owner[src] == graph) & (copy[src] == which)
        return sorted(zip(number[src[at]].tolist(), number[dst[at]].tolist(), strict=True))

    graph = int(owner[copy.argmax()])
    last = int(copy.max())
    assert last > 2
    assert inside(graph, 1) == inside(graph, last)
    assert (grown.edge[JOINT] == 1).any()


def test_links_lead_from_other_nodes_than_ports(pieces, model):
    """So a path that is joined at one end goes on at another node."""
    halves = cut_in_two(pieces, rng(1, "growth"))
    free = np.ones(len(halves.piece), dtype=bool)
    piece, u, v = links(halves, free, model, rng(2, "growth"), "learned")
    assert set(piece.tolist()) == set(halves.piece.tolist())
    assert np.isin(v, halves.port).all()
    joined = np.zeros(halves.second.total_nodes, dtype=bool)
    joined[v] = True
    links_of = np.bincount(piece, minlength=len(pieces))[piece]
    roomy = halves.second.num_nodes[piece] >= 2 * links_of
    assert roomy.sum() > 20
    assert not joined[u[roomy]].any()
    assert len(np.unique(u[roomy])) == roomy.sum()


def test_repeated_edges_keep_their_attributes(pieces, model):
    """An edge of the cut is the same edge in every copy; links have attributes the model knows."""
    src, dst = global_edges(pieces)
    number = pieces.node[NUMBER]
    attr = (number[src] * number[dst]).astype(np.int8)[:, None]
    known = msgspec.structs.replace(model.shape, attributes=((-1.0,),), attribute_rates=(1.0,))
    grown = grow(pieces.with_columns(edge={"edge_attr": attr}), replace(model, shape=known), 120,
                 rng(0, "growth"))  # fmt: skip
    src, dst = global_edges(grown)
    number = grown.node[NUMBER]
    found = grown.edge["edge_attr"][:, 0]
    own = (number[src] * number[dst]).astype(np.int8)
    link = found == -1
    assert np.array_equal(found[~link], own[~link])
    assert link.any()
    assert (grown.edge[JOINT][link] == 1).all()


def test_a_piece_that_cannot_be_cut_stays(model):
    alone = path_of(2).slice(0, 1)
    single, _ = induced(alone, np.array([True, False]))
    single = single.with_columns(node={NUMBER: np.zeros(1, dtype=np.int32)})
    grown = grow(single, model, 50, rng(0, "growth"))
    assert grown.num_nodes.tolist() == [1]


def test_the_same_stream_grows_the_same_pieces(pieces, model):
    again = [grow(pieces, model, 60, rng(3, "growth")) for _ in range(2)]
    assert again[0].equals(again[1])


def test_chords_are_new_edges_outside_of_what_must_not_change(pieces):
    whole = np.where(pieces.node[NUMBER] < 3, rows_of(pieces.node_ptr), -1)
    none = np.zeros(0, dtype=np.int64)
    left, right = draw_chords(pieces, (none, none), 0.5, whole, rng(0, "chords"))
    owner = rows_of(pieces.node_ptr)
    assert (owner[left] == owner[right]).all()
    assert not ((whole[left] >= 0) & (whole[right] >= 0)).any()
    code = left * pieces.total_nodes + right
    src, dst = global_edges(pieces)
    assert len(np.unique(code)) == len(code)
    assert not np.isin(code, src * pieces.total_nodes + dst).any()
    assert (left < right).all()
    large = pieces.num_nodes > 12
    share = np.bincount(owner[left], minlength=len(pieces))[large].sum()
    assert share / (pieces.num_edges[large].sum() / 2) == pytest.approx(0.5, abs=0.05)


def test_chords_know_the_bridges(model):
    """The one pair that is free in a path of three is taken by a bridge: nothing is left."""
    path = path_of(3)
    bridge = (np.array([0]), np.array([2]))
    left, _ = draw_chords(path, bridge, 1.0, np.full(3, -1), rng(0, "chords"))
    assert not len(left)


@pytest.mark.parametrize(
    ("options", "message"),
    [
        ({"grow": 0.5}, "grow must be 0 or lie in 1..64; got 0.5"),
        ({"grow": 65}, "grow must be 0 or lie in 1..64; got 65"),
        ({"grow": 2, "bridges": "none"}, "grow asks the bridge model how copies follow"),
        ({"grow": 2, "options": "101"}, "turn option 2 on, such as 010"),
        ({"chords": 1.5}, r"chords must lie in \[0, 1\]; got 1.5"),
        ({"chords": 0.1, "bridges": "none"}, "chords would join what `bridges = none` leaves"),
    ],
)
def test_reach_that_cannot_be_made_is_refused(options, message):
    with pytest.raises(UsageError, match=message):
        resolve(GenerateConfig(**options))


def edges_by_number(table):
    """Return the edges of all graphs, by the numbers nodes have in their source."""
    src, dst = global_edges(table)
    owner = rows_of(table.node_ptr)[src]
    number = table.node[NUMBER]
    return sorted(zip(owner.tolist(), number[src].tolist(), number[dst].tolist(), strict=True))
