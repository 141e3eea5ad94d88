"""Shards are written incrementally: validated, counted, in every format."""

from itertools import pairwise

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from gsx.errors import TableError
from gsx.storage.artifacts.draft import Draft
from gsx.storage.corpora import corpus_writer
from gsx.storage.corpora.corpus_writer import Shard, open_draft_shard, write_shard
from gsx.storage.corpora.shard_stats import compute_shard_stats, merge_shard_stats
from gsx.table import concat, rechunk
from tests.support.strategies import tables
from tests.support.synthetic_corpora import planted_graphs, planted_nodes

SHARD = Shard("train", 0, 1, 0, 40)


@pytest.fixture
def draft(tmp_path):
    actual = Draft(tmp_path / "draft")
    actual.prepare()
    return actual


@given(tables(min_graphs=1), st.lists(st.integers(0, 6), max_size=3))
def test_merged_statistics_equal_those_of_the_whole_table(example, ends):
    table, info = example
    bounds = sorted({0, *(min(end, len(table)) for end in ends), len(table)})
    parts = [table.slice(*pair) for pair in pairwise(bounds)]
    assert merge_shard_stats(
        [compute_shard_stats(part, info) for part in parts]
    ) == compute_shard_stats(table, info)


def test_statistics_of_node_labelled_tables_can_be_merged():
    table, info = planted_nodes(60)
    twice = concat([table, table])
    assert merge_shard_stats([compute_shard_stats(table, info)] * 2) == compute_shard_stats(
        twice, info
    )


@pytest.mark.parametrize("formats", [("parquet", "zarr"), ("zarr", "parquet")])
def test_a_second_format_is_written_from_the_first(draft, formats):
    table, info = planted_graphs(40, 0)
    asked = []

    def make():
        asked.append(len(asked))
        return rechunk([table], 7)

    stats = write_shard(draft, SHARD, info, make, formats, lambda: {"more": len(asked)})
    assert stats == {**compute_shard_stats(table, info), "more": 1}
    for form in formats:
        assert open_draft_shard(draft, SHARD, form).read().equals(table)
    draft.discard(SHARD.path(formats[1]))
    assert write_shard(draft, SHARD, info, make, formats) == stats
    assert asked == [0]


def test_a_repeated_graph_id_is_refused_within_and_across_row_groups(draft, monkeypatch):
    table, info = planted_graphs(40, 0)
    with pytest.raises(TableError, match="graph_id 0 belongs to more than one graph"):
        write_shard(draft, SHARD, info, lambda: [table, table], ("parquet",))
    monkeypatch.setattr(corpus_writer, "ROW_GROUP", 40)
    with pytest.raises(TableError, match="graph_id 0 belongs to more than one graph"):
        write_shard(draft, SHARD, info, lambda: [table, table], ("parquet",))
    assert draft.find_finished(SHARD.path("parquet")) is None


def test_ids_in_any_order_are_written(draft, monkeypatch):
    table, info = planted_graphs(40, 0)
    monkeypatch.setattr(corpus_writer, "ROW_GROUP", 10)
    shuffled = table.take(np.random.default_rng(0).permutation(40))
    write_shard(draft, SHARD, info, lambda: [shuffled], ("parquet",))
    written = concat(list(open_draft_shard(draft, SHARD, "parquet").iter_groups()))
    assert np.array_equal(written.dense("graph", "graph_id"), shuffled.dense("graph", "graph_id"))


def test_an_invalid_table_leaves_no_shard(draft, monkeypatch):
    table, info = planted_graphs(40, 0)
    monkeypatch.setattr(corpus_writer, "ROW_GROUP", 20)
    bad = table.dense("node", "node_feat").copy()
    bad[100] = np.nan
    parts = [table.slice(0, 20), table.with_columns(node={"node_feat": bad}).slice(20, 40)]
    with pytest.raises(TableError, match="has NaN or infinity in `node_feat`"):
        write_shard(draft, SHARD, info, lambda: parts, ("parquet", "zarr"))
    assert draft.is_empty()
