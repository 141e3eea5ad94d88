import itertools

import numpy as np
import pytest

from gsx.errors import StageError, UsageError
from gsx.stages.datasets import molecules, workers
from gsx.stages.datasets.workers import spread, worker_count

TEXTS = ["C" * n + ("(" if n % 7 == 6 else "O") + "c1ccccc1" for n in range(1, 60)]


def test_molecules_do_not_depend_on_how_many_processes_read_them(monkeypatch):
    monkeypatch.setattr(molecules, "BLOCK", 10)
    one, two = (molecules.read_smiles(TEXTS, count) for count in (1, 2))
    monkeypatch.setattr(molecules, "BLOCK", 1000)
    whole = molecules.read_smiles(TEXTS)
    for found in (one, two):
        assert found.table.equals(whole.table)
        assert found.rows.tolist() == whole.rows.tolist()
        assert found.scaffolds == whole.scaffolds
        assert found.refused == whole.refused
    assert len(whole.refused) == 8


def blocks(texts):
    return [molecules._text_arrays([text], "smiles") for text in texts]


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
