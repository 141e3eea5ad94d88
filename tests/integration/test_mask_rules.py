"""Masks by the paper's rule, and masks given by hand."""

import json

import numpy as np
import pytest
import torch
from safetensors.numpy import load

from gsx.errors import StageError, UsageError
from gsx.seeds import rng
from gsx.stages.graphs.feature_variance import FeatureRanges
from gsx.stages.mask.extrapolated_samples import read_training_samples, wrap_rows
from gsx.stages.mask.given_mask import select_features
from gsx.stages.mask.paper_mask import VarianceMask
from gsx.stages.mask.stage import STAGE, MaskConfig, resolve
from gsx.storage.corpora.corpus import Corpus
from tests.support.artifacts import gsx as command
from tests.support.run_stages import run_stage
from tests.support.synthetic_corpora import (
    planted_graphs,
    planted_nodes,
    planted_rows,
    write_planted,
)

SPURIOUS = planted_rows(9)[3]
NO_ENDS = FeatureRanges(np.full(12, -1e9), np.full(12, 1e9), np.zeros(12))


def run_mask(folder, corpus, **options):
    return run_stage(folder, "mask", options, {"prepare": corpus})


def read_arrays(artifact):
    return load(artifact.location.read_bytes("mask.safetensors", limit=1 << 24))


def quality(artifact):
    return artifact.manifest.summary["quality"]


# The paper's rule


def test_the_mask_is_hard_and_k1_k2_and_t_receive_gradients():
    mask = VarianceMask(np.array([1.0, 0.5, 0.4]), np.array([0.5, 0.9, 0.4]), np.array([1, 1, 0]))
    assert mask.threshold.item() == pytest.approx((0.5 - 0.4) / 2)
    values = mask()
    assert values.tolist() == [1, 0, 0]
    values[0].backward(retain_graph=True)
    # The first feature: a larger k1 selects it, a larger k2 or T does not.
    assert mask.k.grad[0] > 0 > mask.k.grad[1]
    assert mask.threshold.grad < 0
    mask.zero_grad()
    values[2].backward()
    assert mask.threshold.grad == 0  # a constant feature


@pytest.mark.parametrize("make", [planted_nodes, planted_graphs])
def test_scores_are_those_of_the_variances_and_the_trained_parameters(tmp_path, make):
    mask = run_mask(tmp_path, write_planted(tmp_path, *make(1200)), rule="paper", steps=3)
    arrays, values = read_arrays(mask), quality(mask)
    assert values["rule"] == "paper"
    expected = (
        values["k1"] * arrays["label_variance"] - values["k2"] * arrays["environment_variance"]
    )
    assert arrays["score"] == pytest.approx(expected)
    assert (arrays["mask"] == 1).tolist() == (arrays["score"] > values["threshold"]).tolist()
    # k1 = k2 = 1 and the mean score separate the planted features; three steps change little.
    assert (arrays["mask"] == 1).tolist() == SPURIOUS.tolist()
    history = json.loads(mask.location.read_bytes("history.json", limit=1 << 20))
    assert [row["masked"] for row in history["losses"]] == [6, 6, 6]
    assert history["trials"] == []


def test_variances_are_in_the_units_of_the_features(tmp_path):
    table, info = planted_graphs(400)
    features = np.array(table.dense("node", "node_feat"))
    corpus = write_planted(tmp_path, table, info)
    train = slice(0, int(table.node_ptr[400]))
    label, env = (
        np.repeat(table.dense("graph", name), table.num_nodes)[train]
        for name in ("label", "env_id")
    )
    arrays = read_arrays(run_mask(tmp_path, corpus, rule="paper", steps=1))
    for name, groups in (("label_variance", label), ("environment_variance", env)):
        expected = sum(
            (groups == group).mean() * features[train][groups == group].var(axis=0)
            for group in np.unique(groups)
        )
        assert arrays[name] == pytest.approx(expected, rel=1e-5)


def test_joint_training_shrinks_the_mask_to_nothing(tmp_path):
    """The published loss is smallest where nothing is extrapolated; the search does not use it."""
    corpus = write_planted(tmp_path, *planted_nodes(1200))
    mask = run_mask(tmp_path, corpus, rule="paper", steps=200)
    history = json.loads(mask.location.read_bytes("history.json", limit=1 << 20))
    assert history["losses"][0]["masked"] == 6
    assert quality(mask)["non_causal"] == 0
    assert quality(mask)["k1"] < 1 < quality(mask)["k2"]
    assert mask.manifest.warnings == (
        "No feature of planted-nodes is non-causal, so there is nothing to extrapolate.",
    )


def two_groups(make):
    """Return a table whose features are functions of label and environment alone."""
    table, info = make(60)
    level = "node" if make is planted_nodes else "graph"
    prefix = "node_" if level == "node" else ""
    label, env = (table.dense(level, f"{prefix}{name}") for name in ("label", "env_id"))
    values = rng(0, "groups").normal(size=(3, 4, 12)).astype(np.float32)
    rows = values[label, env % 2]
    env = (env % 2).astype(np.int32)
    if level == "graph":
        rows = rows.repeat(table.num_nodes, axis=0)
    changed = table.with_columns(node={"node_feat": rows}).with_columns(
        **{level: {f"{prefix}env_id": env}}
    )
    return changed, info, values


@pytest.mark.parametrize("make", [planted_nodes, planted_graphs])
def test_samples_move_away_from_a_partner_of_their_label_in_another_environment(tmp_path, make):
    table, info, values = two_groups(make)
    samples = read_training_samples(
        Corpus(write_planted(tmp_path, table, info)), seed=0, max_samples=1000
    )
    batch = samples.draw(rng(0, "draw"), NO_ENDS)
    readout = batch.readout.toarray()
    assert readout.sum(axis=1) == pytest.approx(1)
    assert len(batch.label) == len(readout) > 10
    own, moved = readout @ batch.own, readout @ batch.moved
    strengths = set()
    for row, label in enumerate(batch.label):
        env = int(np.abs(values[label, :2] - own[row]).sum(axis=1).argmin())
        direction = values[label, env] - values[label, 1 - env]
        strength = (moved[row] - own[row]) @ direction / (direction @ direction)
        assert moved[row] == pytest.approx(own[row] + strength * direction, abs=1e-4)
        strengths.add(round(float(strength), 6))
    assert len(strengths) == len(batch.label)  # one λ per pair
    assert min(strengths) > 0


def test_rows_wrap_into_the_ranges_of_their_features():
    bounds = FeatureRanges(np.array([0.0, 0.0]), np.array([1.0, 2.0]), np.array([0.0, 1.0]))
    rows = np.array([[1.25, 3.0], [-0.25, 1.2]])
    assert wrap_rows(rows, bounds) == pytest.approx(np.array([[0.25, 0.0], [0.75, 1.0]]))


@pytest.mark.parametrize("options", [{}, {"sparse": True}])
def test_same_seed_gives_identical_bytes(tmp_path, options):
    corpus = write_planted(tmp_path, *planted_nodes(300, **options))
    first, second, other = (
        run_mask(tmp_path / name, corpus, rule="paper", steps=20, seed=seed)
        for name, seed in (("a", 0), ("b", 0), ("c", 1))
    )
    assert first.manifest.digest == second.manifest.digest != other.manifest.digest


def test_held_out_nodes_have_no_influence(tmp_path):
    table, info = planted_nodes(300)
    held_out = table.dense("node", "node_split") != 0
    features = np.array(table.dense("node", "node_feat"))
    features[held_out] += 100
    changed = table.with_columns(node={"node_feat": features})
    original, other = (
        run_mask(
            tmp_path / name, write_planted(tmp_path / name, nodes, info), rule="paper", steps=9
        )
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
            tmp_path / name,
            write_planted(tmp_path / name, graphs, info, held_out=100),
            rule="paper",
            steps=9,
        )
        for name, graphs in (("a", table), ("b", changed))
    )
    assert original.manifest.digest == other.manifest.digest


def test_samples_without_partners_are_refused(tmp_path):
    table, info = planted_nodes(60)
    label = table.dense("node", "node_label")
    env = (label % 3).astype(np.int32)  # one environment per label
    corpus = write_planted(tmp_path, table.with_columns(node={"node_env_id": env}), info)
    with pytest.raises(StageError) as error:
        run_mask(tmp_path, corpus, rule="paper")
    assert str(error.value) == (
        "no training node of planted-nodes has a partner with its label in another environment. "
        "Prepare the corpus with environments, or use `--mask-rule search`."
    )


# Masks given by hand


def test_features_are_selected_by_name_number_or_range():
    names = ["degree", "colour", "2", "charge", "mass"]

    def selected(*texts):
        return np.flatnonzero(select_features(texts, names, "d")).tolist()

    assert selected("colour") == [1]
    assert selected("0", "mass") == [0, 4]
    assert selected("1-3", "0") == [0, 1, 2, 3]
    assert selected("2") == [2]


@pytest.mark.parametrize(
    ("text", "message"),
    [
        ("5", "features `5`: d has no such features. Its 3 features are numbered from 0."),
        ("2-1", "features `2-1`: d has no such features. Its 3 features are numbered from 0."),
        ("gren", "features `gren`: d has no feature of this name. Did you mean `green`? Features "
                 "may also be numbers from 0 to 2."),
    ],
)  # fmt: skip
def test_unknown_features_are_refused(text, message):
    with pytest.raises(UsageError) as error:
        select_features([text], ["red", "green", "blue"], "d")
    assert str(error.value) == message


def test_a_given_mask_selects_exactly_its_features(tmp_path):
    corpus = write_planted(tmp_path, *planted_graphs(300))
    mask = run_mask(tmp_path, corpus, features=["3", "7-8"])
    assert np.flatnonzero(read_arrays(mask)["mask"]).tolist() == [3, 7, 8]
    assert mask.manifest.summary["description"] == (
        "3 of 12 features of planted-graphs were selected by hand (7, 8, 3); 9 kept."
    )
    assert quality(mask)["rule"] == "given"
    assert not {"k1", "k2", "threshold"} & set(quality(mask))
    assert mask.manifest.warnings == ()
    learned = read_arrays(run_mask(tmp_path, corpus, steps=2))
    for name in ("low", "high", "step", "within_labels"):
        assert np.array_equal(read_arrays(mask)[name], learned[name])


def test_a_given_mask_decides_which_features_move(tmp_path):
    corpus = write_planted(tmp_path, *planted_graphs(300))
    mask = run_mask(tmp_path, corpus, features=["0", "5"])
    options = {"options": "000", "featx": True}
    inputs = {"prepare": corpus, "mask": mask}
    corpus = Corpus(run_stage(tmp_path, "generate", options, inputs))
    train = corpus.table(split="train", columns=["origin", "node_feat", "provenance.parents"])
    origins = corpus.info.column("origin").vocabulary
    is_source = train.dense("graph", "origin") == origins.index("source")
    source, moved = train.filter(is_source), train.filter(~is_source)
    parents = moved.lists("graph", "provenance.parents").values
    before = source.take(parents).dense("node", "node_feat")
    changed = (moved.dense("node", "node_feat") != before).any(axis=0)
    assert np.flatnonzero(changed).tolist() == [0, 5]


def test_a_constant_feature_is_refused(tmp_path):
    table, info = planted_nodes(300)
    features = np.array(table.dense("node", "node_feat"))
    features[:, 9] = 2
    corpus = write_planted(tmp_path, table.with_columns(node={"node_feat": features}), info)
    with pytest.raises(StageError) as error:
        run_mask(tmp_path, corpus, features=["8-9"])
    assert str(error.value) == (
        "feature 9 is constant over the training data, so it cannot be extrapolated. Remove it "
        "from the features."
    )


def test_a_rule_and_given_features_exclude_each_other():
    with pytest.raises(UsageError, match="features are given, so the rule `paper` has nothing"):
        resolve(MaskConfig(rule="paper", features=("1",)))


def test_masks_of_the_search_keep_their_keys():
    assert STAGE.added_options == {"rule": "search", "features": ()}
    config = MaskConfig()
    assert all(getattr(config, name) == value for name, value in STAGE.added_options.items())


def test_the_command_has_both_options(tmp_path):
    corpus = write_planted(tmp_path, *planted_graphs(100))
    store = ("--store", tmp_path)
    given = command("pretrain", "mask", corpus.key, "--features", "0, 2-3", *store)
    assert "3 of 12 features of planted-graphs were selected by hand" in given.out
    paper = ("--mask-rule", "paper", "--steps", 2)
    learned = command("pretrain", "mask", corpus.key, *paper, *store)
    assert "non-causal by the paper's rule" in learned.out
    both = command("pretrain", "mask", corpus.key, *paper, "--features", "1", *store)
    assert both.code == 2
    assert "features are given, so the rule `paper` has nothing to select" in both.err
    unknown = command("pretrain", "mask", corpus.key, "--features", "red", *store)
    assert unknown.code == 2
    assert "planted-graphs has no feature of this name" in unknown.err


@pytest.fixture(autouse=True)
def _one_thread():
    before = torch.get_num_threads()
    torch.set_num_threads(1)
    yield
    torch.set_num_threads(before)
