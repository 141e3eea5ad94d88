"""Generation, run for real: the theorems, the labels, the provenance, the bytes."""

import json
import os
import subprocess
import sys
from pathlib import Path

import numpy as np
import pytest
from safetensors.numpy import load

from gsx.errors import UsageError
from gsx.ragged import rows_of, texts_of
from gsx.schema import ORIGINS
from gsx.stages.graphs.splice import spliced_labels
from gsx.stages.graphs.subgraphs import global_edges, induced, is_connected
from gsx.stages.graphs.wl_hash import wl_hashes
from gsx.storage.artifacts.store import Store
from gsx.storage.corpora.corpus import Corpus
from gsx.storage.corpora.verify_corpus import audit
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
def made(folder):
    """The artifacts of a small run, by stage."""
    return run_recipe(folder, RECIPE)


@pytest.fixture(scope="module")
def source(made):
    return Corpus(made["prepare"]).table(split="train")


@pytest.fixture(scope="module")
def augmented(made):
    """All augmented graphs."""
    table = Corpus(made["generate"]).table(split="train")
    return table.filter(table.dense("graph", "origin") > 0)


@pytest.fixture(scope="module")
def pieces(made):
    return load(made["extract"].place.read_bytes("pieces.safetensors", limit=1 << 30))


def of_origin(table, name):
    return table.filter(table.dense("graph", "origin") == ORIGINS.index(name))


def traced(table, source):
    """Return parents, then per node slot and component, the source row of every component, and
    per node its place in the source."""
    parents = table.lists("graph", "provenance.parents")
    slot = table.lists("graph", "provenance.node_slot").values.astype(np.int64)
    number = table.lists("graph", "provenance.node_number").values
    component = np.repeat(parents.ptr[:-1], table.num_nodes) + slot
    row_of = {int(id_): row for row, id_ in enumerate(source.graph["graph_id"])}
    row = np.array([row_of[int(id_)] for id_ in parents.values])
    return parents, slot, component, row, source.node_ptr[row[component]] + number


def generate(folder, made, **options):
    given = {name: made[name] for name in ("prepare", "extract", "bridge")}
    return run_stage(folder, "generate", options, given)


# What is in the corpus


def test_source_and_augmented_graphs_lie_in_one_corpus(made, source):
    corpus = Corpus(made["generate"])
    assert corpus.splits == {
        "train": 4 * 600, "id_val": 100, "id_test": 100, "ood_val": 100, "ood_test": 100,
    }  # fmt: skip
    first = corpus.table(split="train").slice(0, 600)
    assert first.equals(source)


def test_source_shards_keep_their_bytes(made):
    before = made["prepare"].manifest.files
    after = made["generate"].manifest.files
    for split in ("id_val", "id_test", "ood_val", "ood_test"):
        name = f"data/{split}-00000-of-00001.parquet"
        assert after[name].sha256 == before[name].sha256
    assert (
        after["data/train-00000-of-00007.parquet"].sha256
        == before["data/train-00000-of-00001.parquet"].sha256
    )


def test_the_corpus_passes_the_audit_of_every_graph(made):
    found = audit(made["generate"].place)
    assert not found.problems


def test_graph_ids_go_on_after_the_source(augmented):
    assert augmented.graph["graph_id"].tolist() == list(range(1000, 2800))


def test_environments_go_on_after_the_source_one_per_option(made, augmented):
    rows = Corpus(made["generate"]).environments
    assert [(row["id"], row["origin"], row["count"]) for row in rows[3:]] == [
        (3, "g_inv", 600), (4, "g_inv_env", 600), (5, "g_whole", 600),
    ]  # fmt: skip
    origin = augmented.graph["origin"]
    assert (augmented.graph["env_id"] - 2 == origin).all()


def test_base_shifts_put_options_two_and_three_into_one_environment(tmp_path):
    text = RECIPE.replace("motif-size", "motif-base").replace("1000", "500")
    corpus = Corpus(run_recipe(tmp_path, text)["generate"])
    assert [row["origin"] for row in corpus.environments[3:]] == ["g_inv", "g_inv_env g_whole"]
    assert corpus.environments[4]["count"] == 600


# The theorems


def test_sizes_leave_the_training_range_in_both_directions(source, augmented):
    small, large = of_origin(augmented, "g_inv"), of_origin(augmented, "g_whole")
    assert small.num_nodes.min() < source.num_nodes.min()
    assert large.num_nodes.max() > 2 * source.num_nodes.max()


def test_every_label_is_recomputed_from_provenance_alone(source, augmented):
    """Whole graphs and causal pieces vote, which the origin tells; environmental ones do not."""
    parents = augmented.lists("graph", "provenance.parents")
    row_of = {int(id_): row for row, id_ in enumerate(source.graph["graph_id"])}
    rows = np.array([row_of[int(id_)] for id_ in parents.values])
    slot = np.arange(len(rows)) - np.repeat(parents.ptr[:-1], np.diff(parents.ptr))
    whole = augmented.graph["origin"][rows_of(parents.ptr)] == ORIGINS.index("g_whole")
    votes = np.where(whole | (slot == 0), 1.0, 0.0)
    again = spliced_labels(source.graph["y"][rows], votes, np.diff(parents.ptr))
    assert np.array_equal(again, augmented.graph["y"])


def test_hard_labels_are_hard_where_all_votes_agree(augmented):
    for name in ("g_inv", "g_inv_env"):
        assert (of_origin(augmented, name).graph["label"] >= 0).all()
    whole = of_origin(augmented, "g_whole")
    assert ((whole.graph["y"].max(axis=1) == 1) == (whole.graph["label"] >= 0)).all()


# Provenance


def test_every_graph_is_its_pieces_and_bridges_and_nothing_else(source, augmented):
    parents = augmented.lists("graph", "provenance.parents")
    slot = augmented.lists("graph", "provenance.node_slot").values.astype(np.int64)
    number = augmented.lists("graph", "provenance.node_number").values
    bridges = augmented.lists("graph", "provenance.bridges")
    node_graph = rows_of(augmented.node_ptr)
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
    known = set(zip(*(ends.tolist() for ends in global_edges(source)), strict=True))
    assert inside <= known


def test_pieces_are_the_extractors(source, pieces, augmented):
    alone = of_origin(augmented, "g_inv")
    parents = alone.lists("graph", "provenance.parents").values
    part, number = induced(source, pieces["causal"] == 1)
    again = part.take(parents)
    assert again.num_edges.tolist() == alone.num_edges.tolist()
    numbers = [
        number[a:b].tolist() for a, b in zip(part.node_ptr[:-1], part.node_ptr[1:], strict=True)
    ]
    told = alone.lists("graph", "provenance.node_number")
    assert [numbers[row] for row in parents] == [
        told.values[a:b].tolist() for a, b in zip(told.ptr[:-1], told.ptr[1:], strict=True)
    ]


def test_every_graph_is_connected(augmented):
    assert is_connected(augmented).all()


def test_no_graph_is_one_of_those_held_out(made, augmented):
    corpus = Corpus(made["generate"])
    held = corpus.table(split=["id_val", "id_test", "ood_val", "ood_test"])
    assert not np.isin(wl_hashes(augmented), wl_hashes(held)).any()


def test_columns_of_the_dataset_that_make_no_sense_are_marked_missing(augmented):
    assert set(augmented.graph["motif_id"].tolist()) == {-1}
    assert np.isnan(augmented.graph["provenance.lambda"]).all()


def test_the_stream_of_every_graph_is_named(augmented):
    names = texts_of(augmented.lists("graph", "provenance.stream"))
    assert names[0] == "generate/g_inv/0"


# Quality


def test_the_manifest_tells_the_quality_of_every_option(made, source, augmented):
    quality = made["generate"].manifest.summary["quality"]
    assert list(quality) == ["option_1", "option_2", "option_3", "source"]
    whole = of_origin(augmented, "g_whole")
    found = quality["option_3"]
    assert found["graphs"] == 600
    assert found["max_nodes"] == whole.num_nodes.max()
    above = float((whole.num_nodes > source.num_nodes.max()).mean())
    assert found["larger_than_training"] == pytest.approx(above, abs=1e-6)
    assert found["distinct"] == len(np.unique(wl_hashes(whole)))
    assert found["overlap_with_held_out"] == 0
    assert found["disconnected"] == 0
    assert quality["option_1"]["label_entropy"] == 0
    assert found["soft_labels"] == pytest.approx((whole.graph["label"] < 0).mean(), abs=1e-6)


def test_held_out_graphs_are_drawn_anew_and_counted(folder, made, source, monkeypatch):
    """Forbid some graphs that would have been made: they are replaced, and the count says so."""
    from gsx.stages.generate.splice import load_inputs as inputs

    plain = Corpus(generate(folder, made, options="001", count=50, augmented_only=True)).table()
    banned = np.unique(wl_hashes(plain))[:5]
    monkeypatch.setattr(inputs, "held_out_hashes", lambda _: banned)
    again = generate(folder, made, options="001", count=50, augmented_only=True, seed=0, ratio=None,
                     shard_graphs=4000)  # fmt: skip
    table = Corpus(again).table()
    assert not np.isin(wl_hashes(table), banned).any()
    found = again.manifest.summary["quality"]["option_3"]
    assert found["refused"] == {"held-out graph": 5}
    assert found["accepted_at_first"] == 0.9
    same = wl_hashes(plain) == wl_hashes(table)
    assert same.sum() == 45


# Variants


def test_without_bridges_components_stay_apart(folder, made):
    corpus = Corpus(generate(folder, made, options="001", count=40, bridges="none"))
    table = corpus.table(env=3)
    assert not is_connected(table).any()
    assert not len(table.lists("graph", "provenance.bridges").values)


@pytest.mark.parametrize(
    "options",
    [
        {"bridges": "random"},
        {"bridge_count": "sampled"},
        {"partners": "same-class"},
        {"partners": "same-piece", "attach": "chain", "f": [6, 8]},
        {"balanced": True, "attach": "star"},
    ],
)
def test_variants_give_connected_graphs(folder, made, options):
    corpus = Corpus(generate(folder, made, options="011", count=60, augmented_only=True, **options))
    table = corpus.table()
    assert len(table) == 120
    assert is_connected(table).all()
    if options.get("partners") == "same-class":
        assert (table.graph["label"] >= 0).all()
    if options.get("partners") == "same-piece":
        parents = of_origin(table, "g_whole").lists("graph", "provenance.parents")
        assert all(
            len(set(parents.values[a:b].tolist())) == 1
            for a, b in zip(parents.ptr[:-1], parents.ptr[1:], strict=True)
        )


def test_fragments_are_connected_parts_of_environmental_pieces(folder, made, source, pieces):
    options = {"options": "010", "count": 200, "fragments": 3, "augmented_only": True}
    table = Corpus(generate(folder, made, **options)).table()
    assert is_connected(table).all()
    parents, slot, component, row, node = traced(table, source)
    assert (pieces["environmental"][node[slot > 0]] == 1).all()
    assert (pieces["causal"][node[slot == 0]] == 1).all()
    sizes = np.bincount(component)
    whole = np.bincount(rows_of(source.node_ptr), pieces["environmental"])[row]
    rest = np.arange(len(row)) != np.repeat(parents.ptr[:-1], np.diff(parents.ptr))
    share = sizes[rest] / whole[rest]
    assert (share <= 1).all()
    assert 0.2 < (share == 1).mean() < 0.6


@pytest.mark.parametrize("fragments", [0, 2])
def test_grown_graphs_are_traced_to_their_sources(folder, made, source, pieces, fragments):
    """Every slot is a part of its parent; what joins slots, and chords, are told as bridges."""
    options = {"options": "010", "f": [1, 2], "count": 200, "augmented_only": True}
    more = {"grow": 2.0, "chords": 0.1, "ports": "own", "fragments": fragments}
    table = Corpus(generate(folder, made, **options, **more)).table()
    assert is_connected(table).all()
    assert table.num_nodes.max() > source.num_nodes.max()
    parents, slot, component, row, node = traced(table, source)
    assert (pieces["environmental"][node[slot > 0]] == 1).all()
    assert (pieces["causal"][node[slot == 0]] == 1).all()
    src, dst = global_edges(table)
    told = np.zeros(len(src), dtype=bool)
    bridges = table.lists("graph", "provenance.bridges")
    told[np.repeat(table.edge_ptr[:-1], np.diff(bridges.ptr)) + bridges.values] = True
    assert (component[src[~told]] == component[dst[~told]]).all()
    known = set(zip(*(ends.tolist() for ends in global_edges(source)), strict=True))
    inside = zip(node[src[~told]].tolist(), node[dst[~told]].tolist(), strict=True)
    assert set(inside) <= known
    both_causal = (slot[src] == 0) & (slot[dst] == 0)
    assert not (told & both_causal).any()
    assert np.array_equal(table.graph["y"], source.graph["y"][row[parents.ptr[:-1]]])


def test_augmented_graphs_alone_are_the_same_graphs(folder, made, augmented):
    alone = generate(folder, made, f=[2, 5], shard_graphs=500, augmented_only=True)
    table = Corpus(alone).table()
    assert table.equals(augmented)


def test_both_formats_hold_the_same_graphs(folder, made):
    artifact = generate(folder, made, options="001", count=80, formats=["parquet", "zarr"])
    left = Corpus(artifact, format="parquet").table()
    assert left.equals(Corpus(artifact, format="zarr").table())


def test_bridges_have_attributes_like_those_they_were_learned_from(tmp_path):
    corpus = write_small_corpus(
        tmp_path, attributed, attributed_info(), {"train": 150, "id_val": 30}
    )
    bridge = run_stage(tmp_path, "bridge", {"epochs": 4, "bridge_nodes": True}, {"prepare": corpus})
    given = {"prepare": corpus, "bridge": bridge}
    assert bridge.manifest.summary["quality"]["attribute"]["accuracy"] > 0.7
    for attributes, found in (("learned", {(0, 1), (1, 0)}), ("fixed", {(0, 1)})):
        options = {"options": "001", "count": 60, "attributes": attributes, "augmented_only": True}
        table = Corpus(run_stage(tmp_path, "generate", options, given)).table()
        bridges = table.lists("graph", "provenance.bridges")
        at = np.repeat(table.edge_ptr[:-1], np.diff(bridges.ptr)) + bridges.values
        assert {tuple(row) for row in table.edge["edge_attr"][at].tolist()} <= found
    options = {"options": "001", "count": 60, "bridge_nodes": True, "augmented_only": True}
    table = Corpus(run_stage(tmp_path, "generate", options, given)).table()
    slot = table.lists("graph", "provenance.node_slot").values
    bridges = np.diff(table.lists("graph", "provenance.bridges").ptr)
    assert is_connected(table).all()
    assert (slot == -1).sum() == bridges.sum() // 4
    degree = np.bincount(global_edges(table)[0], minlength=table.total_nodes)
    assert set(degree[slot == -1].tolist()) == {2}


# Determinism


def test_the_same_recipe_gives_the_same_bytes(made, tmp_path):
    again = run_recipe(tmp_path, RECIPE)
    assert again["generate"].manifest.digest == made["generate"].manifest.digest


def test_another_seed_gives_other_graphs(folder, made, augmented):
    other = Corpus(generate(folder, made, f=[2, 5], seed=1, augmented_only=True)).table()
    assert not np.array_equal(wl_hashes(other), wl_hashes(augmented))


def test_a_killed_run_goes_on_where_it_was_and_ends_in_the_same_bytes(folder, made, tmp_path):
    """Kill -9 after the first augmented shard; the next run keeps it and makes the rest."""
    plain = generate(folder, made, shard_graphs=300, seed=7)
    keys = {role: made[role].place.url for role in ("prepare", "extract", "bridge")}
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
        "given = {role: Store.at(sys.argv[2]).resolve(url) for role, url in keys.items()}\n"
        "made = run_stage(sys.argv[2], 'generate', {'shard_graphs': 300, 'seed': 7}, given)\n"
        "print(made.manifest.digest)\n"
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


# What is refused


def test_classes_have_no_answer_that_rules(folder, made):
    with pytest.raises(UsageError) as caught:
        generate(folder, made, options="001", labels="any")
    assert str(caught.value) == (
        "`labels = any` needs answers yes and no; motif-size is classification. Leave it out."
    )


def test_pieces_of_another_corpus_are_refused(folder, made):
    other = run_recipe(folder, '[prepare]\ndataset = "motif-base"\nnum_graphs = 500\n')["prepare"]
    with pytest.raises(
        UsageError, match=r"was trained on another corpus .motif-size. than motif-base"
    ):
        run_stage(folder, "generate", {"options": "100"}, {**made, "prepare": other})


def test_a_bridge_model_of_other_features_is_refused(folder, made, tmp_path):
    other = write_small_corpus(tmp_path, attributed, attributed_info())
    with pytest.raises(
        UsageError, match="reads 1 node and 0 edge features; attributed has 1 and 2"
    ):
        run_stage(folder, "generate", {"options": "001"}, {**made, "prepare": other})


def test_a_bridge_model_without_nodes_cannot_make_nodes(folder, made):
    with pytest.raises(UsageError, match="did not learn bridge nodes"):
        generate(folder, made, bridge_nodes=True)
