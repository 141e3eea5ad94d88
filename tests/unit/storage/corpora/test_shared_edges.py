"""Replicas of node-labelled graphs: edges are stored once, held-out nodes stay unchanged."""

import json
from itertools import pairwise

import numpy as np
import pytest
import torch

from gsx.errors import ArtifactError, StageError, UsageError
from gsx.schema import ORIGINS
from gsx.stages.graphs.node_features import node_features
from gsx.storage.corpora.corpus import Corpus
from gsx.storage.corpora.shared_edges import edge_owners, restore_shared_edges
from gsx.storage.corpora.verify_corpus import verify_artifact
from tests.support.artifacts import gsx as command
from tests.support.run_stages import run_recipe, run_stage
from tests.support.synthetic_corpora import planted_nodes, write_planted

SMALL = {"source": "prepare", "backbone": "gcn", "width": 16, "epochs": 3, "batch_size": 200,
         "samples": 3, "coverage": 5}  # fmt: skip

FEATX_ONLY = {"featx": True, "options": "000", "replicas": 3}
TRAIN = {"backbone": "gcn", "width": 16, "epochs": 3, "samples": 3, "coverage": 5}


@pytest.fixture(scope="module", params=["dense", "sparse"])
def made(request, tmp_path_factory):
    folder = tmp_path_factory.mktemp("replicas")
    sparse = request.param == "sparse"
    corpus = write_planted(folder, *planted_nodes(240, sparse=sparse))
    mask = run_stage(folder, "mask", {"steps": 60}, {"prepare": corpus})
    return {"folder": folder, "prepare": corpus, "mask": mask, "sparse": sparse}


def generate(made, folder=None, **options):
    inputs = {name: made[name] for name in ("prepare", "mask")}
    return run_stage(folder or made["folder"], "generate", {**FEATX_ONLY, **options}, inputs)


def dense(table, info):
    actual = node_features(table, info)
    return actual if isinstance(actual, np.ndarray) else actual.toarray()


def test_only_selected_features_of_training_nodes_are_extrapolated(made):
    corpus = Corpus(generate(made))
    table = corpus.table()
    assert len(table) == 4
    before = dense(table.slice(0, 1), corpus.info)
    train = table.slice(0, 1).dense("node", "node_split") == 0
    chosen = np.arange(12) >= 6
    earlier = [before]
    for row in range(1, 4):
        after = dense(table.slice(row, row + 1), corpus.info)
        assert np.array_equal(after[~train], before[~train])
        assert np.array_equal(after[:, ~chosen], before[:, ~chosen])
        assert (after[train][:, chosen] != before[train][:, chosen]).mean() > 0.3
        assert not any(np.array_equal(after, other) for other in earlier)
        earlier.append(after)
    if made["sparse"]:
        values = table.lists("node", "node_feat_value").values
        assert (values != 0).all()
        assert len(values) < 0.9 * table.total_nodes * 12


def test_replicas_of_replicas_are_supported(made):
    one, two = (
        Corpus(generate(made, replicas=1, featx_rounds=rounds)).table() for rounds in (1, 2)
    )
    info = Corpus(made["prepare"]).info
    train = one.slice(0, 1).dense("node", "node_split") == 0
    before, first, second = (dense(t, info) for t in (one.slice(0, 1), one.slice(1, 2),
                                                      two.slice(1, 2)))  # fmt: skip
    assert (first[train] != second[train]).any()
    assert np.array_equal(second[~train], before[~train])
    assert np.array_equal(second[:, :6], before[:, :6])


def test_replicas_keep_labels_and_splits_and_changed_nodes_get_an_environment(made):
    corpus = Corpus(generate(made))
    table = corpus.table()
    source, replica = table.slice(0, 1), table.slice(1, 2)
    for name in ("node_y", "node_label", "node_split"):
        assert np.array_equal(source.node[name], replica.node[name])
    train = source.dense("node", "node_split") == 0
    assert (replica.node["node_env_id"][train] == 4).all()
    assert np.array_equal(replica.node["node_env_id"][~train], source.node["node_env_id"][~train])
    assert corpus.environments[4]["origin"] == "featx"
    assert corpus.environments[4]["count"] == 3 * train.sum()
    assert corpus.nodes == {"train": 640, "ood_val": 40, "ood_test": 40}
    assert replica.lists("graph", "provenance.parents").values.tolist() == [7]
    assert table.graph["graph_id"].tolist() == [7, 8, 9, 10]


@pytest.mark.parametrize("form", ["parquet", "zarr"])
def test_shared_edges_are_stored_once_and_read_with_every_replica(made, form):
    corpus = Corpus(generate(made, formats=[form]), format=form)
    stored = [corpus.read_shard(number) for number in range(len(corpus.shards))]
    assert [part.total_edges for part in stored] == [480, 0]
    table = corpus.table()
    assert table.num_edges.tolist() == [480] * 4
    source = table.slice(0, 1)
    for row in range(4):
        one = table.slice(row, row + 1)
        assert all(np.array_equal(one.edge[name], source.edge[name]) for name in source.edge)
    assert not verify_artifact(corpus.artifact.location).problems
    hot = corpus.hot(build=True)
    assert hot.num_edges.tolist() == [480] * 4
    assert corpus.artifact.manifest.summary["oddities"]["graphs_without_edges"] == 0


def test_disk_grows_by_features_alone(made, tmp_path):
    sizes = []
    for replicas in (1, 2, 3):
        files = generate(made, tmp_path, replicas=replicas).manifest.files
        sizes.append(max(entry.size for name, entry in files.items() if "all-00001" in name))
    features = 240 * 12 * 4
    assert all(later - before < 1.6 * features for before, later in pairwise(sizes))


def test_every_replica_is_usable_pyg_data(made):
    corpus = Corpus(generate(made))
    first = corpus[0]
    for data in (corpus[1], corpus[3], corpus.to_pyg()[2], next(iter(corpus.loader(1)))):
        assert torch.equal(data.edge_index, first.edge_index)
        assert data.x.shape == (240, 12)
        for name in ("train_mask", "val_mask", "test_mask"):
            assert torch.equal(data[name], first[name])
        assert data.train_mask.sum() == 160
        assert data.env_id.shape == (240,)
    assert (corpus[1].env_id[first.train_mask] == 4).all()
    corpus[2].validate()


def train(folder, corpus, name="generate", **options):
    config = {**TRAIN, "source": name, "batch_size": 100, **options}
    return run_stage(folder, "train", config, {name: corpus})


def weights(artifact):
    return artifact.manifest.files["weights-last.safetensors"].sha256


def test_training_reads_the_source_and_its_replicas(made, tmp_path):
    corpus = generate(made)
    both = train(tmp_path, corpus)
    assert both.manifest.counts == {"nodes": 4 * 160}
    plain = train(tmp_path, corpus, augmented=False)
    assert plain.manifest.counts == {"nodes": 160}
    assert weights(plain) == weights(train(tmp_path, made["prepare"], "prepare"))
    moved = train(tmp_path, corpus, origins=["featx"])
    assert moved.manifest.counts == {"nodes": 3 * 160}
    assert len({weights(both), weights(plain), weights(moved)}) == 3
    vrex = train(tmp_path, corpus, learner="vrex")
    assert weights(vrex) != weights(both)


def test_held_out_labels_reach_no_weights(made, tmp_path):
    table, info = planted_nodes(240, sparse=made["sparse"])
    held = table.dense("node", "node_split") != 0
    label = np.where(held, np.arange(240) % 3, table.node["node_label"]).astype(np.int32)
    other = table.with_columns(
        node={"node_label": label, "node_y": np.eye(3, dtype=np.float32)[label]}
    )
    corpus = write_planted(tmp_path, other, info)
    mask = run_stage(tmp_path, "mask", {"steps": 60}, {"prepare": corpus})
    assert mask.manifest.digest == made["mask"].manifest.digest
    again = generate({"prepare": corpus, "mask": mask}, tmp_path)
    assert weights(train(tmp_path, again)) == weights(train(tmp_path / "b", generate(made)))


@pytest.mark.parametrize(
    ("limit", "most"),
    [("augmented.replicas.REPLICA_NODES", 500), ("sharded_build.SHARD_BYTES", 1 << 15)],
)
def test_shards_of_replicas_do_not_change_them(made, tmp_path, monkeypatch, limit, most):
    whole = Corpus(generate(made, tmp_path / "a"))
    monkeypatch.setattr(f"gsx.stages.{limit}", most)
    cut = Corpus(generate(made, tmp_path / "b"))
    assert len(cut.shards) > len(whole.shards)
    assert cut.table().equals(whole.table())


def test_replicas_can_be_exported_and_generated_again(made, tmp_path):
    corpus = generate(made)
    zarr = run_stage(tmp_path, "convert", {"formats": ["zarr"]}, {"prepare": corpus})
    assert Corpus(zarr).table().equals(Corpus(corpus).table())
    again = Corpus(generate({**made, "prepare": corpus}, tmp_path, replicas=1, seed=5))
    assert again.table().graph["origin"].tolist() == [0, *[ORIGINS.index("featx")] * 4]
    assert [row["id"] for row in again.environments] == [0, 1, 2, 3, 4, 5]


# Invalid input


@pytest.mark.parametrize(
    ("options", "message"),
    [
        ({"options": "001"},
         "planted-nodes has node labels; splicing needs labelled graphs. Use `--options 000` with "
         "`--featx`."),
        ({"augmented_only": True},
         "replicas share the edges of their source graph, so the corpus must hold it. Leave "
         "`--augmented-only` out, and train with `--origin featx`."),
        ({"count": 5},
         "planted-nodes has node labels: set the number of replicas with `--replicas`"),
        ({"featx_partner": "ranked"}, "planted-nodes has node labels: each node has its own "
         "partner, so nodes are not matched by rank. Leave `--featx-partner` out."),
    ],
)  # fmt: skip
def test_options_for_graphs_are_refused(made, options, message):
    with pytest.raises((StageError, UsageError)) as error:
        generate({**made, "bridge": None}, **{"bridges": "none", **options})
    assert str(error.value) == message


def test_nodes_without_partners_are_refused(made, tmp_path):
    table, info = planted_nodes(60, sparse=made["sparse"])
    env = np.where(table.node["node_env_id"] >= 0, table.node["node_label"], -1)
    corpus = write_planted(
        tmp_path, table.with_columns(node={"node_env_id": env.astype(np.int32)}), info
    )
    with pytest.raises(StageError) as error:
        generate({**made, "prepare": corpus}, tmp_path)
    assert str(error.value) == (
        "nothing to extrapolate: no training node of planted-nodes has a partner with its label in "
        "another environment. Prepare the corpus with environments."
    )


def test_a_replica_without_its_parent_is_refused(made):
    table = Corpus(generate(made)).table()
    known = edge_owners([table])
    lost = known.with_columns(graph={"graph_id": np.array([99])})
    with pytest.raises(
        ArtifactError, match="graph 8 shares the edges of graph 7, which is missing"
    ):
        restore_shared_edges(table, lost, "here")


def test_the_command_repeats_a_graph(tmp_path):
    key = Corpus(run_recipe(tmp_path, '[prepare]\ndataset = "cbas-color"\n')["prepare"]).key
    result = command("generate", key, "--featx", "--replicas", 2, "--json", "--store", tmp_path)
    made = json.loads(result.out)
    assert made["counts"] == {"all": 3}
    assert made["nodes"]["train"] == 3 * 420
    assert made["nodes"]["ood_test"] == 70
    shown = command("show", made["key"], "--store", tmp_path).out
    assert "extrapolated: 2 replicas, 840 nodes, 4 features; 0 unchanged" in shown
    refused = command("generate", key, "--options", "111", "--store", tmp_path)
    assert refused.code == 4
    assert "has node labels" in refused.err
