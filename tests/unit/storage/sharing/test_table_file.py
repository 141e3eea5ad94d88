"""Tables of results: CSV and Parquet files with equal content, written completely or not at all."""

import csv
import re

import numpy as np
import pyarrow.parquet as pq
import pytest

from gsx.errors import StoreError, UsageError
from gsx.escape import CONTROL
from gsx.storage.sharing.table_file import (
    check_table_target,
    csv_lines,
    table_rows,
    write_table_file,
)

BLOCKS = [
    {"row": np.array([0, 1]), "text": ["a", 'b "c"\nd'], "p": np.array([0.25, np.nan], "float32")},
    {"row": np.array([2]), "text": [""], "p": np.array([1.0], "float32")},
]
ROWS = [
    {"row": 0, "text": "a", "p": 0.25},
    {"row": 1, "text": 'b "c"\nd', "p": None},
    {"row": 2, "text": "", "p": 1.0},
]


def test_rows_have_none_for_missing_values():
    assert table_rows(BLOCKS) == ROWS


def test_parquet_holds_the_rows(tmp_path):
    write_table_file(tmp_path / "new" / "t.parquet", BLOCKS)
    assert pq.read_table(tmp_path / "new" / "t.parquet").to_pylist() == ROWS


def test_csv_holds_the_rows(tmp_path):
    write_table_file(tmp_path / "t.csv", BLOCKS)
    with (tmp_path / "t.csv").open(newline="") as stream:
        rows = list(csv.DictReader(stream))
    assert [row["text"] for row in rows] == [row["text"] for row in ROWS]
    assert [row["p"] for row in rows] == ["0.25", "", "1"]


def test_printed_lines_are_those_of_the_file(tmp_path):
    write_table_file(tmp_path / "t.csv", BLOCKS)
    assert "\n".join(csv_lines(BLOCKS)) + "\n" == (tmp_path / "t.csv").read_text()


@pytest.mark.parametrize("name", ["t.csv", "t.parquet"])
def test_a_failure_keeps_the_previous_file(tmp_path, name):
    write_table_file(tmp_path / name, BLOCKS)
    before = (tmp_path / name).read_bytes()

    def broken():
        yield BLOCKS[0]
        raise StoreError("failed")

    with pytest.raises(StoreError, match="failed"):
        write_table_file(tmp_path / name, broken())
    assert [path.name for path in tmp_path.iterdir()] == [name]
    assert (tmp_path / name).read_bytes() == before


def test_other_suffixes_and_directories_are_rejected(tmp_path):
    with pytest.raises(UsageError, match=r"t\.txt ends in neither \.csv nor \.parquet"):
        check_table_target(tmp_path / "t.txt")
    (tmp_path / "d.csv").mkdir()
    with pytest.raises(StoreError, match="is a directory"):
        check_table_target(tmp_path / "d.csv")


def test_csv_has_no_control_characters_and_no_formulas(tmp_path):
    names = ["plain", "=cmd()", "\x1b[31mred", "\u202etxt.exe", "a\r=b", "tab\there", "é"]
    blocks = [{"=name\x1b[0m": names, "array": np.array(["\x07bell", *names[1:]])}]
    write_table_file(tmp_path / "t.csv", blocks)
    text = (tmp_path / "t.csv").read_text(encoding="utf-8")
    assert not re.search(CONTROL, text)
    rows = list(csv.reader(text.splitlines()))
    assert rows[0] == ["'=name\\x1b[0m", "array"]
    expected = ["plain", "'=cmd()", "\\x1b[31mred", "\\u202etxt.exe", "a\\r=b", "tab\there", "é"]
    assert [row[0] for row in rows[1:]] == expected
    assert rows[1][1] == "\\x07bell"
