"""Statistics and warnings of the shift report."""

import json

import numpy as np
import pytest

from gsx.pipeline.plan import make_plan
from gsx.pipeline.recipe import parse_recipe
from gsx.pipeline.runner import run_plan
from gsx.seeds import rng
from gsx.stages.describe.shift import count_repeated, shift_distance
from gsx.storage.artifacts.store import Store
from tests.support.raw_files import tu_path_graphs, write_zip


def describe_dataset(tmp_path, prepare):
    plan = make_plan(parse_recipe(f"[prepare]\n{prepare}\n[describe]\n", "t.toml"))
    *_, (_, built) = run_plan(plan, Store.at(tmp_path / "store"))
    document = json.loads(built.artifact.location.read_bytes("statistics.json", limit=1 << 20))
    return document, built.artifact.manifest.warnings


def describe_table(tmp_path, text, more=""):
    (tmp_path / "mine.csv").write_text("smiles,active\n" + text)
    file = tmp_path / "mine.csv"
    return describe_dataset(
        tmp_path, f'dataset = "smiles"\nfile = "{file}"\ntargets = ["active"]\n{more}'
    )


CHAINS = "".join(f"{'C' * (n + 1)},{n // 2 % 2}\n" for n in range(60))


def test_shift_of_every_split_is_measured_against_training(tmp_path):
    document, warnings = describe_table(tmp_path, CHAINS)
    assert [text for text in warnings if " has only " not in text] == []
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


def test_graphs_equal_to_training_graphs_are_counted(tmp_path):
    text = "".join(f"{'C' * (n % 10 + 1)},{n % 2}\n" for n in range(100))
    document, warnings = describe_table(tmp_path, text, 'rule = "random"\n')
    assert document["equal_to_training"]["ood_test"] == {
        "graphs": 10, "share": 1.0, "with_another_label": 0,
    }  # fmt: skip
    assert "no graph of ood_test is larger or smaller than the training graphs" in warnings
    assert (
        "nothing shifts in ood_test: all its domains occur in training, with the same label "
        "distribution"
    ) in warnings
    assert (
        "10 graphs of ood_test (100.0%) equal a training graph, 0 of them with another label"
    ) in warnings


def test_environments_with_one_class_give_a_warning(tmp_path):
    text = "".join(f"{'C' * (n + 1)},{int(n > 20)}\n" for n in range(60))
    _, warnings = describe_table(tmp_path, text, "environments = 4\n")
    assert "environment 0 has training graphs of one class only" in warnings


def test_nodes_with_unseen_categories_are_counted(tmp_path):
    files = tu_path_graphs(range(2, 42))
    lines = files["P/P_node_labels.txt"].splitlines()
    lines[-41:] = ["9"] * 41
    files["P/P_node_labels.txt"] = "\n".join(lines) + "\n"
    file = write_zip(tmp_path / "P.zip", files)
    document, _ = describe_dataset(tmp_path, f'dataset = "tu"\nfile = "{file}"')
    share = {row["split"]: row["features"]["nodes_with_unseen_words"]
             for row in document["splits"]}  # fmt: skip
    assert share["ood_val"] == 0
    assert share["ood_test"] == pytest.approx(41 / (38 + 39 + 40 + 41), abs=1e-5)


def test_concept_shift_is_detected_with_shared_domains(tmp_path):
    document, warnings = describe_dataset(
        tmp_path, 'dataset = "motif-base-concept"\nnum_graphs = 2000'
    )
    assert document["shift"]["ood_test"]["domains_of_training"] == 1
    assert not document["shift"]["ood_test"]["none"]
    assert document["shift"]["id_test"]["none"]
    assert not [text for text in warnings if text.startswith("nothing shifts")]
    assert document["splits"][0]["features"] == {"mean": [1.0], "std": [0.0]}


def test_samples_of_one_distribution_have_no_shift():
    generator = rng(0, "tests")
    for size in (50, 500, 5000):
        draws = [(generator.integers(0, 20, n), generator.integers(0, 2, n)) for n in (5000, size)]
        assert shift_distance(*draws).none
    domain, label = draws[0]
    assert not shift_distance((domain, label), (domain, 1 - domain % 2)).none
    assert not shift_distance((domain, label), (domain + 1, label)).none


def test_repeated_graphs_are_counted_with_conflicting_labels():
    training, labels = np.array([1, 1, 2], dtype=np.uint64), np.array([0, 1, 0])
    hashes = np.array([1, 2, 2, 3], dtype=np.uint64)
    assert count_repeated(hashes, np.array([1, 0, 1, 0]), training, labels) == (3, 1)
    assert count_repeated(hashes[:0], labels[:0], training, labels) == (0, 0)
    assert count_repeated(hashes, np.zeros(4), training[:0], labels[:0]) == (0, 0)
