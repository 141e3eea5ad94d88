"""The mask stage: features of the environment are found, truth is not used, bad data is refused."""

import json

import msgspec
import numpy as np
import pytest
from safetensors.numpy import load

from gsx.errors import StageError, UsageError
from gsx.stages.graphs.feature_variance import FeatureRanges
from gsx.stages.mask.feature_ranges import dataset_ranges, parse_feature_range, override_ranges
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


def mask_of(folder, corpus, **options):
    return run_stage(folder, "mask", options, {"prepare": corpus})


def arrays(artifact):
    return load(artifact.location.read_bytes("mask.safetensors", limit=1 << 24))


def planted_f1(artifact):
    truth = planted_rows(9)[3]
    return selection_scores(arrays(artifact)["mask"] == 1, truth)["f1"]


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
def test_planted_features_of_the_environment_are_found(tmp_path, make, options, seed):
    corpus = write_planted(tmp_path, *make(1200, seed, **options))
    assert planted_f1(mask_of(tmp_path, corpus)) >= 0.95


@pytest.mark.parametrize("dataset", ["cbas-color", "fsmotif-size-color", "fsmotif-base-color"])
def test_colors_are_called_non_causal(tmp_path, dataset):
    made = run_recipe(tmp_path, f'[prepare]\ndataset = "{dataset}"\n[mask]\n')
    quality = made["mask"].manifest.summary["quality"]
    assert quality["truth"]["f1"] >= 0.95
    shown = json.loads(command("show", made["mask"].key, "--store", tmp_path, "--json").out)
    assert shown["quality"] == quality
    assert "called non-causal" in shown["summary"]["words"]


def test_the_artifact_says_what_was_found(tmp_path):
    corpus = write_planted(tmp_path, *planted_nodes(1200))
    mask = mask_of(tmp_path, corpus)
    found = arrays(mask)
    quality = mask.manifest.summary["quality"]
    assert (found["score"] > quality["threshold"]).tolist() == (found["mask"] == 1).tolist()
    expected = quality["k1"] * found["within_labels"] - quality["k2"] * found["within_environments"]
    assert found["score"] == pytest.approx(expected)
    assert (found["low"] < found["high"]).all()
    called = json.loads(mask.location.read_bytes("called.json", limit=1 << 20))
    assert sorted(called["non_causal"], key=int) == ["6", "7", "8", "9", "10", "11"]
    assert sorted(called["kept"], key=int) == ["0", "1", "2", "3", "4", "5"]
    assert called["words"].startswith("6 of 12 features of planted-nodes are called non-causal")
    assert "; 6 are kept as they are." in called["words"]
    history = json.loads(mask.location.read_bytes("history.json", limit=1 << 20))
    losses = [row["label_loss"] for row in history["losses"]]
    assert np.mean(losses[-20:]) < 0.9 * np.mean(losses[:5])
    best = min(history["trials"], key=lambda row: row["cost"])
    assert best["masked"] == quality["non_causal"] == 6


def test_the_same_seed_gives_the_same_bytes(tmp_path):
    corpus = write_planted(tmp_path, *planted_nodes(300))
    first, again = (mask_of(tmp_path / name, corpus, steps=20) for name in "ab")
    assert first.manifest.digest == again.manifest.digest


def test_nothing_but_training_nodes_is_seen(tmp_path):
    table, info = planted_nodes(300)
    held = table.dense("node", "node_split") != 0
    features = np.array(table.dense("node", "node_feat"))
    features[held] += 100
    label = np.where(held, 0, table.dense("node", "node_label")).astype(np.int32)
    y = np.eye(3, dtype=np.float32)[label]
    changed = table.with_columns(node={"node_feat": features, "node_label": label, "node_y": y})
    plain, other = (
        mask_of(tmp_path / name, write_planted(tmp_path / name, each, info), steps=20)
        for name, each in (("a", table), ("b", changed))
    )
    assert plain.manifest.digest == other.manifest.digest


def test_held_out_graphs_are_not_seen(tmp_path):
    table, info = planted_graphs(300)
    last = np.repeat(np.arange(300) >= 200, 3)
    features = np.where(last[:, None], 9, table.dense("node", "node_feat")).astype(np.float32)
    changed = table.with_columns(node={"node_feat": features})
    plain, other = (
        mask_of(tmp_path / name, write_planted(tmp_path / name, each, info, held_out=100), steps=20)
        for name, each in (("a", table), ("b", changed))
    )
    assert plain.manifest.digest == other.manifest.digest


def test_the_truth_is_used_for_the_report_alone(tmp_path):
    table, info = planted_graphs(300)
    named = msgspec.structs.replace(info, name="cmnist-color")
    plain, known = (
        mask_of(tmp_path / name, write_planted(tmp_path / name, table, each), steps=20)
        for name, each in (("a", info), ("b", named))
    )
    assert "truth" not in plain.manifest.summary["quality"]
    assert known.manifest.summary["quality"]["truth"]["recall"] < 1
    for name in ("mask.safetensors", "history.json"):
        assert plain.manifest.files[name] == known.manifest.files[name]


def test_moments_do_not_depend_on_shards(tmp_path):
    corpus = write_planted(tmp_path, *planted_graphs(250))
    found = compute_feature_statistics(Corpus(corpus), seed=0, most=1000)
    whole, _ = planted_graphs(250)
    features = whole.dense("node", "node_feat").astype(np.float64)
    assert found.mean == pytest.approx(features.mean(axis=0))
    assert found.std == pytest.approx(features.std(axis=0, ddof=1))
    assert found.domains.low == pytest.approx(features.min(axis=0))
    assert (found.total, found.classes, found.envs) == (250, 3, 4)
    few = compute_feature_statistics(Corpus(corpus), seed=0, most=50)
    assert 20 < len(few.samples) < 80
    assert np.array_equal(few.in_envs, found.in_envs)


def changed_nodes(folder, **columns):
    table, info = planted_nodes(60)
    made = {
        name: np.broadcast_to(value, table.node[name].shape).astype(table.node[name].dtype)
        for name, value in columns.items()
    }
    return write_planted(folder, table.with_columns(node=made), info)


@pytest.mark.parametrize(
    ("columns", "message"),
    [
        ({"node_env_id": 2},
         "all training nodes of planted-nodes have one environment: no feature can be told to vary "
         "with it. Prepare the corpus with environments."),
        ({"node_env_id": -1},
         "no training node of planted-nodes has a label and an environment; prepare it with "
         "environments."),
        ({"node_label": 1, "node_y": [0, 1, 0]},
         "all training nodes of planted-nodes have one label: no feature can be told to make it."),
        ({"node_feat": 3},
         "all 12 features of planted-nodes are constant over its training data: nothing to "
         "extrapolate. Leave FeatX out."),
    ],
)  # fmt: skip
def test_data_that_teaches_nothing_is_refused(tmp_path, columns, message):
    corpus = changed_nodes(tmp_path, **columns)
    with pytest.raises(StageError) as error:
        mask_of(tmp_path, corpus)
    assert str(error.value) == message
    assert not (tmp_path / "mask").exists()


def test_other_labels_than_classes_are_refused(tmp_path):
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
    with pytest.raises(StageError, match="planted-graphs is regression; a mask compares samples"):
        mask_of(tmp_path, corpus)


def test_features_that_are_no_numbers_are_refused():
    with pytest.raises(StageError) as error:
        require_finite(np.array([[0.0, np.nan]]), "planted")
    assert str(error.value) == (
        "planted has training features that are NaN or infinite. Clean the source data; gsx does "
        "not guess features."
    )


def test_a_constant_feature_is_never_masked_and_is_named(tmp_path):
    table, info = planted_nodes(600)
    features = np.array(table.dense("node", "node_feat"))
    features[:, 9] = 2
    corpus = write_planted(tmp_path, table.with_columns(node={"node_feat": features}), info)
    mask = mask_of(tmp_path, corpus)
    assert arrays(mask)["mask"][9] == 0
    assert mask.manifest.summary["words"].endswith("; 6 are kept as they are, 1 never vary.")


def test_a_mask_of_nothing_or_of_everything_says_so(tmp_path):
    table, info = planted_nodes(600)
    features = table.dense("node", "node_feat")
    spurious = np.hstack([features[:, 6:], features[:, 6:]])
    causal = np.hstack([features[:, :6], features[:, :6]])
    warnings = [
        mask_of(folder, write_planted(folder, table.with_columns(node={"node_feat": each}), info))
        .manifest.warnings
        for folder, each in ((tmp_path / "a", spurious), (tmp_path / "b", causal))
    ]  # fmt: skip
    assert warnings[0] == (
        "every feature of planted-nodes that varies is called non-causal: labels must be told "
        "from structure, or from what features have in common between nodes",
    )
    assert warnings[1] == (
        "No feature of planted-nodes is called non-causal: nothing to extrapolate.",
    )


def test_given_domains_replace_inferred_ones(tmp_path):
    corpus = write_planted(tmp_path, *planted_nodes(300))
    mask = mask_of(tmp_path, corpus, steps=5, domains=["-9..9", "2-3=-20..20", "5=-8..8"])
    found = arrays(mask)
    assert found["low"].tolist() == [-9, -9, -20, -20, -9, -8, -9, -9, -9, -9, -9, -9]
    assert found["high"].tolist() == [9, 9, 20, 20, 9, 8, 9, 9, 9, 9, 9, 9]


@pytest.mark.parametrize(
    ("text", "message"),
    [
        ("1", "a domain is LOW..HIGH, LOW..HIGH:STEP or FEATURE=LOW..HIGH, such as 0..1, 0..255:1 "
              "or 0-2=0..1; got `1`"),
        ("2..1", "the domain `2..1` must go from a lower to a higher value"),
        ("0..1:0.3", "the step of the domain `0..1:0.3` must divide its length"),
        ("5-2=0..1", "the features of the domain `5-2=0..1` must count upwards"),
    ],
)  # fmt: skip
def test_what_is_no_domain_is_refused(text, message):
    with pytest.raises(UsageError) as error:
        resolve(MaskConfig(domains=(text,)))
    assert str(error.value) == message


@pytest.mark.parametrize(
    ("text", "message"),
    [
        ("0..1", "the domain `0..1` excludes training values of feature 1 of d, which go from 0 "
                 "to 4. Widen it, or leave it out."),
        ("9=0..1", "the domain `9=0..1` is for feature 9; d has 3"),
        ("2=0..1:1", "the domain `2=0..1:1` excludes training values of feature 2 of d that lie "
                     "between its steps. Leave the step out."),
    ],
)  # fmt: skip
def test_domains_that_exclude_the_data_are_refused(text, message):
    inferred = FeatureRanges(np.zeros(3), np.array([1.0, 4, 1]), np.array([1.0, 1, 0]))
    with pytest.raises((StageError, UsageError)) as error:
        override_ranges(inferred, [text], "d")
    assert str(error.value) == message
    assert override_ranges(inferred, ["1=0..8:1"], "d").high.tolist() == [1, 8, 1]


def test_ends_of_domains_are_those_of_features_in_single_precision():
    """0.3 as it is stored is more than the 0.3 that a user types, and 0.7 is less."""
    inferred = FeatureRanges(
        np.array([0, np.float32(0.7)], dtype=float),
        np.array([np.float32(0.3), 1]),
        np.array([np.float32(0.3), 0], dtype=float),
    )
    found = override_ranges(inferred, ["0=0..0.3", "1=0.7..1"], "d")
    assert found.contains(np.array([[0, 0.7], [0.3, 1]], dtype=np.float32)).all()
    assert found.low[1] < 0.7 < found.high[1]
    assert override_ranges(inferred, ["0=0..0.6:0.3"], "d").high[0] == 0.6
    with pytest.raises(StageError, match="excludes training values of feature 0"):
        override_ranges(inferred, ["0=0..0.2999"], "d")


def test_colors_lie_between_zero_and_one_whatever_training_shows(tmp_path):
    prepared = run_stage(
        tmp_path, "prepare", {"dataset": "fsmotif-base-color", "num_graphs": 100}, {}
    )
    inputs = {"prepare": prepared}
    mask = run_stage(tmp_path, "mask", {"steps": 5}, inputs)
    assert arrays(mask)["low"].tolist() == [0, 0, 0]
    assert arrays(mask)["high"].tolist() == [1, 1, 1]
    assert arrays(mask)["step"].tolist() == [0, 0, 0]
    assert mask.manifest.summary["domains"] == ["0..1"]
    said = run_stage(tmp_path, "mask", {"steps": 5, "domains": ["0..1"]}, inputs)
    assert said.manifest.digest == mask.manifest.digest
    other = run_stage(tmp_path, "mask", {"steps": 5, "domains": ["1=0..1:1"]}, inputs)
    assert arrays(other)["step"].tolist() == [0, 1, 0]
    assert other.manifest.summary["domains"] == ["0..1", "1=0..1:1"]


def test_what_is_known_of_a_dataset_is_not_said_of_other_data_of_its_name():
    grid = FeatureRanges(np.zeros(2), np.ones(2), np.ones(2))
    assert dataset_ranges(grid, "cbas-color") == ("0..1",)
    assert dataset_ranges(FeatureRanges(np.zeros(2), np.array([1.0, 2]), np.ones(2)), "cbas-color") == ()
    assert dataset_ranges(grid, "mine") == ()


def test_domains_are_read_as_written():
    assert parse_feature_range("-1.5..2e1").low == -1.5
    assert parse_feature_range("3=0..255:1").step == 1
    assert parse_feature_range("0-2=0..1").last == 2


@pytest.mark.parametrize("name", ["steps", "width"])
def test_numbers_that_cannot_work_are_refused(name):
    with pytest.raises(UsageError, match=f"{name} must be at least 1; got 0"):
        resolve(MaskConfig(**{name: 0}))
    with pytest.raises(UsageError, match="samples must be at least 10; got 3"):
        resolve(MaskConfig(samples=3))
