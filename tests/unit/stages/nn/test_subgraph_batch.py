"""Parts of graphs: which edges are taken, and that a network reads a part as a graph of its own."""

import math
from dataclasses import replace

import msgspec
import numpy as np
import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st

from gsx.ragged import pointers
from gsx.stages.graphs.subgraphs import global_edges, sort_edges
from gsx.stages.nn.backbones import Backbone
from gsx.stages.nn.batches import BackboneShape, EdgeSelection, build_graph_batch
from gsx.stages.nn.build_network import build_empty_network, build_network
from gsx.stages.nn.edge_selector import SelectorNetwork, freeze_batch_norm_statistics
from gsx.stages.nn.subgraph_batch import edge_subgraphs, top_edges, with_node_weights
from gsx.stages.nn.training_loop import torch_stream
from gsx.stages.nn.weighted_spmm import weighted_spmm
from gsx.table import GraphTable
from tests.conftest import motif_split
from tests.support.run_stages import attributed

CPU = torch.device("cpu")


def shape(backbone="gin", ratio=0.4, **changes):
    form = {"features": 1, "width": 8, "layers": 3, "outputs": 3, **changes}
    select = {} if ratio is None else {"select": EdgeSelection(ratio=ratio)}
    return BackboneShape(backbone=backbone, **form, **select)


def made(form):
    return build_network(form, 0.0, torch_stream(0, "w"), torch_stream(0, "d"))


def table_of(graphs):
    """Return graphs, each given by how many nodes it has and its edges in one direction."""
    both = [[*edges, *((b, a) for a, b in edges if a != b)] for _, edges in graphs]
    flat = np.array([edge for edges in both for edge in edges], dtype=np.int32).reshape(-1, 2)
    nodes = [count for count, _ in graphs]
    features = np.arange(sum(nodes), dtype=np.float32)[:, None] / 4
    return sort_edges(
        GraphTable(
            node_ptr=pointers(nodes),
            edge_ptr=pointers([len(edges) for edges in both]),
            graph={},
            node={"node_feat": features},
            edge={"edge_src": flat[:, 0], "edge_dst": flat[:, 1]},
        )
    )


@st.composite
def some_graphs(draw):
    found = []
    for nodes in draw(st.lists(st.integers(1, 7), min_size=1, max_size=5)):
        pairs = st.tuples(st.integers(0, nodes - 1), st.integers(0, nodes - 1))
        edges = draw(st.sets(pairs.map(lambda pair: (min(pair), max(pair))), max_size=12))
        found.append((nodes, sorted(edges)))
    return found


@settings(max_examples=30)
@given(some_graphs(), st.sampled_from([0.2, 0.4, 0.5, 0.6, 0.8, 1.0]), st.integers(0, 99))
def test_of_every_graph_the_ratio_of_its_best_edges_is_taken(graphs, ratio, seed):
    table = table_of(graphs)
    structure = build_graph_batch(table, shape(), CPU).structure
    raw = torch.rand(table.total_edges, generator=torch_stream(seed, "scores"))
    scores = (raw * 4).round() / 4  # ties happen
    scores = (scores + scores[structure.back]) / 2
    keep = top_edges(scores, structure, len(graphs), ratio)
    assert torch.equal(keep, keep[structure.back])
    for number, (_, edges) in enumerate(graphs):
        own = structure.once[structure.edge_owner[structure.once] == number]
        taken, left = own[keep[own]], own[~keep[own]]
        assert len(taken) == math.ceil(round(ratio * len(edges), 6))
        if len(taken) and len(left):
            assert scores[taken].min() >= scores[left].max()


def test_messages_are_weighed_and_the_weights_are_learned():
    links = build_graph_batch(table_of([(3, [(0, 1), (1, 2), (2, 2)]), (2, [(0, 1)])]), shape(), CPU)
    structure = links.structure
    raw = torch.rand(len(structure.once), generator=torch_stream(0, "w"), dtype=torch.double)
    rows = torch.rand(5, 2, generator=torch_stream(0, "r"), dtype=torch.double)
    raw.requires_grad_(), rows.requires_grad_()

    def symmetric(values):
        spread = torch.zeros(len(structure.back), dtype=torch.double)
        spread = spread.index_put((structure.once,), values)
        return spread.index_put((structure.back[structure.once],), values)

    weights = symmetric(raw)
    dense = torch.zeros(5, 5, dtype=torch.double)
    dense = dense.index_put((structure.links.src, structure.links.dst), weights)
    assert torch.allclose(weighted_spmm(structure.links, weights, rows), dense @ rows)
    assert torch.autograd.gradcheck(
        lambda values, given: weighted_spmm(structure.links, symmetric(values), given), (raw, rows)
    )


def kept_by_hand(graphs, keep):
    """Return the graphs of kept edges and their ends, built without the code that is tested."""
    src, dst = global_edges(graphs)
    inside = np.zeros(graphs.total_nodes, dtype=bool)
    inside[src[keep]] = True
    local = np.cumsum(inside) - 1
    node_owner = np.repeat(np.arange(len(graphs)), graphs.num_nodes)
    node_ptr = pointers(np.bincount(node_owner[inside], minlength=len(graphs)))
    edge_owner = graphs.edge_graph()[keep]
    edge = {name: values[keep] for name, values in graphs.edge.items()}
    edge["edge_src"] = (local[src[keep]] - node_ptr[edge_owner]).astype(np.int32)
    edge["edge_dst"] = (local[dst[keep]] - node_ptr[edge_owner]).astype(np.int32)
    node = {"node_feat": graphs.node["node_feat"][inside]}
    edge_ptr = pointers(np.bincount(edge_owner, minlength=len(graphs)))
    return GraphTable(node_ptr, edge_ptr, {}, node, edge)


@pytest.mark.parametrize("backbone", ["gin", "vgin"])
@pytest.mark.parametrize("edge_features", [0, 2])
def test_a_part_is_read_as_a_graph_of_its_own(backbone, edge_features):
    form = shape(backbone, None, edge_features=edge_features)
    graphs = sort_edges(attributed(motif_split("train", 0, 12)))
    net = made(form)
    batch = build_graph_batch(graphs, form, CPU, with_edges=True)
    structure = batch.structure
    raw = torch.rand(graphs.total_edges, generator=torch_stream(0, "scores"))
    keep = top_edges((raw + raw[structure.back]) / 2, structure, len(graphs), 0.4)
    part = edge_subgraphs(batch, keep, torch.ones(len(keep)), bare=True)
    alone = build_graph_batch(kept_by_hand(graphs, keep.numpy()), form, CPU)
    assert torch.allclose(net(part)[1], net(alone)[1], atol=1e-5)
    assert part.sizes.tolist() == alone.sizes.tolist()


def test_a_graph_without_edges_is_its_own_part_and_has_no_rest():
    form = shape()
    batch = build_graph_batch(table_of([(2, []), (3, [(0, 1), (1, 2)]), (1, [])]), form, CPU)
    net = made(form).eval()
    split = net.split(batch)
    assert split.selected().sizes.tolist() == [2, 2, 1]
    assert split.complement().sizes.tolist() == [0, 2, 0]
    assert torch.isfinite(net(batch)[1]).all()
    assert net.backbone(split.complement())[0][[0, 2]].abs().sum() == 0


@pytest.mark.parametrize("backbone", ["gin", "vgin"])
def test_nodes_that_are_all_there_change_nothing(backbone):
    form = shape(backbone, None)
    batch = build_graph_batch(sort_edges(motif_split("train", 0, 12)), form, CPU, with_edges=True)
    net = made(form)
    whole = net(batch)
    for one, two in zip(net(with_node_weights(batch, torch.ones(batch.nodes))), whole, strict=True):
        assert torch.allclose(one, two, atol=1e-5)


def test_nodes_that_are_not_there_are_not_read():
    form = shape(ratio=None)
    table = table_of([(4, [(0, 1), (1, 2), (2, 3)])])
    net = made(form).eval()
    batch = build_graph_batch(table, form, CPU, with_edges=True)
    half = with_node_weights(batch, torch.tensor([1.0, 1.0, 0.0, 0.0]))
    alone = build_graph_batch(table_of([(2, [(0, 1)])]), form, CPU)
    assert torch.allclose(net(half)[1], net(alone)[1], atol=1e-5)


def test_scores_of_edges_are_learned_through_both_parts():
    form = shape()
    batch = build_graph_batch(sort_edges(motif_split("train", 0, 12)), form, CPU)
    net = made(form)
    for part in ("selected", "rest"):
        net.zero_grad()
        net.backbone(getattr(net.split(batch), part)())[1].square().sum().backward()
        for name, weight in net.edges.named_parameters():
            if not name.startswith("encode.layers.1.reduce"):  # a norm takes this bias out again
                assert weight.grad.abs().sum() > 0, name


def test_scores_of_an_edge_are_the_same_both_ways_and_do_not_depend_on_the_batch():
    graphs = sort_edges(motif_split("train", 0, 5))
    net = made(shape()).eval()
    batch = build_graph_batch(graphs, shape(), CPU)
    scores = net.edges(batch)
    assert torch.equal(scores, scores[batch.structure.back])
    alone = [net.edges(build_graph_batch(graphs.slice(g, g + 1), shape(), CPU)) for g in range(5)]
    assert torch.allclose(torch.cat(alone), scores, atol=1e-5)


def test_what_is_unremembered_leaves_the_norms_as_they_were():
    batch = build_graph_batch(sort_edges(motif_split("train", 0, 12)), shape(), CPU)
    net = made(shape())
    before = {name: value.clone() for name, value in net.named_buffers()}
    with freeze_batch_norm_statistics(net):
        loud = net(batch)[1]
    assert all(torch.equal(before[name], value) for name, value in net.named_buffers())
    assert torch.equal(net(batch)[1], loud)
    assert not all(torch.equal(before[name], value) for name, value in net.named_buffers())


def test_a_shape_that_selects_builds_a_network_that_selects():
    assert isinstance(build_empty_network(shape()), SelectorNetwork)
    assert isinstance(build_empty_network(shape(ratio=None)), Backbone)


def test_a_shape_that_selects_nothing_is_written_as_before():
    plain = msgspec.json.encode(shape(ratio=None))
    assert b"select" not in plain
    assert msgspec.json.decode(plain, type=BackboneShape) == shape(ratio=None)
    full = msgspec.json.encode(shape())
    assert msgspec.json.decode(full, type=BackboneShape).select == EdgeSelection(ratio=0.4)


def test_a_batch_that_is_not_cut_has_no_structure():
    graphs = sort_edges(motif_split("train", 0, 3))
    assert build_graph_batch(graphs, shape(ratio=None), CPU).structure is None
    assert replace(build_graph_batch(graphs, shape(), CPU), structure=None).links is None
