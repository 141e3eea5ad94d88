"""Test scores of stored runs under several selection rules."""

import json

import pytest

from experiments.analysis.selection_rules import (
    FILE,
    document_bytes,
    rescore,
    summary,
    table,
)
from experiments.suite import RESULTS


def run(validation, test, metric="accuracy", curves=True, **more):
    """Return a result file; without curves, the last of equal epochs is the stored one."""
    best = (min if metric == "rmse" else max)(validation)
    stored = max(epoch for epoch, score in enumerate(validation) if score == best)
    rules = {"ood_val": stored, "last": len(test) - 1}
    document = {
        "dataset": "d", "method": "m", "seed": 0, "metric": metric, "ood_test": test[stored],
        "scores": {
            rule: {"epoch": epoch, "ood_val": validation[epoch], "ood_test": test[epoch]}
            for rule, epoch in rules.items()
        },
    }  # fmt: skip
    if curves:
        document["curves"] = {"ood_val": validation, "ood_test": test}
    return {**document, **more}


def test_rules_select_the_epochs_they_name():
    rescored = rescore(run([1, 3, 3, 2, 0, 0, 0, 0], [10, 20, 30, 40, 50, 60, 70, 80]))
    assert rescored.scores == {"last": 80, "ood_val": 30, "first": 20, "final": 30, "tail": 75}
    assert rescored.tied is True
    assert rescored.early is False


def test_runs_without_curves_have_the_stored_rules_only():
    rescored = rescore(run([3, 3, 2], [10, 20, 30], curves=False))
    assert rescored.scores == {"last": 30, "ood_val": 20}
    assert rescored.tied is None


def test_an_epoch_in_the_first_fifth_is_early():
    assert rescore(run([9, 0, 0, 0, 0, 0], [0] * 6)).early is True
    assert rescore(run([0, 9, 0, 0, 0], [0] * 5)).early is False


def test_mcc_is_counted_in_points_and_the_lowest_error_is_best():
    assert rescore(run([0.1, 0.3], [0.25, 0.5], "mcc")).scores["last"] == 50
    assert rescore(run([2.0, 1.0, 3.0], [5.0, 6.0, 7.0], "rmse")).scores["first"] == 6


def test_runs_without_test_scores_are_left_out():
    sealed = run([1, 2], [10, 20], curves=False)
    for scores in sealed["scores"].values():
        del scores["ood_test"]
    assert rescore(sealed) is None
    linear = run([1], [10], curves=False)
    del linear["scores"]["ood_val"]
    assert rescore(linear) is None


def test_runs_are_grouped_by_folder_and_dataset(tmp_path):
    for name, test in (("d/m-0", [10, 20]), ("d/m-1", [10, 40]), ("field/d/m-0", [10, 50])):
        path = tmp_path / f"{name}.json"
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_text(json.dumps(run([2, 1], test, curves=name.endswith("1"))))
    (tmp_path / "other.json").write_text("[]")
    (tmp_path / "mask.json").write_text('{"dataset": "d"}')
    comparison = summary(tmp_path)
    assert list(comparison) == ["main", "field"]
    row = comparison["main"]["d"]
    assert (row["runs"], row["curves"], row["tied"], row["last"], row["ood_val"]) == (
        2, 1, 0, 30, 10,
    )  # fmt: skip
    assert row["ood_val - last"] == {"mean": -20, "error": 10}
    assert row["first - final"] == {"mean": 0, "error": None}
    text = table(comparison)
    assert "| main | d | 2 | 30.0 | 10.0 | -20.0 ± 10.0 | 100% |" in text
    assert "| main | d | 1 | 0 | +0.0 | -30.0 | +0.0 |" in text
    assert "| field | d | 1 | 50.0 | 10.0 | -40.0 | 100% |" in text


def test_the_stored_comparison_is_that_of_the_stored_runs():
    assert FILE.read_bytes() == document_bytes(summary(RESULTS)), "run `make docs`"


@pytest.mark.parametrize(
    ("dataset", "difference"), [("motif-base", -10.6), ("twitch-language", -4.8)]
)
def test_selection_by_ood_validation_costs_points_where_validation_is_another_domain(
    dataset, difference
):
    row = summary(RESULTS)["main"][dataset]
    assert row["ood_val - last"]["mean"] == pytest.approx(difference, abs=0.05)
