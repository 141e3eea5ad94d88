"""MaskFeature and DropEdge of labelled nodes, end to end: replicas of a graph."""

import re

import numpy as np
import pytest
import torch

from gsx.errors import StageError, UsageError
from gsx.ragged import pointers
from gsx.schema import ORIGINS
from gsx.stages.graphs.node_features import node_features
from gsx.stages.graphs.statistics import degrees
from gsx.stages.report.report import ReportInputs, report
from gsx.stages.train.node_data import NodeSampler, read_node_training_data
from gsx.storage.corpora.corpus import Corpus
from gsx.storage.corpora.shared_edges import is_replica, shares_parent_edges
from gsx.storage.corpora.verify_corpus import verify_artifact
from gsx.table import GraphTable, concat
from tests.support.augmented_graphs import augment
from tests.support.run_stages import run_stage
from tests.support.synthetic_corpora import planted_nodes, write_planted


@pytest.fixture(scope="module", params=["dense", "sparse"])
def nodes(request, tmp_path_factory):
    folder = tmp_path_factory.mktemp("nodes")
    corpus = write_planted(folder, *planted_nodes(120, sparse=request.param == "sparse"))
    return {"folder": folder, "prepare": corpus}


def single_graphs(table):
    return [table.slice(row, row + 1) for row in range(len(table))]


def dense(table, info):
    """Return the features of all nodes as a dense array."""
    features = node_features(table, info)
    return features if isinstance(features, np.ndarray) else features.toarray()


def edges_of(table):
    return set(zip(table.edge["edge_src"].tolist(), table.edge["edge_dst"].tolist(), strict=True))


def test_mask_feature_masks_training_nodes_only(nodes):
    artifact = augment(nodes, "mask-feature", rate=0.3, replicas=3)
    corpus = Corpus(artifact)
    table = corpus.table()
    assert len(table) == 4
    source, *replicas = (dense(graph, corpus.info) for graph in single_graphs(table))
    train = table.slice(0, 1).dense("node", "node_split") == 0
    for replica in replicas:
        assert np.array_equal(replica[~train], source[~train])
        masked = (replica[train] == 0) & (source[train] != 0)
        assert 0 < masked.any(axis=0).sum() < 12
        assert np.array_equal(replica[train][~masked], source[train][~masked])
    assert not np.array_equal(replicas[0], replicas[1])
    for name in ("node_y", "node_label", "node_env_id", "node_split"):
        columns = np.split(table.node[name], 4)
        assert all(np.array_equal(column, columns[0]) for column in columns)
    assert (table.num_edges == table.num_edges[0]).all()
    assert not verify_artifact(artifact.location).problems
    assert augment(nodes, "mask-feature", rate=0.3, replicas=3).key == artifact.key


@pytest.mark.parametrize("form", ["parquet", "zarr"])
def test_drop_edge_removes_both_directions_and_nothing_else(nodes, form):
    artifact = augment(nodes, "drop-edge", rate=0.3, formats=[form])
    corpus = Corpus(artifact, format=form)
    assert artifact.manifest.summary["quality"]["augment"]["replicas"] == 4
    source, *replicas = single_graphs(corpus.table())
    source_edges = edges_of(source)
    replica_edges = [edges_of(replica) for replica in replicas]
    assert len(replicas) == 4
    assert len({frozenset(edges) for edges in replica_edges}) == 4
    for edges in replica_edges:
        assert edges < source_edges
        assert {(dst, src) for src, dst in edges} == edges
    dropped = 1 - np.mean([len(edges) / len(source_edges) for edges in replica_edges])
    assert abs(dropped - 0.3) < 4 * (0.3 * 0.7 / (4 * 120)) ** 0.5
    for replica in replicas:
        assert np.array_equal(dense(replica, corpus.info), dense(source, corpus.info))
        for name in ("node_y", "node_label", "node_env_id", "node_split"):
            assert np.array_equal(replica.node[name], source.node[name])
        train = replica.node["node_split"] == 0
        assert (replica.node["node_domain_id"][train] == -1).all()
        assert ORIGINS[replica.graph["origin"][0]] == "dropedge"
        assert replica.lists("graph", "provenance.parents").values.tolist() == [7]
    assert not verify_artifact(artifact.location).problems
    assert corpus.hot(build=True).num_edges.tolist() == corpus.table().num_edges.tolist()


def test_replica_without_remaining_edges_does_not_share_those_of_its_source(tmp_path):
    table, info = planted_nodes(120)
    pair = GraphTable(
        node_ptr=pointers([120]),
        edge_ptr=pointers([2]),
        graph={**table.graph, "graph_id": np.array([9])},
        node=table.node,
        edge={"edge_src": np.array([0, 1], np.int32), "edge_dst": np.array([1, 0], np.int32)},
    )
    corpus = write_planted(tmp_path, concat([table, pair]), info)
    augmented = augment({"folder": tmp_path, "prepare": corpus}, "drop-edge", rate=0.9, replicas=6)
    table = Corpus(augmented).table()
    assert is_replica(table).tolist() == [False] * 2 + [True] * 12
    assert not shares_parent_edges(table).any()
    of_pair = 2 + np.flatnonzero(table.lists("graph", "provenance.parents").values == 9)
    assert len(of_pair) == 6
    assert 0 in table.num_edges[of_pair].tolist()


def test_samples_of_a_replica_have_its_edges(nodes):
    corpus = Corpus(augment(nodes, "drop-edge", rate=0.3, replicas=3))
    data = read_node_training_data(corpus, None, "erm")
    tables = single_graphs(corpus.table())
    edges = [len(variant.adjacency.columns) for variant in data.variants]
    assert edges == [t.num_edges[0] for t in tables]
    for variant, table in zip(data.variants, tables, strict=True):
        assert np.array_equal(np.diff(variant.adjacency.ptr), degrees(table))
    how = {"walks": 20, "length": 3, "steps": 4, "coverage": 20, "seed": 0}
    sampler = NodeSampler(data, **how, device=torch.device("cpu"))
    assert len({id(norms) for norms in sampler.norms}) == 4
    assert [len(norms.edge) for norms in sampler.norms] == [t.num_edges[0] for t in tables]
    assert len(sampler.weight) == len(sampler) == 4 * 80
    masked = read_node_training_data(Corpus(augment(nodes, "mask-feature", rate=0.3)), None, "erm")
    assert len({id(variant.adjacency) for variant in masked.variants}) == 1


@pytest.mark.parametrize("learner", ["erm", "srgnn", "eerm"])
def test_algorithms_train_on_replicas_with_dropped_edges(nodes, learner):
    corpus = augment(nodes, "drop-edge", rate=0.3, replicas=2)
    config = {"source": "augment", "learner": learner, "backbone": "gcn", "width": 16, "epochs": 3,
              "batch_size": 60, "samples": 3, "coverage": 5}  # fmt: skip
    with_replicas, without = (
        run_stage(nodes["folder"], "train", {**config, **more}, {"augment": corpus})
        for more in ({}, {"augmented": False})
    )
    assert with_replicas.manifest.counts == {"nodes": 3 * 80}
    assert without.manifest.counts == {"nodes": 80}
    name = "weights-last.safetensors"
    assert with_replicas.manifest.files[name].sha256 != without.manifest.files[name].sha256


@pytest.mark.parametrize("method", ["drop-edge", "mask-feature"])
def test_report_describes_replicas(nodes, method):
    artifact = augment(nodes, method, rate=0.3)
    lineage = (artifact.manifest, nodes["prepare"].manifest)
    text = report(ReportInputs(corpus=Corpus(artifact), lineage=lineage, models=[]))
    assert re.search(r"0 of [\d,]+ held-out nodes in 4 of 4 replicas have other features", text)
    dropped = method == "drop-edge"
    assert ("replicas: edges dropped" if dropped else "replicas: features masked") in text
    assert ("Edges exist in the source" in text) == dropped
    assert ("edges dropped per node" in text) == dropped
    assert ("Changed features" in text) != dropped


@pytest.mark.parametrize(
    ("method", "options", "message"),
    [
        *(
            (
                method,
                {},
                f"{method} needs labelled graphs; planted-nodes has node labels, and a replica "
                "must keep all nodes of its graph. Use drop-edge or mask-feature.",
            )
            for method in ("drop-node", "g-mixup")
        ),
        (
            "mask-feature",
            {"augmented_only": True},
            "models are evaluated on nodes of the source graph, so the corpus must hold it. Leave "
            "`--augmented-only` out, and train with `--origin maskfeature`.",
        ),
        ("mask-feature", {"count": 5},
         "planted-nodes has node labels: set the number of replicas with `--replicas`"),
    ],
)  # fmt: skip
def test_options_for_graphs_are_rejected_for_labelled_nodes(nodes, method, options, message):
    with pytest.raises(UsageError) as error:
        augment(nodes, method, **options)
    assert str(error.value) == message


def test_unchanged_replicas_are_rejected(nodes):
    with pytest.raises(StageError, match="drop-edge changed nothing: all training nodes"):
        augment(nodes, "drop-edge", rate=1e-6)
