"""Rejection sampling of augmented graphs: draw blocks, redraw graphs that are held out."""

from __future__ import annotations

import itertools
from collections import Counter
from dataclasses import dataclass
from typing import Protocol

import numpy as np
import numpy.typing as npt

from gsx.errors import StageError
from gsx.ragged import Array, Ints, Ragged
from gsx.schema import CorpusInfo
from gsx.seeds import rng
from gsx.stages.augmented.derived_columns import derived_columns, fill_missing_columns
from gsx.stages.augmented.rejection import DRAWS_BEFORE_REPLACEMENT, should_give_up
from gsx.stages.graphs.wl_hash import Hashes, contained_in, wl_hashes
from gsx.table import GraphTable, concat

BLOCK_GRAPHS = 4096
"""Graphs drawn from one random stream, or the graphs of a shard if these are fewer."""


@dataclass(frozen=True, slots=True, eq=False, kw_only=True)
class DrawnGraphs:
    """Graphs drawn by an augmenter."""

    table: GraphTable
    """Node and edge columns, and the graph columns ``y``, ``label`` and ``env_id``."""
    parents: Ragged
    """``graph_id`` of each graph's parents; empty if there are none."""
    node_number: Ragged
    """Per node, its number in the parent; empty without parents."""
    strength: Array
    """``[G]`` λ; NaN if the method has none."""
    unchanged: npt.NDArray[np.bool_]
    """``[G]`` graphs that equal their parent."""
    removed: Ints
    """``[G]`` number of dropped nodes or edges, or of masked values."""
    total: Ints
    """``[G]`` number of nodes, edges or values of the parent."""


class Augmenter(Protocol):
    """Draws graphs from items, which are training graphs or pairs of classes."""

    @property
    def origin(self) -> str:
        """Value of the column ``origin`` of the drawn graphs."""
        ...

    @property
    def info(self) -> CorpusInfo:
        """Description of the augmented corpus."""
        ...

    def draw(self, items: Ints, stream: np.random.Generator) -> DrawnGraphs:
        """Draw one graph per item."""
        ...


@dataclass(frozen=True, slots=True, eq=False)
class AugmentedBlock:
    """Augmented graphs and counts of their draws."""

    table: GraphTable
    """All columns except ``graph_id``."""
    hashes: Hashes
    counts: Counter[str]


def sample_block(
    augmenter: Augmenter, items: Ints, forbidden: Hashes, seed: int, *name: str | int
) -> AugmentedBlock:
    """Draw one graph per item; the stream's name determines the result.

    A graph that equals a held-out graph is drawn again. After several rejected draws another item
    of the block replaces it. An unchanged graph is accepted: training has it already, and redrawing
    it would raise the rate.
    """
    items, stream_name = items.copy(), "/".join(map(str, name))
    draws: list[GraphTable] = []
    rows, num_drawn = np.zeros(len(items), dtype=np.int64), 0
    hashes = np.zeros(len(items), dtype=np.uint64)
    stats = np.zeros((len(items), 3), dtype=np.int64)
    pending, rejected = np.arange(len(items)), 0
    for attempt in itertools.count():
        stream = rng(seed, *name, attempt)
        if attempt > DRAWS_BEFORE_REPLACEMENT:
            items[pending] = items[stream.integers(len(items), size=len(pending))]
        drawn = augmenter.draw(items[pending], stream)
        drawn_hashes = wl_hashes(drawn.table)
        accepted = drawn.unchanged | ~contained_in(drawn_hashes, forbidden)
        draws.append(_add_columns(augmenter, drawn, stream_name))
        rows[pending], hashes[pending] = num_drawn + np.arange(len(pending)), drawn_hashes
        stats[pending] = np.stack([drawn.unchanged, drawn.removed, drawn.total], axis=1)
        num_drawn += len(pending)
        rejected += int((~accepted).sum())
        pending = pending[~accepted]
        if not len(pending):
            break
        if should_give_up(attempt + 1, len(pending), len(items)):
            raise StageError(
                f"{augmenter.origin}: {len(pending)} of {len(items)} graphs equalled held-out "
                f"graphs in {attempt + 1} draws. Change the seed, or drop or mask more."
            )
    table = draws[0] if len(draws) == 1 else concat(draws).take(rows)
    names = ("unchanged", "lost", "whole")
    counts = Counter(dict(zip(names, stats.sum(axis=0).tolist(), strict=True)))
    counts.update(graphs=len(items), held_out=rejected)
    return AugmentedBlock(table, hashes, counts)


def _add_columns(augmenter: Augmenter, drawn: DrawnGraphs, stream: str) -> GraphTable:
    """Add provenance and missing columns to drawn graphs."""
    columns = derived_columns(
        len(drawn.table),
        origin=augmenter.origin,
        stream=stream,
        parents=drawn.parents,
        node_number=drawn.node_number,
        strength=drawn.strength.astype(np.float32),
    )
    return fill_missing_columns(drawn.table.with_columns(graph=columns), augmenter.info)
