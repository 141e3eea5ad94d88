"""Environment and shards of graphs with extrapolated features, planned before any is built."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import msgspec

from gsx.ragged import Ints
from gsx.schema import CorpusInfo, Environment
from gsx.seeds import rng
from gsx.stages.augmented.cycle import Cycle
from gsx.stages.augmented.shards import consecutive_shards, split_range
from gsx.stages.augmented.source_graphs import SOURCE
from gsx.stages.generate.featx.parameters import ORIGIN
from gsx.storage.corpora.corpus_writer import Shard


@dataclass(frozen=True, slots=True, kw_only=True)
class ExtrapolatedShard:
    """A planned shard of graphs with extrapolated features."""

    shard: Shard
    base: str
    """Origin of the graphs whose features are extrapolated."""
    start: int
    """First graph, counted from 0 among those of the same base."""
    stop: int
    first_id: int
    """``graph_id`` of the first graph."""
    base_shard: Shard | None = None
    """Spliced shard whose graphs are extrapolated one by one; None for source graphs."""


@dataclass(frozen=True, slots=True)
class BaseShard:
    """A planned shard of spliced graphs, whose features are extrapolated too."""

    shard: Shard
    origin: str
    start: int
    stop: int


def extrapolated_info(info: CorpusInfo, *, interpolate: bool) -> CorpusInfo:
    """Return the description of a corpus plus an environment of extrapolated features."""
    name = "features interpolated" if interpolate else "features extrapolated"
    environment = Environment(id=len(info.environments), name=name, origin=ORIGIN)
    return msgspec.structs.replace(
        info,
        environments=(*info.environments, environment),
        description=f"{info.description} Augmented by feature linear extrapolation.".strip(),
    )


def plan_extrapolated_shards(
    count: int, shard_graphs: int, spliced: Sequence[BaseShard], before: int, first_id: int
) -> list[ExtrapolatedShard]:
    """Plan shards that follow ``before`` other shards of the ``train`` split.

    ``count`` graphs come from source graphs. Every spliced graph is extrapolated once.
    """
    ranges: list[tuple[str, int, int, Shard | None]] = [
        (SOURCE, start, stop, None) for start, stop in split_range(count, shard_graphs)
    ]
    ranges += [(base.origin, base.start, base.stop, base.shard) for base in spliced]
    shards = consecutive_shards([stop - start for _, start, stop, _ in ranges], before)
    return [
        ExtrapolatedShard(
            shard=shard,
            base=base,
            start=start,
            stop=stop,
            first_id=first_id + shard.start,
            base_shard=base_shard,
        )
        for shard, (base, start, stop, base_shard) in zip(shards, ranges, strict=True)
    ]


def base_rows(eligible: Ints, count: int, seed: int) -> Cycle:
    """Return the source row of every extrapolated graph: a cycle over all eligible rows."""
    return Cycle.sample(eligible, count, rng(seed, "generate", ORIGIN, "rows"))
