"""Block executor on Dask workers, for stages that read raw data in blocks."""

from __future__ import annotations

import contextlib
from collections.abc import Callable, Iterable, Iterator
from contextlib import AbstractContextManager

from gsx.errors import StageError
from gsx.pipeline.distributed.tasks import (
    OUT_OF_MEMORY,
    WORKER_LOST,
    Executor,
    Task,
    TaskKind,
)
from gsx.pipeline.distributed.worker_tasks import process_block_task
from gsx.ragged import Array
from gsx.stages.array_blocks import Block, pack, unpack
from gsx.stages.block_executor import (
    BlockExecutor,
    BlockFunction,
    function_reference,
    single_block,
)
from gsx.storage.artifacts.event_log import EventLog

BLOCKS = TaskKind("block")


@contextlib.contextmanager
def dask_block_executor(
    open_executor: Callable[[], AbstractContextManager[Executor]], log: EventLog
) -> Iterator[BlockExecutor]:
    """Yield a block executor whose workers start when the first blocks need them."""
    with contextlib.ExitStack() as stack:
        yield DaskBlockExecutor(lambda: stack.enter_context(open_executor()), log)


class DaskBlockExecutor:
    """Maps functions over blocks on the workers of an executor."""

    def __init__(self, start: Callable[[], Executor], log: EventLog) -> None:
        self._start = start
        self._executor: Executor | None = None
        self._log = log

    def map(self, function: BlockFunction, blocks: Iterable[Block]) -> Iterator[dict[str, Array]]:
        """Yield ``function(block)`` for every block, in order; one block runs in this process."""
        single, blocks = single_block(blocks)
        if single:
            yield from map(function, blocks)
            return
        if self._executor is None:
            self._executor = self._start()
        yield from _map_in_order(self._executor, function_reference(function), blocks, self._log)


def _map_in_order(
    executor: Executor, function: str, blocks: Iterable[Block], log: EventLog
) -> Iterator[dict[str, Array]]:
    tasks = (
        Task(f"block {index}", function, function.encode() + b"\n" + pack(block))
        for index, block in enumerate(blocks)
    )
    early: dict[int, bytes] = {}
    next_index = 0
    for result in executor.map_unordered(process_block_task, tasks, BLOCKS):
        failure = result.failure
        if failure is not None and failure.kind in (OUT_OF_MEMORY, WORKER_LOST):
            raise StageError(f"block {result.number} of {function} failed: {failure.text}")
        if failure is not None:
            raise failure.to_exception()
        early[result.number] = result.data
        while next_index in early:
            yield unpack(early.pop(next_index))
            next_index += 1
    log.write("read", reader=function, blocks=next_index, workers=executor.num_workers)
