"""Executors that map a function over blocks of arrays: in this process, or in worker processes.

`ProcessExecutor` starts workers with ``python -m gsx.stages.block_executor MODULE:FUNCTION``. A
worker reads blocks from its standard input, applies the function and writes the results. Blocks are
safetensors bytes after their length: no pickle, no fork, and no ``__main__`` guard in the user's
script. Results come in the order of the blocks and do not depend on the number of workers. The
pipeline has another executor, which uses Dask workers.
"""

from __future__ import annotations

import importlib
import os
import subprocess
import sys
import tempfile
import weakref
from collections.abc import Callable, Iterable, Iterator, Sequence
from concurrent.futures import Future, ThreadPoolExecutor
from itertools import chain, islice
from queue import SimpleQueue
from typing import IO, Protocol

from gsx.errors import StageError, UsageError
from gsx.ragged import Array
from gsx.stages.array_blocks import Block, pack, unpack

BlockFunction = Callable[[Block], dict[str, Array]]
"""A function of a module of gsx that workers can import."""
VARIABLE = "GSX_WORKERS"
MAX_WORKERS = 16
_HEADER = 8


class BlockExecutor(Protocol):
    """Maps a function over blocks."""

    def map(self, function: BlockFunction, blocks: Iterable[Block]) -> Iterator[dict[str, Array]]:
        """Yield ``function(block)`` for every block, in order; few blocks are in flight at once."""
        ...


def worker_count() -> int:
    """Return the number of local workers: GSX_WORKERS, else the number of CPUs, at most 16."""
    setting = os.environ.get(VARIABLE)
    if setting is None:
        return min(MAX_WORKERS, len(os.sched_getaffinity(0)))
    if not setting.isdecimal() or int(setting) < 1:
        raise UsageError(f"{VARIABLE} must be an integer of at least 1 (found `{setting}`).")
    return int(setting)


def single_block(blocks: Iterable[Block]) -> tuple[bool, Iterator[Block]]:
    """Return whether there is at most one block, which needs no worker, and all blocks."""
    iterator = iter(blocks)
    first = list(islice(iterator, 2))
    return len(first) < 2, chain(first, iterator)


def function_reference(function: BlockFunction) -> str:
    """Return ``MODULE:FUNCTION`` for a function of gsx."""
    return f"{function.__module__}:{function.__qualname__}"


def resolve_function(reference: str) -> BlockFunction:
    """Return the function of gsx that ``MODULE:FUNCTION`` names."""
    module, _, name = reference.partition(":")
    if module.split(".")[0] != "gsx":
        raise StageError(f"{reference} is not a function of gsx")
    function: BlockFunction = getattr(importlib.import_module(module), name)
    return function


class ProcessExecutor:
    """Runs blocks in worker processes, which start when first needed.

    With one worker or one block, the function runs in this process. Workers are kept between calls
    for the same function; they stop when a call fails or when this object is deleted.
    """

    def __init__(self, workers: int | None = None) -> None:
        self._count = workers
        self._reference = ""
        self._workers: list[_Worker] = []
        weakref.finalize(self, _stop_all, self._workers)

    def map(self, function: BlockFunction, blocks: Iterable[Block]) -> Iterator[dict[str, Array]]:
        """Yield ``function(block)`` for every block, in order."""
        single, blocks = single_block(blocks)
        count = 1 if single else worker_count() if self._count is None else self._count
        if count == 1:
            yield from map(function, blocks)
            return
        try:
            self._start(function_reference(function), count)
            yield from _map_in_order(self._workers, blocks)
        except BaseException:
            self.close()
            raise

    def close(self) -> None:
        """Stop all workers; a later call starts new ones."""
        _stop_all(self._workers)

    def _start(self, reference: str, count: int) -> None:
        if reference != self._reference:
            self.close()
            self._reference = reference
        while len(self._workers) < count:
            self._workers.append(_Worker(reference))


def _stop_all(workers: list[_Worker]) -> None:
    while workers:
        workers.pop().stop()


def _map_in_order(
    workers: Sequence[_Worker], blocks: Iterable[Block]
) -> Iterator[dict[str, Array]]:
    idle: SimpleQueue[_Worker] = SimpleQueue()
    for worker in workers:
        idle.put(worker)

    def process(block: Block) -> dict[str, Array]:
        worker = idle.get()
        try:
            return worker.process(block)
        finally:
            idle.put(worker)

    pending: list[Future[dict[str, Array]]] = []
    with ThreadPoolExecutor(len(workers)) as pool:
        try:
            for block in blocks:
                pending.append(pool.submit(process, block))
                if len(pending) > 2 * len(workers):
                    yield pending.pop(0).result()
            while pending:
                yield pending.pop(0).result()
        except BaseException:  # do not wait for the blocks of the workers, which may take minutes
            for future in pending:
                future.cancel()
            for worker in workers:
                worker.kill()
            raise


class _Worker:
    """One worker process."""

    def __init__(self, reference: str) -> None:
        self._reference = reference
        self._stderr = tempfile.TemporaryFile()  # noqa: SIM115
        self._process = subprocess.Popen(
            [sys.executable, "-P", "-m", "gsx.stages.block_executor", reference],
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            stderr=self._stderr,
            # The worker finds modules where this process finds them, in any working directory.
            env={
                **os.environ,
                "OMP_NUM_THREADS": "1",
                "PYTHONPATH": os.pathsep.join(filter(None, sys.path)),
            },
        )

    def process(self, block: Block) -> dict[str, Array]:
        """Send a block and return the result."""
        assert self._process.stdin is not None
        assert self._process.stdout is not None
        try:
            _send(self._process.stdin, block)
            result = _receive(self._process.stdout)
        except OSError:
            result = None
        if result is None:
            self._process.wait()
            self._stderr.seek(0)
            lines = self._stderr.read().decode(errors="replace").strip().splitlines()
            raise StageError(
                f"a worker for {self._reference} stopped (exit code {self._process.returncode}): "
                f"{lines[-1] if lines else 'no output'}. Set `{VARIABLE}=1` to run without workers."
            )
        return result

    def kill(self) -> None:
        """Kill the process; a thread that waits for its result gets an error."""
        self._process.kill()

    def stop(self) -> None:
        """Kill the process and wait for its end."""
        if self._process.stdin is not None:
            self._process.stdin.close()
        self._process.kill()
        self._process.wait()
        if self._process.stdout is not None:
            self._process.stdout.close()
        self._stderr.close()


def _send(stream: IO[bytes], block: Block) -> None:
    data = pack(block)
    stream.write(len(data).to_bytes(_HEADER, "little"))
    stream.write(data)
    stream.flush()


def _receive(stream: IO[bytes]) -> dict[str, Array] | None:
    """Return the next block; None at the end of the stream."""
    header = stream.read(_HEADER)
    if len(header) < _HEADER:
        return None
    size = int.from_bytes(header, "little")
    data = stream.read(size)
    return unpack(data) if len(data) == size else None


def main() -> None:
    """Process blocks from standard input until it ends."""
    function = resolve_function(sys.argv[1])
    results = sys.stdout.buffer
    sys.stdout = sys.stderr  # output of libraries must not mix with the results
    while (block := _receive(sys.stdin.buffer)) is not None:
        _send(results, function(block))


if __name__ == "__main__":
    main()
