"""Limits on decoded bytes, so that a small file cannot fill the memory.

Three numbers explain decoded bytes, and the largest is the limit: a fixed size; the size of the
file; and the rows of all columns of fixed width, which follow from the schema and the counts in the
manifest. Wide one-hot or constant features compress by any ratio, but have a known number of rows.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass

import numpy as np

from gsx.errors import ArtifactError
from gsx.limits import DECODED_BYTES
from gsx.schema import Axis, CorpusInfo
from gsx.storage.corpora.summary import GraphGroup

MIN_ZARR_BYTES = 768 << 20
"""Bytes that one read of a shard of Zarr may always decode; Parquet needs up to twice the memory
of what it decodes."""
MAX_READ_BYTES = 8 << 30
"""Bytes that one read may never decode."""
SHARD_READS = 8
"""Reads of the largest size that all reads of one shard may amount to."""
RATIO = 200
"""Decoded bytes per stored byte; corpora reach 25 to 60."""
_LEVEL_BYTES = 4
"""Memory of the nesting levels of a value in a Parquet list."""
_COPIES = 2
"""Times that a value is in memory while a page is decoded: in the page and in the array."""


@dataclass(frozen=True, slots=True)
class Extent:
    """The rows of a split, from the counts in the manifest."""

    nodes: int
    edges: int
    largest: int
    """Nodes of the largest graph."""

    @classmethod
    def of(cls, groups: list[GraphGroup], split: str) -> Extent:
        """Return the extent of a split."""
        members = [group for group in groups if group["split"] == split]
        return cls(
            nodes=sum(group["nodes"] for group in members),
            edges=sum(group["edges"] for group in members),
            largest=max((group["max_nodes"] for group in members), default=0),
        )

    def decoded(self, info: CorpusInfo, graphs: int) -> int:
        """Return an upper bound of the bytes that the columns of fixed width decode to."""
        rows: Mapping[Axis, int] = {
            "graph": graphs,
            "node": min(self.nodes, graphs * self.largest),
            "edge": self.edges,
        }
        return _COPIES * sum(
            rows[column.axis]
            * (column.width or 1)
            * (np.dtype(column.dtype).itemsize + _LEVEL_BYTES)
            for column in info.columns
            if not column.ragged
        )


def fixed_columns(info: CorpusInfo) -> frozenset[str]:
    """Return the names of the columns whose size follows from the number of rows."""
    return frozenset(column.name for column in info.columns if not column.ragged)


NO_EXTENT = Extent(0, 0, 0)
"""The extent of a shard whose manifest is not known."""


def read_limit(stored: int, explained: int = 0, minimum: int = DECODED_BYTES.default) -> int:
    """Return the bytes that one read of a shard of ``stored`` bytes may decode.

    ``explained`` is the number of bytes that follows from schema and manifest.
    """
    if DECODED_BYTES.is_set:
        return DECODED_BYTES.value
    return min(MAX_READ_BYTES, max(minimum, RATIO * stored, explained))


def shard_limit(stored: int, explained: int = 0) -> int:
    """Return the bytes that all reads of a shard of ``stored`` bytes may decode."""
    if DECODED_BYTES.is_set:
        return SHARD_READS * DECODED_BYTES.value
    explained = min(explained, SHARD_READS * MAX_READ_BYTES)
    return max(SHARD_READS * DECODED_BYTES.default, RATIO * stored, explained)


def check_decoded(what: str, decoded: int, limit: int) -> None:
    """Raise ArtifactError if ``what`` would decode to more than ``limit`` bytes."""
    if decoded > limit:
        raise ArtifactError(
            f"{what} would decode to {decoded:,} bytes, above the limit of {limit:,} bytes for a "
            "file of this size, this schema and this manifest. Nothing was read. If you trust its "
            f"sender, set {DECODED_BYTES.variable}, for example to 16G."
        )
