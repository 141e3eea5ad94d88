"""Samples by random walks, and a convolution that equals PyG's in values and gradients."""

import numpy as np
import pytest
import torch
from hypothesis import given
from hypothesis import strategies as st
from scipy.sparse import csr_matrix
from torch_geometric.nn import GCNConv

from gsx.ragged import row_indices
from gsx.seeds import rng
from gsx.stages.graphs.graphsaint import (
    adjacency_from_edges,
    estimate_norms,
    gcn_matrix,
    induced_adjacency,
    random_walks,
    sample_nodes,
)
from gsx.stages.nn.batches import BackboneShape
from gsx.stages.nn.gcn import GCN, build_node_batch
from gsx.stages.prepare.node_dataset import symmetric_edges

NODES = 12


@st.composite
def graphs(draw):
    """Draw an undirected graph of twelve nodes, some alone, some with loops."""
    ends = st.integers(0, NODES - 1)
    pairs = draw(st.lists(st.tuples(ends, ends), max_size=30))
    src, dst = (np.array([pair[end] for pair in pairs], dtype=np.int64) for end in (0, 1))
    return adjacency_from_edges(*symmetric_edges(src, dst, NODES), NODES)


@given(graphs(), st.integers(0, 99), st.integers(0, 4))
def test_random_walks_follow_edges_and_stay_at_isolated_nodes(links, seed, length):
    visited = random_walks(links, np.arange(NODES), length, rng(seed, "tests"))
    assert visited.shape == (NODES, length + 1)
    assert visited[:, 0].tolist() == list(range(NODES))
    known = set(zip(row_indices(links.ptr).tolist(), links.columns.tolist(), strict=True))
    alone = np.diff(links.ptr) == 0
    for before, after in zip(visited[:, :-1].ravel(), visited[:, 1:].ravel(), strict=True):
        assert (before, after) in known or (alone[before] and before == after)


@given(graphs(), st.sets(st.integers(0, NODES - 1)))
def test_an_induced_adjacency_has_all_edges_among_its_nodes(links, chosen):
    nodes = np.array(sorted(chosen), dtype=np.int64)
    part, edges = induced_adjacency(links, nodes)
    row, column = row_indices(links.ptr), links.columns
    kept = np.isin(row, nodes) & np.isin(column, nodes)
    assert edges.tolist() == np.flatnonzero(kept).tolist()
    assert nodes[row_indices(part.ptr)].tolist() == row[kept].tolist()
    assert nodes[part.columns].tolist() == column[kept].tolist()


@given(graphs(), st.integers(0, 99), st.integers(1, 6))
def test_norms_correct_for_sampling_frequencies(links, seed, roots):
    def stream(number):
        return rng(seed, "tests", number)

    norms = estimate_norms(links, roots, 2, 5, stream)
    drawn, held, times = 0, np.zeros(NODES), np.zeros(NODES)
    sums, message = np.zeros(NODES), np.zeros(len(links.columns))
    while times.sum() < 5 * NODES:
        nodes = sample_nodes(links, roots, 2, stream(drawn))
        times[nodes] += 1
        sums[nodes] += norms.node[nodes]
        message[induced_adjacency(links, nodes)[1]] += 1
        held[nodes] += 1
        drawn += 1
    sampled = held > 0
    # Over the samples, every node counts as often as every other, and in sum once per node.
    assert np.allclose(sums[sampled] / drawn, 1 / NODES)
    # Of the samples that hold a node, every message to it arrives once on average.
    target = row_indices(links.ptr)
    arrived = message > 0
    each = message * norms.edge / np.maximum(held[target], 1)
    assert np.allclose(each[arrived], 1)
    assert np.isfinite(norms.edge).all()
    assert (norms.edge > 0).all()


def shape(features, width=5, layers=3):
    return BackboneShape(backbone="gcn", features=features, width=width, layers=layers, outputs=3)


class Usual(torch.nn.Module):
    """The same network written the usual way."""

    def __init__(self, net):
        super().__init__()
        entering = [layer.map.in_features for layer in net.layers]
        width = net.shape.width
        self.convs = torch.nn.ModuleList(GCNConv(size, width) for size in entering)
        self.norms = torch.nn.ModuleList(torch.nn.BatchNorm1d(width) for _ in entering)
        self.classify = torch.nn.Linear(width, net.shape.outputs)
        for conv, norm, layer in zip(self.convs, self.norms, net.layers, strict=True):
            conv.lin.weight.data = layer.map.weight.data.clone()
            conv.bias.data = layer.bias.data.clone()
            norm.load_state_dict(layer.norm.state_dict())
        self.classify.load_state_dict(net.classify.state_dict())

    def forward(self, x, edge_index, weight):
        for number, (conv, norm) in enumerate(zip(self.convs, self.norms, strict=True)):
            x = norm(conv(x, edge_index, weight))
            x = x.relu() if number < len(self.convs) - 1 else x
        return self.classify(x)


@pytest.mark.parametrize("sparse", [False, True])
@pytest.mark.parametrize("weighted", [False, True])
def test_values_and_gradients_are_those_of_pyg(sparse, weighted):
    random = rng(0, "tests")
    src, dst = random.integers(0, 30, (2, 80))
    links = adjacency_from_edges(
        *symmetric_edges(src, dst, 30), 30
    )  # with loops, and with nodes of no edge
    weight = random.random(len(links.columns)) + 0.1 if weighted else None
    features = (random.random((30, 7)) * (random.random((30, 7)) < 0.4)).astype(np.float32)
    stream = torch.Generator().manual_seed(3)
    net = GCN.with_random_weights(shape(7), 0.0, stream, torch.Generator()).train()
    for layer in net.layers:
        torch.nn.init.uniform_(layer.bias, generator=stream)
    usual = Usual(net).train()
    targets = torch.tensor([3, 0, 17])
    rows = csr_matrix(features) if sparse else torch.from_numpy(features)
    batch = build_node_batch(rows, gcn_matrix(links, weight), targets, torch.device("cpu"))
    # PyG sends from the first row of edge_index to the second: our rows receive.
    edges = torch.from_numpy(np.stack([links.columns, row_indices(links.ptr)]))
    values = None if weight is None else torch.from_numpy(weight.astype(np.float32))
    mine = net(batch)[1]
    theirs = usual(torch.from_numpy(features), edges, values)[targets]
    assert torch.allclose(mine, theirs, atol=1e-5)
    mine.square().sum().backward()
    theirs.square().sum().backward()
    pairs = [(net.classify.weight, usual.classify.weight)]
    for layer, conv, norm in zip(net.layers, usual.convs, usual.norms, strict=True):
        pairs += [(layer.map.weight, conv.lin.weight), (layer.norm.weight, norm.weight)]
    for ours, expected in pairs:
        assert torch.allclose(ours.grad, expected.grad, atol=1e-4)


def test_a_layer_ends_in_norm_relu_and_dropout_but_the_last_has_no_relu():
    net = GCN.with_random_weights(
        shape(2, width=4, layers=2), 0.0, torch.Generator(), torch.Generator()
    ).eval()
    links = adjacency_from_edges(*symmetric_edges(np.array([0]), np.array([1]), 2), 2)
    rows = torch.tensor([[1.0, -1.0], [2.0, 0.5]])
    batch = build_node_batch(rows, gcn_matrix(links), torch.arange(2), torch.device("cpu"))
    features, logits = net(batch)
    assert (features < 0).any()
    assert torch.allclose(logits, net.classify(features))


def test_gcn_matrix_of_two_connected_nodes():
    links = adjacency_from_edges(*symmetric_edges(np.array([0]), np.array([1]), 3), 3)
    assert gcn_matrix(links).toarray() == pytest.approx(
        np.array([[0.5, 0.5, 0], [0.5, 0.5, 0], [0, 0, 1]])
    )
