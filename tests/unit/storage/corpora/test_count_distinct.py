"""Distinct hashes are counted exactly with any memory limit."""

import subprocess
import sys

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from gsx.storage.corpora import count_distinct as distinct
from gsx.storage.corpora.count_distinct import count_distinct
from tests.support.cluster import environment


def hashes(*values):
    return np.array(values, dtype=np.uint64)


@given(
    parts=st.lists(st.lists(st.integers(0, 40) | st.integers(2**64 - 9, 2**64 - 1), max_size=30)),
    most=st.integers(1, 50),
)
def test_the_count_equals_the_size_of_a_set(parts, most, tmp_path_factory):
    folder = tmp_path_factory.getbasetemp()
    actual = count_distinct(iter([hashes(*part) for part in parts]), folder, most)
    assert actual == len({value for part in parts for value in part})
    assert not list(folder.glob("distinct-*"))


def test_overlapping_runs_are_merged(tmp_path, monkeypatch):
    merged = []
    monkeypatch.setattr(
        distinct, "_count_merged", lambda runs, most, do=distinct._count_merged: (
            merged.append([np.fromfile(run, dtype=np.uint64).tolist() for run in runs]),
            do(runs, most),
        )[1],
    )  # fmt: skip
    parts = [hashes(9, 1, 5, 5), hashes(5, 2, 9, 7), hashes(1)]
    assert count_distinct(parts, tmp_path, 4) == 5
    assert merged == [[[1, 5, 9], [2, 5, 7, 9], [1]]]
    assert not list(tmp_path.iterdir())


def test_few_distinct_hashes_are_not_spilled(tmp_path):
    assert count_distinct((hashes(*range(10)) for _ in range(500)), tmp_path / "nowhere", 100) == 10


def test_spilled_files_are_removed_if_reading_fails(tmp_path):
    def parts():
        yield hashes(*range(8))
        assert len(list(tmp_path.glob("distinct-*/0"))) == 1
        raise FileNotFoundError("a shard is gone")

    with pytest.raises(FileNotFoundError):
        count_distinct(parts(), tmp_path, 4)
    assert not list(tmp_path.iterdir())


COUNT = """
import sys
from pathlib import Path
import numpy as np
from gsx.storage.artifacts.run_record import peak_memory_mib
from gsx.storage.corpora.count_distinct import count_distinct
number, folder = int(sys.argv[1]), Path(sys.argv[2])
draw = np.random.default_rng(0)
parts = (draw.integers(2**64, size=25_000, dtype=np.uint64) for _ in range(number))
before = peak_memory_mib()
count = count_distinct(parts, folder, 1 << 18)
print(count, peak_memory_mib() - before)
"""


def test_memory_does_not_grow_with_the_number_of_graphs(tmp_path):
    growth = {}
    for number in (40, 400):
        done = subprocess.run(
            [sys.executable, "-c", COUNT, str(number), str(tmp_path)],
            check=True, capture_output=True, text=True, env=environment(),
        )  # fmt: skip
        count, mib = done.stdout.split()
        assert int(count) == number * 25_000
        growth[number] = float(mib)
    assert growth[40] > 0
    assert growth[400] - growth[40] < 8, growth  # for 80 MB of hashes
