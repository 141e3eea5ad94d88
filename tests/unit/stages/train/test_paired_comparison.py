"""Paired comparisons: differences, intervals, p values, and their correction."""

import json

import numpy as np
import pytest

from gsx.errors import StageError
from gsx.stages.train.paired_comparison import PairedRun, holm, paired_bootstrap
from tests.support.artifacts import gsx
from tests.support.run_stages import unchanged, write_small_corpus

SIZES = {"train": 180, "id_val": 30, "id_test": 60, "ood_val": 30, "ood_test": 60}


def run(seed, *, graphs=400, right=(0.8, 0.6), test=0):
    """Return predictions of three classes that are right with given probabilities."""
    labels = np.random.default_rng(test).integers(0, 3, graphs)
    random = np.random.default_rng([seed, test])
    logits = []
    for share in right:
        correct = random.random(graphs) < share
        predicted = np.where(correct, labels, (labels + 1) % 3)
        logits.append(np.eye(3)[predicted])
    return PairedRun(*logits, np.eye(3, dtype=np.float32)[labels])


def compare(runs, metric="accuracy"):
    return paired_bootstrap("toy", metric, "classification", runs)


def test_equal_methods_do_not_differ():
    one = run(0)
    same = PairedRun(one.method, one.method, one.y)
    row = compare([same, same])
    assert (row.difference, row.low, row.high, row.p) == (0, 0, 0, 1)


@pytest.mark.parametrize("metric", ["accuracy", "mcc"])
def test_a_clear_difference_is_found(metric):
    runs = [run(seed) for seed in range(5)]
    row = compare(runs, metric)
    assert row.seeds == 5
    assert row.low < row.difference < row.high
    assert row.low > 0
    assert row.p < 0.01
    swapped = compare([PairedRun(r.baseline, r.method, r.y) for r in runs], metric)
    assert (swapped.difference, swapped.low, swapped.high) == pytest.approx(
        (-row.difference, -row.high, -row.low)
    )
    assert row == compare(runs, metric)


def test_few_graphs_and_scattered_seeds_widen_the_interval():
    def width(runs):
        row = compare(runs)
        return row.high - row.low

    steady = [run(seed, right=(0.7, 0.6)) for seed in range(6)]
    few = [run(seed, graphs=40, right=(0.7, 0.6)) for seed in range(6)]
    scattered = [run(seed, right=(0.5 + 0.08 * seed, 0.6)) for seed in range(6)]
    assert width(few) > 1.5 * width(steady)
    assert width(scattered) > 1.5 * width(steady)


def test_the_interval_covers_the_true_difference():
    """Of 60 repetitions with other seeds and other test graphs, about 57 cover 10 points."""
    covered = 0
    for test in range(60):
        row = compare([run(seed, right=(0.7, 0.6), test=test) for seed in range(4)])
        covered += row.low <= 10 <= row.high
    assert 48 <= covered <= 60


def test_seeds_with_their_own_test_graphs_are_resampled_separately():
    row = compare([run(seed, test=seed) for seed in range(4)])
    assert row.low < row.difference < row.high
    uneven = compare([run(0, graphs=50), run(1, graphs=70, test=1)])
    assert uneven.seeds == 2


def test_one_class_has_no_comparison():
    y = np.tile([[1.0, 0.0]], (9, 1))
    with pytest.raises(StageError, match="mcc is undefined on toy"):
        compare([PairedRun(y, y, y)], "mcc")


def test_holm_multiplies_by_the_number_of_remaining_hypotheses():
    assert holm([0.01, 0.04, 0.03, 0.005]) == [0.03, 0.06, 0.06, 0.02]
    assert holm([0.6, 0.9]) == [1, 1]
    assert holm([0.02]) == [0.02]


@pytest.fixture
def results(tmp_path):
    """Write results of two methods with two seeds, and of one without a partner."""
    corpus = write_small_corpus(tmp_path, unchanged, sizes=SIZES)
    words = ("train", corpus.key, "--store", tmp_path, "--results", tmp_path / "results")
    for seed in (0, 1):
        network = ("--epochs", 1, "--width", 8, "--method", "gin", "--seed", seed)
        assert gsx(*words, *network).code == 0
        linear = ("--backbone", "wl", "--method", "wl", "--seed", seed)
        assert gsx(*words, *linear, *(["--seal"] if seed else [])).code == 0
    return tmp_path


def test_the_command_compares_networks_and_linear_models(results):
    words = ("compare", results / "results", "wl", "gin", "--store", results)
    refused = gsx(*words)
    assert refused.code == 2
    assert "is sealed. Run `gsx unseal" in refused.err
    (results / "results/motif-size/wl-0.json").rename(results / "kept")
    assert gsx("unseal", results / "results", "--store", results).code == 0
    (results / "kept").rename(results / "results/motif-size/wl-0.json")
    document = json.loads(gsx(*words, "--json").out)
    (row,) = document["comparisons"]
    assert (row["dataset"], row["seeds"]) == ("motif-size", 2)
    stored = {
        name: np.mean(
            [
                json.loads((results / f"results/motif-size/{name}-{seed}.json").read_text())[
                    "ood_test"
                ]
                for seed in (0, 1)
            ]
        )
        for name in ("wl", "gin")
    }
    assert row["method"] == pytest.approx(stored["wl"], abs=1e-3)
    assert row["baseline"] == pytest.approx(stored["gin"], abs=1e-3)
    assert row["p_holm"] == row["p"]
    assert "DIFFERENCE" in gsx(*words).out
    unknown = gsx("compare", results / "results", "wk", "gin", "--store", results)
    assert "has no method `wk`" in unknown.err
