"""Targets of a table: text classes, all columns, and patterns."""

import numpy as np
import pytest

from gsx.errors import StageError
from gsx.stages.prepare.readers.csv_tables import open_table
from gsx.stages.prepare.readers.target_columns import expand_targets, read_targets
from tests.support.user_data import build_splits, open_user_file

HEADER = ["smiles", "assay_1", "assay_2", "mol id", "toxic, acute", "group"]


def table_of(tmp_path, header=HEADER, rows=(("C", "1", "0", "m", "", "a"),), name="mine.tsv"):
    path = tmp_path / name
    path.write_text("\n".join("\t".join(row) for row in (header, *rows)) + "\n")
    return open_table(path, name)


@pytest.mark.parametrize(
    ("selected", "expected"),
    [
        (("assay_1",), ["assay_1"]),
        (("all",), ["assay_1", "assay_2", "mol id", "toxic, acute"]),
        (("all", "!mol id"), ["assay_1", "assay_2", "toxic, acute"]),
        (("assay_*",), ["assay_1", "assay_2"]),
        (("*", "!m*", "!*_2"), ["assay_1", "toxic, acute"]),
        (("toxic*", "assay_?"), ["toxic, acute", "assay_1", "assay_2"]),
        (("toxic, acute", "assay_[1]"), ["toxic, acute", "assay_1"]),
    ],
)
def test_patterns_select_columns(tmp_path, selected, expected):
    table = table_of(tmp_path)
    assert list(expand_targets(table, selected, {"smiles", "group"})) == expected


def test_names_of_columns_precede_patterns(tmp_path):
    table = table_of(tmp_path, header=["smiles", "all", "a*", "ab"], rows=[("C", "1", "0", "1")])
    assert expand_targets(table, ("all",), {"smiles"}) == ("all",)
    assert expand_targets(table, ("a*",), {"smiles"}) == ("a*",)


@pytest.mark.parametrize(
    ("selected", "message"),
    [
        (("x*",), "the target `x*` matches no column. The header is `smiles,assay_1"),
        (("assay_1", "!mol id"), "`!mol id` leaves out none of the columns before it"),
        (("assay_1", "!assay_1"), "`--target` leaves no column"),
    ],
)
def test_patterns_without_columns_are_errors(tmp_path, selected, message):
    with pytest.raises(StageError) as error:
        expand_targets(table_of(tmp_path), selected, {"smiles", "group"})
    assert message in str(error.value)


def write(tmp_path, cells, name="mine.csv"):
    path = tmp_path / name
    rows = (f"{'C' * (n + 1)}O,{cell}\n" for n, cell in enumerate(cells))
    path.write_text("smiles,kind\n" + "".join(rows))
    return path


def test_text_classes_are_sorted_by_name(tmp_path):
    words = ["toxic", "harmless", "unclear", ""] * 15
    dataset = open_user_file(write(tmp_path, words), targets=("kind",), rule="random")
    assert (dataset.info.task, dataset.info.metric) == ("classification", "accuracy")
    assert dataset.info.outputs == ("harmless", "toxic", "unclear")
    for table in build_splits(dataset).values():
        row = table.graph["graph_id"]
        expected = np.array([1, 0, 2, -1])[row % 4]
        assert table.graph["label"].tolist() == expected.tolist()
        assert np.isnan(table.graph["y"][expected < 0]).all()
    assert any("have no label" in text for text in dataset.warnings)


def test_numbers_among_classes_need_the_task(tmp_path):
    path = write(tmp_path, ["1", "2", "2a"] * 20)
    with pytest.raises(StageError, match="row 2: kind is `2a`; expected a number"):
        open_user_file(path, targets=("kind",))
    dataset = open_user_file(path, targets=("kind",), task="classification", rule="random")
    assert dataset.info.outputs == ("1", "2", "2a")
    numbers = open_user_file(
        write(tmp_path, ["10", "9", "2"] * 20), targets=("kind",), task="classification"
    )
    assert numbers.info.outputs == ("2", "9", "10")


def test_other_tasks_refuse_text(tmp_path):
    path = write(tmp_path, ["yes", "no"] * 20)
    for task in ("binary", "regression"):
        with pytest.raises(StageError, match="kind is `yes`; expected a number"):
            open_user_file(path, targets=("kind",), task=task)


def test_too_many_or_invalid_texts_are_errors(tmp_path):
    path = write(tmp_path, [f"word{n}" for n in range(1002)])
    with pytest.raises(StageError, match="`kind` has more than 1000 different texts"):
        open_user_file(path, targets=("kind",))
    path = write(tmp_path, ["a", "b\u202ec"] * 9)
    with pytest.raises(StageError, match="row 1: kind"):
        open_user_file(path, targets=("kind",))


def test_all_columns_become_tasks(tmp_path):
    path = tmp_path / "wide.csv"
    rows = (f"{'C' * (n + 1)}O,{n % 2},{'' if n % 3 else 1 - n % 2},{n % 5 == 0:d},{n // 9}\n"
            for n in range(60))  # fmt: skip
    path.write_text("smiles,a,b,c,series\n" + "".join(rows))
    dataset = open_user_file(path, targets=("all",), domain="column:series")
    assert (dataset.info.task, dataset.info.outputs) == ("multitask", ("a", "b", "c"))
    fewer = open_user_file(path, targets=("all", "!b"), domain="column:series")
    assert fewer.info.outputs == ("a", "c")


def test_targets_of_nodes(tmp_path):
    (tmp_path / "nodes.csv").write_text(
        "id,length,field\n" + "".join(f"n{n},{n / 7},{'ab'[n % 2]}\n" for n in range(60))
    )
    (tmp_path / "edges.csv").write_text(
        "from,to\n" + "".join(f"n{n},n{n // 2}\nn{n},n{n // 3}\n" for n in range(1, 60))
    )
    table = open_table(tmp_path / "nodes.csv", "nodes.csv")
    targets = read_targets(table, ("field",), "auto", {"id"})
    assert targets.classes == ("a", "b")
    dataset = open_user_file(
        tmp_path / "nodes.csv", "nodes", edges=str(tmp_path / "edges.csv"), targets=("field",)
    )
    assert dataset.info.outputs == ("a", "b")
    assert dataset.info.column("node_feat").value_names == ("length",)
