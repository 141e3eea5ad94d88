"""Builds that are split into shards: planned once, built anywhere in any order, then finished.

A stage that supports this provides a `ShardedBuild`. Every process that opens it, on any machine,
writes the same bytes for the same shard. Shards do not depend on each other.
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
from gsx.storage.artifacts.atomic_files import translate_safetensors_errors
from gsx.storage.artifacts.draft import Draft
from gsx.storage.artifacts.publish import StageResult
from gsx.storage.corpora.corpus_writer import Shard
from gsx.table import GraphTable

ShardStats = Mapping[str, Any]
"""Statistics of a finished shard, as JSON values."""
ReadFile = Callable[[str], bytes]
"""Returns the content of a finished file of the draft, from the draft or from the object store."""


GRAPH_NODES = 4_000_000
"""Maximum number of nodes per shard of generated graphs."""
REPLICA_NODES = 1_000_000
"""Maximum number of nodes per shard of replicas."""
SHARD_BYTES = 2 << 30
"""Maximum size of the node columns of a shard."""


def max_shard_nodes(limit: int, template: GraphTable) -> int:
    """Return the number of nodes per shard: ``limit``, or fewer if nodes of ``template`` are wide.

    A row group is in memory as a whole while it is written, and a large graph fills a whole group.
    """
    arrays = [
        array
        for values in template.node.values()
        for array in ((values.ptr, values.values) if isinstance(values, Ragged) else (values,))
    ]
    bytes_per_node = sum(array.nbytes for array in arrays) / max(template.total_nodes, 1)
    return min(limit, int(SHARD_BYTES / max(bytes_per_node, 1.0)))


@dataclass(frozen=True, slots=True, kw_only=True)
class ShardPlan:
    """A shard before it is built."""

    units: tuple[str, ...]
    """Paths of its files or directories inside the artifact; the first one is its name."""
    graphs: int
    description: str
    """Content of the shard, shown in error messages and logs."""

    @property
    def name(self) -> str:
        """The path of the first unit."""
        return self.units[0]


def hashes_path(shard: Shard) -> str:
    """Return the path, inside the artifact, of the WL hashes of a shard's graphs."""
    return f"hashes/{Path(shard.path('parquet')).stem}.safetensors"


def write_hashes(
    draft: Draft,
    name: str,
    blocks: Sequence[npt.NDArray[np.uint64]],
    labelled: Sequence[npt.NDArray[np.uint64]] = (),
) -> None:
    """Write the WL hashes of a shard's graphs, given block by block.

    ``labelled`` are hashes of graphs with their labels, if there are any.
    """

    def save(path: Path) -> None:
        with translate_safetensors_errors():
            arrays = {"wl": np.concatenate(blocks)}
            if labelled:
                arrays["labelled"] = np.concatenate(labelled)
            save_file(arrays, path)

    draft.write(name, save)


class ShardedBuild(Protocol):
    """The loaded inputs from which any shard of an artifact can be built."""

    @property
    def plans(self) -> Sequence[ShardPlan]:
        """All shards, in the same order for the same config and inputs."""
        ...

    def build_shard(self, number: int, draft: Draft) -> ShardStats:
        """Write shard ``number`` into ``draft`` unless it exists, and return its statistics."""
        ...

    def finish(self, draft: Draft, stats: Sequence[ShardStats], read: ReadFile) -> StageResult:
        """Write the remaining files, given the statistics of all shards in order."""
        ...
