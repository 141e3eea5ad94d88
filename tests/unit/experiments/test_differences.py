"""Differences of methods to a baseline: from trained models to the stored table."""

import json
import statistics

import pytest

from experiments.analysis import differences
from experiments.suite import RESULTS
from gsx.stages.train.result_file import write_result
from gsx.storage.artifacts.publish import BuildResult
from gsx.storage.artifacts.store import Store
from tests.support.run_stages import run_stage, unchanged, write_small_corpus

STORED = sorted((RESULTS / "differences").glob("*.json"))


@pytest.fixture(scope="module")
def compared(tmp_path_factory):
    folder = tmp_path_factory.mktemp("differences")
    sizes = {"train": 60, "id_val": 20, "id_test": 40, "ood_val": 20, "ood_test": 40}
    corpus = write_small_corpus(folder, unchanged, sizes=sizes)
    for method, epochs in (("none", 1), ("longer", 4)):
        for seed in (0, 1):
            options = {"epochs": epochs, "width": 8, "seed": seed, "source": "prepare"}
            model = run_stage(folder, "train", options, {"prepare": corpus})
            built = BuildResult(model, reused=False)
            write_result(folder / "results", method, "default", built, f"gsx train {method}")
    return folder / "results", differences.differences(folder / "results", "none", Store.at(folder))


def test_rows_hold_the_mean_scores_of_the_result_files(compared):
    folder, document = compared
    rows = {row["split"]: row for row in document["differences"]}
    assert rows.keys() == {"ood_test", "id_test"}
    for split, row in rows.items():
        means = {
            method: statistics.mean(
                json.loads(path.read_text())["scores"]["last"][split]
                for path in folder.rglob(f"{method}-*.json")
            )
            for method in ("none", "longer")
        }
        assert row["seeds"] == 2
        assert row["score"] == pytest.approx(means["longer"], abs=1e-3)
        assert row["baseline_score"] == pytest.approx(means["none"], abs=1e-3)
        assert row["low"] <= row["difference"] <= row["high"]
    assert document["recommended"] == {}


@pytest.mark.parametrize("path", STORED, ids=lambda path: path.stem)
def test_stored_differences_are_those_of_the_stored_runs(path):
    document = json.loads(path.read_text())
    for row in document["differences"]:
        runs = {
            method: {
                run["seed"]: run["scores"][run["selection"]][row["split"]]
                for file in (RESULTS / path.stem / row["dataset"]).glob(f"{method}-*.json")
                for run in [json.loads(file.read_text())]
            }
            for method in (row["method"], document["baseline"])
        }
        seeds = runs[row["method"]].keys() & runs[document["baseline"]].keys()
        assert len(seeds) == row["seeds"], row["dataset"]
        for name, method in (("score", row["method"]), ("baseline_score", document["baseline"])):
            mean = statistics.mean(runs[method][seed] for seed in seeds)
            assert row[name] == pytest.approx(mean, abs=2e-3), row["dataset"]
