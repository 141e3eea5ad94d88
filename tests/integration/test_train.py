"""Training learns, is reproducible, and uses no held-out labels or ground truth."""

import json

import msgspec
import numpy as np
import pytest
import torch
from click.testing import CliRunner
from safetensors.numpy import load_file
from safetensors.torch import save_file

from gsx.cli.main import cli
from gsx.errors import StageError, UsageError
from gsx.schema import ORIGINS, SPLITS
from gsx.stages.prepare.synthetic import motif
from gsx.stages.train.curves_svg import curves_svg
from gsx.stages.train.data import read_train
from gsx.stages.train.held_out_parents import COLUMNS, hold_out_parents
from gsx.stages.train.stage import TrainConfig, resolve
from gsx.storage.corpora.corpus import Corpus
from tests.support.run_stages import (
    attributed,
    attributed_info,
    run_recipe,
    run_stage,
    stop_training,
    unchanged,
    write_small_corpus,
)

SIZES = {"train": 180, "id_val": 30, "id_test": 30, "ood_val": 30, "ood_test": 30}
OOD_TEST = SPLITS.index("ood_test")
SMALL = {"width": 16, "epochs": 2, "batch_size": 32}
RECIPE = """
[prepare]
dataset = "motif-size"
num_graphs = 600
[generate]
options = "001"
bridges = "none"
ratio = 0.5
[train]
epochs = 8
width = 32
batch_size = 32
"""


@pytest.fixture(scope="module")
def artifacts(tmp_path_factory):
    with pytest.MonkeyPatch.context() as patch:
        patch.setenv("GSX_CACHE", str(tmp_path_factory.mktemp("cache")))
        folder = tmp_path_factory.mktemp("store")
        return {"store": folder, **run_recipe(folder, RECIPE)}


def train(folder, corpus, **options):
    options = {**SMALL, "source": "prepare", **options}
    return run_stage(folder, "train", options, {"prepare": corpus})


def digest(artifact, name="weights-last.safetensors"):
    return artifact.manifest.files[name].sha256


def scores(artifact):
    return artifact.manifest.summary["quality"]["selection"]


def test_a_model_is_better_than_chance(artifacts):
    assert scores(artifacts["train"])["id_val"]["id_test"] > 50


def test_an_artifact_contains_weights_of_every_rule_curves_and_scores(artifacts):
    assert sorted(artifacts["train"].manifest.files) == [
        "curves.json",
        "curves.svg",
        "model.json",
        "scores.json",
        "weights-id.safetensors",
        "weights-last.safetensors",
        "weights.safetensors",
    ]
    curves = json.loads(artifacts["train"].location.read_bytes("curves.json", limit=1 << 20))
    assert [curve["epoch"] for curve in curves] == list(range(8))
    assert curves[-1]["loss"] < curves[0]["loss"]
    best = max(curves, key=lambda curve: (curve["ood_val"], -curve["epoch"]))
    selected = scores(artifacts["train"])["ood_val"]
    assert selected["epoch"] == best["epoch"]
    assert selected["ood_test"] == best["ood_test"]
    assert scores(artifacts["train"])["last"]["epoch"] == 7
    assert artifacts["train"].manifest.summary["quality"]["selected"] == "last"


def test_the_same_training_gives_the_same_bytes(artifacts, tmp_path):
    again = run_recipe(tmp_path, RECIPE)["train"]
    assert again.manifest.digest == artifacts["train"].manifest.digest


@pytest.mark.parametrize("name", ["erm", "vrex", "irm", "groupdro", "coral", "dann"])
def test_algorithms_are_reproducible(tmp_path, name):
    corpus = write_small_corpus(tmp_path, unchanged, sizes=SIZES)
    one, two = (
        train(tmp_path / store, corpus, learner=name, dropout=0.2, average=0.9)
        for store in ("a", "b")
    )
    assert one.manifest.digest == two.manifest.digest


@pytest.mark.parametrize(
    "options",
    [
        {"learner": "dann", "dropout": 0.3, "average": 0.9},
        {"learner": "groupdro", "schedule": "step", "milestone": 2, "env_balanced": True},
    ],
)
def test_a_resumed_run_gives_the_same_bytes(tmp_path, monkeypatch, options):
    corpus = write_small_corpus(tmp_path, unchanged, sizes=SIZES)
    whole = train(tmp_path / "whole", corpus, epochs=5, **options)
    started_epochs = stop_training(monkeypatch, 3)
    with pytest.raises(KeyboardInterrupt):
        train(tmp_path / "parts", corpus, epochs=5, **options)
    resumed = train(tmp_path / "parts", corpus, epochs=5, **options)
    assert started_epochs == [0, 1, 2, 3, 3, 4]
    assert resumed.manifest.digest == whole.manifest.digest
    assert not list(resumed.location.local.glob("checkpoint*"))


def test_a_run_resumes_on_another_kind_of_device(tmp_path, monkeypatch):
    """Generators of a GPU have a state of another size than those of a CPU."""
    corpus = write_small_corpus(tmp_path, unchanged, sizes=SIZES)

    def save_as_on_a_gpu(arrays, path, metadata):
        if "stream" in arrays:
            arrays = {**arrays, "stream": torch.zeros(16, dtype=torch.uint8)}
        save_file(arrays, path, metadata)

    monkeypatch.setattr("safetensors.torch.save_file", save_as_on_a_gpu)
    started_epochs = stop_training(monkeypatch, 1)
    with pytest.raises(KeyboardInterrupt):
        train(tmp_path, corpus, epochs=3, dropout=0.3)
    model = train(tmp_path, corpus, epochs=3, dropout=0.3)
    assert started_epochs == [0, 1, 1, 2]
    curves = json.loads(model.location.read_bytes("curves.json", limit=1 << 20))
    assert [curve["epoch"] for curve in curves] == [0, 1, 2]


def last_weights(model):
    return load_file(model.location.local / "weights-last.safetensors")


def test_weight_decay_is_the_l2_penalty_of_adam(tmp_path):
    """With a penalty far above all gradients, Adam moves every weight towards 0 by its rate."""
    corpus = write_small_corpus(tmp_path, unchanged, sizes={"train": 180})
    options = {"epochs": 1, "batch_size": 180, "schedule": "constant", "learning_rate": 1e-3,
               "average": 0.0}  # fmt: skip
    decayed = last_weights(train(tmp_path, corpus, weight_decay=1e6, **options))
    # The initial weights: a learning rate that changes no float32.
    initial = last_weights(train(tmp_path, corpus, **{**options, "learning_rate": 1e-30}))
    for name in ("classify.weight", "layers.0.reduce.weight"):
        before, after = initial[name], decayed[name]
        assert np.allclose(after - before, -1e-3 * np.sign(before), atol=1e-6), name


@pytest.mark.parametrize("readout", ["sum", "mean+size"])
def test_models_with_other_readouts_are_evaluated(tmp_path, readout):
    corpus = write_small_corpus(tmp_path, unchanged, sizes=SIZES)
    model = train(tmp_path, corpus, readout=readout)
    options = ("--store", tmp_path, "--selection", "last", "--json")
    evaluation = json.loads(gsx("evaluate", model.key, corpus.key, *options).stdout)
    assert evaluation["splits"]["ood_test"]["score"] == scores(model)["last"]["ood_test"]
    assert digest(model) != digest(train(tmp_path, corpus))


@pytest.mark.parametrize("learner", ["dann", "mixup", "ciga", "lisa-subgraph", "gil"])
def test_readouts_work_with_algorithms_that_read_features(tmp_path, learner):
    corpus = write_small_corpus(tmp_path, unchanged, sizes=SIZES)
    train(tmp_path, corpus, readout="mean+size", learner=learner, epochs=1)


def test_the_learning_rate_follows_the_schedule(tmp_path):
    corpus = write_small_corpus(tmp_path, unchanged, sizes=SIZES)

    def rates(**options):
        model = train(tmp_path, corpus, epochs=4, learning_rate=0.1, **options)
        curves = json.loads(model.location.read_bytes("curves.json", limit=1 << 20))
        return [round(curve["learning_rate"], 6) for curve in curves]

    assert rates(schedule="constant") == [0.1, 0.1, 0.1, 0.1]
    assert rates(schedule="step", milestone=2) == [0.1, 0.1, 0.01, 0.01]
    assert rates(schedule="cosine") == [0.1, 0.085355, 0.05, 0.014645]


def test_training_without_augmented_graphs_equals_training_on_the_source(artifacts, tmp_path):
    options = {**SMALL, "augmented": False}
    inputs = {"generate": artifacts["generate"]}
    source_graphs = run_stage(tmp_path, "train", options, inputs)
    source_corpus = train(tmp_path, artifacts["prepare"])
    assert digest(source_graphs) == digest(source_corpus)
    assert source_graphs.manifest.counts == source_corpus.manifest.counts
    all_graphs = run_stage(tmp_path, "train", SMALL, inputs)
    assert digest(all_graphs) != digest(source_corpus)


def test_origins_select_training_graphs(artifacts, tmp_path):
    inputs = {"generate": artifacts["generate"]}
    spliced = run_stage(tmp_path, "train", {**SMALL, "origins": ["g_whole"]}, inputs)
    assert spliced.manifest.counts == {"graphs": 180}
    with pytest.raises(StageError, match="no training graphs of origin g_inv"):
        run_stage(tmp_path, "train", {**SMALL, "origins": ["g_inv"]}, inputs)


def shuffled_labels(table):
    """Reverse the order of held-out labels and of the ground truth of all nodes."""
    held = table.dense("graph", "split") != 0
    order = np.arange(len(table))
    order[held] = order[held][::-1]
    y, label = table.dense("graph", "y")[order], table.dense("graph", "label")[order]
    truth = table.dense("node", "node_truth")[::-1]
    return table.with_columns(graph={"y": y, "label": label}, node={"node_truth": truth})


def test_held_out_labels_and_ground_truth_do_not_affect_weights(tmp_path):
    plain = write_small_corpus(tmp_path, unchanged, sizes=SIZES)
    permuted = write_small_corpus(tmp_path, shuffled_labels, sizes=SIZES)
    assert plain.manifest.digest != permuted.manifest.digest
    assert digest(train(tmp_path, plain)) == digest(train(tmp_path, permuted))


def shuffled_test_labels(table):
    """Reverse the order of the labels of test splits."""
    tested = np.isin(table.dense("graph", "split"), [SPLITS.index("id_test"), OOD_TEST])
    order = np.arange(len(table))
    order[tested] = order[tested][::-1]
    y, label = table.dense("graph", "y")[order], table.dense("graph", "label")[order]
    return table.with_columns(graph={"y": y, "label": label})


@pytest.mark.parametrize("cached", [False, True])
def test_validation_alone_leaves_no_trace_of_test_splits(tmp_path, cached):
    options = {"evaluate": "validation", "epochs": 3, "average": 0.9}
    corpora = [
        write_small_corpus(tmp_path, change, sizes=SIZES)
        for change in (unchanged, shuffled_test_labels)
    ]
    if cached:
        for corpus in corpora:
            Corpus(corpus).hot(build=True)
    plain, permuted = (train(tmp_path, corpus, **options) for corpus in corpora)
    assert corpora[0].manifest.digest != corpora[1].manifest.digest
    assert plain.manifest.files == permuted.manifest.files
    assert plain.manifest.summary == permuted.manifest.summary
    for name in plain.manifest.files:
        limit = 1 << 20
        content = plain.location.read_bytes(name, limit=limit)
        assert content == permuted.location.read_bytes(name, limit=limit)
        assert b"_test" not in content
    everything = train(tmp_path, corpora[0], **{**options, "evaluate": "all"})
    assert digest(everything) == digest(plain)
    assert "evaluate" not in everything.manifest.config
    assert everything.manifest.key != plain.manifest.key


def test_validation_alone_reads_no_file_of_a_test_split(tmp_path, monkeypatch):
    corpus = write_small_corpus(tmp_path, unchanged, sizes=SIZES)
    read, plain = [], Corpus.read_group

    def recording(self, group, columns):
        read.append(self.shards[group[0]].split)
        return plain(self, group, columns)

    monkeypatch.setattr(Corpus, "read_group", recording)
    train(tmp_path, corpus, evaluate="validation")
    assert set(read) == {"train", "id_val", "ood_val"}


def test_the_first_of_equally_good_epochs_is_selected(tmp_path):
    """With a learning rate that changes no weight, all epochs are equal."""
    corpus = write_small_corpus(tmp_path, unchanged, sizes=SIZES)
    model = train(tmp_path, corpus, learning_rate=1e-30, epochs=3, select="ood_val", average=0.9)
    curves = json.loads(model.location.read_bytes("curves.json", limit=1 << 20))
    values = [curve["id_val"] for curve in curves]
    assert scores(model)["id_val"]["epoch"] == values.index(max(values))
    assert scores(model)["last"]["epoch"] == 2


def test_a_rule_needs_its_validation_set(artifacts, tmp_path):
    corpus = write_small_corpus(tmp_path, unchanged, sizes={"train": 180, "id_val": 30})
    with pytest.raises(StageError, match=r"motif-size has no split `ood_val`.*--select last"):
        train(tmp_path, corpus, select="ood_val")
    with pytest.raises(StageError, match=r"no augmented training graphs of held-out parents"):
        train(tmp_path, corpus, select="augmented")
    with pytest.raises(UsageError, match="replicas of nodes have no held-out parents"):
        resolve(TrainConfig(backbone="gcn", select="augmented"))


def test_augmented_graphs_of_held_out_parents_select_an_epoch(artifacts, tmp_path):
    inputs = {"generate": artifacts["generate"]}
    options = {**SMALL, "epochs": 4, "select": "augmented"}
    model, again = (run_stage(tmp_path / store, "train", options, inputs) for store in ("a", "b"))
    assert model.manifest.digest == again.manifest.digest
    curves = json.loads(model.location.read_bytes("curves.json", limit=1 << 20))
    values = [curve["augmented"] for curve in curves]
    assert scores(model)["augmented"]["epoch"] == values.index(max(values))
    assert model.manifest.summary["quality"]["selected"] == "augmented"
    assert "weights-augmented.safetensors" in model.manifest.files
    assert model.manifest.counts["graphs"] < 540
    store = ("--store", tmp_path / "a", "--json")
    corpus = artifacts["generate"].location.local
    evaluation = json.loads(gsx("evaluate", model.key, corpus, *store).stdout)
    assert evaluation["selection"] == "augmented"
    assert evaluation["splits"]["ood_test"]["score"] == scores(model)["augmented"]["ood_test"]


def test_no_training_graph_has_a_held_out_parent(artifacts):
    table = read_train(Corpus(artifacts["generate"]), None, COLUMNS)
    train, validation = hold_out_parents(table, "classification", "motif-size", 0)
    source = ORIGINS.index("source")
    trained_on = train.graph["graph_id"][train.graph["origin"] == source]
    parents = set(train.lists("graph", "provenance.parents").values)
    assert parents <= set(trained_on)
    assert (validation.graph["origin"] != source).all()
    lists = validation.lists("graph", "provenance.parents")
    for row in range(len(validation)):
        assert not set(lists.values[lists.ptr[row] : lists.ptr[row + 1]]) <= set(trained_on)
    assert 0.85 < len(trained_on) / (table.graph["origin"] == source).sum() < 0.95
    largest = np.sort(validation.graph["y"], axis=1)
    assert (largest[:, -1] > largest[:, -2]).all()
    held_out = set(table.graph["graph_id"][table.graph["origin"] == source]) - set(trained_on)
    partner = np.where(np.arange(len(table)) % 2, min(held_out), -1)
    moved = table.with_columns(graph={"provenance.partner": partner})
    train, _ = hold_out_parents(moved, "classification", "motif-size", 0)
    assert (train.graph["provenance.partner"] == -1).all()
    _, other = hold_out_parents(table, "classification", "motif-size", 1)
    assert set(other.graph["graph_id"]) != set(validation.graph["graph_id"])


def test_only_existing_splits_are_evaluated(tmp_path):
    corpus = write_small_corpus(tmp_path, unchanged, sizes={"train": 180, "id_val": 30})
    selection = scores(train(tmp_path, corpus))
    assert sorted(selection) == ["id_val", "last"]
    assert sorted(selection["last"]) == ["epoch", "id_val"]


def test_edge_features_are_used(tmp_path):
    corpus = write_small_corpus(tmp_path, attributed, attributed_info(), SIZES)
    options = {"backbone": "vgin", "epochs": 10, "env_balanced": True}
    assert scores(train(tmp_path, corpus, **options))["last"]["id_val"] > 40


def one_class(table):
    held = table.dense("graph", "split") == 1
    y, label = (np.array(table.dense("graph", name)) for name in ("y", "label"))
    y[held], label[held] = np.eye(3)[0], 0
    return table.with_columns(graph={"y": y, "label": label})


def test_a_split_with_an_undefined_metric_is_rejected(tmp_path):
    info = msgspec.structs.replace(motif.corpus_info("motif-size"), metric="mcc")
    corpus = write_small_corpus(tmp_path, one_class, info, SIZES)
    with pytest.raises(
        StageError, match=r"mcc is undefined on `id_val` of motif-size \(30 graphs\): all lab"
    ):
        train(tmp_path, corpus)


def without_labels(table):
    y = np.full_like(table.dense("graph", "y"), np.nan)
    label = np.full_like(table.dense("graph", "label"), -1)
    return table.with_columns(graph={"y": y, "label": label})


def unknown_environments(table):
    return table.with_columns(graph={"env_id": np.full(len(table), -1, dtype=np.int32)})


@pytest.mark.parametrize(
    ("change", "sizes", "options", "message"),
    [
        (without_labels, SIZES, {}, "motif-size has no labelled training graphs"),
        (unchanged, {"id_val": 30}, {}, "motif-size has no `train` split"),
        (unknown_environments, SIZES, {"learner": "vrex"}, "`vrex` compares environments, but"),
        (
            unchanged,
            SIZES,
            {"learning_rate": 1e30},
            "the loss is (nan|inf) in epoch 0, batch .*no checkpoint",
        ),
    ],
)
def test_untrainable_corpora_and_options_are_rejected(tmp_path, change, sizes, options, message):
    corpus = write_small_corpus(tmp_path, change, sizes=sizes)
    with pytest.raises(StageError, match=message):
        train(tmp_path, corpus, **options)


@pytest.mark.parametrize(
    ("options", "message"),
    [
        ({"epochs": 0}, "epochs must be at least 1; got 0"),
        ({"batch_size": 1}, "batch_size must be at least 2; got 1"),
        ({"dropout": 1.0}, "dropout must be in \\[0, 1\\); got 1.0"),
        ({"learning_rate": float("nan")}, "learning_rate must be positive; got nan"),
        ({"weight_decay": -1.0}, "weight_decay must not be negative; got -1.0"),
        ({"backbone": "gcn", "readout": "sum"}, "readout applies to graphs only"),
        ({"penalty": -1.0}, "penalty must not be negative; got -1.0"),
        ({"origins": ("g_hole",)}, "unknown origin `g_hole`. Did you mean `g_whole`?"),
        ({"augmented": False, "origins": ("source",)}, "Remove `origins`"),
    ],
)
def test_invalid_options_are_rejected(options, message):
    with pytest.raises(UsageError, match=message):
        resolve(TrainConfig(**options))


@pytest.mark.parametrize(("name", "penalty"), [("erm", 1.0), ("vrex", 1.0), ("groupdro", 0.01)])
def test_the_default_penalty_is_filled_in(name, penalty):
    assert resolve(TrainConfig(learner=name)).penalty == penalty
    assert resolve(TrainConfig(learner=name, penalty=7.0)).penalty == 7.0


def test_the_paper_preset_has_the_published_options():
    paper = TrainConfig.paper()
    assert (paper.width, paper.dropout, paper.epochs, paper.batch_size) == (300, 0.5, 200, 32)
    assert (paper.learning_rate, paper.schedule, paper.milestone) == (1e-3, "step", 150)
    assert (paper.average, paper.select, TrainConfig.of_nodes("paper").select) == (
        0, "ood_val", "ood_val"
    )  # fmt: skip
    assert TrainConfig.quick().epochs < TrainConfig().epochs == 20


def gsx(*words):
    return CliRunner().invoke(cli, [str(word) for word in words], catch_exceptions=False)


def test_the_command_line_trains_evaluates_and_tabulates(artifacts, tmp_path):
    store = ("--store", artifacts["store"])
    corpus = artifacts["generate"].key
    options = ("--preset", "quick", "--epochs", 1, "--width", 8, "--results", tmp_path)
    results = [
        gsx("train", corpus, *options, "--method", name, *extra, "--json", *store)
        for name, extra in (("g-splice", ()), ("erm", ("--source-only",)))
    ]
    model = json.loads(results[1].stdout)
    assert model["kind"] == "model"
    assert model["counts"] == {"graphs": 360}
    document = json.loads((tmp_path / "motif-size" / "erm-0.json").read_text())
    assert document.keys() >= {
        "dataset", "method", "seed", "metric", "ood_val", "ood_test", "id_test", "selection",
        "preset", "epochs", "corpus_key", "model_key", "command", "commit", "seconds",
    }  # fmt: skip
    assert document["corpus_key"] == corpus
    assert document["model_key"] == model["key"]
    assert document["selection"] == model["selected"] == "last"
    assert document["ood_test"] == model["selection"]["last"]["ood_test"]
    assert set(document["curves"]) == {"id_val", "id_test", "ood_val", "ood_test"}
    assert document["curves"]["ood_test"] == [document["ood_test"]]
    evaluation = json.loads(gsx("evaluate", model["key"], corpus, "--json", *store).stdout)
    assert evaluation["splits"]["ood_test"]["score"] == document["ood_test"]
    text = gsx("evaluate", model["key"], corpus, "--selection", "id_val", *store).stdout
    assert text.startswith("weights of the best epoch by id_val\nSPLIT     WHICH")
    table = gsx("table", tmp_path).stdout.splitlines()
    assert table[0] == "### motif-size: accuracy ↑"
    assert [line.split(" | ")[0] for line in table[4:]] == ["| erm", "| g-splice"]


def test_the_command_line_scores_validation_alone(artifacts, tmp_path):
    options = ("--preset", "quick", "--epochs", 1, "--width", 8, "--evaluate", "validation")
    store = ("--store", artifacts["store"])
    results = ("--results", tmp_path, "--method", "erm")
    table = gsx("train", artifacts["prepare"].key, *options, *results, *store).stdout
    (row,) = [line.split() for line in table.splitlines() if "best epoch by ood_val" in line]
    assert row[-1] == row[-3] == "-"
    document = json.loads((tmp_path / "motif-size" / "erm-0.json").read_text())
    assert document["ood_val"] is not None
    assert document["ood_test"] is document["id_test"] is None
    assert set(document["curves"]) == {"id_val", "ood_val"}
    assert "| erm |" in gsx("table", tmp_path).stdout


def test_results_need_a_method(artifacts, tmp_path):
    with pytest.raises(UsageError, match="--results DIR and --method NAME belong together"):
        gsx("train", artifacts["prepare"].key, "--results", tmp_path, "--store", artifacts["store"])


def test_curves_are_drawn_as_well_formed_svg():
    from xml.etree import ElementTree

    curves = [{"epoch": 0, "loss": 1.0, "id_val": 50.0}, {"epoch": 1, "loss": 0.5, "id_val": 60.0}]
    root = ElementTree.fromstring(curves_svg(curves, "accuracy", "a & b"))
    lines = root.findall("{http://www.w3.org/2000/svg}polyline")
    assert [line.get("points") for line in lines] == [
        "56.0,248.0 476.0,28.0",
        "532.0,28.0 952.0,248.0",
    ]


def test_steps_are_rounded_to_epochs_of_the_corpus(tmp_path):
    """Corpora of different sizes get about the same number of gradient steps."""
    epochs = {}
    for graphs in (40, 120):
        folder = tmp_path / str(graphs)
        corpus = write_small_corpus(folder, unchanged, sizes={"train": graphs, "ood_val": 30})
        options = {"source": "prepare", "width": 4, "batch_size": 10, "steps": 24}
        model = run_stage(folder, "train", options, {"prepare": corpus})
        curves = json.loads(model.location.read_bytes("curves.json", limit=1 << 20))
        epochs[graphs] = len(curves)
        equal = run_stage(
            folder,
            "train",
            {**options, "steps": None, "epochs": epochs[graphs]},
            {"prepare": corpus},
        )
        name = "weights-last.safetensors"
        assert equal.manifest.files[name].sha256 == model.manifest.files[name].sha256
    assert epochs == {40: 6, 120: 2}


def test_steps_and_epochs_exclude_each_other(tmp_path):
    corpus = write_small_corpus(tmp_path, unchanged)
    words = ["train", corpus.key, "--steps", "5", "--epochs", "2", "--store", str(tmp_path)]
    with pytest.raises(UsageError, match="exclude each other"):
        CliRunner().invoke(cli, words, catch_exceptions=False)
