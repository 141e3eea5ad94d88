"""What networks see of nodes: categories, numbers, structure, and the features of edges."""

import networkx as nx
import numpy as np
import torch

from gsx.ragged import pointers
from gsx.stages.graphs.subgraphs import induced_subgraphs, prefix_subgraphs
from gsx.stages.nn.gin import InputLayer
from gsx.stages.nn.input_encoding import fit_encoding, iter_graph_batches, node_inputs, one_hot, add_numeric_inputs
from gsx.table import GraphTable
from tests.unit.stages.graphs.test_subgraphs import table_of


def test_few_whole_numbers_are_categories_and_constants_are_left_out():
    coding = fit_encoding(np.array([[6, 0, 1], [8, 0, 1], [6, 0, 2]], dtype=np.int16))
    assert [(column, values.tolist()) for column, values in coding.kinds] == [
        (0, [6, 8]),
        (2, [1, 2]),
    ]
    assert coding.reals == ()
    assert coding.width == 4


def test_real_numbers_and_many_whole_numbers_stay_numbers():
    assert fit_encoding(np.array([[0.0], [1.0]], dtype=np.float32)).reals == (0,)
    assert fit_encoding(np.arange(100)[:, None]).reals == (0,)


def test_a_value_that_training_never_showed_is_no_category():
    coding = fit_encoding(np.array([[6], [8]]))
    codes = coding.codes(np.array([[8], [7], [6]]))
    assert codes.tolist() == [[1], [-1], [0]]
    assert one_hot(codes, 2).tolist() == [[0, 1], [0, 0], [1, 0]]


def path_with_edge_inputs():
    """A path 0-1-2 whose first edge is of kind 0, whose second of kind 1."""
    table = table_of(nx.path_graph(3))
    kinds = np.array([[1, 0], [1, 0], [0, 1], [0, 1]], dtype=np.float32)
    reals = np.array([[0.5], [1.5], [2.5]], dtype=np.float32)
    return table.with_columns(
        node={"reals": reals, "codes": np.array([[0], [1], [-1]])}, edge={"edge_inputs": kinds}
    )


def test_a_node_sees_the_sum_over_its_edges():
    numbers = add_numeric_inputs(path_with_edge_inputs()).node["numbers"]
    assert numbers[:, 6:].tolist() == [[1, 0, 0.5], [1, 1, 1.5], [0, 1, 2.5]]


def test_in_a_subgraph_only_its_own_edges_are_seen():
    part, _ = induced_subgraphs(path_with_edge_inputs(), np.array([False, True, True]))
    assert add_numeric_inputs(part).node["numbers"][:, 6:].tolist() == [[0, 1, 1.5], [0, 1, 2.5]]


def test_prefixes_carry_the_columns_of_nodes_and_edges():
    part, nodes = prefix_subgraphs(path_with_edge_inputs(), np.array([[2, 1, 0]]), np.array([2]))
    assert nodes.tolist() == [2, 1]
    assert part.node["reals"].tolist() == [[2.5], [1.5]]
    assert part.edge["edge_inputs"].tolist() == [[0, 1], [0, 1]]


def test_categories_are_spread_when_a_batch_is_read():
    rows = node_inputs(add_numeric_inputs(path_with_edge_inputs()), 2, torch.device("cpu"))
    assert rows[:, -2:].tolist() == [[1, 0], [0, 1], [0, 0]]


def test_a_large_graph_is_read_alone_and_none_is_lost(monkeypatch):
    monkeypatch.setattr("gsx.stages.nn.input_encoding.MAX_BATCH_NODES", 4)
    counts = [1, 2, 9, 0, 3, 2]
    none = np.zeros(0, dtype=np.int32)
    table = GraphTable(
        pointers(counts), pointers([0] * 6), edge={"edge_src": none, "edge_dst": none}
    )
    assert [part.num_nodes.tolist() for part in iter_graph_batches(table)] == [[1, 2], [9], [0, 3], [2]]


def test_only_numbers_are_normalized_on_entering_a_network():
    entrance = InputLayer(3, 4, kinds=1).eval()
    entrance[0].running_var.fill_(1e-6)
    rows = torch.tensor([[0.0, 0.0, 1.0]])
    expected = torch.relu(entrance[1](rows))
    assert torch.allclose(entrance(rows), expected)
