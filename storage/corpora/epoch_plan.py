"""Which graphs of an epoch a rank reads, and where its batches begin.

In one epoch the ranks read every graph once, and all ranks have the same number of batches, so that
none of them waits for a gradient that no other rank computes.
"""

from __future__ import annotations

import sys
from dataclasses import dataclass

from gsx.errors import UsageError


@dataclass(frozen=True, slots=True)
class Ranks:
    """The rank of this process and the number of processes that share an epoch."""

    rank: int = 0
    world_size: int = 1

    @classmethod
    def resolve(cls, rank: int | None, world_size: int | None) -> Ranks:
        """Check given ranks; without any, return those of ``torch.distributed``, or one process."""
        if rank is None and world_size is None:
            distributed = sys.modules.get("torch.distributed")
            if distributed and distributed.is_available() and distributed.is_initialized():
                return cls(distributed.get_rank(), distributed.get_world_size())
            return cls()
        if rank is None or world_size is None:
            raise UsageError(
                f"rank and world_size belong together; got rank={rank}, world_size={world_size}"
            )
        if world_size < 1:
            raise UsageError(f"world_size must be at least 1; got {world_size}")
        if not 0 <= rank < world_size:
            raise UsageError(f"rank must be in 0..{world_size - 1}; got {rank}")
        return cls(rank, world_size)


@dataclass(frozen=True, slots=True)
class EpochPlan:
    """How the graphs of an epoch are divided among ranks and batches.

    With random access (``interleaved``), step k of all ranks together reads the graphs
    [k W B, (k + 1) W B) of one order, for W ranks and batches of size B. The order, and the graphs
    of every step, are those of one process with batches of size W B. When shards are streamed, each
    rank reads a contiguous part of the order instead, so that it opens its own shards only.

    The last batches share the remaining graphs equally. If fewer than W remain, batches of the step
    before take one more.
    """

    graphs: int
    batch_size: int
    drop_last: bool
    ranks: Ranks
    interleaved: bool

    def __post_init__(self) -> None:
        if 0 < self.graphs < self.ranks.world_size and not self.drop_last:
            raise UsageError(
                f"{self.graphs} graphs cannot be shared among {self.ranks.world_size} ranks: every "
                "rank needs one. Use fewer ranks, or drop_last=True to skip them"
            )

    @property
    def num_batches(self) -> int:
        """Number of batches of every rank."""
        shared = self.graphs // self.ranks.world_size
        return shared // self.batch_size if self.drop_last else -(-shared // self.batch_size)

    def bounds(self, step: int) -> tuple[int, int]:
        """Return the first position of a batch in the order of the epoch, and the one after it."""
        rank, world_size = self.ranks.rank, self.ranks.world_size
        is_last = step == self.num_batches - 1 and not self.drop_last
        if not self.interleaved:
            first, stop = self.part
            start = first + step * self.batch_size
            return start, stop if is_last else start + self.batch_size
        first = step * world_size * self.batch_size
        if not is_last:
            start = first + rank * self.batch_size
            return start, start + self.batch_size
        rest = self.graphs - first
        return first + rest * rank // world_size, first + rest * (rank + 1) // world_size

    @property
    def part(self) -> tuple[int, int]:
        """The positions that this rank reads when shards are streamed."""
        rank, world_size = self.ranks.rank, self.ranks.world_size
        return self.graphs * rank // world_size, self.graphs * (rank + 1) // world_size
