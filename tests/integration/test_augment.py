"""DropNode, DropEdge, MaskFeature and G-Mixup of graphs, end to end."""

import json

import numpy as np
import pytest

from gsx.errors import UsageError
from gsx.ragged import decode_texts, pointers
from gsx.stages.augment.config import METHODS
from gsx.stages.graphs.wl_hash import wl_hashes
from gsx.storage.corpora.corpus import Corpus
from gsx.storage.corpora.verify_corpus import verify_artifact
from gsx.table import GraphTable
from tests.support.artifacts import gsx as command
from tests.support.augmented_graphs import augment, augmented_graphs
from tests.support.run_stages import run_recipe, run_stage, write_small_corpus
from tests.support.shuffled_executor import open_shuffled

PERTURBATIONS = METHODS[:3]


@pytest.fixture(scope="module")
def built(tmp_path_factory):
    folder = tmp_path_factory.mktemp("augment")
    options = {"dataset": "motif-size", "num_graphs": 300}
    return {"folder": folder, "prepare": run_stage(folder, "prepare", options, {})}


def parents_of(table, source):
    """Return the parent of every augmented graph."""
    row_of = {int(id_): row for row, id_ in enumerate(source.graph["graph_id"])}
    rows = [row_of[int(id_)] for id_ in table.lists("graph", "provenance.parents").values]
    return source.take(np.array(rows))


@pytest.fixture(scope="module")
def source(built):
    return Corpus(built["prepare"]).table(split="train")


# All methods


@pytest.mark.parametrize("method", METHODS)
def test_augmented_graphs_follow_those_of_the_source(built, source, method):
    artifact = augment(built, method)
    corpus = Corpus(artifact)
    new = augmented_graphs(artifact, method)
    assert corpus.splits["train"] == 180 + len(new)
    assert len(new) == (36 if method == "g-mixup" else 180)
    assert corpus.table(split="train").slice(0, 180).equals(source)
    assert new.graph["graph_id"].tolist() == list(range(300, 300 + len(new)))
    assert set(decode_texts(new.lists("graph", "provenance.stream"))) == {f"augment/{method}/0"}
    assert not verify_artifact(artifact.location).problems


@pytest.mark.parametrize("method", PERTURBATIONS)
def test_perturbed_graphs_have_label_and_environment_of_their_parent(built, source, method):
    artifact = augment(built, method, rate=0.3)
    new = augmented_graphs(artifact, method)
    parents = parents_of(new, source)
    assert sorted(parents.graph["graph_id"]) == sorted(source.graph["graph_id"])
    for name in ("y", "label", "env_id"):
        assert np.array_equal(new.graph[name], parents.graph[name])
    assert len(Corpus(artifact).environments) == len(Corpus(built["prepare"]).environments)
    number = new.lists("graph", "provenance.node_number")
    assert np.array_equal(number.ptr, new.node_ptr)
    parent_node = np.repeat(parents.node_ptr[:-1], new.num_nodes) + number.values
    assert np.array_equal(new.node["node_truth"], parents.node["node_truth"][parent_node])
    quality = artifact.manifest.summary["quality"]["augment"]
    assert quality["removed_fraction"] == pytest.approx(
        0.3, abs=0.1 if method == "mask-feature" else 0.03
    )
    assert quality["overlap_with_held_out"] == 0


def test_methods_change_only_nodes_edges_or_features(built, source):
    tables = {
        method: augmented_graphs(augment(built, method, rate=0.3), method)
        for method in PERTURBATIONS
    }
    edge_dropped, masked = tables["drop-edge"], tables["mask-feature"]
    for new in (edge_dropped, masked):
        parents = parents_of(new, source)
        assert np.array_equal(new.node_ptr, parents.node_ptr)
    assert np.array_equal(
        edge_dropped.node["node_feat"], parents_of(edge_dropped, source).node["node_feat"]
    )
    assert (edge_dropped.num_edges < parents_of(edge_dropped, source).num_edges).mean() > 0.9
    for name in ("edge_src", "edge_dst"):
        assert np.array_equal(masked.edge[name], parents_of(masked, source).edge[name])
    assert (masked.node["node_feat"] == 0).mean() == pytest.approx(0.3, abs=0.1)
    node_dropped = tables["drop-node"]
    assert (node_dropped.num_nodes < parents_of(node_dropped, source).num_nodes).mean() > 0.9


def test_no_changed_graph_equals_a_held_out_graph(built):
    """Small motifs that lose a node often equal motifs of another split."""
    artifact = augment(built, "drop-node", ratio=4.0)
    quality = artifact.manifest.summary["quality"]["augment"]
    corpus = Corpus(built["prepare"])
    held_out = np.concatenate(
        [wl_hashes(corpus.table(split=s)) for s in corpus.splits if s != "train"]
    )
    new = augmented_graphs(artifact, "drop-node")
    parents = parents_of(new, corpus.table(split="train"))
    changed = new.num_nodes < parents.num_nodes
    assert not np.isin(wl_hashes(new)[changed], held_out).any()
    assert quality["rejected"]["held-out graph"] > 0
    assert quality["unchanged"] == (~changed).sum()


@pytest.mark.parametrize(("ratio", "expected"), [(0.5, 90), (2.5, 450)])
def test_ratio_repeats_graphs_equally_often(built, ratio, expected):
    new = augmented_graphs(augment(built, "drop-edge", ratio=ratio), "drop-edge")
    counts = np.unique(new.lists("graph", "provenance.parents").values, return_counts=True)[1]
    assert counts.sum() == expected
    assert set(counts) <= {int(ratio), int(ratio) + 1}


def test_augmented_only_leaves_the_source_out(built):
    corpus = Corpus(augment(built, "drop-edge", augmented_only=True, count=40))
    assert corpus.splits == {"train": 40}


@pytest.mark.parametrize("method", ["drop-edge", "g-mixup"])
def test_order_of_shards_changes_no_byte(built, tmp_path, method):
    config = {"method": method, "count": 90, "shard_graphs": 20}
    inputs = {"prepare": built["prepare"]}
    in_order = run_stage(built["folder"], "augment", config, inputs)
    executor = open_shuffled([*reversed(range(5)), 2], tmp_path)
    shuffled = run_stage(
        built["folder"], "augment", config, inputs, open_executor=executor, force=True
    )
    assert shuffled.manifest.files == in_order.manifest.files
    assert sum("hashes/" in name for name in shuffled.manifest.files) == 5


def test_augmented_corpus_can_be_augmented_again(built):
    once = augment(built, "g-mixup")
    twice = augment({**built, "prepare": once}, "drop-edge")
    new = augmented_graphs(twice, "drop-edge")
    assert len(new) == 216
    assert (new.graph["env_id"] == 3).sum() == 36
    assert not verify_artifact(twice.location).problems


# G-Mixup


def test_mixed_graphs_have_soft_labels_and_a_new_environment(built):
    artifact = augment(built, "g-mixup", mix=(0.2, 0.3), ratio=0.5)
    new = augmented_graphs(artifact, "g-mixup")
    weight = new.graph["provenance.lambda"]
    assert len(np.unique(weight)) == 10
    assert ((weight >= 0.2) & (weight <= 0.3)).all()
    assert np.allclose(np.sort(new.graph["y"], axis=1)[:, 1:], np.stack([weight, 1 - weight], 1))
    assert np.allclose(new.graph["y"].sum(axis=1), 1)
    assert (new.graph["label"] == -1).all()
    assert (new.graph["env_id"] == 3).all()
    row = Corpus(artifact).environments[3]
    assert (row["name"], row["origin"], row["count"]) == (
        "classes mixed by their graphons", "g_mixup", 90,
    )  # fmt: skip
    assert not len(new.lists("graph", "provenance.parents").values)
    assert (new.node["node_truth"] == -1).all()


def test_mixed_graphs_have_the_density_of_their_graphons(tmp_path):
    """Class 0 are rings of 12 nodes, class 1 complete graphs; the label gives the mixing weight."""

    def change(table):
        return _two_classes(len(table), table)

    corpus = write_small_corpus(tmp_path, change, sizes={"train": 60})
    built = {"folder": tmp_path, "prepare": corpus}
    artifact = augment(built, "g-mixup", mix=(0.2, 0.2), count=400)
    new = augmented_graphs(artifact, "g-mixup")
    assert (new.num_nodes == 12).mean() > 0.9
    share = new.graph["y"][:, 1].round(3)
    assert sorted(np.unique(share).tolist()) == pytest.approx([0.2, 0.8])
    for full in np.unique(share):
        edges = new.num_edges[share == full] / 2
        assert edges.mean() == pytest.approx((1 - full) * 12 + full * 66, rel=0.05)
    # Features of rings are 1, of complete graphs 5.
    assert np.allclose(new.node["node_feat"][:, 0], 1 + 4 * np.repeat(share, new.num_nodes))


def _two_classes(count, table):
    """Return rings and complete graphs of 12 nodes in turn."""
    node = np.arange(12)
    gap = np.abs(node[:, None] - node)
    ring, full = np.argwhere((gap == 1) | (gap == 11)), np.argwhere(gap > 0)
    label = (np.arange(count) % 2).astype(np.int32)
    ends = np.concatenate([full if is_full else ring for is_full in label]).astype(np.int32)
    return GraphTable(
        node_ptr=np.arange(count + 1) * 12,
        edge_ptr=pointers(np.where(label == 1, len(full), len(ring))),
        graph={**table.graph, "label": label, "y": np.eye(3, dtype=np.float32)[label]},
        node={
            "node_feat": np.repeat(np.where(label == 1, 5, 1), 12)[:, None].astype(np.float32),
            "node_truth": np.zeros(12 * count, dtype=table.node["node_truth"].dtype),
        },
        edge={"edge_src": ends[:, 0], "edge_dst": ends[:, 1]},
    )


# Molecules


@pytest.fixture(scope="module")
def molecules(tmp_path_factory):
    folder = tmp_path_factory.mktemp("molecules")
    rows = [f"{'C' * (n % 9 + 1)}{'NO'[n % 2]}c1ccccc1,{n % 2}" for n in range(60)]
    (folder / "own.csv").write_text("\n".join(["smiles,active", *rows]))
    options = {"dataset": "smiles", "file": str(folder / "own.csv"), "targets": ["active"],
               "domain": "size"}  # fmt: skip
    return {"folder": folder, "prepare": run_stage(folder, "prepare", options, {})}


@pytest.mark.parametrize("method", METHODS)
def test_augmented_molecules_have_no_smiles_and_the_manifest_warns(molecules, method):
    artifact = augment(molecules, method, count=30)
    new = augmented_graphs(artifact, method)
    assert set(decode_texts(new.lists("graph", "smiles"))) == {""}
    assert artifact.manifest.warnings[0] == (
        f"graphs of {method} are not valid molecules: they have no SMILES, and atom features are "
        "not recomputed"
    )
    source = Corpus(molecules["prepare"]).table(split="train")
    source_features = set(map(tuple, source.node["node_feat"].tolist()))
    if method != "mask-feature":
        assert set(map(tuple, new.node["node_feat"].tolist())) <= source_features
    assert set(map(tuple, new.edge["edge_attr"].tolist())) <= set(
        map(tuple, source.edge["edge_attr"].tolist())
    )
    if method == "g-mixup":
        weight = new.graph["provenance.lambda"]
        y = new.graph["y"][:, 0]
        assert (np.isclose(y, weight) | np.isclose(y, 1 - weight)).all()
        reverse = {(g, d, s): a for g, s, d, a in _attributes(new)}
        assert all(reverse[g, s, d] == a for g, s, d, a in _attributes(new))


def _attributes(table):
    columns = (table.edge_graph(), table.edge["edge_src"], table.edge["edge_dst"])
    attributes = map(tuple, table.edge["edge_attr"].tolist())
    return list(zip(*(c.tolist() for c in columns), attributes, strict=True))


@pytest.mark.parametrize("method", ["drop-edge", "mask-feature"])
def test_replicas_are_rejected_for_labelled_graphs(built, method):
    with pytest.raises(UsageError) as error:
        augment(built, method, replicas=4)
    assert str(error.value) == (
        "motif-size has graph labels; replicas are for labelled nodes. Set the number of graphs "
        "with `--ratio` or `--count`."
    )


# Training


def test_recipe_trains_on_an_augmented_corpus(tmp_path):
    built = run_recipe(
        tmp_path,
        """
        [prepare]
        dataset = "motif-size"
        num_graphs = 150
        [augment]
        method = "drop-edge"
        rate = 0.2
        [train]
        source = "augment"
        learner = "vrex"
        epochs = 1
        width = 8
        """,
    )
    assert built["train"].manifest.counts == {"graphs": 180}
    assert built["train"].manifest.parents[0].key == built["augment"].key


# Report and export


@pytest.mark.parametrize("method", ["drop-edge", "g-mixup"])
def test_report_compares_augmented_graphs_with_their_parents(built, tmp_path, method):
    artifact = augment(built, method)
    page = tmp_path / "page.html"
    done = command("report", artifact.key[:12], "-o", page, "--store", built["folder"])
    assert done.code == 0, done.err
    text = page.read_text()
    if method != "g-mixup":
        assert (
            "Labels of 180 perturbed graphs were recomputed from the labels of their parents"
            in text
        )
        assert "all exist in the parent." in text
    assert "No leakage of held-out graphs" in text


def test_dataset_card_names_the_method(built, tmp_path):
    artifact = augment(built, "drop-node")
    folder = tmp_path / "out"
    done = command("export", artifact.key[:12], folder, "--store", built["folder"])
    assert done.code == 0, done.err
    card = (folder / "README.md").read_text()
    assert (
        "180 training graphs are synthetic. They were generated from training graphs by drop-node."
        in card
    )
    assert "Graph Structure Extrapolation (Li" not in card
    assert "Graphs of drop-node have the label of their parent" in card
    assert "as right as the extractor" not in card


def test_augmented_molecules_are_not_exported_as_molecules(molecules, tmp_path):
    artifact = augment(molecules, "drop-edge", count=30)
    source = Corpus(molecules["prepare"]).splits["train"]
    for layout in ("smi", "sdf"):
        folder = tmp_path / layout
        done = command("export", artifact.key[:12], folder, "--to", layout, "--store",
                       molecules["folder"])  # fmt: skip
        assert done.code == 0, done.err
        manifest = json.loads((folder / "manifest.json").read_text())
        assert manifest["counts"]["train"] == source
        assert manifest["dropped"][-1] == {
            "reason": "graphs without SMILES",
            "count": 30,
            "examples": [],
        }
    assert len((tmp_path / "smi" / "train.smi").read_text().splitlines()) == source


# The command


def test_command_augments_a_corpus(built, tmp_path):
    key, store = built["prepare"].key[:12], ("--store", built["folder"])
    done = command("augment", key, "g-mixup", "--mix", "0.2..0.3", "--count", 25, "--json", *store)
    output = json.loads(done.out)
    assert output["counts"]["train"] == 205
    assert [step["step"] for step in output["steps"]] == ["augment"]
    manifest = json.loads(command("show", output["key"], "--json", *store).out)
    assert manifest["config"]["mix"] == [0.2, 0.3]
    assert manifest["config"]["ratio"] is None
    wrong = command("augment", key, "g-mixup", "--mix", "some", *store)
    assert wrong.code == 2
    assert "--mix takes a range such as 0.1..0.2; got `some`" in wrong.err
    planned = command("augment", "motif-size", "drop-edge", "--num-graphs", 60, "--dry-run",
                      "--store", tmp_path)  # fmt: skip
    assert [line.split()[0] for line in planned.out.splitlines()] == ["STEP", "prepare", "augment"]
    invalid = command("augment", key, "drop-edge", "--num-graphs", 60, *store)
    assert "--num-graphs applies to datasets only; SOURCE is a corpus" in invalid.err
