import itertools
from concurrent.futures import ThreadPoolExecutor

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from gsx.errors import StageError, UsageError
from gsx.ragged import texts_of
from gsx.stages.prepare import block_executor as workers
from gsx.stages.prepare.array_blocks import Spill
from gsx.stages.prepare.block_executor import spread, worker_count
from gsx.stages.prepare.readers import smiles_blocks as molecule_rows

TEXTS = ["C" * n + ("(" if n % 7 == 6 else "O") + "c1ccccc1" for n in range(1, 60)]


CARBON = np.frombuffer(b"C", dtype=np.uint8)


def test_molecules_do_not_depend_on_how_many_processes_read_them(monkeypatch):
    monkeypatch.setattr(molecule_rows, "BLOCK", 10)
    one, two = (molecule_rows.read_smiles(TEXTS, count) for count in (1, 2))
    monkeypatch.setattr(molecule_rows, "BLOCK", 1000)
    whole = molecule_rows.read_smiles(iter(TEXTS))
    every = np.arange(len(whole.rows))
    for found in (one, two):
        assert found.take(every).equals(whole.take(every))
        assert found.rows.tolist() == whole.rows.tolist()
        assert found.sizes.tolist() == whole.sizes.tolist()
        assert found.scaffold.tolist() == whole.scaffold.tolist()
        assert (found.count, found.scaffolds) == (whole.count, whole.scaffolds)
        assert found.refused == whole.refused
        assert len(found.spill) == 6
    assert len(whole.refused) == 8


@given(st.lists(st.integers(0, len(TEXTS) - 9), unique=True))
def test_molecules_wait_on_disk_until_some_are_taken(chosen):
    whole = molecule_rows.read_smiles(TEXTS)
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(molecule_rows, "BLOCK", 7)
        found = molecule_rows.read_smiles(TEXTS, 1)
    numbers = np.array(sorted(chosen), dtype=np.int64)
    table = found.take(numbers)
    assert table.equals(whole.take(numbers))
    assert texts_of(table.lists("graph", "smiles")) == [TEXTS[row] for row in found.rows[numbers]]
    assert table.num_nodes.tolist() == found.sizes[numbers].tolist()


def test_only_the_first_reasons_are_kept_and_all_rows_are_counted(monkeypatch):
    monkeypatch.setattr(molecule_rows, "LISTED", 2)
    found = molecule_rows.read_smiles(["C(", "C", "", "N(", "O"])
    assert found.refused.rows == [0, 2, 3]
    assert found.refused.lengths == [2, 0, 2]
    assert found.refused.reasons == {0: "`C(` is not SMILES", 2: "the SMILES is empty"}


def test_a_crew_stays_for_further_rounds_and_goes_with_its_owner():
    crew, blocks = (
        workers.Crew("smiles"),
        [{"smiles_ptr": np.array([0, 1]), "smiles_bytes": CARBON}],
    )
    first = [list(crew.spread(blocks * 3, 2)) for _ in range(2)]
    members = [worker._process for worker in crew._members]
    assert len(members) == 2
    assert all(member.poll() is None for member in members)
    assert first[0][0]["node_feat"].tolist() == first[1][2]["node_feat"].tolist()
    del crew
    assert all(member.poll() is not None for member in members)


def test_a_crew_starts_anew_after_a_round_was_left():
    crew, blocks = (
        workers.Crew("smiles"),
        [{"smiles_ptr": np.array([0, 1]), "smiles_bytes": CARBON}],
    )
    answers = crew.spread(blocks * 9, 2)
    next(answers)
    answers.close()
    assert not crew._members
    assert len(list(crew.spread(blocks * 3, 2))) == 3


def test_blocks_are_read_back_as_they_were_and_by_several_threads():
    spill = Spill()
    blocks = [{"a": np.arange(n), "b": np.ones((n, 2), np.uint8)} for n in range(50)]
    for block in blocks:
        spill.add(block)
    assert len(spill) == 50
    with ThreadPoolExecutor(4) as pool:
        for block, found in zip(blocks, pool.map(spill.read, range(50)), strict=True):
            assert found.keys() == block.keys()
            assert all(np.array_equal(found[name], block[name]) for name in block)


def blocks(texts):
    return [molecule_rows._text_arrays([text], "smiles") for text in texts]


def test_few_blocks_are_in_hand_at_once():
    taken = itertools.count()
    source = (block for block, _ in zip(blocks(["C"] * 40), taken, strict=False))
    results = spread("smiles", source, 2)
    next(results)
    assert next(taken) < 10
    results.close()


def test_a_worker_that_dies_is_an_error_that_says_why():
    broken = {"nothing": np.zeros(1)}
    with pytest.raises(StageError) as error:
        list(spread("smiles", [broken, broken], 2))
    assert str(error.value) == (
        "a worker for smiles stopped (exit 1): KeyError: 'smiles_ptr'. `GSX_WORKERS=1` works "
        "without any."
    )


def test_the_environment_says_how_many_workers_there_are(monkeypatch):
    monkeypatch.delenv(workers.VARIABLE, raising=False)
    assert 1 <= worker_count() <= 16
    monkeypatch.setenv(workers.VARIABLE, "3")
    assert worker_count() == 3
    for wrong in ("0", "two", "-1"):
        monkeypatch.setenv(workers.VARIABLE, wrong)
        with pytest.raises(UsageError) as error:
            worker_count()
        assert str(error.value) == f"GSX_WORKERS must be a whole number from 1; got `{wrong}`"
