"""Work cut into shards: planned at once, made anywhere in any order, summed up at the end.

A stage that can be cut this way gives a `Workshop`. Whoever has opened one, in this process or on
another machine, makes the same bytes of the same shard; nothing else passes between shards.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Protocol

import numpy as np
import numpy.typing as npt
from safetensors.numpy import save_file

from gsx.ragged import Ragged
from gsx.storage.artifacts.draft import Draft
from gsx.storage.artifacts.publish import Outcome
from gsx.storage.corpora.corpus_writer import Shard
from gsx.table import GraphTable

Facts = Mapping[str, Any]
"""What is remembered of a finished shard: plain values, as JSON has them."""
Read = Callable[[str], bytes]
"""Returns the content of a finished file of the draft, wherever it lies by now."""


GRAPH_NODES = 4_000_000
"""Nodes of a shard of new graphs, at most."""
REPLICA_NODES = 1_000_000
"""Nodes of a shard of replicas, at most."""
SHARD_BYTES = 2 << 30
"""Values of nodes that a shard holds, at most."""


def shard_nodes(most: int, like: GraphTable) -> int:
    """Return how many nodes a shard may have: ``most``, or fewer where those of a table are wide.

    A row group is in memory as a whole while it is written, and large graphs fill a shard with one.
    """
    parts = [
        part
        for values in like.node.values()
        for part in ((values.ptr, values.values) if isinstance(values, Ragged) else (values,))
    ]
    wide = sum(part.nbytes for part in parts) / max(like.total_nodes, 1)
    return min(most, int(SHARD_BYTES / max(wide, 1.0)))


@dataclass(frozen=True, slots=True, kw_only=True)
class ShardPlan:
    """One shard, before it is made."""

    units: tuple[str, ...]
    """Paths inside the artifact of what it consists of; the first names it."""
    graphs: int
    about: str
    """What goes into it, for a person who must look for the reason of a failure."""

    @property
    def name(self) -> str:
        """The path of its first unit."""
        return self.units[0]


def hashes_path(shard: Shard) -> str:
    """Return where the hashes of a shard's graphs lie inside the artifact."""
    return f"hashes/{Path(shard.path('parquet')).stem}.safetensors"


def write_hashes(draft: Draft, name: str, blocks: Sequence[npt.NDArray[np.uint64]]) -> None:
    """Write the hashes of a shard's graphs, which came in blocks."""

    def save(path: Path) -> None:
        save_file({"wl": np.concatenate(blocks)}, path)

    draft.write(name, save)


class Workshop(Protocol):
    """Everything that is read once to make any shard of an artifact."""

    @property
    def plans(self) -> Sequence[ShardPlan]:
        """All shards; the same, in the same order, for the same config and inputs."""
        ...

    def make(self, number: int, draft: Draft) -> Facts:
        """Write shard ``number`` into ``draft``, unless it is there, and return its facts."""
        ...

    def finish(self, draft: Draft, facts: Sequence[Facts], read: Read) -> Outcome:
        """Write what is left, given the facts of all shards in their order."""
        ...
