"""Subgraphs of a batch: the selected edges, and equality with independently built graphs."""

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
from tests.support.graph_tables import table_from_edges
from tests.support.run_stages import attributed

CPU = torch.device("cpu")


def make_shape(backbone="gin", ratio=0.4, **changes):
    options = {"features": 1, "width": 8, "layers": 3, "outputs": 3, **changes}
    select = {} if ratio is None else {"select": EdgeSelection(ratio=ratio)}
    return BackboneShape(backbone=backbone, **options, **select)


def make_network(shape):
    return build_network(shape, 0.0, torch_stream(0, "w"), torch_stream(0, "d"))


def featured_table(*graphs):
    """Return graphs, given by number of nodes and undirected edges, with distinct features."""
    table = table_from_edges(*graphs)
    features = np.arange(table.total_nodes, dtype=np.float32)[:, None] / 4
    return table.with_columns(node={"node_feat": features})


@st.composite
def some_graphs(draw):
    graphs = []
    for num_nodes in draw(st.lists(st.integers(1, 7), min_size=1, max_size=5)):
        pairs = st.tuples(st.integers(0, num_nodes - 1), st.integers(0, num_nodes - 1))
        edges = draw(st.sets(pairs.map(lambda pair: (min(pair), max(pair))), max_size=12))
        graphs.append((num_nodes, sorted(edges)))
    return graphs


@settings(max_examples=30)
@given(some_graphs(), st.sampled_from([0.2, 0.4, 0.5, 0.6, 0.8, 1.0]), st.integers(0, 99))
def test_top_edges_selects_the_best_fraction_of_each_graph(graphs, ratio, seed):
    table = featured_table(*graphs)
    structure = build_graph_batch(table, make_shape(), CPU).structure
    raw = torch.rand(table.total_edges, generator=torch_stream(seed, "scores"))
    scores = (raw * 4).round() / 4  # with ties
    scores = (scores + scores[structure.reverse]) / 2
    keep = top_edges(scores, structure, len(graphs), ratio)
    assert torch.equal(keep, keep[structure.reverse])
    for number, (_, edges) in enumerate(graphs):
        own = structure.undirected[structure.edge_graph[structure.undirected] == number]
        selected, others = own[keep[own]], own[~keep[own]]
        assert len(selected) == math.ceil(round(ratio * len(edges), 6))
        if len(selected) and len(others):
            assert scores[selected].min() >= scores[others].max()


def test_weighted_spmm_equals_the_dense_product_and_has_correct_gradients():
    table = featured_table((3, [(0, 1), (1, 2), (2, 2)]), (2, [(0, 1)]))
    structure = build_graph_batch(table, make_shape(), CPU).structure
    undirected = structure.undirected
    raw = torch.rand(len(undirected), generator=torch_stream(0, "w"), dtype=torch.double)
    rows = torch.rand(5, 2, generator=torch_stream(0, "r"), dtype=torch.double)
    raw.requires_grad_(), rows.requires_grad_()

    def symmetric(values):
        weights = torch.zeros(len(structure.reverse), dtype=torch.double)
        weights = weights.index_put((undirected,), values)
        return weights.index_put((structure.reverse[undirected],), values)

    weights = symmetric(raw)
    dense = torch.zeros(5, 5, dtype=torch.double)
    dense = dense.index_put((structure.edges.src, structure.edges.dst), weights)
    assert torch.allclose(weighted_spmm(structure.edges, weights, rows), dense @ rows)
    assert torch.autograd.gradcheck(
        lambda values, inputs: weighted_spmm(structure.edges, symmetric(values), inputs),
        (raw, rows),
    )


def reference_subgraphs(graphs, keep):
    """Return the graphs of kept edges and their endpoints, built without the tested code."""
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
def test_subgraph_has_the_logits_of_an_independent_graph(backbone, edge_features):
    shape = make_shape(backbone, None, edge_features=edge_features)
    graphs = sort_edges(attributed(motif_split("train", 0, 12)))
    network = make_network(shape)
    batch = build_graph_batch(graphs, shape, CPU, with_edges=True)
    structure = batch.structure
    raw = torch.rand(graphs.total_edges, generator=torch_stream(0, "scores"))
    keep = top_edges((raw + raw[structure.reverse]) / 2, structure, len(graphs), 0.4)
    subgraphs = edge_subgraphs(batch, keep, torch.ones(len(keep)), keep_edgeless=True)
    expected = build_graph_batch(reference_subgraphs(graphs, keep.numpy()), shape, CPU)
    assert torch.allclose(network(subgraphs)[1], network(expected)[1], atol=1e-5)
    assert subgraphs.sizes.tolist() == expected.sizes.tolist()


def test_graph_without_edges_is_selected_whole_and_has_no_complement():
    shape = make_shape()
    table = featured_table((2, []), (3, [(0, 1), (1, 2)]), (1, []))
    batch = build_graph_batch(table, shape, CPU)
    network = make_network(shape).eval()
    split = network.split(batch)
    assert split.selected().sizes.tolist() == [2, 2, 1]
    assert split.complement().sizes.tolist() == [0, 2, 0]
    assert torch.isfinite(network(batch)[1]).all()
    assert network.backbone(split.complement())[0][[0, 2]].abs().sum() == 0


@pytest.mark.parametrize("backbone", ["gin", "vgin"])
def test_node_weights_of_one_change_nothing(backbone):
    shape = make_shape(backbone, None)
    graphs = sort_edges(motif_split("train", 0, 12))
    batch = build_graph_batch(graphs, shape, CPU, with_edges=True)
    network = make_network(shape)
    expected = network(batch)
    weighted = network(with_node_weights(batch, torch.ones(batch.num_nodes)))
    for one, two in zip(weighted, expected, strict=True):
        assert torch.allclose(one, two, atol=1e-5)


def test_nodes_of_weight_zero_have_no_influence():
    shape = make_shape(ratio=None)
    table = featured_table((4, [(0, 1), (1, 2), (2, 3)]))
    network = make_network(shape).eval()
    batch = build_graph_batch(table, shape, CPU, with_edges=True)
    half = with_node_weights(batch, torch.tensor([1.0, 1.0, 0.0, 0.0]))
    expected = build_graph_batch(featured_table((2, [(0, 1)])), shape, CPU)
    assert torch.allclose(network(half)[1], network(expected)[1], atol=1e-5)


def test_edge_scores_receive_gradients_from_both_subgraphs():
    shape = make_shape()
    batch = build_graph_batch(sort_edges(motif_split("train", 0, 12)), shape, CPU)
    network = make_network(shape)
    for subgraph in ("selected", "complement"):
        network.zero_grad()
        features = getattr(network.split(batch), subgraph)()
        network.backbone(features)[1].square().sum().backward()
        for name, weight in network.edges.named_parameters():
            if not name.startswith("encode.layers.1.reduce"):  # batch norm removes this bias
                assert weight.grad.abs().sum() > 0, name


def test_edge_scores_are_symmetric_and_independent_of_other_graphs():
    graphs = sort_edges(motif_split("train", 0, 5))
    network = make_network(make_shape()).eval()
    batch = build_graph_batch(graphs, make_shape(), CPU)
    scores = network.edges(batch)
    assert torch.equal(scores, scores[batch.structure.reverse])
    alone = [
        network.edges(build_graph_batch(graphs.slice(g, g + 1), make_shape(), CPU))
        for g in range(5)
    ]
    assert torch.allclose(torch.cat(alone), scores, atol=1e-5)


def test_frozen_batch_norm_statistics_do_not_change():
    batch = build_graph_batch(sort_edges(motif_split("train", 0, 12)), make_shape(), CPU)
    network = make_network(make_shape())
    before = {name: value.clone() for name, value in network.named_buffers()}
    with freeze_batch_norm_statistics(network):
        logits = network(batch)[1]
    assert all(torch.equal(before[name], value) for name, value in network.named_buffers())
    assert torch.equal(network(batch)[1], logits)
    assert not all(torch.equal(before[name], value) for name, value in network.named_buffers())


def test_shape_with_selection_builds_a_selector_network():
    assert isinstance(build_empty_network(make_shape()), SelectorNetwork)
    assert isinstance(build_empty_network(make_shape(ratio=None)), Backbone)


def test_shape_without_selection_has_no_select_field_in_json():
    plain = msgspec.json.encode(make_shape(ratio=None))
    assert b"select" not in plain
    assert msgspec.json.decode(plain, type=BackboneShape) == make_shape(ratio=None)
    full = msgspec.json.encode(make_shape())
    assert msgspec.json.decode(full, type=BackboneShape).select == EdgeSelection(ratio=0.4)


def test_batch_has_edge_indices_only_if_subgraphs_are_taken():
    graphs = sort_edges(motif_split("train", 0, 3))
    assert build_graph_batch(graphs, make_shape(ratio=None), CPU).structure is None
    batch = build_graph_batch(graphs, make_shape(), CPU)
    assert batch.structure is not None
    assert replace(batch, structure=None).weighted_edges is None
