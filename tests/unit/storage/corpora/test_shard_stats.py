"""Shard statistics: self-loops and repeated edges."""

from collections import Counter

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from gsx.errors import TableError
from gsx.ragged import pointers
from gsx.storage.corpora.shard_stats import _oddities
from gsx.table import GraphTable


def graphs_of(nodes, edges, dtype=np.int32):
    """Return graphs with the given numbers of nodes and lists of edges."""
    src, dst = (np.array([edge[end] for item in edges for edge in item], dtype) for end in (0, 1))
    return GraphTable(
        node_ptr=pointers(nodes),
        edge_ptr=pointers([len(item) for item in edges]),
        edge={"edge_src": src, "edge_dst": dst},
    )


@st.composite
def multigraphs(draw):
    nodes = draw(st.lists(st.integers(0, 4), max_size=6))
    ends = [st.tuples(*[st.integers(0, size - 1)] * 2) if size else None for size in nodes]
    edges = [draw(st.lists(end, max_size=6)) if end is not None else [] for end in ends]
    if draw(st.booleans()):
        edges = [sorted(item) for item in edges]
    return nodes, edges


@given(multigraphs(), st.sampled_from([np.int32, np.int64]))
def test_repeated_edges_are_counted_in_any_order(drawn, dtype):
    nodes, edges = drawn
    actual = _oddities(graphs_of(nodes, edges, dtype).validate())
    again = sum(count - 1 for item in edges for count in Counter(item).values())
    assert actual["repeated_edges"] == again
    assert actual["self_loops"] == sum(src == dst for item in edges for src, dst in item)
    assert actual["graphs_without_nodes"] == nodes.count(0)
    assert actual["graphs_without_edges"] == edges.count([])


@pytest.mark.parametrize("size", [46_340, 46_341, 100_000])
def test_node_pairs_of_large_graphs_do_not_overflow(size):
    last = size - 1
    edges = [(0, last), (1, 0), (last, 0), (last, last), (last, last)]
    assert _oddities(graphs_of([size, 2], [edges, [(0, 1)]]))["repeated_edges"] == 1


@pytest.mark.parametrize("dtype", [np.int32, np.int64])
@pytest.mark.parametrize("edge", [(-1, 0), (0, -1), (3, 0), (0, 3), (-(2**31), 0)])
def test_edge_ends_outside_the_graph_are_detected_with_any_sign(edge, dtype):
    table = graphs_of([9, 3, 9], [[(8, 8)], [(0, 1), edge], [(8, 0)]], dtype)
    with pytest.raises(TableError) as error:
        table.validate()
    assert "graph at row 1: edge 1 has edge_" in str(error.value)
    assert "but the graph has 3 nodes (1 such edges in total)" in str(error.value)
