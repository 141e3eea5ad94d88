"""Node-labelled corpora: storage, PyG objects and commands."""

import json
import tracemalloc

import msgspec
import numpy as np
import pyarrow.parquet as pq
import pytest
import torch
from hypothesis import given

import gsx
from gsx.dense_features import densify_features
from gsx.ragged import Ragged, pointers
from gsx.schema import SPLITS, corpus_columns
from gsx.seeds import rng
from gsx.stages.describe.node_shift import feature_hashes, node_report, node_warnings
from gsx.stages.graphs.label_alignment import SparseEntries
from gsx.storage.artifacts.publish import Identity, build_artifact
from gsx.storage.artifacts.store import Store
from gsx.storage.corpora.corpus_writer import plan_shards, write_corpus
from gsx.table import GraphTable
from tests.support.artifacts import gsx as run
from tests.support.make_golden import pages, pages_info, pages_table
from tests.support.strategies import tables


@pytest.fixture
def stored(tmp_path):
    return pages(Store.at(tmp_path / "store"))


def test_pyarrow_reads_labels_splits_and_environments_of_nodes(stored):
    shard = stored.location.local / "data" / "all-00000-of-00001.parquet"
    (row,) = pq.read_table(shard).to_pylist()
    assert row["node_split"] == ["train", "id_val", "ood_val", "ood_test"]
    assert row["node_env_id"] == [0, 1, -1, 0]
    assert row["node_domain_id"] == [0, 1, 1, -1]
    assert row["node_label"] == [0, 1, -1, -1]
    assert row["node_feat_index"] == [[0, 4], [], [2], [0, 1, 3]]


def test_a_corpus_counts_its_nodes(stored):
    corpus = gsx.open(stored.location.local)
    assert corpus.nodes == {"train": 1, "id_val": 1, "ood_val": 1, "ood_test": 1}
    assert repr(corpus).endswith(": nodes, train 1, id_val 1, ood_val 1, ood_test 1)")
    assert [row["count"] for row in corpus.environments if "count" in row] == [1]
    warnings = stored.manifest.warnings
    assert "environment 1 (b) has no training nodes" in warnings
    assert any(text.startswith("environment 0 (a) has training nodes of one class") for text in
               warnings)  # fmt: skip


def test_data_has_masks_environments_and_domains_of_nodes(stored):
    data = gsx.open(stored.location.local)[0]
    assert data.train_mask.tolist() == [True, False, False, False]
    assert data.id_val_mask.tolist() == [False, True, False, False]
    assert data.id_test_mask.tolist() == [False] * 4
    assert data.val_mask.tolist() == [False, False, True, False]
    assert data.test_mask.tolist() == [False, False, False, True]
    assert data.env_id.tolist() == [0, 1, -1, 0]
    assert data.domain_id.tolist() == [0, 1, 1, -1]
    assert data.x.layout == torch.sparse_csr


def test_features_are_made_dense_only_on_request(stored):
    corpus = gsx.open(stored.location.local)
    assert corpus.to_pyg()[0].x.layout == torch.sparse_csr
    dense = corpus.to_pyg(dense=True)[0].x
    assert dense.layout == torch.strided
    assert torch.equal(dense, corpus[0].x.to_dense())


@given(tables(level="node", sparse=True))
def test_densified_features_equal_the_sparse_ones(example):
    table, info = example
    dense = densify_features(table, info).dense("node", "node_feat")
    index, value = table.node["node_feat_index"], table.node["node_feat_value"]
    assert dense.shape == (table.total_nodes, info.num_features)
    for node in range(table.total_nodes):
        expected = np.zeros(info.num_features, dtype=dense.dtype)
        part = slice(index.ptr[node], index.ptr[node + 1])
        expected[index.values[part]] = value.values[part]
        assert np.array_equal(dense[node], expected)


@given(tables(level="node", sparse=True))
def test_equal_rows_have_equal_hashes_sparse_or_dense(example):
    table, info = example
    present, hashes = feature_hashes(SparseEntries.of(table), table.total_nodes)
    again, dense = feature_hashes(
        SparseEntries.of(densify_features(table, info)), table.total_nodes
    )
    assert np.array_equal(present, again)
    assert np.array_equal(hashes, dense)


def test_show_counts_nodes_by_split_and_environment(stored):
    shown = run("show", str(stored.location.local))
    assert "LABELLED NODES" in shown.out
    assert [line.split() for line in shown.out.splitlines() if line.startswith("id_val")] == [
        ["id_val", "1", "b", "1", "0/1"]
    ]
    actual = json.loads(run("show", str(stored.location.local), "--json").out)
    assert actual["splits"] == {"all": 1}
    assert actual["nodes"] == {"train": 1, "id_val": 1, "ood_val": 1, "ood_test": 1}


def test_verify_reads_every_node(stored):
    assert run("verify", str(stored.location.local)).code == 0


def twins():
    """Return two environments of two nodes with equal features, and two more nodes."""
    ptr = pointers([1, 1, 1, 1, 1, 0])
    words = Ragged(ptr, np.array([0, 1, 0, 1, 0], dtype=np.int32))
    return GraphTable(
        node_ptr=pointers([6]),
        edge_ptr=pointers([4]),
        node={
            "node_feat_index": words,
            "node_feat_value": Ragged(ptr, np.ones(5, dtype=np.float32)),
            "node_label": np.array([0, 1, 0, 1, 1, 0]),
            "node_split": np.array([0, 0, 0, 1, 4, 4], dtype=np.int8),
            "node_env_id": np.array([0, 0, 1, 1, -1, -1]),
            "node_domain_id": np.array([0, 0, 1, 1, 2, 2]),
        },
        edge={"edge_src": np.array([0, 1, 4, 0]), "edge_dst": np.array([1, 0, 0, 4])},
    )


def test_a_report_counts_features_that_recur_in_held_out_splits():
    actual = node_report(twins(), 2)
    assert [row["split"] for row in actual["splits"]] == ["train", "id_val", "ood_test"]
    assert [row["nodes"] for row in actual["splits"]] == [3, 1, 2]
    assert [row["edges_to_training"] for row in actual["splits"]] == [0.666667, 0.0, 1.0]
    assert actual["equal_to_training"] == {
        "id_val": {"nodes": 1, "share": 1.0, "with_another_label": 0},
        "ood_test": {"nodes": 1, "share": 0.5, "with_another_label": 1},
    }
    assert actual["equal_environments"] == [{"first": 0, "second": 1, "share": 1.0}]
    assert actual["shift"]["ood_test"]["domains_of_training"] == 0
    assert list(node_warnings(actual)) == [
        "environment 1 has training nodes of one class only",
        "1 nodes of id_val (100.0%) have the features of a training node, 0 of them only "
        "of nodes with another label",
        "1 nodes of ood_test (50.0%) have the features of a training node, 1 of them only "
        "of nodes with another label",
        "environments 0 and 1 have similar features: 100.0% of the nodes of one have the "
        "features of a node of the other",
    ]


def test_describe_reports_nodes(stored, tmp_path):
    store = str(tmp_path / "store")
    shown = run("describe", stored.key, "--store", store)
    assert shown.out.splitlines()[2].split()[:3] == ["SPLIT", "NODES", "DEGREE"]
    statistics = next(Store.at(store).artifacts("statistics"))
    document = json.loads(statistics.location.read_bytes("statistics.json", limit=1 << 20))
    assert document["level"] == "node"
    assert [row["split"] for row in document["splits"]] == list(SPLITS[:2]) + list(SPLITS[3:5])


def test_the_example_has_every_column_of_its_description():
    table, info = pages_table(), pages_info()
    held = {*table.graph, *table.node, *table.edge}
    assert held == {column.name for column in info.columns}


def test_sparse_features_of_large_graphs_are_never_made_dense(tmp_path):
    """A graph of the size of full Cora: dense features would need 690 MB."""
    nodes, words, item = 19_793, 8_710, 50
    column = np.sort(rng(0, "tests").random((nodes, item)), axis=1) * (words - item)
    column = (column.astype(np.int32) + np.arange(item, dtype=np.int32)).ravel()
    ptr = pointers(np.full(nodes, item))
    info = msgspec.structs.replace(
        pages_info(),
        columns=corpus_columns(outputs=2, num_features=words, level="node", sparse=True),
        num_features=words,
    )
    table = GraphTable(
        node_ptr=pointers([nodes]),
        edge_ptr=pointers([0]),
        graph={k: v for k, v in pages_table().graph.items() if k != "title"},
        node={
            "node_feat_index": Ragged(ptr, column),
            "node_feat_value": Ragged(ptr, np.ones(len(column), dtype=np.float32)),
            "node_y": np.tile(np.array([[1, 0]], dtype=np.float32), (nodes, 1)),
            "node_label": np.zeros(nodes, dtype=np.int32),
            "node_env_id": np.zeros(nodes, dtype=np.int32),
            "node_domain_id": np.zeros(nodes, dtype=np.int32),
            "node_split": np.zeros(nodes, dtype=np.int8),
        },
        edge={"edge_src": np.zeros(0, np.int32), "edge_dst": np.zeros(0, np.int32)},
    )
    tracemalloc.start()
    try:
        built = build_artifact(
            Store.at(tmp_path),
            Identity(kind="corpus", stage="test", stage_version=1, config={}),
            lambda draft: write_corpus(draft, info, plan_shards({"all": 1}, 1), lambda _: table),
        )
        data = gsx.open(built.artifact.location.local)[0]
        _, peak = tracemalloc.get_traced_memory()
    finally:
        tracemalloc.stop()
    assert (data.x.layout, tuple(data.x.shape)) == (torch.sparse_csr, (nodes, words))
    assert peak < 300e6
    assert built.artifact.manifest.size < 5e6
