"""Executors give the same results for any number of workers, and stop their processes."""

import itertools
import signal
import time
from concurrent.futures import ThreadPoolExecutor

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from gsx.errors import StageError, UsageError
from gsx.ragged import decode_texts
from gsx.stages import block_executor
from gsx.stages.array_blocks import SpillFile
from gsx.stages.block_executor import ProcessExecutor, resolve_function, worker_count
from gsx.stages.prepare.readers import smiles_blocks
from gsx.stages.prepare.readers.smiles_blocks import parse_block, read_smiles

TEXTS = ["C" * n + ("(" if n % 7 == 6 else "O") + "c1ccccc1" for n in range(1, 60)]


def blocks(texts):
    return [
        {
            **smiles_blocks._text_arrays([text], "smiles"),
            "max_atoms": np.array([100]),
            "scaffolds": np.array([True]),
        }
        for text in texts
    ]


def test_molecules_do_not_depend_on_the_number_of_processes(monkeypatch):
    monkeypatch.setattr(smiles_blocks, "BLOCK_ROWS", 10)
    one, two = (read_smiles(TEXTS, ProcessExecutor(count)) for count in (1, 2))
    monkeypatch.setattr(smiles_blocks, "BLOCK_ROWS", 1000)
    whole = read_smiles(iter(TEXTS), ProcessExecutor())
    every = np.arange(len(whole.rows))
    for parsed in (one, two):
        assert parsed.take(every).equals(whole.take(every))
        assert parsed.rows.tolist() == whole.rows.tolist()
        assert parsed.sizes.tolist() == whole.sizes.tolist()
        assert parsed.scaffold.tolist() == whole.scaffold.tolist()
        assert (parsed.count, parsed.scaffolds) == (whole.count, whole.scaffolds)
        assert parsed.refused == whole.refused
        assert len(parsed.spill) == 6
    assert len(whole.refused) == 8


@given(st.lists(st.integers(0, len(TEXTS) - 9), unique=True))
def test_molecules_are_read_back_from_disk_in_any_selection(chosen):
    whole = read_smiles(TEXTS, ProcessExecutor(1))
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(smiles_blocks, "BLOCK_ROWS", 7)
        parsed = read_smiles(TEXTS, ProcessExecutor(1))
    numbers = np.array(sorted(chosen), dtype=np.int64)
    table = parsed.take(numbers)
    assert table.equals(whole.take(numbers))
    texts = decode_texts(table.lists("graph", "smiles"))
    assert texts == [TEXTS[row] for row in parsed.rows[numbers]]
    assert table.num_nodes.tolist() == parsed.sizes[numbers].tolist()


def test_only_the_first_reasons_are_kept_and_all_rows_are_counted(monkeypatch):
    monkeypatch.setattr(smiles_blocks, "MAX_REASONS", 2)
    parsed = read_smiles(["C(", "C", "", "N(", "O"], ProcessExecutor(1))
    assert parsed.refused.rows == [0, 2, 3]
    assert parsed.refused.lengths == [2, 0, 2]
    assert list(parsed.refused.reasons) == [0, 2]


def test_workers_are_kept_between_calls_and_stop_with_their_owner():
    executor = ProcessExecutor(2)
    first, second = (list(executor.map(parse_block, blocks("CCC"))) for _ in range(2))
    processes = [worker._process for worker in executor._workers]
    assert len(processes) == 2
    assert all(process.poll() is None for process in processes)
    assert first[0]["node_feat"].tolist() == second[2]["node_feat"].tolist()
    del executor
    assert all(process.poll() is not None for process in processes)


def test_workers_start_again_after_an_unfinished_call():
    executor = ProcessExecutor(2)
    results = executor.map(parse_block, blocks("C" * 9))
    next(results)
    results.close()
    assert not executor._workers
    assert len(list(executor.map(parse_block, blocks("CCC")))) == 3


def test_a_single_block_starts_no_worker():
    executor = ProcessExecutor(2)
    assert len(list(executor.map(parse_block, blocks("C")))) == 1
    assert list(executor.map(parse_block, [])) == []
    assert not executor._workers


def test_another_function_gets_other_workers():
    pytest.importorskip("skimage")
    from gsx.stages.prepare.benchmarks.superpixels import superpixels_of_block

    executor = ProcessExecutor(2)
    list(executor.map(parse_block, blocks("CCC")))
    images = np.random.default_rng(0).integers(0, 255, (2, 28, 28)).astype(np.uint8)
    results = list(executor.map(superpixels_of_block, [{"images": images}] * 2))
    assert results[0]["intensity"].tolist() == results[1]["intensity"].tolist()


def test_spilled_blocks_are_read_back_by_several_threads():
    spill = SpillFile()
    written = [{"a": np.arange(n), "b": np.ones((n, 2), np.uint8)} for n in range(50)]
    for block in written:
        spill.append(block)
    assert len(spill) == 50
    with ThreadPoolExecutor(4) as pool:
        for block, read in zip(written, pool.map(spill.read, range(50)), strict=True):
            assert read.keys() == block.keys()
            assert all(np.array_equal(read[name], block[name]) for name in block)


def test_few_blocks_are_in_flight():
    taken = itertools.count()
    source = (block for block, _ in zip(blocks(["C"] * 40), taken, strict=False))
    results = ProcessExecutor(2).map(parse_block, source)
    next(results)
    assert next(taken) < 10
    results.close()


def test_the_error_of_a_worker_is_reported():
    broken = {"nothing": np.zeros(1)}
    with pytest.raises(StageError) as error:
        list(ProcessExecutor(2).map(parse_block, [broken, broken]))
    assert str(error.value) == (
        "a worker for gsx.stages.prepare.readers.smiles_blocks:parse_block stopped (exit code 1): "
        "KeyError: 'max_atoms'. Set `GSX_WORKERS=1` to run without workers."
    )


def test_workers_run_functions_of_gsx_only():
    with pytest.raises(StageError, match="os:system is not a function of gsx"):
        resolve_function("os:system")


def test_the_environment_variable_sets_the_number_of_workers(monkeypatch):
    monkeypatch.delenv(block_executor.VARIABLE, raising=False)
    assert 1 <= worker_count() <= 16
    monkeypatch.setenv(block_executor.VARIABLE, "3")
    assert worker_count() == 3
    for wrong in ("0", "two", "-1"):
        monkeypatch.setenv(block_executor.VARIABLE, wrong)
        with pytest.raises(UsageError) as error:
            worker_count()
        expected = f"GSX_WORKERS must be an integer of at least 1 (found `{wrong}`)."
        assert str(error.value) == expected


def test_an_interrupt_does_not_wait_for_long_blocks(monkeypatch):
    """Each block takes minutes: large ring systems, whose scaffolds take cubic time."""
    texts = ["C1CCCCC1" * 90] * 4096
    finished, interrupted = [], []

    def interrupt(_signal, _frame):
        interrupted.append(time.monotonic())
        raise KeyboardInterrupt

    previous = signal.signal(signal.SIGALRM, interrupt)
    try:
        signal.alarm(8)
        with pytest.raises(KeyboardInterrupt):
            read_smiles(texts, ProcessExecutor(2), progress=finished.append)
    finally:
        signal.alarm(0)
        signal.signal(signal.SIGALRM, previous)
    assert not finished
    assert time.monotonic() - interrupted[0] < 5


def test_the_number_of_parsed_rows_is_reported(monkeypatch):
    monkeypatch.setattr(smiles_blocks, "BLOCK_ROWS", 20)
    counts = []
    read_smiles(TEXTS, ProcessExecutor(1), progress=counts.append)
    assert counts == [20, 40, 59]
