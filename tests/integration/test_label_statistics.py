"""Labels, features and domains in the output of `gsx show` and `gsx describe`."""

import csv
import json

import pytest

from gsx.cli.output import format_table
from tests.support.artifacts import gsx


def table(path, columns, rows):
    with path.open("w", newline="") as file:
        csv.writer(file).writerows([columns, *rows])
    return path


@pytest.fixture
def store(tmp_path, monkeypatch):
    monkeypatch.setenv("COLUMNS", "80")
    return ("--store", tmp_path / "store")


def prepare(tmp_path, store, columns, rows, *words):
    path = table(tmp_path / "mine.csv", columns, rows)
    result = gsx("prepare", "--smiles", path, "--tag", "mine", "--json", *words, *store)
    assert result.code == 0, result.err
    return result


def cells(text, start):
    """Return the words of the first line that begins with ``start``."""
    return next(line for line in text.splitlines() if line.startswith(start)).split()


def test_regression_shows_means(tmp_path, store):
    rows = [("C" * (n + 1), 0.5 * n) for n in range(60)]
    prepare(tmp_path, store, ("smiles", "y"), rows, "--target", "y", "--task", "regression")
    shown = gsx("show", "mine", *store).out
    assert cells(shown, "ood_test")[-3:] == ["28.2", "±", "0.85"]  # mean of 27, 27.5, … 29.5
    assert "labels: mean ± standard deviation of y" in shown
    described = gsx("describe", "mine", *store).out
    assert cells(described, "ood_test")[-3:] == ["28.2", "±", "0.85"]
    document = json.loads(gsx("describe", "mine", "--json", *store).out)["statistics"]
    (target,) = document["targets"]["ood_test"]
    assert target == {
        "target": "y", "labels": 6, "missing": 0, "mean": 28.25, "std": 0.853913, "min": 27.0,
        "max": 29.5,
    }  # fmt: skip
    environments = json.loads(gsx("show", "mine", "--json", *store).out)["targets"]
    assert sum(row["targets"][0]["labels"] for row in environments) == 60


def test_several_tasks_are_counted_per_target(tmp_path, store):
    rows = [("C" * (n + 1), n % 2, int(n > 30), "" if n % 3 else n % 2) for n in range(60)]
    columns = ("smiles", "odd, even", "large", "gaps")
    prepared = prepare(tmp_path, store, columns, rows, "--target", "all")
    shown = gsx("show", "mine", *store).out
    for text in (shown, gsx("describe", "mine", *store).out):
        assert cells(text, "TARGET") == [
            "TARGET", "TRAIN", "ID_VAL", "ID_TEST", "OOD_VAL", "OOD_TEST", "MISSING",
        ]  # fmt: skip
        assert cells(text, "odd, even")[-2:] == ["3/3", "0"]
        assert cells(text, "large")[-3:] == ["0/6", "0/6", "0"]
        assert cells(text, "gaps")[-2:] == ["1/1", "40"]
    assert "0/0" not in shown.partition("TARGET")[0]
    assert (
        "ood_test has fewer than 30 examples of a class in 3 of 3 targets, such as 0 of 6 with "
        "`large` = 0: its score is undefined"
    ) in prepared.err
    assert "ood_test has fewer than 30 examples" in gsx("describe", "mine", *store).err


def test_an_interrupted_preparation_has_the_same_warnings(tmp_path, store, monkeypatch):
    from gsx.stages.prepare import stage

    rows = [("C" * (n + 1), n % 2, int(n > 30)) for n in range(60)]
    words = ("--target", "all", "--shard-graphs", "4")
    whole = prepare(tmp_path, store, ("smiles", "a", "b"), rows, *words)
    write = stage.write_corpus

    def stop_at_the_end(*arguments):
        write(*arguments)
        raise KeyboardInterrupt

    other = ("--store", tmp_path / "other")
    monkeypatch.setattr(stage, "write_corpus", stop_at_the_end)
    path = tmp_path / "mine.csv"
    stopped = gsx("prepare", "--smiles", path, *words, *other)
    assert stopped.code != 0
    monkeypatch.setattr(stage, "write_corpus", write)
    resumed = prepare(tmp_path, other, ("smiles", "a", "b"), rows, *words)
    assert json.loads(resumed.out)["digest"] == json.loads(whole.out)["digest"]
    assert "examples of a class in 2 of 2 targets" in resumed.err


def test_class_names_domains_and_unseen_categories_are_printed(tmp_path, store):
    rows = [("C" * (n % 20 + 1) + "O", ("no", "yes")[n % 2]) for n in range(100)]
    rows += [("C" * 40 + "[Si]", "yes")] * 10
    prepare(tmp_path, store, ("smiles", "y"), rows, "--target", "y")
    shown = gsx("describe", "mine", *store).out
    assert "labels: graphs per class, no/yes" in shown
    assert "nodes with a feature category that no training node has: id_val 0.0%" in shown
    assert cells(shown, "SPLIT")[:3] == ["SPLIT", "SIZES", "GRAPHS"]


def test_features_of_node_tables_have_their_names(tmp_path, store):
    nodes = [(n, 1.0 * (n % 7), 0.1 * n, ("x", "y")[n % 2], 2000 + n // 20) for n in range(200)]
    nodes = table(tmp_path / "n.csv", ("id", "n_refs", "Gpu_words", "field", "year"), nodes)
    edges = table(tmp_path / "e.csv", ("a", "b"), [(n, (n * 7 + 1) % 200) for n in range(200)])
    result = gsx("prepare", "--nodes", nodes, "--edges", edges, "--target", "field", "--domain",
                 "column:year", "--tag", "mine", *store)  # fmt: skip
    assert result.code == 0, result.err
    described = gsx("describe", "mine", *store).out
    assert cells(described, "FEATURE")[:3] == ["FEATURE", "TRAIN", "STD"]
    assert float(cells(described, "Gpu_words")[-1]) > float(cells(described, "Gpu_words")[1])
    shown = gsx("show", "mine", *store).out
    assert "0/0" not in shown
    assert "one graph of 200 nodes" in shown


def test_a_wide_table_is_wrapped(monkeypatch):
    monkeypatch.setenv("COLUMNS", "40")
    rows = [("train", "causal and environmental subgraphs", 12), ("ood", "short", 3)]
    lines = format_table(rows, ("SPLIT", "ENVIRONMENT", "GRAPHS"), wrapped="ENVIRONMENT")
    assert max(map(len, lines)) <= 40
    assert [line.split() for line in lines[1:3]] == [
        ["train", "causal", "and", "environmental", "12"], ["subgraphs"],
    ]  # fmt: skip
    assert format_table(rows, ("SPLIT", "ENVIRONMENT", "GRAPHS"))[1].startswith("train  causal and")


def test_a_model_shows_its_scores_as_a_table(tmp_path, store):
    made = gsx("prepare", "motif-size", "--num-graphs", 60, "--tag", "mine", *store)
    assert made.code == 0, made.err
    trained = gsx("train", "mine", "--epochs", 2, "--width", 8, "--tag", "net", *store)
    assert trained.code == 0, trained.err
    table = trained.out.splitlines()[2:]
    assert table[0].split() == [
        "ACCURACY",
        "AT",
        "EPOCH",
        "ID_VAL",
        "ID_TEST",
        "OOD_VAL",
        "OOD_TEST",
    ]
    assert table[1].split()[:5] == ["last", "epoch", "(selected)", "2", table[1].split()[4]]
    assert "\n".join(table) in gsx("show", "net", *store).out
    evaluated = gsx("evaluate", "net", "mine", *store)
    assert max(map(len, evaluated.out.splitlines())) <= 80
