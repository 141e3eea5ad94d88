"""Node inputs of the extractor networks: categories, numbers, structure and edge features."""

import networkx as nx
import numpy as np
import torch

from gsx.ragged import pointers
from gsx.stages.graphs.subgraphs import induced_subgraphs, prefix_subgraphs
from gsx.stages.nn.gin import InputLayer
from gsx.stages.nn.input_encoding import (
    add_numeric_inputs,
    fit_encoding,
    iter_graph_batches,
    node_inputs,
    one_hot,
)
from gsx.table import GraphTable
from tests.support.graph_tables import table_from_networkx


def test_few_integers_are_categories_and_constant_columns_are_dropped():
    encoding = fit_encoding(np.array([[6, 0, 1], [8, 0, 1], [6, 0, 2]], dtype=np.int16))
    assert [(column, values.tolist()) for column, values in encoding.categorical] == [
        (0, [6, 8]),
        (2, [1, 2]),
    ]
    assert encoding.numeric == ()
    assert encoding.num_categories == 4


def test_real_numbers_and_many_integers_are_numeric():
    assert fit_encoding(np.array([[0.0], [1.0]], dtype=np.float32)).numeric == (0,)
    assert fit_encoding(np.arange(100)[:, None]).numeric == (0,)


def test_value_absent_from_training_data_has_no_category():
    encoding = fit_encoding(np.array([[6], [8]]))
    codes = encoding.codes(np.array([[8], [7], [6]]))
    assert codes.tolist() == [[1], [-1], [0]]
    assert one_hot(codes, 2).tolist() == [[0, 1], [0, 0], [1, 0]]


def path_with_edge_inputs():
    """Return a path 0-1-2 whose first edge has category 0 and whose second has category 1."""
    table = table_from_networkx(nx.path_graph(3))
    edge_inputs = np.array([[1, 0], [1, 0], [0, 1], [0, 1]], dtype=np.float32)
    numeric = np.array([[0.5], [1.5], [2.5]], dtype=np.float32)
    return table.with_columns(
        node={"numeric": numeric, "codes": np.array([[0], [1], [-1]])},
        edge={"edge_inputs": edge_inputs},
    )


def test_edge_features_are_summed_over_the_edges_of_a_node():
    inputs = add_numeric_inputs(path_with_edge_inputs()).node["numeric_inputs"]
    assert inputs[:, 6:].tolist() == [[1, 0, 0.5], [1, 1, 1.5], [0, 1, 2.5]]


def test_inputs_of_a_subgraph_ignore_edges_outside_it():
    subgraph, _ = induced_subgraphs(path_with_edge_inputs(), np.array([False, True, True]))
    inputs = add_numeric_inputs(subgraph).node["numeric_inputs"]
    assert inputs[:, 6:].tolist() == [[0, 1, 1.5], [0, 1, 2.5]]


def test_prefix_subgraphs_have_node_and_edge_columns():
    subgraph, nodes = prefix_subgraphs(
        path_with_edge_inputs(), np.array([[2, 1, 0]]), np.array([2])
    )
    assert nodes.tolist() == [2, 1]
    assert subgraph.node["numeric"].tolist() == [[2.5], [1.5]]
    assert subgraph.edge["edge_inputs"].tolist() == [[0, 1], [0, 1]]


def test_categories_become_one_hot_network_inputs():
    rows = node_inputs(add_numeric_inputs(path_with_edge_inputs()), 2, torch.device("cpu"))
    assert rows[:, -2:].tolist() == [[1, 0], [0, 1], [0, 0]]


def test_large_graph_is_a_batch_by_itself_and_no_graph_is_lost(monkeypatch):
    monkeypatch.setattr("gsx.stages.nn.input_encoding.MAX_BATCH_NODES", 4)
    counts = [1, 2, 9, 0, 3, 2]
    empty = np.zeros(0, dtype=np.int32)
    table = GraphTable(
        pointers(counts), pointers([0] * 6), edge={"edge_src": empty, "edge_dst": empty}
    )
    batches = [batch.num_nodes.tolist() for batch in iter_graph_batches(table)]
    assert batches == [[1, 2], [9], [0, 3], [2]]


def test_input_layer_normalizes_numeric_inputs_only():
    layer = InputLayer(3, 4, num_categories=1).eval()
    layer[0].running_var.fill_(1e-6)
    rows = torch.tensor([[0.0, 0.0, 1.0]])
    expected = torch.relu(layer[1](rows))
    assert torch.allclose(layer(rows), expected)
