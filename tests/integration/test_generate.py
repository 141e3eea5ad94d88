"""Splicing end to end: sizes, labels, provenance, quality, determinism."""

import json
import os
import subprocess
import sys
from pathlib import Path

import numpy as np
import pytest
from safetensors.numpy import load

from gsx.errors import UsageError
from gsx.ragged import decode_texts, row_indices
from gsx.schema import ORIGINS
from gsx.stages.augmented.label_rules import average_labels
from gsx.stages.graphs.subgraphs import global_edges, induced_subgraphs, is_connected
from gsx.stages.graphs.wl_hash import wl_hashes
from gsx.storage.artifacts.store import Store
from gsx.storage.corpora.corpus import Corpus
from gsx.storage.corpora.verify_corpus import verify_artifact
from tests.support.run_stages import (
    attributed,
    attributed_info,
    run_recipe,
    run_stage,
    write_small_corpus,
)

RECIPE = """
[prepare]
dataset = "motif-size"
num_graphs = 1000
[extract]
node_epochs = 4
set_epochs = 2
[bridge]
epochs = 2
[generate]
f = [2, 5]
shard_graphs = 500
"""


@pytest.fixture(scope="module")
def folder(tmp_path_factory):
    return tmp_path_factory.mktemp("generate")


@pytest.fixture(scope="module")
def built(folder):
    """Artifacts of a small run, by stage."""
    return run_recipe(folder, RECIPE)


@pytest.fixture(scope="module")
def source(built):
    return Corpus(built["prepare"]).table(split="train")


@pytest.fixture(scope="module")
def augmented(built):
    """All spliced graphs."""
    table = Corpus(built["generate"]).table(split="train")
    return table.filter(table.dense("graph", "origin") > 0)


@pytest.fixture(scope="module")
def subgraphs(built):
    """Nodes of causal and environmental subgraphs of the training graphs."""
    return load(built["extract"].location.read_bytes("subgraphs.safetensors", limit=1 << 30))


def of_origin(table, name):
    return table.filter(table.dense("graph", "origin") == ORIGINS.index(name))


def traced(table, source):
    """Trace graphs to their sources.

    Returns the parents; per node its slot and its component; the source row of every component; and
    per node its number in the source table.
    """
    parents = table.lists("graph", "provenance.parents")
    slot = table.lists("graph", "provenance.node_slot").values.astype(np.int64)
    number = table.lists("graph", "provenance.node_number").values
    component = np.repeat(parents.ptr[:-1], table.num_nodes) + slot
    row_of = {int(id_): row for row, id_ in enumerate(source.graph["graph_id"])}
    row = np.array([row_of[int(id_)] for id_ in parents.values])
    return parents, slot, component, row, source.node_ptr[row[component]] + number


def generate(folder, built, **options):
    inputs = {name: built[name] for name in ("prepare", "extract", "bridge")}
    return run_stage(folder, "generate", options, inputs)


# Content of the corpus


def test_corpus_holds_source_and_spliced_graphs(built, source):
    corpus = Corpus(built["generate"])
    assert corpus.splits == {
        "train": 4 * 600, "id_val": 100, "id_test": 100, "ood_val": 100, "ood_test": 100,
    }  # fmt: skip
    first = corpus.table(split="train").slice(0, 600)
    assert first.equals(source)


def test_source_shards_keep_their_bytes(built):
    before = built["prepare"].manifest.files
    after = built["generate"].manifest.files
    for split in ("id_val", "id_test", "ood_val", "ood_test"):
        name = f"data/{split}-00000-of-00001.parquet"
        assert after[name].sha256 == before[name].sha256
    assert (
        after["data/train-00000-of-00007.parquet"].sha256
        == before["data/train-00000-of-00001.parquet"].sha256
    )


def test_corpus_passes_verification(built):
    assert not verify_artifact(built["generate"].location).problems


def test_graph_ids_continue_those_of_the_source(augmented):
    assert augmented.graph["graph_id"].tolist() == list(range(1000, 2800))


def test_size_shift_gets_one_environment_per_option(built, augmented):
    rows = Corpus(built["generate"]).environments
    assert [(row["id"], row["origin"], row["count"]) for row in rows[3:]] == [
        (3, "g_inv", 600), (4, "g_inv_env", 600), (5, "g_whole", 600),
    ]  # fmt: skip
    origin = augmented.graph["origin"]
    assert (augmented.graph["env_id"] - 2 == origin).all()


def test_base_shift_puts_options_2_and_3_into_one_environment(tmp_path):
    text = RECIPE.replace("motif-size", "motif-base").replace("1000", "500")
    corpus = Corpus(run_recipe(tmp_path, text)["generate"])
    assert [row["origin"] for row in corpus.environments[3:]] == ["g_inv", "g_inv_env g_whole"]
    assert corpus.environments[4]["count"] == 600


# Sizes and labels


def test_sizes_leave_the_training_range_in_both_directions(source, augmented):
    small, large = of_origin(augmented, "g_inv"), of_origin(augmented, "g_whole")
    assert small.num_nodes.min() < source.num_nodes.min()
    assert large.num_nodes.max() > 2 * source.num_nodes.max()


def test_labels_follow_from_provenance(source, augmented):
    """Whole graphs and lead components count; environmental subgraphs do not."""
    parents = augmented.lists("graph", "provenance.parents")
    row_of = {int(id_): row for row, id_ in enumerate(source.graph["graph_id"])}
    rows = np.array([row_of[int(id_)] for id_ in parents.values])
    slot = np.arange(len(rows)) - np.repeat(parents.ptr[:-1], np.diff(parents.ptr))
    whole = augmented.graph["origin"][row_indices(parents.ptr)] == ORIGINS.index("g_whole")
    coefficients = np.where(whole | (slot == 0), 1.0, 0.0)
    expected = average_labels(source.graph["y"][rows], coefficients, np.diff(parents.ptr))
    merged = augmented.graph["origin"] == ORIGINS.index("g_inv")
    assert np.array_equal(expected[~merged], augmented.graph["y"][~merged])
    hashes = wl_hashes(augmented.filter(merged))
    for value in np.unique(hashes):  # equal causal subgraphs have one label
        assert len(np.unique(augmented.graph["y"][merged][hashes == value], axis=0)) == 1


def test_labels_are_hard_if_all_components_agree(augmented):
    assert (of_origin(augmented, "g_inv_env").graph["label"] >= 0).all()
    whole = of_origin(augmented, "g_whole")
    assert ((whole.graph["y"].max(axis=1) == 1) == (whole.graph["label"] >= 0)).all()


# Provenance


def test_graphs_consist_of_components_and_bridges_only(source, augmented):
    parents = augmented.lists("graph", "provenance.parents")
    slot = augmented.lists("graph", "provenance.node_slot").values.astype(np.int64)
    number = augmented.lists("graph", "provenance.node_number").values
    bridges = augmented.lists("graph", "provenance.bridges")
    node_graph = row_indices(augmented.node_ptr)
    row_of = {int(id_): row for row, id_ in enumerate(source.graph["graph_id"])}
    parent = np.array([row_of[int(id_)] for id_ in parents.values])
    component = parents.ptr[node_graph] + slot
    origin_node = source.node_ptr[parent[component]] + number
    assert np.array_equal(augmented.node["node_truth"], source.node["node_truth"][origin_node])
    src, dst = global_edges(augmented)
    is_bridge = np.zeros(len(src), dtype=bool)
    is_bridge[np.repeat(augmented.edge_ptr[:-1], np.diff(bridges.ptr)) + bridges.values] = True
    across = component[src] != component[dst]
    assert np.array_equal(is_bridge, across)
    inside = {
        (int(a), int(b))
        for a, b in zip(origin_node[src[~across]], origin_node[dst[~across]], strict=True)
    }
    source_edges = set(zip(*(ends.tolist() for ends in global_edges(source)), strict=True))
    assert inside <= source_edges


def test_option_1_holds_the_causal_subgraphs(source, subgraphs, augmented):
    alone = of_origin(augmented, "g_inv")
    parents = alone.lists("graph", "provenance.parents").values
    causal, number = induced_subgraphs(source, subgraphs["causal"] == 1)
    assert causal.take(parents).num_edges.tolist() == alone.num_edges.tolist()
    expected = np.split(number, causal.node_ptr[1:-1])
    stored = alone.lists("graph", "provenance.node_number")
    assert [expected[row].tolist() for row in parents] == [
        numbers.tolist() for numbers in np.split(stored.values, stored.ptr[1:-1])
    ]


def test_graphs_are_connected(augmented):
    assert is_connected(augmented).all()


def test_no_graph_equals_a_held_out_graph(built, augmented):
    corpus = Corpus(built["generate"])
    held_out = corpus.table(split=["id_val", "id_test", "ood_val", "ood_test"])
    assert not np.isin(wl_hashes(augmented), wl_hashes(held_out)).any()


def test_columns_that_do_not_apply_are_missing(augmented):
    assert set(augmented.graph["motif_id"].tolist()) == {-1}
    assert np.isnan(augmented.graph["provenance.lambda"]).all()


def test_graphs_store_the_name_of_their_random_stream(augmented):
    names = decode_texts(augmented.lists("graph", "provenance.stream"))
    assert names[0] == "generate/g_inv/0"


# Quality


def test_manifest_holds_quality_metrics_of_every_option(built, source, augmented):
    quality = built["generate"].manifest.summary["quality"]
    assert list(quality) == ["option_1", "option_2", "option_3", "source"]
    whole = of_origin(augmented, "g_whole")
    metrics = quality["option_3"]
    assert metrics["graphs"] == 600
    assert metrics["max_nodes"] == whole.num_nodes.max()
    above = float((whole.num_nodes > source.num_nodes.max()).mean())
    assert metrics["larger_than_training"] == pytest.approx(above, abs=1e-6)
    assert metrics["distinct"] == len(np.unique(wl_hashes(whole)))
    assert metrics["overlap_with_held_out"] == 0
    assert metrics["disconnected"] == 0
    assert quality["option_2"]["label_entropy"] == 0
    assert quality["option_1"]["label_conflicts"] == 0
    assert metrics["soft_labels"] == pytest.approx((whole.graph["label"] < 0).mean(), abs=1e-6)


def test_held_out_graphs_are_redrawn_and_counted(folder, built, monkeypatch):
    """Graphs that are declared held-out are replaced, and the rejected draws are counted."""
    plain = Corpus(generate(folder, built, options="001", count=50, augmented_only=True)).table()
    held_out = np.unique(wl_hashes(plain))[:5]
    monkeypatch.setattr("gsx.stages.generate.splice.sharded.held_out_hashes", lambda _: held_out)
    options = {"options": "001", "count": 50, "augmented_only": True, "shard_graphs": 4000}
    redrawn = generate(folder, built, **options)
    table = Corpus(redrawn).table()
    assert not np.isin(wl_hashes(table), held_out).any()
    metrics = redrawn.manifest.summary["quality"]["option_3"]
    assert metrics["rejected"] == {"held-out graph": 5}
    assert metrics["accepted_at_first"] == 0.9
    same = wl_hashes(plain) == wl_hashes(table)
    assert same.sum() == 45


# Variants


@pytest.mark.parametrize("rule", ["merge", "reject", "keep"])
def test_equal_graphs_of_option_1_have_one_label_unless_all_are_kept(folder, built, rule):
    options = {"options": "100", "count": 700, "label_conflicts": rule, "min_causal_nodes": 4}
    corpus = generate(folder, built, **options)
    table = Corpus(corpus).table(env=3)
    hashes, y = wl_hashes(table), table.dense("graph", "y")
    pairs = len(np.unique(np.column_stack([hashes.astype(np.float64), y]), axis=0))
    quality = corpus.manifest.summary["quality"]["option_1"]
    counts = quality["causal_subgraphs"]
    assert counts["in_conflict"] > 0
    assert counts["too_small"] < counts["subgraphs"] == 600
    assert quality["label_conflicts"] == pairs - len(np.unique(hashes))
    assert (quality["label_conflicts"] > 0) == (rule == "keep")
    assert table.num_nodes.min() >= 4


def test_without_bridges_components_are_disconnected(folder, built):
    corpus = Corpus(generate(folder, built, options="001", count=40, bridges="none"))
    table = corpus.table(env=3)
    assert not is_connected(table).any()
    assert not len(table.lists("graph", "provenance.bridges").values)


@pytest.mark.parametrize(
    "options",
    [
        {"bridges": "random"},
        {"bridge_count": "sampled"},
        {"partners": "same-class"},
        {"partners": "same-component", "attach": "chain", "f": [6, 8]},
        {"balanced": True, "attach": "star"},
    ],
)
def test_options_give_connected_graphs(folder, built, options):
    corpus = Corpus(
        generate(folder, built, options="011", count=60, augmented_only=True, **options)
    )
    table = corpus.table()
    assert len(table) == 120
    assert is_connected(table).all()
    if options.get("partners") == "same-class":
        assert (table.graph["label"] >= 0).all()
    if options.get("partners") == "same-component":
        parents = of_origin(table, "g_whole").lists("graph", "provenance.parents")
        assert all(
            len(set(parents.values[a:b].tolist())) == 1
            for a, b in zip(parents.ptr[:-1], parents.ptr[1:], strict=True)
        )


def test_fragments_belong_to_environmental_subgraphs(folder, built, source, subgraphs):
    options = {"options": "010", "count": 200, "fragments": 3, "augmented_only": True}
    table = Corpus(generate(folder, built, **options)).table()
    assert is_connected(table).all()
    parents, slot, component, row, node = traced(table, source)
    assert (subgraphs["environmental"][node[slot > 0]] == 1).all()
    assert (subgraphs["causal"][node[slot == 0]] == 1).all()
    sizes = np.bincount(component)
    whole = np.bincount(row_indices(source.node_ptr), subgraphs["environmental"])[row]
    rest = np.arange(len(row)) != np.repeat(parents.ptr[:-1], np.diff(parents.ptr))
    share = sizes[rest] / whole[rest]
    assert (share <= 1).all()
    assert 0.2 < (share == 1).mean() < 0.6


@pytest.mark.parametrize("fragments", [0, 2])
def test_enlarged_graphs_are_traced_to_their_sources(folder, built, source, subgraphs, fragments):
    """Every slot belongs to its parent; edges between slots and random edges count as bridges."""
    options = {"options": "010", "f": [1, 2], "count": 200, "augmented_only": True}
    more = {"grow": 2.0, "chords": 0.1, "ports": "own", "fragments": fragments}
    table = Corpus(generate(folder, built, **options, **more)).table()
    assert is_connected(table).all()
    assert table.num_nodes.max() > source.num_nodes.max()
    parents, slot, component, row, node = traced(table, source)
    assert (subgraphs["environmental"][node[slot > 0]] == 1).all()
    assert (subgraphs["causal"][node[slot == 0]] == 1).all()
    src, dst = global_edges(table)
    is_bridge = np.zeros(len(src), dtype=bool)
    bridges = table.lists("graph", "provenance.bridges")
    is_bridge[np.repeat(table.edge_ptr[:-1], np.diff(bridges.ptr)) + bridges.values] = True
    assert (component[src[~is_bridge]] == component[dst[~is_bridge]]).all()
    source_edges = set(zip(*(ends.tolist() for ends in global_edges(source)), strict=True))
    inside = zip(node[src[~is_bridge]].tolist(), node[dst[~is_bridge]].tolist(), strict=True)
    assert set(inside) <= source_edges
    both_causal = (slot[src] == 0) & (slot[dst] == 0)
    assert not (is_bridge & both_causal).any()
    assert np.array_equal(table.graph["y"], source.graph["y"][row[parents.ptr[:-1]]])


def test_augmented_only_holds_the_same_spliced_graphs(folder, built, augmented):
    alone = generate(folder, built, f=[2, 5], shard_graphs=500, augmented_only=True)
    table = Corpus(alone).table()
    assert table.equals(augmented)


def test_both_formats_hold_the_same_graphs(folder, built):
    artifact = generate(folder, built, options="001", count=80, formats=["parquet", "zarr"])
    left = Corpus(artifact, format="parquet").table()
    assert left.equals(Corpus(artifact, format="zarr").table())


def test_bridges_have_learned_or_fixed_attributes_and_nodes(tmp_path):
    corpus = write_small_corpus(
        tmp_path, attributed, attributed_info(), {"train": 150, "id_val": 30}
    )
    bridge = run_stage(tmp_path, "bridge", {"epochs": 4, "bridge_nodes": True}, {"prepare": corpus})
    inputs = {"prepare": corpus, "bridge": bridge}
    assert bridge.manifest.summary["quality"]["attribute"]["accuracy"] > 0.7
    for attributes, allowed in (("learned", {(0, 1), (1, 0)}), ("fixed", {(0, 1)})):
        options = {"options": "001", "count": 60, "attributes": attributes, "augmented_only": True}
        table = Corpus(run_stage(tmp_path, "generate", options, inputs)).table()
        bridges = table.lists("graph", "provenance.bridges")
        at = np.repeat(table.edge_ptr[:-1], np.diff(bridges.ptr)) + bridges.values
        assert {tuple(row) for row in table.edge["edge_attr"][at].tolist()} <= allowed
    options = {"options": "001", "count": 60, "bridge_nodes": True, "augmented_only": True}
    table = Corpus(run_stage(tmp_path, "generate", options, inputs)).table()
    slot = table.lists("graph", "provenance.node_slot").values
    bridges = np.diff(table.lists("graph", "provenance.bridges").ptr)
    assert is_connected(table).all()
    assert (slot == -1).sum() == bridges.sum() // 4
    degree = np.bincount(global_edges(table)[0], minlength=table.total_nodes)
    assert set(degree[slot == -1].tolist()) == {2}


# Determinism


def test_same_recipe_gives_the_same_bytes(built, tmp_path):
    again = run_recipe(tmp_path, RECIPE)
    assert again["generate"].manifest.digest == built["generate"].manifest.digest


def test_another_seed_gives_different_graphs(folder, built, augmented):
    other = Corpus(generate(folder, built, f=[2, 5], seed=1, augmented_only=True)).table()
    assert not np.array_equal(wl_hashes(other), wl_hashes(augmented))


def test_killed_run_resumes_and_gives_the_same_bytes(folder, built, tmp_path):
    """After kill -9 behind the first spliced shard, the next run keeps it and builds the others."""
    plain = generate(folder, built, shard_graphs=300, seed=7)
    keys = {role: built[role].location.url for role in ("prepare", "extract", "bridge")}
    code = (
        "import os, sys, signal, json\n"
        "from gsx.storage.artifacts.draft import Draft\n"
        "plain = Draft.write\n"
        "def write(self, name, *args, **kwargs):\n"
        "    unit = plain(self, name, *args, **kwargs)\n"
        "    if name == 'data/train-00002-of-00007.parquet' and os.environ.get('DIE'):\n"
        "        os.kill(os.getpid(), signal.SIGKILL)\n"
        "    return unit\n"
        "Draft.write = write\n"
        "from pathlib import Path\n"
        "from tests.support.run_stages import run_stage\n"
        "from gsx.storage.artifacts.store import Store\n"
        "keys = json.loads(sys.argv[1])\n"
        "inputs = {role: Store.at(sys.argv[2]).resolve(url) for role, url in keys.items()}\n"
        "spliced = run_stage(sys.argv[2], 'generate', {'shard_graphs': 300, 'seed': 7}, inputs)\n"
        "print(spliced.manifest.digest)\n"
    )
    command = [sys.executable, "-c", code, json.dumps(keys), str(tmp_path)]
    env = {**os.environ, "PYTHONPATH": str(Path.cwd())}
    first = subprocess.run(command, env={**env, "DIE": "1"}, capture_output=True, check=False)
    assert first.returncode == -9
    assert not list(Store.at(tmp_path).artifacts("corpus"))
    kept = list(tmp_path.rglob("train-00002-of-00007.parquet"))
    before = kept[0].stat().st_mtime_ns
    second = subprocess.run(command, env=env, capture_output=True, text=True, check=True)
    assert second.stdout.split() == [plain.manifest.digest]
    after = list(tmp_path.rglob("train-00002-of-00007.parquet"))
    assert [path.stat().st_mtime_ns for path in after] == [before]


# Errors


def test_label_rule_any_is_rejected_for_classes(folder, built):
    with pytest.raises(UsageError) as caught:
        generate(folder, built, options="001", labels="any")
    assert str(caught.value) == (
        "`labels = any` needs binary targets; the task of motif-size is classification. Leave it "
        "out."
    )


def test_extractor_of_another_corpus_is_rejected(folder, built):
    other = run_recipe(folder, '[prepare]\ndataset = "motif-base"\nnum_graphs = 500\n')["prepare"]
    with pytest.raises(
        UsageError, match=r"was trained on another corpus .motif-size. than motif-base"
    ):
        run_stage(folder, "generate", {"options": "100"}, {**built, "prepare": other})


def test_bridge_model_of_other_features_is_rejected(folder, built, tmp_path):
    other = write_small_corpus(tmp_path, attributed, attributed_info())
    with pytest.raises(
        UsageError, match="reads 1 node and 0 edge features; attributed has 1 and 2"
    ):
        run_stage(folder, "generate", {"options": "001"}, {**built, "prepare": other})


def test_bridge_model_trained_without_nodes_is_rejected_for_bridge_nodes(folder, built):
    with pytest.raises(UsageError, match="was trained without bridge nodes"):
        generate(folder, built, bridge_nodes=True)
