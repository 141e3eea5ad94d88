"""What FeatX adds to a generated corpus: an environment, and shards known before any is made."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import msgspec

from gsx.ragged import Ints
from gsx.schema import CorpusInfo, Environment
from gsx.seeds import rng
from gsx.stages.augmented.cycle import Turns
from gsx.stages.generate.featx.parameters import ORIGIN
from gsx.storage.corpora.corpus_writer import Shard

SOURCE = "source"


@dataclass(frozen=True, slots=True, kw_only=True)
class MovedShard:
    """One file of graphs with moved features."""

    shard: Shard
    base: str
    """Origin of the graphs that are moved."""
    start: int
    """First graph, counted inside those of its base."""
    stop: int
    first_id: int
    """``graph_id`` of the first graph."""
    parent: Shard | None = None
    """The shard whose graphs are moved, one for one; None for graphs of the source."""


@dataclass(frozen=True, slots=True)
class Spliced:
    """A planned shard of spliced graphs, which FeatX moves too."""

    shard: Shard
    origin: str
    start: int
    stop: int


def with_environment(info: CorpusInfo, *, towards: bool) -> CorpusInfo:
    """Describe a corpus that has graphs or nodes with moved features, in an environment of all."""
    name = "features interpolated" if towards else "features extrapolated"
    environment = Environment(id=len(info.environments), name=name, origin=ORIGIN)
    return msgspec.structs.replace(
        info,
        environments=(*info.environments, environment),
        description=f"{info.description} Augmented by feature linear extrapolation.".strip(),
    )


def plan_moved(
    count: int, shard_graphs: int, spliced: Sequence[Spliced], before: int, first_id: int
) -> list[MovedShard]:
    """Plan shards that follow ``before`` others of the training split.

    ``count`` graphs come from those of the source; every spliced graph is moved once.
    """
    pieces: list[tuple[str, int, int, Shard | None]] = [
        (SOURCE, start, min(start + shard_graphs, count), None)
        for start in range(0, count, shard_graphs)
    ]
    pieces += [(each.origin, each.start, each.stop, each.shard) for each in spliced]
    total, planned, place = before + len(pieces), [], 0
    for number, (base, start, stop, parent) in enumerate(pieces, start=before):
        planned.append(
            MovedShard(
                shard=Shard("train", number, total, place, place + stop - start),
                base=base,
                start=start,
                stop=stop,
                first_id=first_id + place,
                parent=parent,
            )
        )
        place += stop - start
    return planned


def base_rows(eligible: Ints, count: int, seed: int) -> Turns:
    """Return the row of every graph to move: all of them in turn, the last time some at random."""
    return Turns.of(eligible, count, rng(seed, "generate", ORIGIN, "rows"))
