"""Work on blocks of arrays in other processes, without pickle and without forking.

A worker is ``python -m gsx.stages.prepare.block_executor NAME``: it reads blocks from its
standard input, hands each to one of the functions below and writes what that returns. A block is a set of named
arrays as a safetensors file, after its length. Results come in the order of the blocks, so they do
not depend on how many workers there are. Whoever has workers of another kind, on other machines
perhaps, lends them with `spread_by`.
"""

from __future__ import annotations

import contextlib
import importlib
import os
import subprocess
import sys
import tempfile
import weakref
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from concurrent.futures import Future, ThreadPoolExecutor
from queue import SimpleQueue
from typing import IO

from gsx.errors import StageError, UsageError
from gsx.ragged import Array
from gsx.stages.prepare.array_blocks import Block, pack, unpack

FUNCTIONS: Mapping[str, str] = {
    "smiles": "gsx.stages.prepare.readers.smiles_blocks:read_block",
    "superpixels": "gsx.stages.prepare.benchmarks.superpixels:read_block",
}
"""What workers can do: the module and the name of a function from block to block."""
Elsewhere = Callable[[str, Iterable[Block]], Iterator[dict[str, Array]]]
"""Does what `spread` does, by other workers."""
VARIABLE = "GSX_WORKERS"
_MOST = 16
_HEADER = 8
_elsewhere: Elsewhere | None = None


@contextlib.contextmanager
def spread_by(elsewhere: Elsewhere) -> Iterator[None]:
    """Have blocks worked on elsewhere until the end, in all threads of this process."""
    global _elsewhere
    before, _elsewhere = _elsewhere, elsewhere
    try:
        yield
    finally:
        _elsewhere = before


def worker_count() -> int:
    """Return how many workers to use: GSX_WORKERS, else one per processor, at most 16.

    Workers elsewhere count as two: there is more than this process, and they know their number.
    """
    if _elsewhere is not None:
        return 2
    given = os.environ.get(VARIABLE)
    if given is None:
        return min(_MOST, len(os.sched_getaffinity(0)))
    if not given.isdecimal() or int(given) < 1:
        raise UsageError(f"{VARIABLE} must be a whole number from 1; got `{given}`")
    return int(given)


def spread(name: str, blocks: Iterable[Block], workers: int) -> Iterator[dict[str, Array]]:
    """Yield what the function called ``name`` returns for every block, in their order.

    With one worker it runs here. Few blocks are in hand at once, however many there are.
    """
    crew = Crew(name)
    try:
        yield from crew.spread(blocks, workers)
    finally:
        crew.stop()


class Crew:
    """Workers for blocks that come in several rounds, one round at a time.

    They start when the first round needs them, and stop when a round fails or the crew is gone.
    """

    def __init__(self, name: str) -> None:
        self._name = name
        self._members: list[_Worker] = []
        weakref.finalize(self, _dismiss, self._members)

    def spread(self, blocks: Iterable[Block], workers: int) -> Iterator[dict[str, Array]]:
        """Yield what is returned for every block of a round, in their order."""
        if workers == 1:
            yield from map(reader(self._name), blocks)
            return
        if _elsewhere is not None:
            yield from _elsewhere(self._name, blocks)
            return
        try:
            while len(self._members) < workers:
                self._members.append(_Worker(self._name))
            yield from _answers(self._members[:workers], blocks)
        except BaseException:
            self.stop()
            raise

    def stop(self) -> None:
        """End all workers; a later round starts new ones."""
        _dismiss(self._members)


def _dismiss(members: list[_Worker]) -> None:
    while members:
        members.pop().stop()


def _answers(members: Sequence[_Worker], blocks: Iterable[Block]) -> Iterator[dict[str, Array]]:
    idle: SimpleQueue[_Worker] = SimpleQueue()
    for worker in members:
        idle.put(worker)

    def work(block: Block) -> dict[str, Array]:
        worker = idle.get()
        try:
            return worker.ask(block)
        finally:
            idle.put(worker)

    waiting: list[Future[dict[str, Array]]] = []
    with ThreadPoolExecutor(len(members)) as pool:
        for block in blocks:
            waiting.append(pool.submit(work, block))
            if len(waiting) > 2 * len(members):
                yield waiting.pop(0).result()
        while waiting:
            yield waiting.pop(0).result()


class _Worker:
    """One other process."""

    def __init__(self, name: str) -> None:
        self._name = name
        self._errors = tempfile.TemporaryFile()  # noqa: SIM115
        self._process = subprocess.Popen(
            [sys.executable, "-P", "-m", "gsx.stages.prepare.block_executor", name],
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            stderr=self._errors,
            # Modules are found where this process finds them, whatever folder it works in.
            env={
                **os.environ,
                "OMP_NUM_THREADS": "1",
                "PYTHONPATH": os.pathsep.join(filter(None, sys.path)),
            },
        )

    def ask(self, block: Block) -> dict[str, Array]:
        """Send a block and return the answer."""
        assert self._process.stdin is not None
        assert self._process.stdout is not None
        try:
            _send(self._process.stdin, block)
            answer = _receive(self._process.stdout)
        except OSError:
            answer = None
        if answer is None:
            self._process.wait()
            self._errors.seek(0)
            said = self._errors.read().decode(errors="replace").strip().splitlines()
            raise StageError(
                f"a worker for {self._name} stopped (exit {self._process.returncode}): "
                f"{said[-1] if said else 'it said nothing'}. `{VARIABLE}=1` works without any."
            )
        return answer

    def stop(self) -> None:
        """End the process and wait for it."""
        if self._process.stdin is not None:
            self._process.stdin.close()
        self._process.kill()
        self._process.wait()
        if self._process.stdout is not None:
            self._process.stdout.close()
        self._errors.close()


def _send(stream: IO[bytes], block: Block) -> None:
    data = pack(block)
    stream.write(len(data).to_bytes(_HEADER, "little"))
    stream.write(data)
    stream.flush()


def _receive(stream: IO[bytes]) -> dict[str, Array] | None:
    """Return the next block; None at the end."""
    header = stream.read(_HEADER)
    if len(header) < _HEADER:
        return None
    size = int.from_bytes(header, "little")
    data = stream.read(size)
    return unpack(data) if len(data) == size else None


def reader(name: str) -> Callable[[Block], dict[str, Array]]:
    """Return the function called ``name``."""
    module, _, attribute = FUNCTIONS[name].partition(":")
    found: Callable[[Block], dict[str, Array]] = getattr(importlib.import_module(module), attribute)
    return found


def main() -> None:
    """Answer blocks until there are no more."""
    function = reader(sys.argv[1])
    answers = sys.stdout.buffer
    sys.stdout = sys.stderr  # whatever prints must not garble the answers
    while (block := _receive(sys.stdin.buffer)) is not None:
        _send(answers, function(block))


if __name__ == "__main__":
    main()
