"""What a generated corpus will hold: environments, shards, blocks."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass

import msgspec

from gsx.schema import CorpusInfo, Environment
from gsx.stages.generate.splice.splicer import ORIGIN_OF, Option
from gsx.storage.corpora.corpus_writer import Shard

SIZE_DOMAINS = ("size", "length", "size-color")
"""Shifts of the number of nodes: each option reaches sizes of its own."""
MEANING: dict[Option, str] = {
    1: "causal pieces",
    2: "causal + environmental",
    3: "whole graphs",
}


@dataclass(frozen=True, slots=True, kw_only=True)
class PlannedShard:
    """One file of augmented graphs."""

    shard: Shard
    option: Option
    start: int
    """First graph, counted inside its option."""
    stop: int
    first_id: int
    """``graph_id`` of the first graph."""


def new_environments(info: CorpusInfo, options: Sequence[Option]) -> tuple[Environment, ...]:
    """Return the environments of augmented graphs: three by size, two by anything else."""
    groups: list[tuple[Option, ...]] = [(option,) for option in options]
    if info.domain not in SIZE_DOMAINS:
        rest = tuple(option for option in options if option != 1)
        groups = [group for group in ((1,) if 1 in options else (), rest) if group]
    first = len(info.environments)
    return tuple(
        Environment(
            id=first + number,
            name="; ".join(MEANING[option] for option in group),
            origin=" ".join(ORIGIN_OF[option] for option in group),
        )
        for number, group in enumerate(groups)
    )


def environment_of(environments: Sequence[Environment], option: Option) -> int:
    """Return the id of the environment an option's graphs belong to."""
    return next(env.id for env in environments if ORIGIN_OF[option] in env.origin.split())


def augmented_info(info: CorpusInfo, environments: Sequence[Environment]) -> CorpusInfo:
    """Describe the generated corpus."""
    return msgspec.structs.replace(
        info,
        environments=(*info.environments, *environments),
        description=f"{info.description} Augmented by structural linear extrapolation.".strip(),
    )


def plan_augmented(
    counts: Mapping[Option, int], shard_graphs: int, before: int, first_id: int
) -> list[PlannedShard]:
    """Cut every option into shards that follow ``before`` shards of the training split."""
    pieces = [
        (option, start, min(start + shard_graphs, count))
        for option, count in counts.items()
        for start in range(0, count, shard_graphs)
    ]
    total = before + len(pieces)
    planned, place = [], 0
    for number, (option, start, stop) in enumerate(pieces, start=before):
        planned.append(
            PlannedShard(
                shard=Shard("train", number, total, place, place + stop - start),
                option=option,
                start=start,
                stop=stop,
                first_id=first_id + place,
            )
        )
        place += stop - start
    return planned
