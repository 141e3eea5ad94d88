"""Blocks of new graphs: drawn by name, drawn anew where they are held-out graphs."""

from __future__ import annotations

import itertools
from collections import Counter
from dataclasses import dataclass
from typing import Protocol

import numpy as np
import numpy.typing as npt

from gsx.errors import StageError
from gsx.ragged import Array, Ints, Ragged, pointers
from gsx.schema import ORIGINS, SPLITS, CorpusInfo
from gsx.seeds import rng
from gsx.stages.augmented.derived_columns import fill, same_text
from gsx.stages.augmented.rejection import OWN_DRAWS, hopeless
from gsx.stages.graphs.wl_hash import Hashes, are_among, wl_hashes
from gsx.table import GraphTable, concat

BLOCK_GRAPHS = 4096
"""Graphs drawn from one random stream, or as many as a shard has."""


@dataclass(frozen=True, slots=True, eq=False, kw_only=True)
class Drawn:
    """Graphs as an augmenter makes them."""

    table: GraphTable
    """Node and edge columns, and of graphs ``y``, ``label`` and ``env_id``."""
    parents: Ragged
    """``graph_id`` of what each was made of; empty where that is no graph."""
    number: Ragged
    """Per node, its number in the parent; empty without."""
    weight: Array
    """``[G]`` λ, NaN without."""
    unchanged: npt.NDArray[np.bool_]
    """``[G]`` graphs that came out as they were."""
    lost: Ints
    """``[G]`` nodes or edges that were dropped, or values that were masked."""
    whole: Ints
    """``[G]`` how many there were."""


class Augmenter(Protocol):
    """Makes graphs, each of an item: a training graph, or two classes to mix."""

    @property
    def origin(self) -> str:
        """What the column ``origin`` says of its graphs."""
        ...

    @property
    def info(self) -> CorpusInfo:
        """Describes the corpus that is made."""
        ...

    def draw(self, items: Ints, stream: np.random.Generator) -> Drawn:
        """Make one graph of every item."""
        ...


@dataclass(frozen=True, slots=True, eq=False)
class Block:
    """New graphs, and how they came."""

    table: GraphTable
    """Every column but ``graph_id``."""
    hashes: Hashes
    counts: Counter[str]


def make_block(
    augmenter: Augmenter, items: Ints, forbidden: Hashes, seed: int, *name: str | int
) -> Block:
    """Make graphs of items; the same whoever does it, for the name draws everything.

    A graph that comes out as a held-out graph is drawn anew; one that always does gives its place
    to another. A graph that comes out as it was is left: training has it already, and to draw it
    anew would raise the rate.
    """
    items, text = items.copy(), "/".join(map(str, name))
    found: list[GraphTable] = []
    rows, drawn = np.zeros(len(items), dtype=np.int64), 0
    hashes = np.zeros(len(items), dtype=np.uint64)
    facts = np.zeros((len(items), 3), dtype=np.int64)
    todo, refused = np.arange(len(items)), 0
    for attempt in itertools.count():
        stream = rng(seed, *name, attempt)
        if attempt > OWN_DRAWS:
            items[todo] = items[stream.integers(len(items), size=len(todo))]
        part = augmenter.draw(items[todo], stream)
        hashed = wl_hashes(part.table)
        fine = part.unchanged | ~are_among(hashed, forbidden)
        found.append(_table(augmenter, part, text))
        rows[todo], hashes[todo] = drawn + np.arange(len(todo)), hashed
        facts[todo] = np.stack([part.unchanged, part.lost, part.whole], axis=1)
        drawn += len(todo)
        refused += int((~fine).sum())
        todo = todo[~fine]
        if not len(todo):
            break
        if hopeless(attempt + 1, len(todo), len(items)):
            raise StageError(
                f"{len(todo)} of {len(items)} graphs came out as held-out graphs {attempt + 1} "
                "times. Change the seed, or drop or mask more."
            )
    table = found[0] if len(found) == 1 else concat(found).take(rows)
    names = ("unchanged", "lost", "whole")
    counts = Counter(dict(zip(names, facts.sum(axis=0).tolist(), strict=True)))
    counts.update(graphs=len(items), held_out=refused)
    return Block(table, hashes, counts)


def _table(augmenter: Augmenter, part: Drawn, name: str) -> GraphTable:
    count = len(part.table)
    slot = Ragged(part.number.ptr, np.zeros(len(part.number.values), dtype=np.int16))
    table = part.table.with_columns(
        graph={
            "split": np.full(count, SPLITS.index("train"), dtype=np.int8),
            "domain_id": np.full(count, -1, dtype=np.int32),
            "origin": np.full(count, ORIGINS.index(augmenter.origin), dtype=np.int8),
            "provenance.parents": part.parents,
            "provenance.node_slot": slot,
            "provenance.node_number": part.number,
            "provenance.bridges": Ragged(pointers(np.zeros(count)), np.zeros(0, dtype=np.int32)),
            "provenance.lambda": part.weight.astype(np.float32),
            "provenance.partner": np.full(count, -1, dtype=np.int64),
            "provenance.stream": same_text(name, count),
        }
    )
    return fill(table, augmenter.info)
