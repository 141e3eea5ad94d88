"""Corpora augmented for real from small ones: by dropping, masking and mixing."""

import contextlib
import json

import numpy as np
import pytest

from gsx.errors import UsageError
from gsx.pipeline.plan import Step
from gsx.pipeline.recipe import parse_config
from gsx.pipeline.runner import run_plan
from gsx.pipeline.stage_order import stage_named
from gsx.ragged import pointers, texts_of
from gsx.schema import ORIGINS
from gsx.stages.augment.stage import METHODS
from gsx.stages.graphs.wl_hash import wl_hashes
from gsx.storage.artifacts.store import Store
from gsx.storage.corpora.corpus import Corpus
from gsx.storage.corpora.verify_corpus import audit
from gsx.table import GraphTable
from tests.integration.test_distributed_generation import OddCrew
from tests.support.artifacts import gsx as command
from tests.support.run_stages import run_recipe, run_stage, write_small_corpus

ORIGIN = {"drop-node": "dropnode", "drop-edge": "dropedge", "mask-feature": "maskfeature",
          "g-mixup": "g_mixup"}  # fmt: skip
CHANGES = METHODS[:3]


@pytest.fixture(scope="module")
def made(tmp_path_factory):
    folder = tmp_path_factory.mktemp("augment")
    options = {"dataset": "motif-size", "num_graphs": 300}
    return {"folder": folder, "prepare": run_stage(folder, "prepare", options, {})}


def augment(made, method, folder=None, **options):
    given = {"prepare": made["prepare"]}
    return run_stage(folder or made["folder"], "augment", {"method": method, **options}, given)


def new_graphs(artifact, method):
    table = Corpus(artifact).table(split="train")
    return table.filter(table.dense("graph", "origin") == ORIGINS.index(ORIGIN[method]))


def parents_of(table, source):
    row_of = {int(id_): row for row, id_ in enumerate(source.graph["graph_id"])}
    rows = [row_of[int(id_)] for id_ in table.lists("graph", "provenance.parents").values]
    return source.take(np.array(rows))


@pytest.fixture(scope="module")
def source(made):
    return Corpus(made["prepare"]).table(split="train")


# What every augmented corpus is


@pytest.mark.parametrize("method", METHODS)
def test_new_graphs_follow_those_of_the_source_and_all_is_verified(made, source, method):
    artifact = augment(made, method)
    corpus = Corpus(artifact)
    new = new_graphs(artifact, method)
    assert corpus.splits["train"] == 180 + len(new)
    assert len(new) == (36 if method == "g-mixup" else 180)
    assert corpus.table(split="train").slice(0, 180).equals(source)
    assert new.graph["graph_id"].tolist() == list(range(300, 300 + len(new)))
    assert set(texts_of(new.lists("graph", "provenance.stream"))) == {f"augment/{method}/0"}
    assert not audit(artifact.place).problems


@pytest.mark.parametrize("method", CHANGES)
def test_changed_graphs_have_label_and_environment_of_their_parent(made, source, method):
    artifact = augment(made, method, rate=0.3)
    new = new_graphs(artifact, method)
    parents = parents_of(new, source)
    assert sorted(parents.graph["graph_id"]) == sorted(source.graph["graph_id"])
    for name in ("y", "label", "env_id"):
        assert np.array_equal(new.graph[name], parents.graph[name])
    assert len(Corpus(artifact).environments) == len(Corpus(made["prepare"]).environments)
    number = new.lists("graph", "provenance.node_number")
    assert np.array_equal(number.ptr, new.node_ptr)
    place = np.repeat(parents.node_ptr[:-1], new.num_nodes) + number.values
    assert np.array_equal(new.node["node_truth"], parents.node["node_truth"][place])
    quality = artifact.manifest.summary["quality"]["augment"]
    assert quality["lost"] == pytest.approx(0.3, abs=0.1 if method == "mask-feature" else 0.03)
    assert quality["overlap_with_held_out"] == 0


def test_each_change_touches_its_own_part_alone(made, source):
    found = {method: new_graphs(augment(made, method, rate=0.3), method) for method in CHANGES}
    edgeless, masked = found["drop-edge"], found["mask-feature"]
    for new in (edgeless, masked):
        parents = parents_of(new, source)
        assert np.array_equal(new.node_ptr, parents.node_ptr)
    assert np.array_equal(
        edgeless.node["node_feat"], parents_of(edgeless, source).node["node_feat"]
    )
    assert (edgeless.num_edges < parents_of(edgeless, source).num_edges).mean() > 0.9
    for name in ("edge_src", "edge_dst"):
        assert np.array_equal(masked.edge[name], parents_of(masked, source).edge[name])
    assert (masked.node["node_feat"] == 0).mean() == pytest.approx(0.3, abs=0.1)
    nodeless = found["drop-node"]
    assert (nodeless.num_nodes < parents_of(nodeless, source).num_nodes).mean() > 0.9


def test_changed_graphs_are_no_held_out_graphs(made):
    """Small motifs that lose a node are often the motifs of another split."""
    artifact = augment(made, "drop-node", ratio=4.0)
    quality = artifact.manifest.summary["quality"]["augment"]
    corpus = Corpus(made["prepare"])
    held_out = np.concatenate(
        [wl_hashes(corpus.table(split=s)) for s in corpus.splits if s != "train"]
    )
    new = new_graphs(artifact, "drop-node")
    parents = parents_of(new, corpus.table(split="train"))
    changed = new.num_nodes < parents.num_nodes
    assert not np.isin(wl_hashes(new)[changed], held_out).any()
    assert quality["refused"]["held-out graph"] > 0
    assert quality["unchanged"] == (~changed).sum()


@pytest.mark.parametrize(("ratio", "expected"), [(0.5, 90), (2.5, 450)])
def test_ratios_take_some_graphs_or_all_of_them_several_times(made, ratio, expected):
    new = new_graphs(augment(made, "drop-edge", ratio=ratio), "drop-edge")
    counts = np.unique(new.lists("graph", "provenance.parents").values, return_counts=True)[1]
    assert counts.sum() == expected
    assert set(counts) <= {int(ratio), int(ratio) + 1}


def test_new_graphs_alone(made):
    corpus = Corpus(augment(made, "drop-edge", augmented_only=True, count=40))
    assert corpus.splits == {"train": 40}


@pytest.mark.parametrize("method", ["drop-edge", "g-mixup"])
def test_the_order_in_which_shards_end_changes_no_byte(made, tmp_path, method):
    stage = stage_named("augment")
    config = parse_config("augment", {"method": method, "count": 90, "shard_graphs": 20}, "test")
    plan = (Step(stage, config, stage.inputs_of(config)),)

    def run(**more):
        given = {"prepare": made["prepare"]}
        steps = run_plan(plan, Store.at(made["folder"]), given=given, **more)
        return next(built for _, built in steps).artifact

    @contextlib.contextmanager
    def hire(job, draft, log):
        yield OddCrew(job, [*reversed(range(5)), 2], tmp_path)

    plain = run()
    again = run(hire=hire, force=True)
    assert again.manifest.files == plain.manifest.files
    assert sum("hashes/" in name for name in again.manifest.files) == 5


def test_an_augmented_corpus_can_be_augmented_again(made):
    once = augment(made, "g-mixup")
    twice = augment({**made, "prepare": once}, "drop-edge")
    new = new_graphs(twice, "drop-edge")
    assert len(new) == 216
    assert (new.graph["env_id"] == 3).sum() == 36
    assert not audit(twice.place).problems


# G-Mixup


def test_mixed_graphs_have_soft_labels_and_an_environment_of_their_own(made):
    artifact = augment(made, "g-mixup", mix=(0.2, 0.3), ratio=0.5)
    new = new_graphs(artifact, "g-mixup")
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


def test_mixed_graphs_are_as_dense_as_their_graphons_say(tmp_path):
    """Class 0 are rings of 12, class 1 is complete: a mix is by so much the one it says."""

    def change(table):
        return _two_classes(len(table), table)

    corpus = write_small_corpus(tmp_path, change, sizes={"train": 60})
    made = {"folder": tmp_path, "prepare": corpus}
    artifact = augment(made, "g-mixup", mix=(0.2, 0.2), count=400)
    new = new_graphs(artifact, "g-mixup")
    assert (new.num_nodes == 12).mean() > 0.9
    share = new.graph["y"][:, 1].round(3)
    assert sorted(np.unique(share).tolist()) == pytest.approx([0.2, 0.8])
    for full in np.unique(share):
        edges = new.num_edges[share == full] / 2
        assert edges.mean() == pytest.approx((1 - full) * 12 + full * 66, rel=0.05)
    # Features of rings are 1, of complete graphs 5.
    assert np.allclose(new.node["node_feat"][:, 0], 1 + 4 * np.repeat(share, new.num_nodes))


def _two_classes(count, table):
    here = np.arange(12)
    gap = np.abs(here[:, None] - here)
    ring, full = np.argwhere((gap == 1) | (gap == 11)), np.argwhere(gap > 0)
    label = (np.arange(count) % 2).astype(np.int32)
    ends = np.concatenate([full if each else ring for each in label]).astype(np.int32)
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
def test_augmented_molecules_are_no_molecules_and_the_corpus_says_so(molecules, method):
    artifact = augment(molecules, method, count=30)
    new = new_graphs(artifact, method)
    assert set(texts_of(new.lists("graph", "smiles"))) == {""}
    assert artifact.manifest.warnings[0] == (
        f"graphs of {method} are no molecules: they have no SMILES, and features of atoms are not "
        "computed anew"
    )
    source = Corpus(molecules["prepare"]).table(split="train")
    known = set(map(tuple, source.node["node_feat"].tolist()))
    if method != "mask-feature":
        assert set(map(tuple, new.node["node_feat"].tolist())) <= known
    assert set(map(tuple, new.edge["edge_attr"].tolist())) <= set(
        map(tuple, source.edge["edge_attr"].tolist())
    )
    if method == "g-mixup":
        weight = new.graph["provenance.lambda"]
        y = new.graph["y"][:, 0]
        assert (np.isclose(y, weight) | np.isclose(y, 1 - weight)).all()
        back = {(g, d, s): a for g, s, d, a in _attributes(new)}
        assert all(back[g, s, d] == a for g, s, d, a in _attributes(new))


def _attributes(table):
    columns = (table.edge_graph(), table.edge["edge_src"], table.edge["edge_dst"])
    attributes = map(tuple, table.edge["edge_attr"].tolist())
    return list(zip(*(c.tolist() for c in columns), attributes, strict=True))


@pytest.mark.parametrize("method", ["drop-edge", "mask-feature"])
def test_labelled_graphs_have_no_replicas(made, method):
    with pytest.raises(UsageError) as error:
        augment(made, method, replicas=4)
    assert str(error.value) == (
        "motif-size labels graphs, which have no replicas: say how many new ones with `--ratio` "
        "or `--count`"
    )


# Training


def test_learners_train_on_augmented_corpora_of_a_recipe(tmp_path):
    made = run_recipe(
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
    assert made["train"].manifest.counts == {"graphs": 180}
    assert made["train"].manifest.parents[0].key == made["augment"].key


# What is said of them


@pytest.mark.parametrize("method", ["drop-edge", "g-mixup"])
def test_reports_hold_new_graphs_against_their_parents(made, tmp_path, method):
    artifact = augment(made, method)
    page = tmp_path / "page.html"
    done = command("report", artifact.key[:12], "-o", page, "--store", made["folder"])
    assert done.code == 0, done.err
    text = page.read_text()
    if method != "g-mixup":
        assert "Every label of 180 changed graphs was computed again" in text
        assert "all are edges of its parent." in text
    assert "No held-out graph leaks in" in text


def test_cards_name_the_method_and_what_labels_are_worth(made, tmp_path):
    artifact = augment(made, "drop-node")
    folder = tmp_path / "out"
    done = command("export", artifact.key[:12], folder, "--store", made["folder"])
    assert done.code == 0, done.err
    card = (folder / "README.md").read_text()
    assert "180 training graphs are synthetic: made from training graphs by drop-node." in card
    assert "Graph Structure Extrapolation (Li" not in card
    assert "Graphs of drop-node have the label of the graph they were made of" in card
    assert "as right as the extractor" not in card


def test_what_is_no_molecule_is_not_exported_as_one(molecules, tmp_path):
    artifact = augment(molecules, "drop-edge", count=30)
    source = Corpus(molecules["prepare"]).splits["train"]
    for layout in ("smi", "sdf"):
        folder = tmp_path / layout
        done = command("export", artifact.key[:12], folder, "--to", layout, "--store",
                       molecules["folder"])  # fmt: skip
        assert done.code == 0, done.err
        manifest = json.loads((folder / "manifest.json").read_text())
        assert manifest["counts"]["train"] == source
        assert manifest["dropped"][-1] == {"reason": "no molecules", "count": 30, "examples": []}
    assert len((tmp_path / "smi" / "train.smi").read_text().splitlines()) == source


# The command


def test_the_command_augments_a_corpus(made, tmp_path):
    key, store = made["prepare"].key[:12], ("--store", made["folder"])
    done = command("augment", key, "g-mixup", "--mix", "0.2..0.3", "--count", 25, "--json", *store)
    said = json.loads(done.out)
    assert said["counts"]["train"] == 205
    assert [step["step"] for step in said["steps"]] == ["augment"]
    manifest = json.loads(command("show", said["key"], "--json", *store).out)
    assert manifest["config"]["mix"] == [0.2, 0.3]
    assert manifest["config"]["ratio"] is None
    wrong = command("augment", key, "g-mixup", "--mix", "some", *store)
    assert wrong.code == 2
    assert "--mix takes a range such as 0.1..0.2; got `some`" in wrong.err
    planned = command("augment", "motif-size", "drop-edge", "--num-graphs", 60, "--dry-run",
                      "--store", tmp_path)  # fmt: skip
    assert [line.split()[0] for line in planned.out.splitlines()] == ["STEP", "prepare", "augment"]
    given = command("augment", key, "drop-edge", "--num-graphs", 60, *store)
    assert "--num-graphs is for a dataset that is prepared first, not a corpus" in given.err
