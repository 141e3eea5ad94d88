"""Backbones equal those of GOOD, and WL deduplication does not change results."""

from dataclasses import replace

import msgspec
import numpy as np
import pytest
import torch
from torch import nn

from gsx.ragged import row_indices
from gsx.stages.graphs.subgraphs import global_edges, sort_edges
from gsx.stages.graphs.wl_dedup import dedup_plan, with_wl_colors
from gsx.stages.nn.backbones import Backbone, CategoricalEmbedding, Dropout
from gsx.stages.nn.batches import BackboneShape, SparseMatrix, build_graph_batch
from gsx.stages.nn.training_loop import torch_stream
from gsx.table import GraphTable
from tests.conftest import motif_split

CPU = torch.device("cpu")


def make_shape(backbone="gin", **changes):
    options = {"features": 1, "width": 8, "layers": 3, "outputs": 3, **changes}
    return BackboneShape(backbone=backbone, **options)


def make_network(shape, dropout=0.0):
    return Backbone.with_random_weights(shape, dropout, torch_stream(0, "w"), torch_stream(0, "d"))


@pytest.fixture
def graphs():
    return sort_edges(motif_split("train", 0, 40).select(["node_feat"]))


class PygGIN(nn.Module):
    """GIN built from PyG modules, with the layers of a gsx backbone."""

    def __init__(self, network):
        from torch_geometric.nn import GINConv

        super().__init__()
        self.convs = nn.ModuleList(
            GINConv(nn.Sequential(layer.enlarge, layer.inner, nn.ReLU(), layer.reduce))
            for layer in network.layers
        )
        self.norms = nn.ModuleList(layer.norm for layer in network.layers)
        self.classify = network.classify

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


def to_double(batch):
    """Return a batch in double precision, where rounding errors are negligible."""

    def double(matrix):
        return SparseMatrix(matrix.matrix.double(), matrix.transpose.double())

    def exact(row_share):
        if row_share is None:
            return None
        return (row_share.double() * batch.num_nodes).round() / batch.num_nodes

    rounds = tuple(
        replace(step, neighbor_sum=double(step.neighbor_sum), row_share=exact(step.row_share))
        for step in batch.rounds
    )
    return replace(batch, rows=batch.rows.double(), rounds=rounds, pool=double(batch.pool))


@pytest.mark.parametrize("deduplicated", [False, True])
def test_gin_has_the_logits_gradients_and_statistics_of_pyg(graphs, deduplicated):
    shape = make_shape()
    network, other = make_network(shape).double(), make_network(shape).double()
    reference = PygGIN(other)
    other.load_state_dict(network.state_dict())  # PyG has reset the parameters
    table = with_wl_colors(graphs, 3) if deduplicated else graphs
    batch = to_double(build_graph_batch(table, shape, CPU))
    x, edges, owner = pyg_inputs(graphs)
    logits, expected = network(batch)[1], reference(x.double(), edges, owner)
    assert torch.allclose(logits, expected, atol=1e-6)
    logits.square().sum().backward()
    expected.square().sum().backward()
    parameters = zip(network.named_parameters(), other.named_parameters(), strict=True)
    for (name, one), (_, two) in parameters:
        assert torch.allclose(one.grad, two.grad, atol=1e-6, rtol=1e-5), name
    for (name, one), (_, two) in zip(network.named_buffers(), other.named_buffers(), strict=True):
        assert torch.allclose(one, two, atol=1e-6), name


def test_deduplication_computes_equivalent_nodes_once(graphs):
    plan = dedup_plan(with_wl_colors(graphs, 3), 3)
    num_rows = [len(step.ptr) - 1 for step in plan.rounds]
    degrees = np.bincount(global_edges(graphs)[0], minlength=graphs.total_nodes)
    assert len(plan.first) == 1  # all features of Motif are equal
    assert num_rows[0] == len(np.unique(degrees))
    assert num_rows[0] < num_rows[1] < num_rows[2] <= graphs.total_nodes
    assert plan.rounds[0].count.sum() == graphs.total_nodes


def test_nodes_with_distinct_features_are_not_deduplicated(graphs):
    distinct = np.arange(graphs.total_nodes, dtype=np.float32)[:, None]
    table = with_wl_colors(graphs.with_columns(node={"node_feat": distinct}), 2)
    assert [step.count for step in dedup_plan(table, 2).rounds] == [None, None]


@pytest.mark.parametrize("backbone", ["gin", "vgin"])
def test_graphs_without_nodes_or_edges_have_finite_logits(backbone):
    empty = np.zeros(0, dtype=np.int32)
    graphs = GraphTable(
        np.array([0, 0, 3]),
        np.array([0, 0, 0]),
        {},
        {"node_feat": np.ones((3, 1), dtype=np.float32)},
        {"edge_src": empty, "edge_dst": empty},
    )
    network = make_network(make_shape(backbone)).eval()
    batch = build_graph_batch(graphs, make_shape(backbone), CPU)
    assert torch.isfinite(network(batch)[1]).all()


def test_virtual_node_logits_do_not_depend_on_other_graphs_of_the_batch(graphs):
    shape = make_shape("vgin", layers=4)
    network = make_network(shape).eval()
    together = network(build_graph_batch(graphs, shape, CPU))[1]
    alone = torch.cat(
        [network(build_graph_batch(graphs.slice(g, g + 1), shape, CPU))[1] for g in range(5)]
    )
    assert torch.allclose(together[:5], alone, atol=1e-4)


def test_logits_depend_on_edge_features(graphs):
    shape = make_shape("vgin", features=2, words=(4, 3), edge_features=1, edge_words=(5,))
    stream = np.random.default_rng(0)
    codes = stream.integers(0, 3, (graphs.total_nodes, 2))
    bonds = stream.integers(0, 5, (graphs.total_edges, 1))
    table = graphs.with_columns(node={"node_feat": codes}, edge={"edge_attr": bonds})
    network = make_network(shape).eval()
    logits = network(build_graph_batch(table, shape, CPU))[1]
    other = table.with_columns(edge={"edge_attr": (bonds + 1) % 5})
    other_logits = network(build_graph_batch(other, shape, CPU))[1]
    assert not torch.allclose(logits, other_logits, atol=1e-4)


def test_categorical_embedding_has_one_table_per_value():
    embedding = CategoricalEmbedding((2, 3), 4)
    weight = embedding.table.weight.detach()
    rows = embedding(torch.tensor([[1, 2], [0, 0]]))
    assert torch.allclose(rows[0], weight[1] + weight[2 + 2])
    assert torch.allclose(rows[1], weight[0] + weight[2])


def test_message_is_the_relu_of_neighbor_plus_edge():
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
    shape = make_shape(edge_features=1, layers=1)
    network = make_network(shape).eval()
    layer = network.layers[0]
    inputs = []
    with torch.no_grad():
        layer.edge.weight.fill_(1.0)
        layer.edge.bias.zero_()
        layer.enlarge.register_forward_pre_hook(lambda _, args: inputs.append(args[0].tolist()))
        network(build_graph_batch(graphs, shape, CPU))
    # Node 0 receives ReLU(10 - 5) = 5, node 1 receives ReLU(1 - 4) = 0.
    assert inputs == [[[6.0], [10.0]]]


def test_dropout_draws_from_its_own_stream():
    rows = torch.ones(50, 4)
    first, second = (Dropout(0.5, torch_stream(3, "d"))(rows) for _ in range(2))
    assert torch.equal(first, second)
    assert set(first.unique().tolist()) == {0.0, 2.0}
    assert Dropout(0.5, torch_stream(3, "d")).eval()(rows) is rows


class ReferenceVGIN(nn.Module):
    """GIN with a virtual node by gather and scatter, with the layers of a gsx backbone.

    As in the published code, the virtual node is added before layers 2..L and updated after layers
    2..L-1 by one shared network.
    """

    def __init__(self, network):
        super().__init__()
        self.network = network

    def forward(self, x, edges, owner, values=None):
        network, last = self.network, len(self.network.layers) - 1
        (src, dst), graphs = edges, int(owner.max()) + 1
        x = x if network.atoms is None else network.atoms(x)
        virtual = network.virtual.start.weight.repeat(graphs, 1)
        for number, layer in enumerate(network.layers):
            if number >= 1:
                x = x + virtual[owner]
            message = x[src] if values is None else torch.relu(x[src] + layer.edge(values))
            inner = torch.relu(layer.inner(layer.enlarge(x + scatter_add(message, dst, len(x)))))
            x = layer.norm(layer.reduce(inner))
            if number < last:
                x = torch.relu(x)
            if 1 <= number < last:
                virtual = network.virtual.net(scatter_add(x, owner, graphs) + virtual)
        means = scatter_add(x, owner, graphs) / torch.bincount(owner)[:, None]
        return network.classify(means)


def scatter_add(rows, index, count):
    return torch.zeros(count, rows.shape[1], dtype=rows.dtype).index_add(0, index, rows)


@pytest.mark.parametrize("layers", [2, 3, 5])
@pytest.mark.parametrize("molecules", [False, True])
def test_vgin_has_the_logits_and_gradients_of_the_published_network(graphs, layers, molecules):
    categories = {"features": 2, "words": (4, 3), "edge_features": 1, "edge_words": (5,)}
    shape = make_shape("vgin", layers=layers, **(categories if molecules else {}))
    table, values = graphs, None
    x, edges, owner = pyg_inputs(graphs)
    if molecules:
        stream = np.random.default_rng(0)
        codes = stream.integers(0, 3, (graphs.total_nodes, 2))
        bonds = stream.integers(0, 5, (graphs.total_edges, 1))
        table = graphs.with_columns(node={"node_feat": codes}, edge={"edge_attr": bonds})
        x, values = torch.from_numpy(codes), torch.from_numpy(bonds)
    network, other = make_network(shape).double(), make_network(shape).double()
    batch = to_double(build_graph_batch(table, shape, CPU))
    batch = replace(batch, rows=x) if molecules else batch
    x = x if molecules else x.double()
    logits, expected = network(batch)[1], ReferenceVGIN(other)(x, edges, owner, values)
    assert torch.allclose(logits, expected, atol=1e-6)
    logits.square().sum().backward()
    expected.square().sum().backward()
    parameters = zip(network.named_parameters(), other.named_parameters(), strict=True)
    for (name, one), (_, two) in parameters:
        has_gradient = layers > 2 or not name.startswith("virtual.net")
        assert (one.grad is not None) == has_gradient, name
        if has_gradient:
            assert torch.allclose(one.grad, two.grad, atol=1e-4, rtol=1e-4), name


def test_dropout_follows_every_relu_and_the_last_batch_norm(graphs):
    shape = make_shape("vgin", layers=3)
    network = make_network(shape, dropout=0.5).train()
    inputs = []
    network.dropout.register_forward_pre_hook(lambda _, args: inputs.append(args[0].detach()))
    network(build_graph_batch(graphs, shape, CPU))
    # Layers 1 and 2, the virtual node after layer 2, and layer 3, which has no ReLU.
    assert [bool((rows >= 0).all()) for rows in inputs] == [True, True, True, False]
    assert [len(rows) for rows in inputs] == [graphs.total_nodes] * 2 + [40, graphs.total_nodes]


@pytest.mark.parametrize("backbone", ["gin", "vgin"])
@pytest.mark.parametrize("deduplicated", [False, True])
@pytest.mark.parametrize("weighted", [False, True])
def test_readouts_are_those_of_pyg(graphs, backbone, deduplicated, weighted):
    from torch_geometric.nn import global_add_pool, global_mean_pool

    if deduplicated and (weighted or backbone == "vgin"):
        pytest.skip("weights and virtual nodes need one row per node")
    table = with_wl_colors(graphs, 3) if deduplicated else graphs
    owner = torch.from_numpy(row_indices(graphs.node_ptr))
    weights = torch.rand(graphs.total_nodes, 1, generator=torch_stream(0, "n"))
    plain = make_network(make_shape(backbone)).eval()
    for readout in ("mean", "sum", "mean+size"):
        shape = make_shape(backbone, readout=readout)
        network = make_network(shape).eval()
        batch = build_graph_batch(table, shape, CPU)
        # The new layer comes last in the order of initialization: all other weights are equal.
        network.load_state_dict(plain.state_dict(), strict=readout != "mean+size")
        states = network.node_states(batch)
        if weighted:
            batch = replace(batch, node_weights=weights)
        features = network.graph_features(batch, states)
        rows = plain.node_states(build_graph_batch(graphs, make_shape(backbone), CPU))
        size = global_add_pool(weights if weighted else torch.ones_like(weights), owner)
        total = global_add_pool(rows * weights if weighted else rows, owner)
        mean = total / size if weighted else global_mean_pool(rows, owner)
        expected = {
            "mean": mean,
            "sum": total,
            "mean+size": mean if readout != "mean+size" else mean + network.size(size.log1p()),
        }[readout]
        assert torch.allclose(features, expected, atol=1e-4), readout
        assert features.shape == (len(graphs), shape.width)


def test_a_shape_with_the_default_readout_is_stored_without_it():
    """Files of existing models stay as they are."""
    assert b"readout" not in msgspec.json.encode(make_shape())
    assert b'"readout":"sum"' in msgspec.json.encode(make_shape(readout="sum"))
