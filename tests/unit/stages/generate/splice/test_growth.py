"""Growth: enlarging subgraphs by repeating one side of a cut."""

from dataclasses import replace

import msgspec
import numpy as np
import pytest
import torch

from gsx.ragged import row_indices
from gsx.seeds import rng
from gsx.stages.generate.splice.component_columns import COPY, JOINT, SOURCE_NUMBER
from gsx.stages.generate.splice.growth import cut_subgraphs, draw_links, grow_subgraphs
from gsx.stages.generate.splice.random_bridges import RandomBridges
from gsx.stages.graphs.subgraphs import global_edges, induced_subgraphs, is_connected
from gsx.stages.nn.bridge_features import BridgeEncoding
from gsx.stages.nn.bridge_model import BridgeModel, BridgeShape
from gsx.stages.prepare.synthetic import motif
from gsx.table import GraphTable


@pytest.fixture(scope="module")
def model():
    """An untrained bridge model."""
    shape = BridgeShape(
        model="vae",
        code=BridgeEncoding(node=(), edge=(), num_node_features=1, num_edge_features=0),
        attributes=(),
        attribute_rates=(),
        largest_count=4,
        width=8,
        layers=2,
        latent=4,
        terms=4,
    )
    fresh = BridgeModel.with_random_weights(shape, 0, torch.device("cpu"))
    return BridgeModel.load(shape, fresh.weights(), torch.device("cpu"), "here")


def random_bridges(graphs):
    return RandomBridges.from_graphs(graphs, motif.corpus_info("motif-size"), rng(0, "cuts"))


@pytest.mark.parametrize("bridges", ["learned", "random"])
def test_enlarged_subgraphs_are_connected_and_within_the_size_limit(subgraphs, model, bridges):
    source = model if bridges == "learned" else random_bridges(subgraphs)
    enlarged = grow_subgraphs(subgraphs, source, 120, rng(0, "growth"))
    assert len(enlarged) == len(subgraphs)
    assert is_connected(enlarged).all()
    assert (enlarged.num_nodes >= subgraphs.num_nodes).all()
    assert enlarged.num_nodes.max() <= 120
    assert enlarged.num_nodes.max() > 2 * subgraphs.num_nodes.max()


def test_first_copy_keeps_its_nodes_and_edges(subgraphs, model):
    """P1 and the first P2 are the original subgraph."""
    enlarged = grow_subgraphs(subgraphs, model, 120, rng(0, "growth"))
    original, _ = induced_subgraphs(enlarged, enlarged.node[COPY] <= 1)
    assert original.num_nodes.tolist() == subgraphs.num_nodes.tolist()
    assert edges_by_source_number(original) == edges_by_source_number(subgraphs)


def test_every_copy_has_the_edges_of_the_first(subgraphs, model):
    enlarged = grow_subgraphs(subgraphs, model, 120, rng(0, "growth"))
    inside_copy = enlarged.edge[JOINT] == 0
    src, dst = global_edges(enlarged)
    copy = enlarged.node[COPY]
    assert (copy[src[inside_copy]] == copy[dst[inside_copy]]).all()
    owner, number = row_indices(enlarged.node_ptr), enlarged.node[SOURCE_NUMBER]

    def edges_of_copy(graph, which):
        edges = inside_copy & (owner[src] == graph) & (copy[src] == which)
        return sorted(zip(number[src[edges]].tolist(), number[dst[edges]].tolist(), strict=True))

    graph = int(owner[copy.argmax()])
    last = int(copy.max())
    assert last > 2
    assert edges_of_copy(graph, 1) == edges_of_copy(graph, last)
    assert (enlarged.edge[JOINT] == 1).any()


def test_links_start_at_nodes_that_are_not_ports(subgraphs, model):
    """A path that is joined at one end continues at another node."""
    cut = cut_subgraphs(subgraphs, rng(1, "growth"))
    free = np.ones(len(cut.subgraph), dtype=bool)
    subgraph, u, v = draw_links(cut, free, model, rng(2, "growth"))
    assert set(subgraph.tolist()) == set(cut.subgraph.tolist())
    assert np.isin(v, cut.port).all()
    is_end = np.zeros(cut.second.total_nodes, dtype=bool)
    is_end[v] = True
    num_links = np.bincount(subgraph, minlength=len(subgraphs))[subgraph]
    enough_nodes = cut.second.num_nodes[subgraph] >= 2 * num_links
    assert enough_nodes.sum() > 20
    assert not is_end[u[enough_nodes]].any()
    assert len(np.unique(u[enough_nodes])) == enough_nodes.sum()


def test_repeated_edges_keep_their_attributes(subgraphs, model):
    """Copies of a cut edge have its attribute; links have an attribute of the bridge model."""
    src, dst = global_edges(subgraphs)
    number = subgraphs.node[SOURCE_NUMBER]
    attributes = (number[src] * number[dst]).astype(np.int8)[:, None]
    code = msgspec.structs.replace(model.shape.code, num_edge_features=1)
    shape = msgspec.structs.replace(
        model.shape, code=code, attributes=((-1.0,),), attribute_rates=(1.0,)
    )
    attributed = subgraphs.with_columns(edge={"edge_attr": attributes})
    enlarged = grow_subgraphs(attributed, replace(model, shape=shape), 120, rng(0, "growth"))
    src, dst = global_edges(enlarged)
    number = enlarged.node[SOURCE_NUMBER]
    attribute = enlarged.edge["edge_attr"][:, 0]
    expected = (number[src] * number[dst]).astype(np.int8)
    is_link = attribute == -1
    assert np.array_equal(attribute[~is_link], expected[~is_link])
    assert is_link.any()
    assert (enlarged.edge[JOINT][is_link] == 1).all()


def test_single_node_is_not_enlarged(model):
    single = GraphTable(
        node_ptr=np.array([0, 1]),
        edge_ptr=np.array([0, 0]),
        graph={},
        node={
            "node_feat": np.ones((1, 1), dtype=np.float32),
            SOURCE_NUMBER: np.zeros(1, dtype=np.int32),
        },
        edge={name: np.zeros(0, dtype=np.int32) for name in ("edge_src", "edge_dst")},
    )
    enlarged = grow_subgraphs(single, model, 50, rng(0, "growth"))
    assert enlarged.num_nodes.tolist() == [1]


def test_same_stream_gives_the_same_result(subgraphs, model):
    first, second = (grow_subgraphs(subgraphs, model, 60, rng(3, "growth")) for _ in range(2))
    assert first.equals(second)


def edges_by_source_number(table):
    """Return the edges of all graphs by the source numbers of their nodes."""
    src, dst = global_edges(table)
    owner = row_indices(table.node_ptr)[src]
    number = table.node[SOURCE_NUMBER]
    return sorted(zip(owner.tolist(), number[src].tolist(), number[dst].tolist(), strict=True))
