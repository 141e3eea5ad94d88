"""The shift report: what it counts, and what it warns of."""

import json

import numpy as np
import pytest

from gsx.pipeline.plan import make_plan
from gsx.pipeline.recipe import parse_recipe
from gsx.pipeline.runner import run_plan
from gsx.seeds import rng
from gsx.stages.describe.shift import shift_distance, count_repeated
from gsx.storage.artifacts.store import Store
from tests.unit.stages.prepare.benchmarks.test_tu import paths_of, zipped


def described(tmp_path, prepare):
    plan = make_plan(parse_recipe(f"[prepare]\n{prepare}\n[describe]\n", "t.toml"))
    *_, (_, built) = run_plan(plan, Store.at(tmp_path / "store"))
    document = json.loads(built.artifact.location.read_bytes("statistics.json", limit=1 << 20))
    return document, built.artifact.manifest.warnings


def own(tmp_path, text, more=""):
    (tmp_path / "mine.csv").write_text("smiles,active\n" + text)
    file = tmp_path / "mine.csv"
    return described(tmp_path, f'dataset = "smiles"\nfile = "{file}"\ntargets = ["active"]\n{more}')


CHAINS = "".join(f"{'C' * (n + 1)},{n // 2 % 2}\n" for n in range(60))


def test_splits_that_shift_are_told_from_training(tmp_path):
    document, warnings = own(tmp_path, CHAINS)
    assert warnings == ()
    assert [row["split"] for row in document["splits"]] == [
        "train", "id_val", "id_test", "ood_val", "ood_test",
    ]  # fmt: skip
    assert [row["graphs"] for row in document["splits"]] == [36, 6, 6, 6, 6]
    assert sum(row["graphs"] for row in document["environments"]) == 36
    assert document["shift"]["ood_test"]["domains_of_training"] == 0
    assert document["shift"]["ood_test"]["distance"] == 1
    assert document["outside_training_sizes"]["ood_test"] == {"below": 0.0, "above": 1.0}
    assert all(same["graphs"] == 0 for same in document["equal_to_training"].values())
    assert document["splits"][4]["features"] == {"nodes_with_unseen_words": 0.0}


def test_equal_graphs_across_splits_are_counted(tmp_path):
    text = "".join(f"{'C' * (n % 10 + 1)},{n % 2}\n" for n in range(100))
    document, warnings = own(tmp_path, text, 'rule = "random"\n')
    assert document["equal_to_training"]["ood_test"] == {
        "graphs": 10, "share": 1.0, "with_another_label": 0,
    }  # fmt: skip
    assert "no graph of ood_test is larger or smaller than the training graphs" in warnings
    assert (
        "nothing shifts in ood_test: its domains are all trained on, and domains and labels go "
        "together as in training"
    ) in warnings
    assert (
        "10 graphs of ood_test (100.0%) look like a training graph, 0 of them with another label"
    ) in warnings


def test_environments_of_one_class_are_named(tmp_path):
    text = "".join(f"{'C' * (n + 1)},{int(n > 20)}\n" for n in range(60))
    _, warnings = own(tmp_path, text, "environments = 4\n")
    assert "environment 0 has training graphs of one class only" in warnings


def test_words_that_training_never_shows_are_counted(tmp_path):
    files = paths_of(range(2, 42))
    lines = files["P/P_node_labels.txt"].splitlines()
    lines[-41:] = ["9"] * 41
    files["P/P_node_labels.txt"] = "\n".join(lines) + "\n"
    file = zipped(tmp_path / "P.zip", files)
    document, _ = described(tmp_path, f'dataset = "tu"\nfile = "{file}"')
    share = {row["split"]: row["features"]["nodes_with_unseen_words"]
             for row in document["splits"]}  # fmt: skip
    assert share["ood_val"] == 0
    assert share["ood_test"] == pytest.approx(41 / (38 + 39 + 40 + 41), abs=1e-5)


def test_concept_shift_is_a_shift_though_all_domains_are_trained_on(tmp_path):
    document, warnings = described(tmp_path, 'dataset = "motif-base-concept"\nnum_graphs = 2000')
    assert document["shift"]["ood_test"]["domains_of_training"] == 1
    assert not document["shift"]["ood_test"]["none"]
    assert document["shift"]["id_test"]["none"]
    assert not [text for text in warnings if text.startswith("nothing shifts")]
    assert document["splits"][0]["features"] == {"mean": [1.0], "std": [0.0]}


def test_draws_from_one_distribution_do_not_shift():
    generator = rng(0, "tests")
    for size in (50, 500, 5000):
        draws = [(generator.integers(0, 20, n), generator.integers(0, 2, n)) for n in (5000, size)]
        assert shift_distance(*draws).none
    domain, label = draws[0]
    assert not shift_distance((domain, label), (domain, 1 - domain % 2)).none
    assert not shift_distance((domain, label), (domain + 1, label)).none


def test_graphs_that_are_known_are_counted_with_their_labels():
    known, labels = np.array([1, 1, 2], dtype=np.uint64), np.array([0, 1, 0])
    found = np.array([1, 2, 2, 3], dtype=np.uint64)
    assert count_repeated(found, np.array([1, 0, 1, 0]), known, labels) == (3, 1)
    assert count_repeated(found[:0], labels[:0], known, labels) == (0, 0)
    assert count_repeated(found, np.zeros(4), known[:0], labels[:0]) == (0, 0)
