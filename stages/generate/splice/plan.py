"""Environments and shards of spliced graphs, planned before any graph is built."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass

import msgspec

from gsx.schema import CorpusInfo, Environment
from gsx.stages.augmented.shards import consecutive_shards, split_range
from gsx.stages.generate.config import Option
from gsx.storage.corpora.corpus_writer import Shard

SIZE_DOMAINS = ("size", "length", "size-color")
"""Domains that shift the number of nodes. Here each option reaches different sizes, so each option
has an environment of its own."""
ENVIRONMENT_NAMES: dict[Option, str] = {
    1: "causal subgraphs",
    2: "causal and environmental subgraphs",
    3: "whole graphs",
}
ORIGIN_OF_OPTION: dict[Option, str] = {1: "g_inv", 2: "g_inv_env", 3: "g_whole"}


@dataclass(frozen=True, slots=True, kw_only=True)
class SplicedShard:
    """A planned shard of spliced graphs of one option."""

    shard: Shard
    option: Option
    start: int
    """First graph, counted from 0 within the option."""
    stop: int
    first_id: int
    """``graph_id`` of the first graph."""


def spliced_environments(info: CorpusInfo, options: Sequence[Option]) -> tuple[Environment, ...]:
    """Return the environments of spliced graphs.

    Size domains get one environment per option. Others get one for option 1 and one for options 2
    and 3 together.
    """
    groups: list[tuple[Option, ...]] = [(option,) for option in options]
    if info.domain not in SIZE_DOMAINS:
        others = tuple(option for option in options if option != 1)
        groups = [group for group in ((1,) if 1 in options else (), others) if group]
    first = len(info.environments)
    return tuple(
        Environment(
            id=first + number,
            name="; ".join(ENVIRONMENT_NAMES[option] for option in group),
            origin=" ".join(ORIGIN_OF_OPTION[option] for option in group),
        )
        for number, group in enumerate(groups)
    )


def environment_id(environments: Sequence[Environment], option: Option) -> int:
    """Return the id of the environment that holds the graphs of an option."""
    return next(env.id for env in environments if ORIGIN_OF_OPTION[option] in env.origin.split())


def spliced_info(info: CorpusInfo, environments: Sequence[Environment]) -> CorpusInfo:
    """Return the description of a source corpus plus spliced graphs."""
    return msgspec.structs.replace(
        info,
        environments=(*info.environments, *environments),
        description=f"{info.description} Augmented by structural linear extrapolation.".strip(),
    )


def plan_spliced_shards(
    counts: Mapping[Option, int], shard_graphs: int, before: int, first_id: int
) -> list[SplicedShard]:
    """Split the graphs of every option into shards that follow ``before`` source shards."""
    ranges = [
        (option, start, stop)
        for option, count in counts.items()
        for start, stop in split_range(count, shard_graphs)
    ]
    shards = consecutive_shards([stop - start for _, start, stop in ranges], before)
    return [
        SplicedShard(
            shard=shard,
            option=option,
            start=start,
            stop=stop,
            first_id=first_id + shard.start,
        )
        for shard, (option, start, stop) in zip(shards, ranges, strict=True)
    ]
