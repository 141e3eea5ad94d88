"""Training learns, is repeatable, and sees nothing of validation, test or truth."""

import json

import msgspec
import numpy as np
import pytest
import torch
from click.testing import CliRunner
from safetensors.torch import save_file

from gsx.cli.main import cli
from gsx.errors import StageError, UsageError
from gsx.stages.prepare.synthetic import motif
from gsx.stages.train.curves_svg import curves_svg
from gsx.stages.train.stage import TrainConfig, resolve
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
def made(tmp_path_factory):
    with pytest.MonkeyPatch.context() as patch:
        patch.setenv("GSX_CACHE", str(tmp_path_factory.mktemp("cache")))
        folder = tmp_path_factory.mktemp("store")
        return {"store": folder, **run_recipe(folder, RECIPE)}


def train(folder, corpus, **options):
    given = {**SMALL, "source": "prepare", **options}
    return run_stage(folder, "train", given, {"prepare": corpus})


def digest(artifact, name="weights-last.safetensors"):
    return artifact.manifest.files[name].sha256


def scores(artifact):
    return artifact.manifest.summary["quality"]["selection"]


def test_a_model_learns_more_than_chance(made):
    assert scores(made["train"])["id_val"]["id_test"] > 50


def test_an_artifact_holds_weights_by_every_rule_curves_and_scores(made):
    assert sorted(made["train"].manifest.files) == [
        "curves.json",
        "curves.svg",
        "model.json",
        "scores.json",
        "weights-id.safetensors",
        "weights-last.safetensors",
        "weights.safetensors",
    ]
    curves = json.loads(made["train"].place.read_bytes("curves.json", limit=1 << 20))
    assert [curve["epoch"] for curve in curves] == list(range(8))
    assert curves[-1]["loss"] < curves[0]["loss"]
    best = max(curves, key=lambda curve: (curve["ood_val"], curve["epoch"]))
    chosen = scores(made["train"])["ood_val"]
    assert chosen["epoch"] == best["epoch"]
    assert chosen["ood_test"] == best["ood_test"]
    assert scores(made["train"])["last"]["epoch"] == 7


def test_the_same_training_gives_the_same_bytes(made, tmp_path):
    again = run_recipe(tmp_path, RECIPE)["train"]
    assert again.manifest.digest == made["train"].manifest.digest


@pytest.mark.parametrize("learner", ["erm", "vrex", "irm", "groupdro", "coral", "dann"])
def test_every_learner_trains_the_same_twice(tmp_path, learner):
    corpus = write_small_corpus(tmp_path, unchanged, sizes=SIZES)
    one, two = (
        train(tmp_path / place, corpus, learner=learner, dropout=0.2, average=0.9)
        for place in ("a", "b")
    )
    assert one.manifest.digest == two.manifest.digest


@pytest.mark.parametrize(
    "options",
    [
        {"learner": "dann", "dropout": 0.3, "average": 0.9},
        {"learner": "groupdro", "schedule": "step", "milestone": 2, "env_balanced": True},
    ],
)
def test_a_stopped_run_goes_on_to_the_same_bytes(tmp_path, monkeypatch, options):
    corpus = write_small_corpus(tmp_path, unchanged, sizes=SIZES)
    whole = train(tmp_path / "whole", corpus, epochs=5, **options)
    begun = stop_training(monkeypatch, 3)
    with pytest.raises(KeyboardInterrupt):
        train(tmp_path / "parts", corpus, epochs=5, **options)
    resumed = train(tmp_path / "parts", corpus, epochs=5, **options)
    assert begun == [0, 1, 2, 3, 3, 4]
    assert resumed.manifest.digest == whole.manifest.digest
    assert not list(resumed.place.local.glob("checkpoint*"))


def test_a_run_that_was_stopped_on_another_kind_of_device_goes_on(tmp_path, monkeypatch):
    """Random streams of a GPU have another state than those of a CPU."""
    corpus = write_small_corpus(tmp_path, unchanged, sizes=SIZES)

    def save_as_on_a_gpu(arrays, path, metadata):
        if "stream" in arrays:
            arrays = {**arrays, "stream": torch.zeros(16, dtype=torch.uint8)}
        save_file(arrays, path, metadata)

    monkeypatch.setattr("safetensors.torch.save_file", save_as_on_a_gpu)
    begun = stop_training(monkeypatch, 1)
    with pytest.raises(KeyboardInterrupt):
        train(tmp_path, corpus, epochs=3, dropout=0.3)
    model = train(tmp_path, corpus, epochs=3, dropout=0.3)
    assert begun == [0, 1, 1, 2]
    curves = json.loads(model.place.read_bytes("curves.json", limit=1 << 20))
    assert [curve["epoch"] for curve in curves] == [0, 1, 2]


def test_the_learning_rate_falls_as_the_schedule_says(tmp_path):
    corpus = write_small_corpus(tmp_path, unchanged, sizes=SIZES)

    def rates(**options):
        model = train(tmp_path, corpus, epochs=4, learning_rate=0.1, **options)
        curves = json.loads(model.place.read_bytes("curves.json", limit=1 << 20))
        return [round(curve["learning_rate"], 6) for curve in curves]

    assert rates(schedule="constant") == [0.1, 0.1, 0.1, 0.1]
    assert rates(schedule="step", milestone=2) == [0.1, 0.1, 0.01, 0.01]
    assert rates(schedule="cosine") == [0.1, 0.085355, 0.05, 0.014645]


def test_training_on_source_graphs_alone_ignores_augmented_graphs(made, tmp_path):
    options = {**SMALL, "augmented": False}
    given = {"generate": made["generate"]}
    beside = run_stage(tmp_path, "train", options, given)
    alone = train(tmp_path, made["prepare"])
    assert digest(beside) == digest(alone)
    assert beside.manifest.counts == alone.manifest.counts
    everything = run_stage(tmp_path, "train", SMALL, given)
    assert digest(everything) != digest(alone)


def test_origins_choose_training_graphs(made, tmp_path):
    given = {"generate": made["generate"]}
    spliced = run_stage(tmp_path, "train", {**SMALL, "origins": ["g_whole"]}, given)
    assert spliced.manifest.counts == {"graphs": 180}
    with pytest.raises(StageError, match="no training graphs of origin g_inv"):
        run_stage(tmp_path, "train", {**SMALL, "origins": ["g_inv"]}, given)


def shuffled_labels(table):
    """Permute the labels of all graphs that are not for training, and all truth about pieces."""
    held = table.dense("graph", "split") != 0
    order = np.arange(len(table))
    order[held] = order[held][::-1]
    y, label = table.dense("graph", "y")[order], table.dense("graph", "label")[order]
    truth = table.dense("node", "node_truth")[::-1]
    return table.with_columns(graph={"y": y, "label": label}, node={"node_truth": truth})


def test_held_out_labels_and_truth_do_not_reach_the_weights(tmp_path):
    plain = write_small_corpus(tmp_path, unchanged, sizes=SIZES)
    permuted = write_small_corpus(tmp_path, shuffled_labels, sizes=SIZES)
    assert plain.manifest.digest != permuted.manifest.digest
    assert digest(train(tmp_path, plain)) == digest(train(tmp_path, permuted))


def test_only_splits_that_exist_are_scored(tmp_path):
    some = {"train": 180, "id_val": 30}
    corpus = write_small_corpus(tmp_path, unchanged, sizes=some)
    found = scores(train(tmp_path, corpus))
    assert sorted(found) == ["id_val", "last"]
    assert sorted(found["last"]) == ["epoch", "id_val"]


def test_edges_with_features_are_read(tmp_path):
    corpus = write_small_corpus(tmp_path, attributed, attributed_info(), SIZES)
    options = {"backbone": "vgin", "epochs": 10, "env_balanced": True}
    assert scores(train(tmp_path, corpus, **options))["last"]["id_val"] > 40


def one_class(table):
    held = table.dense("graph", "split") == 1
    y, label = (np.array(table.dense("graph", name)) for name in ("y", "label"))
    y[held], label[held] = np.eye(3)[0], 0
    return table.with_columns(graph={"y": y, "label": label})


def test_a_metric_without_meaning_is_refused_by_name_of_the_split(tmp_path):
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
        (without_labels, SIZES, {}, "no training graph of motif-size has a label"),
        (unchanged, {"id_val": 30}, {}, "motif-size has no `train` graphs"),
        (unknown_environments, SIZES, {"learner": "vrex"}, "`vrex` compares environments, but"),
        (
            unchanged,
            SIZES,
            {"learning_rate": 1e30},
            "the loss is (nan|inf) in epoch 0, batch .*No epoch had",
        ),
    ],
)
def test_what_cannot_be_learned_is_refused(tmp_path, change, sizes, options, message):
    corpus = write_small_corpus(tmp_path, change, sizes=sizes)
    with pytest.raises(StageError, match=message):
        train(tmp_path, corpus, **options)


@pytest.mark.parametrize(
    ("options", "message"),
    [
        ({"epochs": 0}, "epochs must be at least 1; got 0"),
        ({"batch_size": 1}, "batch_size must be at least 2; got 1"),
        ({"dropout": 1.0}, "dropout must lie in \\[0, 1\\); got 1.0"),
        ({"learning_rate": float("nan")}, "learning_rate must be positive; got nan"),
        ({"penalty": -1.0}, "penalty must not be negative; got -1.0"),
        ({"origins": ("g_hole",)}, "no origin `g_hole`. Did you mean `g_whole`?"),
        ({"augmented": False, "origins": ("source",)}, "leave `origins` out"),
    ],
)
def test_impossible_options_are_refused(options, message):
    with pytest.raises(UsageError, match=message):
        resolve(TrainConfig(**options))


@pytest.mark.parametrize(("learner", "penalty"), [("erm", 1.0), ("vrex", 1.0), ("groupdro", 0.01)])
def test_a_penalty_left_out_is_filled_in(learner, penalty):
    assert resolve(TrainConfig(learner=learner)).penalty == penalty
    assert resolve(TrainConfig(learner=learner, penalty=7.0)).penalty == 7.0


def test_presets_say_what_was_published():
    paper = TrainConfig.paper()
    assert (paper.width, paper.dropout, paper.epochs, paper.batch_size) == (300, 0.5, 200, 32)
    assert (paper.learning_rate, paper.schedule, paper.milestone) == (1e-3, "step", 150)
    assert TrainConfig.quick().epochs < TrainConfig().epochs == 20


def gsx(*words):
    return CliRunner().invoke(cli, [str(word) for word in words], catch_exceptions=False)


def test_the_command_line_trains_evaluates_and_tabulates(made, tmp_path):
    store = ("--store", made["store"])
    corpus = made["generate"].key
    options = ("--preset", "quick", "--epochs", 1, "--width", 8, "--results", tmp_path)
    results = [
        gsx("train", corpus, *options, "--method", name, *extra, "--json", *store)
        for name, extra in (("g-splice", ()), ("erm", ("--source-only",)))
    ]
    told = json.loads(results[1].stdout)
    assert told["kind"] == "model"
    assert told["counts"] == {"graphs": 360}
    document = json.loads((tmp_path / "motif-size" / "erm-0.json").read_text())
    assert document.keys() >= {
        "dataset", "method", "seed", "metric", "ood_val", "ood_test", "id_test", "selection",
        "preset", "epochs", "corpus_key", "model_key", "command", "commit", "seconds",
    }  # fmt: skip
    assert document["corpus_key"] == corpus
    assert document["model_key"] == told["key"]
    assert document["selection"] == "ood_val"
    assert document["ood_test"] == told["selection"]["ood_val"]["ood_test"]
    scored = json.loads(gsx("evaluate", told["key"], corpus, "--json", *store).stdout)
    assert scored["splits"]["ood_test"]["score"] == document["ood_test"]
    shown = gsx("evaluate", told["key"], corpus, "--selection", "last", *store).stdout
    assert shown.startswith("weights of the last epoch\nSPLIT     WHICH")
    table = gsx("table", tmp_path).stdout.splitlines()
    assert table[0] == "### motif-size"
    assert [line.split(" | ")[0] for line in table[4:]] == ["| erm", "| g-splice"]


def test_results_need_a_method(made, tmp_path):
    with pytest.raises(UsageError, match="--results DIR and --method NAME together"):
        gsx("train", made["prepare"].key, "--results", tmp_path, "--store", made["store"])


def test_a_picture_of_curves_is_well_formed():
    from xml.etree import ElementTree

    curves = [{"epoch": 0, "loss": 1.0, "id_val": 50.0}, {"epoch": 1, "loss": 0.5, "id_val": 60.0}]
    root = ElementTree.fromstring(curves_svg(curves, "accuracy", "a & b"))
    lines = root.findall("{http://www.w3.org/2000/svg}polyline")
    assert [line.get("points") for line in lines] == [
        "56.0,248.0 476.0,28.0",
        "532.0,28.0 952.0,248.0",
    ]
