"""The mask stage: accuracy, independence from ground truth, rejected data, feature ranges."""

import json

import msgspec
import numpy as np
import pytest
from safetensors.numpy import load

from gsx.errors import StageError, UsageError
from gsx.stages.graphs.feature_variance import FeatureRanges
from gsx.stages.mask.feature_ranges import dataset_ranges, override_ranges, parse_feature_range
from gsx.stages.mask.feature_statistics import compute_feature_statistics, require_finite
from gsx.stages.mask.metrics import selection_scores
from gsx.stages.mask.stage import MaskConfig, resolve
from gsx.storage.corpora.corpus import Corpus
from tests.support.artifacts import gsx as command
from tests.support.run_stages import run_recipe, run_stage
from tests.support.synthetic_corpora import (
    planted_graphs,
    planted_nodes,
    planted_rows,
    write_planted,
)


def run_mask(folder, corpus, **options):
    return run_stage(folder, "mask", options, {"prepare": corpus})


def read_arrays(artifact):
    return load(artifact.location.read_bytes("mask.safetensors", limit=1 << 24))


def planted_f1(artifact):
    truth = planted_rows(9)[3]
    return selection_scores(read_arrays(artifact)["mask"] == 1, truth)["f1"]


@pytest.mark.parametrize(
    ("make", "options"),
    [
        (planted_nodes, {}),
        (planted_nodes, {"sparse": True}),
        (planted_nodes, {"binary": True}),
        (planted_nodes, {"correlated": 0.4}),
        (planted_graphs, {}),
    ],
)
@pytest.mark.parametrize("seed", [0, 1])
def test_planted_environment_features_are_selected(tmp_path, make, options, seed):
    corpus = write_planted(tmp_path, *make(1200, seed, **options))
    assert planted_f1(run_mask(tmp_path, corpus)) >= 0.95


@pytest.mark.parametrize("dataset", ["cbas-color", "fsmotif-size-color", "fsmotif-base-color"])
def test_colors_are_selected_as_non_causal(tmp_path, dataset):
    mask = run_recipe(tmp_path, f'[prepare]\ndataset = "{dataset}"\n[mask]\n')["mask"]
    quality = mask.manifest.summary["quality"]
    assert quality["truth"]["f1"] >= 0.95
    shown = json.loads(command("show", mask.key, "--store", tmp_path, "--json").out)
    assert shown["quality"] == quality
    assert "non-causal" in shown["summary"]["description"]


def test_artifact_contains_scores_features_and_history(tmp_path):
    corpus = write_planted(tmp_path, *planted_nodes(1200))
    mask = run_mask(tmp_path, corpus)
    arrays = read_arrays(mask)
    quality = mask.manifest.summary["quality"]
    assert (arrays["score"] > quality["threshold"]).tolist() == (arrays["mask"] == 1).tolist()
    expected = (
        quality["k1"] * arrays["within_labels"] - quality["k2"] * arrays["within_environments"]
    )
    assert arrays["score"] == pytest.approx(expected)
    assert (arrays["low"] < arrays["high"]).all()
    roles = json.loads(mask.location.read_bytes("features.json", limit=1 << 20))
    assert sorted(roles["non_causal"], key=int) == ["6", "7", "8", "9", "10", "11"]
    assert sorted(roles["kept"], key=int) == ["0", "1", "2", "3", "4", "5"]
    assert roles["description"].startswith("6 of 12 features of planted-nodes are non-causal")
    assert "; 6 kept." in roles["description"]
    history = json.loads(mask.location.read_bytes("history.json", limit=1 << 20))
    losses = [row["label_loss"] for row in history["losses"]]
    assert np.mean(losses[-20:]) < 0.9 * np.mean(losses[:5])
    best = min(history["trials"], key=lambda row: row["cost"])
    assert best["masked"] == quality["non_causal"] == 6


def test_same_seed_gives_identical_bytes(tmp_path):
    corpus = write_planted(tmp_path, *planted_nodes(300))
    first, second = (run_mask(tmp_path / name, corpus, steps=20) for name in "ab")
    assert first.manifest.digest == second.manifest.digest


def test_held_out_nodes_have_no_influence(tmp_path):
    table, info = planted_nodes(300)
    held_out = table.dense("node", "node_split") != 0
    features = np.array(table.dense("node", "node_feat"))
    features[held_out] += 100
    label = np.where(held_out, 0, table.dense("node", "node_label")).astype(np.int32)
    y = np.eye(3, dtype=np.float32)[label]
    changed = table.with_columns(node={"node_feat": features, "node_label": label, "node_y": y})
    original, other = (
        run_mask(tmp_path / name, write_planted(tmp_path / name, nodes, info), steps=20)
        for name, nodes in (("a", table), ("b", changed))
    )
    assert original.manifest.digest == other.manifest.digest


def test_held_out_graphs_have_no_influence(tmp_path):
    table, info = planted_graphs(300)
    held_out = np.repeat(np.arange(300) >= 200, 3)
    features = np.where(held_out[:, None], 9, table.dense("node", "node_feat")).astype(np.float32)
    changed = table.with_columns(node={"node_feat": features})
    original, other = (
        run_mask(
            tmp_path / name, write_planted(tmp_path / name, graphs, info, held_out=100), steps=20
        )
        for name, graphs in (("a", table), ("b", changed))
    )
    assert original.manifest.digest == other.manifest.digest


def test_true_mask_changes_the_reported_quality_only(tmp_path):
    table, info = planted_graphs(300)
    color_info = msgspec.structs.replace(info, name="cmnist-color")
    without_truth, with_truth = (
        run_mask(tmp_path / name, write_planted(tmp_path / name, table, corpus_info), steps=20)
        for name, corpus_info in (("a", info), ("b", color_info))
    )
    assert "truth" not in without_truth.manifest.summary["quality"]
    assert with_truth.manifest.summary["quality"]["truth"]["recall"] < 1
    for name in ("mask.safetensors", "history.json"):
        assert without_truth.manifest.files[name] == with_truth.manifest.files[name]


def test_statistics_over_shards_equal_those_of_the_whole_table(tmp_path):
    corpus = write_planted(tmp_path, *planted_graphs(250))
    statistics = compute_feature_statistics(Corpus(corpus), seed=0, max_samples=1000)
    whole, _ = planted_graphs(250)
    features = whole.dense("node", "node_feat").astype(np.float64)
    assert statistics.mean == pytest.approx(features.mean(axis=0))
    assert statistics.std == pytest.approx(features.std(axis=0, ddof=1))
    assert statistics.ranges.low == pytest.approx(features.min(axis=0))
    assert statistics.num_samples == 250
    assert (statistics.num_classes, statistics.num_environments) == (3, 4)
    few = compute_feature_statistics(Corpus(corpus), seed=0, max_samples=50)
    assert 20 < len(few.samples) < 80
    assert np.array_equal(few.within_environments, statistics.within_environments)


def write_changed_nodes(folder, **columns):
    table, info = planted_nodes(60)
    changed = {
        name: np.broadcast_to(value, table.node[name].shape).astype(table.node[name].dtype)
        for name, value in columns.items()
    }
    return write_planted(folder, table.with_columns(node=changed), info)


@pytest.mark.parametrize(
    ("columns", "message"),
    [
        ({"node_env_id": 2},
         "all training nodes of planted-nodes have one environment, so environment-dependent "
         "features cannot be identified. Prepare the corpus with environments."),
        ({"node_env_id": -1},
         "no training node of planted-nodes has a label and an environment. Prepare the corpus "
         "with environments."),
        ({"node_label": 1, "node_y": [0, 1, 0]},
         "all training nodes of planted-nodes have one label, so causal features cannot be "
         "identified. Prepare the corpus with at least two labels."),
        ({"node_feat": 3},
         "all 12 features of planted-nodes are constant over its training data, so there is "
         "nothing to extrapolate. Omit --featx."),
    ],
)  # fmt: skip
def test_uninformative_data_is_rejected(tmp_path, columns, message):
    corpus = write_changed_nodes(tmp_path, **columns)
    with pytest.raises(StageError) as error:
        run_mask(tmp_path, corpus)
    assert str(error.value) == message
    assert not (tmp_path / "mask").exists()


def test_regression_is_rejected(tmp_path):
    table, info = planted_graphs(20)
    y = table.dense("graph", "y")[:, :1]
    label = np.full(20, -1, dtype=np.int32)
    columns = [
        msgspec.structs.replace(column, width=1) if column.name == "y" else column
        for column in info.columns
    ]
    info = msgspec.structs.replace(
        info, task="regression", outputs=("a",), metric="rmse", columns=tuple(columns)
    )
    corpus = write_planted(tmp_path, table.with_columns(graph={"y": y, "label": label}), info)
    message = "planted-graphs has the task regression, but a mask compares samples"
    with pytest.raises(StageError, match=message):
        run_mask(tmp_path, corpus)


def test_nan_features_are_rejected():
    with pytest.raises(StageError) as error:
        require_finite(np.array([[0.0, np.nan]]), "planted")
    assert str(error.value) == (
        "planted has training features that are NaN or infinite. Clean the source data; gsx does "
        "not impute features."
    )


def test_constant_feature_is_never_masked_and_is_counted(tmp_path):
    table, info = planted_nodes(600)
    features = np.array(table.dense("node", "node_feat"))
    features[:, 9] = 2
    corpus = write_planted(tmp_path, table.with_columns(node={"node_feat": features}), info)
    mask = run_mask(tmp_path, corpus)
    assert read_arrays(mask)["mask"][9] == 0
    assert mask.manifest.summary["description"].endswith("; 6 kept, 1 constant.")


def test_masks_of_all_or_no_features_have_a_warning(tmp_path):
    table, info = planted_nodes(600)
    features = table.dense("node", "node_feat")
    spurious = np.hstack([features[:, 6:], features[:, 6:]])
    causal = np.hstack([features[:, :6], features[:, :6]])

    def warnings(name, values):
        changed = table.with_columns(node={"node_feat": values})
        corpus = write_planted(tmp_path / name, changed, info)
        return run_mask(tmp_path / name, corpus).manifest.warnings

    assert warnings("a", spurious) == (
        "all varying features of planted-nodes are non-causal, so a model must predict labels from "
        "structure, or from relations between the features of different nodes",
    )
    assert warnings("b", causal) == (
        "No feature of planted-nodes is non-causal, so there is nothing to extrapolate.",
    )


def test_configured_ranges_replace_inferred_ones(tmp_path):
    corpus = write_planted(tmp_path, *planted_nodes(300))
    mask = run_mask(tmp_path, corpus, steps=5, feature_ranges=["-9..9", "2-3=-20..20", "5=-8..8"])
    arrays = read_arrays(mask)
    assert arrays["low"].tolist() == [-9, -9, -20, -20, -9, -8, -9, -9, -9, -9, -9, -9]
    assert arrays["high"].tolist() == [9, 9, 20, 20, 9, 8, 9, 9, 9, 9, 9, 9]


@pytest.mark.parametrize(
    ("text", "message"),
    [
        ("1", "`1` is not a feature range. Write LOW..HIGH, LOW..HIGH:STEP, +PERCENT% or "
              "FEATURE=LOW..HIGH, such as 0..1, 0..255:1, +50% or 0-2=0..1."),
        ("2..1", "feature range `2..1`: LOW must be less than HIGH"),
        ("0..1:0.3", "feature range `0..1:0.3`: STEP must divide HIGH - LOW"),
        ("5-2=0..1", "feature range `5-2=0..1`: the first feature must not exceed the last"),
    ],
)  # fmt: skip
def test_invalid_ranges_are_rejected(text, message):
    with pytest.raises(UsageError) as error:
        resolve(MaskConfig(feature_ranges=(text,)))
    assert str(error.value) == message


@pytest.mark.parametrize(
    ("text", "message"),
    [
        ("0..1", "feature range `0..1`: training values of feature 1 of d range from 0 to 4. Widen "
                 "the range, or omit it."),
        ("9=0..1", "feature range `9=0..1`: d has no feature 9. Its 3 features are numbered from "
                   "0."),
        ("2=0..1:1", "feature range `2=0..1:1`: feature 2 of d has training values between the "
                     "steps. Omit STEP."),
    ],
)  # fmt: skip
def test_ranges_that_exclude_training_values_are_rejected(text, message):
    inferred = FeatureRanges(np.zeros(3), np.array([1.0, 4, 1]), np.array([1.0, 1, 0]))
    with pytest.raises((StageError, UsageError)) as error:
        override_ranges(inferred, [text], "d")
    assert str(error.value) == message
    assert override_ranges(inferred, ["1=0..8:1"], "d").high.tolist() == [1, 8, 1]


def test_ends_of_ranges_tolerate_single_precision():
    """In single precision, 0.3 is larger than in double precision, and 0.7 is smaller."""
    inferred = FeatureRanges(
        np.array([0, np.float32(0.7)], dtype=float),
        np.array([np.float32(0.3), 1]),
        np.array([np.float32(0.3), 0], dtype=float),
    )
    ranges = override_ranges(inferred, ["0=0..0.3", "1=0.7..1"], "d")
    assert ranges.contains(np.array([[0, 0.7], [0.3, 1]], dtype=np.float32)).all()
    assert ranges.low[1] < 0.7 < ranges.high[1]
    assert override_ranges(inferred, ["0=0..0.6:0.3"], "d").high[0] == 0.6
    with pytest.raises(StageError, match=r"feature 0 of d range from 0 to 0\.3"):
        override_ranges(inferred, ["0=0..0.2999"], "d")


def test_colors_have_the_range_0_to_1_whatever_the_training_data(tmp_path):
    prepared = run_stage(
        tmp_path, "prepare", {"dataset": "fsmotif-base-color", "num_graphs": 100}, {}
    )
    inputs = {"prepare": prepared}
    mask = run_stage(tmp_path, "mask", {"steps": 5}, inputs)
    assert read_arrays(mask)["low"].tolist() == [0, 0, 0]
    assert read_arrays(mask)["high"].tolist() == [1, 1, 1]
    assert read_arrays(mask)["step"].tolist() == [0, 0, 0]
    assert mask.manifest.summary["feature_ranges"] == ["0..1"]
    same = run_stage(tmp_path, "mask", {"steps": 5, "feature_ranges": ["0..1"]}, inputs)
    assert same.manifest.digest == mask.manifest.digest
    other = run_stage(tmp_path, "mask", {"steps": 5, "feature_ranges": ["1=0..1:1"]}, inputs)
    assert read_arrays(other)["step"].tolist() == [0, 1, 0]
    assert other.manifest.summary["feature_ranges"] == ["0..1", "1=0..1:1"]


def test_dataset_ranges_do_not_apply_to_other_data_of_the_same_name():
    unit = FeatureRanges(np.zeros(2), np.ones(2), np.ones(2))
    wider = FeatureRanges(np.zeros(2), np.array([1.0, 2]), np.ones(2))
    assert dataset_ranges(unit, "cbas-color") == ("0..1",)
    assert dataset_ranges(wider, "cbas-color") == ()
    assert dataset_ranges(unit, "mine") == ()


def test_ranges_are_parsed():
    assert parse_feature_range("-1.5..2e1").low == -1.5
    assert parse_feature_range("3=0..255:1").step == 1
    assert parse_feature_range("0-2=0..1").last == 2


def test_ranges_widen_by_a_fraction_of_their_width():
    """Continuous, integer grid, two values, constant."""
    inferred = FeatureRanges(
        np.array([0.0, 0, 0, 5]), np.array([4.0, 9, 1, 5]), np.array([0.0, 1, 1, 0])
    )
    ranges = override_ranges(inferred, ["+50%"], "d")
    assert ranges.low.tolist() == [-2, -4, 0, 5]
    assert ranges.high.tolist() == [6, 13, 1, 5]
    assert ranges.step.tolist() == inferred.step.tolist()
    only = override_ranges(inferred, ["1=+100%"], "d")
    assert only.high.tolist() == [4, 18, 1, 5]


def test_ranges_by_name():
    inferred = FeatureRanges(np.zeros(2), np.ones(2), np.zeros(2))
    names = ["length", "a=b"]
    assert override_ranges(inferred, ["length=0..9"], "d", names).high.tolist() == [9, 1]
    assert override_ranges(inferred, ["a=b=+100%"], "d", names).high.tolist() == [1, 2]
    with pytest.raises(UsageError, match="d has no feature `width`; its features are length, a=b"):
        override_ranges(inferred, ["width=0..9"], "d", names)
    with pytest.raises(UsageError, match="its 2 features have no names and are numbered from 0"):
        override_ranges(inferred, ["width=0..9"], "d")


@pytest.mark.parametrize("name", ["steps", "width"])
def test_options_out_of_range_are_rejected(name):
    with pytest.raises(UsageError, match=f"{name} must be at least 1; got 0"):
        resolve(MaskConfig(**{name: 0}))
    with pytest.raises(UsageError, match="samples must be at least 10; got 3"):
        resolve(MaskConfig(samples=3))
