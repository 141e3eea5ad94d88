"""Graphs of labelled nodes augmented for real: replicas with features masked or edges dropped."""

import numpy as np
import pytest
import torch

from gsx.errors import StageError, UsageError
from gsx.ragged import pointers
from gsx.schema import ORIGINS
from gsx.stages.graphs.node_features import features_of
from gsx.stages.graphs.statistics import degrees
from gsx.stages.report.report import Sources, report
from gsx.stages.train.node_data import NodeSampler, read_lesson
from gsx.storage.corpora.corpus import Corpus
from gsx.storage.corpora.shared_edges import borrowers, replicas
from gsx.storage.corpora.verify_corpus import audit
from gsx.table import GraphTable, concat
from tests.integration.test_train_nodes import SMALL
from tests.support.run_stages import run_stage
from tests.support.synthetic_corpora import planted_nodes, write_planted


@pytest.fixture(scope="module", params=["dense", "sparse"])
def nodes(request, tmp_path_factory):
    folder = tmp_path_factory.mktemp("nodes")
    corpus = write_planted(folder, *planted_nodes(120, sparse=request.param == "sparse"))
    return {"folder": folder, "prepare": corpus}


def augment(nodes, method, **options):
    given = {"prepare": nodes["prepare"]}
    return run_stage(nodes["folder"], "augment", {"method": method, **options}, given)


def one_by_one(table):
    return [table.slice(row, row + 1) for row in range(len(table))]


def dense(table, info):
    found = features_of(table, info)
    return found if isinstance(found, np.ndarray) else found.toarray()


def edges_of(table):
    return set(zip(table.edge["edge_src"].tolist(), table.edge["edge_dst"].tolist(), strict=True))


def test_replicas_have_features_of_training_nodes_masked_and_nothing_else(nodes):
    artifact = augment(nodes, "mask-feature", rate=0.3, replicas=3)
    corpus = Corpus(artifact)
    table = corpus.table()
    assert len(table) == 4
    before, *after = (dense(each, corpus.info) for each in one_by_one(table))
    train = table.slice(0, 1).dense("node", "node_split") == 0
    for each in after:
        assert np.array_equal(each[~train], before[~train])
        hidden = (each[train] == 0) & (before[train] != 0)
        assert 0 < hidden.any(axis=0).sum() < 12
        assert np.array_equal(each[train][~hidden], before[train][~hidden])
    assert not np.array_equal(after[0], after[1])
    for name in ("node_y", "node_label", "node_env_id", "node_split"):
        parts = np.split(table.node[name], 4)
        assert all(np.array_equal(part, parts[0]) for part in parts)
    assert (table.num_edges == table.num_edges[0]).all()
    assert not audit(artifact.place).problems
    assert augment(nodes, "mask-feature", rate=0.3, replicas=3).key == artifact.key


@pytest.mark.parametrize("form", ["parquet", "zarr"])
def test_replicas_have_edges_dropped_both_ways_and_nothing_else(nodes, form):
    artifact = augment(nodes, "drop-edge", rate=0.3, formats=[form])
    corpus = Corpus(artifact, format=form)
    assert artifact.manifest.summary["quality"]["augment"]["replicas"] == 4
    source, *made = one_by_one(corpus.table())
    whole = edges_of(source)
    kept = [edges_of(each) for each in made]
    assert len(made) == 4
    assert len({frozenset(each) for each in kept}) == 4
    for each in kept:
        assert each < whole
        assert {(dst, src) for src, dst in each} == each
    lost = 1 - np.mean([len(each) / len(whole) for each in kept])
    assert abs(lost - 0.3) < 4 * (0.3 * 0.7 / (4 * 120)) ** 0.5
    for each in made:
        assert np.array_equal(dense(each, corpus.info), dense(source, corpus.info))
        for name in ("node_y", "node_label", "node_env_id", "node_split"):
            assert np.array_equal(each.node[name], source.node[name])
        train = each.node["node_split"] == 0
        assert (each.node["node_domain_id"][train] == -1).all()
        assert ORIGINS[each.graph["origin"][0]] == "dropedge"
        assert each.lists("graph", "provenance.parents").values.tolist() == [7]
    assert not audit(artifact.place).problems
    assert corpus.hot(build=True).num_edges.tolist() == corpus.table().num_edges.tolist()


def test_a_replica_that_lost_all_its_edges_does_not_get_them_back(tmp_path):
    table, info = planted_nodes(120)
    pair = GraphTable(
        node_ptr=pointers([120]),
        edge_ptr=pointers([2]),
        graph={**table.graph, "graph_id": np.array([9])},
        node=table.node,
        edge={"edge_src": np.array([0, 1], np.int32), "edge_dst": np.array([1, 0], np.int32)},
    )
    corpus = write_planted(tmp_path, concat([table, pair]), info)
    made = augment({"folder": tmp_path, "prepare": corpus}, "drop-edge", rate=0.9, replicas=6)
    read = Corpus(made).table()
    assert replicas(read).tolist() == [False] * 2 + [True] * 12
    assert not borrowers(read).any()
    mine = 2 + np.flatnonzero(read.lists("graph", "provenance.parents").values == 9)
    assert len(mine) == 6
    assert 0 in read.num_edges[mine].tolist()


def test_samples_of_a_sheet_have_its_own_edges(nodes):
    corpus = Corpus(augment(nodes, "drop-edge", rate=0.3, replicas=3))
    lesson = read_lesson(corpus, None, "erm")
    tables = one_by_one(corpus.table())
    assert [len(sheet.links.columns) for sheet in lesson.sheets] == [t.num_edges[0] for t in tables]
    for sheet, table in zip(lesson.sheets, tables, strict=True):
        assert np.array_equal(np.diff(sheet.links.ptr), degrees(table))
    how = {"walks": 20, "length": 3, "steps": 4, "coverage": 20, "seed": 0}
    sampler = NodeSampler(lesson, **how, device=torch.device("cpu"))
    assert len({id(norms) for norms in sampler.norms}) == 4
    assert [len(norms.edge) for norms in sampler.norms] == [t.num_edges[0] for t in tables]
    assert len(sampler.weight) == len(sampler) == 4 * 80
    masked = read_lesson(Corpus(augment(nodes, "mask-feature", rate=0.3)), None, "erm")
    assert len({id(sheet.links) for sheet in masked.sheets}) == 1


@pytest.mark.parametrize("learner", ["erm", "srgnn", "eerm"])
def test_learners_learn_from_replicas_without_some_edges(nodes, learner):
    corpus = augment(nodes, "drop-edge", rate=0.3, replicas=2)
    given = {**SMALL, "source": "augment", "batch_size": 60, "learner": learner}
    with_them, without = (
        run_stage(nodes["folder"], "train", {**given, **more}, {"augment": corpus})
        for more in ({}, {"augmented": False})
    )
    assert with_them.manifest.counts == {"nodes": 3 * 80}
    assert without.manifest.counts == {"nodes": 80}
    name = "weights-last.safetensors"
    assert with_them.manifest.files[name].sha256 != without.manifest.files[name].sha256


@pytest.mark.parametrize("method", ["drop-edge", "mask-feature"])
def test_reports_tell_what_replicas_lack(nodes, method):
    artifact = augment(nodes, method, rate=0.3)
    lineage = (artifact.manifest, nodes["prepare"].manifest)
    text = report(Sources(corpus=Corpus(artifact), lineage=lineage, models=[]))
    assert "nodes that are not for training, in 4 of 4 replicas, 0 have other features." in text
    dropped = method == "drop-edge"
    assert ("replicas: edges dropped" if dropped else "replicas: features masked") in text
    assert ("Edges are those of the source" in text) == dropped
    assert ("edges dropped per node" in text) == dropped
    assert ("Features moved" in text) != dropped


@pytest.mark.parametrize(
    ("method", "options", "message"),
    [
        *(
            (
                method,
                {},
                f"{method} is graph-level only, and planted-nodes labels nodes, all of which a "
                "replica of its graph has. `gsx augment` takes drop-edge and mask-feature there.",
            )
            for method in ("drop-node", "g-mixup")
        ),
        (
            "mask-feature",
            {"augmented_only": True},
            "only nodes of the source graph are scored, so it cannot be left out; leave "
            "`--augmented-only` away and train with `--origin maskfeature`",
        ),
        ("mask-feature", {"count": 5}, "planted-nodes labels nodes: say how often with "
                                       "`--replicas`"),
    ],
)  # fmt: skip
def test_what_means_nothing_to_labelled_nodes_is_refused(nodes, method, options, message):
    with pytest.raises(UsageError) as error:
        augment(nodes, method, **options)
    assert str(error.value) == message


def test_dropping_nothing_is_refused(nodes):
    with pytest.raises(StageError, match="drop-edge changed nothing: all training nodes"):
        augment(nodes, "drop-edge", rate=1e-6)
