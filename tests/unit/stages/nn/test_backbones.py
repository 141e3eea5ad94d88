"""Backbones are those of GOOD, and folding changes no number."""

from dataclasses import replace

import numpy as np
import pytest
import torch
from torch import nn

from gsx.ragged import row_indices
from gsx.stages.graphs.subgraphs import global_edges, sort_edges
from gsx.stages.graphs.wl_dedup import dedup_plan, with_wl_colors
from gsx.stages.nn.backbones import Backbone, Dropout, CategoricalEmbedding
from gsx.stages.nn.batches import BackboneShape, SparseMatrix, build_graph_batch
from gsx.stages.nn.training_loop import torch_stream
from gsx.table import GraphTable
from tests.conftest import motif_split

CPU = torch.device("cpu")


def shape(backbone="gin", **changes):
    given = {"features": 1, "width": 8, "layers": 3, "outputs": 3, **changes}
    return BackboneShape(backbone=backbone, **given)


def fresh(form, dropout=0.0):
    return Backbone.with_random_weights(form, dropout, torch_stream(0, "w"), torch_stream(0, "d"))


@pytest.fixture
def graphs():
    return sort_edges(motif_split("train", 0, 40).select(["node_feat"]))


class Published(nn.Module):
    """GIN written with PyG's parts, given the weights of ours."""

    def __init__(self, net):
        from torch_geometric.nn import GINConv

        super().__init__()
        self.convs = nn.ModuleList(
            GINConv(nn.Sequential(layer.enlarge, layer.inner, nn.ReLU(), layer.reduce))
            for layer in net.layers
        )
        self.norms = nn.ModuleList(layer.norm for layer in net.layers)
        self.classify = net.classify

    def forward(self, x, edge_index, batch):
        from torch_geometric.nn import global_mean_pool

        for number, (conv, norm) in enumerate(zip(self.convs, self.norms, strict=True)):
            x = norm(conv(x, edge_index))
            x = x.relu() if number < len(self.convs) - 1 else x
        return self.classify(global_mean_pool(x, batch))


def pyg_inputs(graphs):
    edges = torch.from_numpy(np.stack(global_edges(graphs)))
    x = torch.from_numpy(graphs.dense("node", "node_feat").astype(np.float32))
    return x, edges, torch.from_numpy(row_indices(graphs.node_ptr))


def precise(batch):
    """Return a batch in double precision, where two ways to the same number agree."""

    def double(pair):
        return SparseMatrix(pair.matrix.double(), pair.transpose.double())

    def exact(share):
        return None if share is None else (share.double() * batch.nodes).round() / batch.nodes

    rounds = tuple(
        replace(step, links=double(step.links), share=exact(step.share)) for step in batch.rounds
    )
    return replace(batch, rows=batch.rows.double(), rounds=rounds, pool=double(batch.pool))


@pytest.mark.parametrize("folded", [False, True])
def test_gin_learns_what_the_published_network_learns(graphs, folded):
    net, other = fresh(shape()).double(), fresh(shape()).double()
    published = Published(other)
    other.load_state_dict(net.state_dict())  # PyG has drawn weights anew
    batch = precise(build_graph_batch(with_wl_colors(graphs, 3) if folded else graphs, shape(), CPU))
    x, edges, owner = pyg_inputs(graphs)
    logits, expected = net(batch)[1], published(x.double(), edges, owner)
    assert torch.allclose(logits, expected, atol=1e-6)
    logits.square().sum().backward()
    expected.square().sum().backward()
    for (name, one), (_, two) in zip(net.named_parameters(), other.named_parameters(), strict=True):
        assert torch.allclose(one.grad, two.grad, atol=1e-6, rtol=1e-5), name
    for (name, one), (_, two) in zip(net.named_buffers(), other.named_buffers(), strict=True):
        assert torch.allclose(one, two, atol=1e-6), name


def test_folding_computes_equal_surroundings_once(graphs):
    found = dedup_plan(with_wl_colors(graphs, 3), 3)
    rows = [len(step.ptr) - 1 for step in found.rounds]
    assert len(found.first) == 1  # all features of Motif are the same
    assert rows[0] == len(np.unique(pyg_degrees(graphs)))
    assert rows[0] < rows[1] < rows[2] <= graphs.total_nodes
    assert found.rounds[0].count.sum() == graphs.total_nodes


def pyg_degrees(graphs):
    return np.bincount(global_edges(graphs)[0], minlength=graphs.total_nodes)


def test_graphs_of_distinct_features_are_not_folded(graphs):
    own = np.arange(graphs.total_nodes, dtype=np.float32)[:, None]
    found = dedup_plan(with_wl_colors(graphs.with_columns(node={"node_feat": own}), 2), 2)
    assert [step.count for step in found.rounds] == [None, None]


@pytest.mark.parametrize("backbone", ["gin", "vgin"])
def test_graphs_without_nodes_or_edges_have_logits(backbone):
    empty = np.zeros(0, dtype=np.int32)
    graphs = GraphTable(
        np.array([0, 0, 3]),
        np.array([0, 0, 0]),
        {},
        {"node_feat": np.ones((3, 1), dtype=np.float32)},
        {"edge_src": empty, "edge_dst": empty},
    )
    net = fresh(shape(backbone)).eval()
    assert torch.isfinite(net(build_graph_batch(graphs, shape(backbone), CPU))[1]).all()


def test_the_order_of_nodes_does_not_matter_to_a_virtual_node(graphs):
    form = shape("vgin", layers=4)
    net = fresh(form).eval()
    one = net(build_graph_batch(graphs, form, CPU))[1]
    alone = torch.cat([net(build_graph_batch(graphs.slice(g, g + 1), form, CPU))[1] for g in range(5)])
    assert torch.allclose(one[:5], alone, atol=1e-4)


def test_words_and_edge_features_reach_the_logits(graphs):
    form = shape("vgin", features=2, words=(4, 3), edge_features=1, edge_words=(5,))
    stream = np.random.default_rng(0)
    codes = stream.integers(0, 3, (graphs.total_nodes, 2))
    bonds = stream.integers(0, 5, (graphs.total_edges, 1))
    given = graphs.with_columns(node={"node_feat": codes}, edge={"edge_attr": bonds})
    net = fresh(form).eval()
    before = net(build_graph_batch(given, form, CPU))[1]
    other = given.with_columns(edge={"edge_attr": (bonds + 1) % 5})
    assert not torch.allclose(before, net(build_graph_batch(other, form, CPU))[1], atol=1e-4)


def test_words_are_embedded_one_table_per_value():
    sums = CategoricalEmbedding((2, 3), 4)
    weight = sums.table.weight.detach()
    told = sums(torch.tensor([[1, 2], [0, 0]]))
    assert torch.allclose(told[0], weight[1] + weight[2 + 2])
    assert torch.allclose(told[1], weight[0] + weight[2])


def test_a_message_is_the_rectified_sum_of_neighbor_and_edge():
    graphs = GraphTable(
        np.array([0, 2]),
        np.array([0, 2]),
        {},
        {"node_feat": np.array([[1.0], [10.0]], dtype=np.float32)},
        {
            "edge_src": np.array([0, 1]),
            "edge_dst": np.array([1, 0]),
            "edge_attr": np.array([[-4.0], [-5.0]], dtype=np.float32),
        },
    )
    form = shape(edge_features=1, layers=1)
    net = fresh(form).eval()
    layer = net.layers[0]
    with torch.no_grad():
        layer.edge.weight.fill_(1.0)
        layer.edge.bias.zero_()
        seen = []
        layer.enlarge.register_forward_pre_hook(lambda _, inputs: seen.append(inputs[0].tolist()))
        net(build_graph_batch(graphs, form, CPU))
    # To node 0 comes ReLU(10 - 5) = 5, to node 1 comes ReLU(1 - 4) = 0.
    assert seen == [[[6.0], [10.0]]]


def test_dropout_draws_from_its_own_stream():
    rows = torch.ones(50, 4)
    one, two = (Dropout(0.5, torch_stream(3, "d"))(rows) for _ in range(2))
    assert torch.equal(one, two)
    assert set(one.unique().tolist()) == {0.0, 2.0}
    assert Dropout(0.5, torch_stream(3, "d")).eval()(rows) is rows


class PublishedVirtual(nn.Module):
    """GIN with a virtual node, written edge by edge, given the parts of ours.

    The virtual node is added before convs 2..L and moves on after convs 2..L-1 by one network.
    """

    def __init__(self, net):
        super().__init__()
        self.net = net

    def forward(self, x, edges, owner, values=None):
        net, last = self.net, len(self.net.layers) - 1
        (src, dst), graphs = edges, int(owner.max()) + 1
        x = x if net.atoms is None else net.atoms(x)
        virtual = net.virtual.start.weight.repeat(graphs, 1)
        for number, layer in enumerate(net.layers):
            if number >= 1:
                x = x + virtual[owner]
            message = x[src] if values is None else torch.relu(x[src] + layer.edge(values))
            inner = torch.relu(layer.inner(layer.enlarge(x + scatter(message, dst, len(x)))))
            x = layer.norm(layer.reduce(inner))
            if number < last:
                x = torch.relu(x)
            if 1 <= number < last:
                virtual = net.virtual.net(scatter(x, owner, graphs) + virtual)
        means = scatter(x, owner, graphs) / torch.bincount(owner)[:, None]
        return net.classify(means)


def scatter(rows, place, count):
    return torch.zeros(count, rows.shape[1], dtype=rows.dtype).index_add(0, place, rows)


@pytest.mark.parametrize("layers", [2, 3, 5])
@pytest.mark.parametrize("molecules", [False, True])
def test_a_virtual_node_goes_round_as_published(graphs, layers, molecules):
    words = {"features": 2, "words": (4, 3), "edge_features": 1, "edge_words": (5,)}
    form = shape("vgin", layers=layers, **(words if molecules else {}))
    given, values = graphs, None
    x, edges, owner = pyg_inputs(graphs)
    if molecules:
        stream = np.random.default_rng(0)
        codes = stream.integers(0, 3, (graphs.total_nodes, 2))
        bonds = stream.integers(0, 5, (graphs.total_edges, 1))
        given = graphs.with_columns(node={"node_feat": codes}, edge={"edge_attr": bonds})
        x, values = torch.from_numpy(codes), torch.from_numpy(bonds)
    net, other = fresh(form).double(), fresh(form).double()
    batch = precise(build_graph_batch(given, form, CPU))
    batch = replace(batch, rows=x) if molecules else batch
    x = x if molecules else x.double()
    logits, expected = net(batch)[1], PublishedVirtual(other)(x, edges, owner, values)
    assert torch.allclose(logits, expected, atol=1e-6)
    logits.square().sum().backward()
    expected.square().sum().backward()
    for (name, one), (_, two) in zip(net.named_parameters(), other.named_parameters(), strict=True):
        moved = layers > 2 or not name.startswith("virtual.net")
        assert (one.grad is not None) == moved, name
        if moved:
            assert torch.allclose(one.grad, two.grad, atol=1e-4, rtol=1e-4), name


def test_dropout_comes_after_the_rectifier_and_after_the_last_norm(graphs):
    form = shape("vgin", layers=3)
    net = fresh(form, dropout=0.5).train()
    seen = []
    net.dropout.register_forward_pre_hook(lambda _, given: seen.append(given[0].detach()))
    net(build_graph_batch(graphs, form, CPU))
    # Layers 1 and 2, the virtual node after layer 2, and layer 3, which has no rectifier.
    assert [bool((rows >= 0).all()) for rows in seen] == [True, True, True, False]
    assert [len(rows) for rows in seen] == [graphs.total_nodes] * 2 + [40, graphs.total_nodes]
