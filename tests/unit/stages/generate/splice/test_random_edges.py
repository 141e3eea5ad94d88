"""Random edges of spliced graphs."""

import numpy as np
import pytest

from gsx.ragged import row_indices
from gsx.seeds import rng
from gsx.stages.generate.splice.component_columns import SOURCE_NUMBER
from gsx.stages.generate.splice.random_edges import draw_random_edges
from gsx.stages.graphs.subgraphs import global_edges
from gsx.table import GraphTable


def test_random_edges_are_new_and_outside_protected_sets(subgraphs):
    graph = row_indices(subgraphs.node_ptr)
    protected = np.where(subgraphs.node[SOURCE_NUMBER] < 3, graph, -1)
    none = np.zeros(0, dtype=np.int64)
    left, right = draw_random_edges(subgraphs, (none, none), 0.5, protected, rng(0, "chords"))
    assert (graph[left] == graph[right]).all()
    assert not ((protected[left] >= 0) & (protected[right] >= 0)).any()
    code = left * subgraphs.total_nodes + right
    src, dst = global_edges(subgraphs)
    assert len(np.unique(code)) == len(code)
    assert not np.isin(code, src * subgraphs.total_nodes + dst).any()
    assert (left < right).all()
    large = subgraphs.num_nodes > 12
    num_added = np.bincount(graph[left], minlength=len(subgraphs))[large].sum()
    assert num_added / (subgraphs.num_edges[large].sum() / 2) == pytest.approx(0.5, abs=0.05)


def test_random_edges_do_not_repeat_bridges():
    """In a path of three nodes the only free pair is a bridge, so no edge can be added."""
    path = GraphTable(
        node_ptr=np.array([0, 3]),
        edge_ptr=np.array([0, 4]),
        graph={},
        node={"node_feat": np.ones((3, 1), dtype=np.float32)},
        edge={
            "edge_src": np.array([0, 1, 1, 2], dtype=np.int32),
            "edge_dst": np.array([1, 0, 2, 1], dtype=np.int32),
        },
    )
    bridge = (np.array([0]), np.array([2]))
    left, _ = draw_random_edges(path, bridge, 1.0, np.full(3, -1), rng(0, "chords"))
    assert not len(left)
