"""Raw data that a crew reads: blocks go out, and what they hold comes back in their order."""

from __future__ import annotations

import contextlib
from collections.abc import Iterable, Iterator

from gsx.errors import StageError
from gsx.pipeline.distributed.build_shards import (
    OUT_OF_MEMORY,
    WORKER_LOST,
    Crew,
    Hire,
    Job,
    Sort,
    Task,
)
from gsx.pipeline.distributed.worker_tasks import read_block
from gsx.ragged import Array
from gsx.stages.prepare.array_blocks import Block, pack, unpack
from gsx.stages.prepare.block_executor import spread_by
from gsx.storage.artifacts.draft import Draft
from gsx.storage.artifacts.event_log import RunLog

BLOCKS = Sort("block")


@contextlib.contextmanager
def readers(hire: Hire, job: Job, draft: Draft, log: RunLog) -> Iterator[None]:
    """Have blocks of raw data read by a crew, which is hired when the first ones come."""
    crew: Crew | None = None
    with contextlib.ExitStack() as stack:

        def spread(name: str, blocks: Iterable[Block]) -> Iterator[dict[str, Array]]:
            nonlocal crew
            if crew is None:
                crew = stack.enter_context(hire(job, draft, log))
            return read_by(crew, name, blocks, log)

        stack.enter_context(spread_by(spread))
        yield


def read_by(
    crew: Crew, name: str, blocks: Iterable[Block], log: RunLog
) -> Iterator[dict[str, Array]]:
    """Yield what is read of every block, in their order."""
    tasks = (
        Task(f"block {number}", f"{name}, to be read", name.encode() + b"\n" + pack(block))
        for number, block in enumerate(blocks)
    )
    early: dict[int, bytes] = {}
    turn = 0
    for result in crew.each(read_block, tasks, BLOCKS):
        failure = result.failure
        if failure is not None and failure.kind in (OUT_OF_MEMORY, WORKER_LOST):
            raise StageError(f"block {result.number} of {name} could not be read: {failure.text}")
        if failure is not None:
            raise failure.error()
        early[result.number] = result.data
        while turn in early:
            yield unpack(early.pop(turn))
            turn += 1
    log.write("read", reader=name, blocks=turn, workers=crew.size)
