"""Planning of augmented shards."""

import pytest

from gsx.stages.augmented.shards import (
    consecutive_shards,
    graphs_per_shard,
    num_generated,
    split_range,
)


@pytest.mark.parametrize(
    ("count", "ratio", "expected"),
    [(7, None, 7), (None, 0.5, 20), (None, None, 40), (None, 0.001, 1)],
)
def test_number_of_graphs_is_the_count_or_a_share_of_the_training_graphs(count, ratio, expected):
    assert num_generated(count, ratio, 40) == expected


def test_ranges_cover_all_graphs():
    assert split_range(10, 4) == [(0, 4), (4, 8), (8, 10)]
    assert split_range(0, 4) == []


def test_shards_follow_the_source_shards():
    shards = consecutive_shards([4, 4, 2], before=3)
    assert [(s.split, s.number, s.total, s.start, s.stop) for s in shards] == [
        ("train", 3, 6, 0, 4), ("train", 4, 6, 4, 8), ("train", 5, 6, 8, 10),
    ]  # fmt: skip


@pytest.mark.parametrize(
    ("shard_graphs", "max_nodes", "nodes_per_graph", "expected"),
    [
        (1000, 10**6, 10.0, 1000),
        (1050, 10**6, 10.0, 1000),
        (1000, 3000, 10.0, 300),
        (50, 10, 5.0, 100),
    ],
)
def test_shards_hold_whole_blocks(shard_graphs, max_nodes, nodes_per_graph, expected):
    assert graphs_per_shard(shard_graphs, max_nodes, nodes_per_graph, block=100) == expected
