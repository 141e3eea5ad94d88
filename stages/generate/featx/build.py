"""Build graphs with moved features: plan every shard, make each by itself, sum them up."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

import numpy as np

from gsx.errors import StageError, UsageError
from gsx.schema import ORIGINS, CorpusInfo
from gsx.stages.augmented.cycle import Turns
from gsx.stages.generate.featx import node_replicas as nodes
from gsx.stages.generate.featx.extrapolate_graphs import MovedBlock, Mover, counted, numbered
from gsx.stages.generate.featx.parameters import require_movable, rules_of
from gsx.stages.generate.featx.plan import (
    SOURCE,
    MovedShard,
    Spliced,
    base_rows,
    plan_moved,
)
from gsx.stages.generate.featx.rank_matching import by_rank, node_keys
from gsx.stages.graphs.feature_variance import Partners
from gsx.stages.graphs.wl_hash import Hashes
from gsx.stages.sharded_build import GRAPH_NODES, Facts, hashes_path, shard_nodes, write_hashes
from gsx.storage.artifacts.draft import Draft
from gsx.storage.artifacts.store import Artifact
from gsx.storage.corpora.corpus import Corpus
from gsx.storage.corpora.corpus_writer import finished_shard, write_shard
from gsx.table import GraphTable, cut

if TYPE_CHECKING:
    from gsx.stages.generate.stage import GenerateConfig

BLOCK_GRAPHS = 4096
"""Graphs moved from one random stream, or as many as a shard has."""


@dataclass(frozen=True, slots=True, eq=False)
class Extrapolation:
    """What FeatX makes of a corpus, and everything needed to make any shard of it."""

    config: GenerateConfig
    train: GraphTable
    """Source graphs for training, with the columns that moved graphs keep."""
    turning: GraphTable
    """The same, and where all are moved in turns the first of them again: blocks are slices of it.
    Both share their memory."""
    rows: Turns
    """Row of every graph to move."""
    mover: Mover
    planned: list[MovedShard]

    @property
    def graphs(self) -> int:
        """Graphs that will be made."""
        return sum(plan.stop - plan.start for plan in self.planned)

    @property
    def env_id(self) -> int:
        """The environment of all of them."""
        return self.mover.info.environments[-1].id

    def bases(self, start: int, stop: int) -> GraphTable:
        """Return some graphs to move; in whole turns of all they share memory with the source."""
        every, turns = len(self.train), self.rows
        if len(turns.items) < every or stop > len(turns) - len(turns.some):
            return self.train.take(turns[start:stop])
        return self.turning.slice(start % every, start % every + stop - start)


def plan_extrapolation(
    config: GenerateConfig,
    inputs: Mapping[str, Artifact],
    info: CorpusInfo,
    held_out: Hashes,
    *,
    spliced: Sequence[Spliced],
    before: int,
    first_id: int,
) -> Extrapolation:
    """Read corpus and mask and plan all shards; ``info`` describes the corpus that is made."""
    corpus = Corpus(inputs["corpus"])
    rules = rules_of(config, inputs, corpus.info)
    train = _training_graphs(corpus)
    label, env = (train.dense("graph", name).astype(np.int64) for name in ("label", "env_id"))
    usable = train.num_nodes > 0
    partners = Partners.of(np.where(usable, label, -1), env)
    eligible = np.flatnonzero(usable & (label >= 0) & (env >= 0) & (partners.count(label, env) > 0))
    if not len(eligible):
        raise StageError(
            f"nothing to extrapolate: no training graph of {corpus.info.name} has a partner of its "
            "label in another environment. Prepare the corpus with environments."
        )
    count = config.count or max(round(len(train) * (config.ratio or 1.0)), 1)
    block = min(BLOCK_GRAPHS, config.shard_graphs)
    turning = turned(train, count if len(eligible) == len(train) else 0, block)
    train = turning.slice(0, len(train))
    features = train.dense("node", "node_feat")
    order = None
    if rules.ranked:
        order = by_rank(node_keys(features, rules.ways.mask, rules.ways.domains), train.node_ptr)
    mover = Mover(
        rules=rules,
        info=info,
        features=features,
        node_ptr=train.node_ptr,
        graph_id=train.dense("graph", "graph_id"),
        partners=partners,
        forbidden=held_out,
        order=order,
    )
    nodes = shard_nodes(GRAPH_NODES, train)
    wanted = min(config.shard_graphs, int(nodes / max(float(train.num_nodes.mean()), 1.0)))
    shard_graphs = max(wanted // block, 1) * block
    planned = plan_moved(count, shard_graphs, spliced, before, first_id)
    rows = base_rows(eligible, count, config.seed)
    return Extrapolation(config, train, turning, rows, mover, planned)


def turned(train: GraphTable, count: int, block: int) -> GraphTable:
    """Put the first graphs after the last ones, as far as blocks of ``count`` in turns reach."""
    more = min(block, count - len(train))
    if more <= 0:
        return train
    return train.take(np.arange(len(train) + more) % len(train))


def moved_blocks(
    extrapolation: Extrapolation, plan: MovedShard, draft: Draft
) -> Iterator[tuple[GraphTable, MovedBlock]]:
    """Yield the graphs of one shard block by block; any worker may do it, for nothing else is read.

    Spliced graphs are read from the shard of the draft that holds them.
    """
    mover, size = extrapolation.mover, min(BLOCK_GRAPHS, extrapolation.config.shard_graphs)
    for number, base in enumerate(_bases(extrapolation, plan, draft, size)):
        start = number * size
        block = mover.block(base, "generate", "featx", plan.base, plan.start + start)
        ids = plan.first_id + start + np.arange(len(base), dtype=np.int64)
        env = np.full(len(base), extrapolation.env_id, dtype=np.int32)
        table = mover.table(base, block)
        yield table.with_columns(graph={"graph_id": ids, "env_id": env}), block


def _bases(
    extrapolation: Extrapolation, plan: MovedShard, draft: Draft, size: int
) -> Iterator[GraphTable]:
    """Yield the graphs that are moved, ``size`` at a time."""
    if plan.parent is None:
        for start in range(plan.start, plan.stop, size):
            yield extrapolation.bases(start, min(start + size, plan.stop))
        return
    stored = finished_shard(draft, plan.parent, extrapolation.config.formats[0])
    for part in cut(stored.iter_groups(), size):
        yield numbered(part.select([*part.node, *part.edge, *_KEPT]))


def write_moved(extrapolation: Extrapolation, plan: MovedShard, draft: Draft) -> dict[str, Any]:
    """Write one shard and the hashes of its graphs, unless they are there; return its facts."""
    name = hashes_path(plan.shard)
    hashes: list[Hashes] = []
    total: Counter[str] = Counter()

    def make() -> Iterator[GraphTable]:
        for table, block in moved_blocks(extrapolation, plan, draft):
            hashes.append(block.hashes)
            total.update(counted(block))
            yield table

    def more() -> dict[str, Any]:
        write_hashes(draft, name, hashes)
        return {"moved": dict(total)}

    formats = extrapolation.config.formats
    if draft.finished(name) is None:
        for form in formats:
            draft.forget(plan.shard.path(form))
    return write_shard(draft, plan.shard, extrapolation.mover.info, make, formats, more)


def sum_up(
    extrapolation: Extrapolation,
    found: Sequence[Facts],
    repeats: Mapping[str, int],
) -> dict[str, Any]:
    """Return what all moved graphs are like beside the source; refuse when nothing was moved."""
    total: Counter[str] = Counter()
    of: Counter[str] = Counter()
    for plan, facts in zip(extrapolation.planned, found, strict=True):
        total.update(facts["moved"])
        of[plan.base] += facts["moved"]["graphs"]
    if total["unchanged"] == total["graphs"]:
        raise StageError(
            f"nothing was extrapolated: all {total['graphs']} graphs of "
            f"{extrapolation.mover.info.name} came out as they were. Move all features with "
            "`--featx-features all`, or leave FeatX out."
        )
    return {
        "graphs": total["graphs"],
        "of": dict(of),
        "moved_features": int(extrapolation.mover.rules.ways.mask.sum()),
        "unchanged": total["unchanged"],
        **repeats,
        "refused": {"held-out graph": total["held_out"]} if total["held_out"] else {},
    }


def warnings_of(summed: Mapping[str, Any]) -> list[str]:
    """Say what a user should know of moved graphs."""
    found, graphs = [], summed["graphs"]
    if summed["distinct"] < graphs / 2:
        found.append(
            f"FeatX: {summed['distinct']:,} of {graphs:,} graphs are distinct; the rest repeat one "
            "of them"
        )
    refused = summed["refused"].get("held-out graph", 0)
    if refused > graphs:
        found.append(
            f"FeatX: {refused:,} of {graphs + refused:,} draws came out as held-out graphs and "
            "were drawn anew; features have few values to move to. Give them more with `--domain`."
        )
    return found


def preflight(config: GenerateConfig, inputs: Mapping[str, Artifact]) -> None:
    """Refuse what cannot be moved, as far as it is given already; reads descriptions only."""
    corpus = Corpus(inputs["corpus"])
    require_movable(corpus.info)
    if corpus.info.level == "node":
        nodes.check_config(config, corpus.info)
    elif config.replicas != type(config)().replicas:
        raise UsageError(
            f"{corpus.info.name} labels graphs, which have no replicas: say how many new ones with "
            "`--count` or `--ratio`"
        )
    if "mask" in inputs:
        rules_of(config, inputs, corpus.info)


_KEPT = ("graph_id", "env_id", "y", "label")
"""Graph columns that are read of a graph that is moved."""


def _training_graphs(corpus: Corpus) -> GraphTable:
    """Return the source graphs that are trained on."""
    info = corpus.info
    if "train" not in corpus.splits:
        raise StageError(f"{info.name} has no `train` graphs to extrapolate.")
    names = [
        column.name
        for column in info.columns
        if column.axis != "graph" or column.name in (*_KEPT, "origin")
    ]
    table = corpus.table(split="train", columns=names)
    source = table.dense("graph", "origin") == ORIGINS.index(SOURCE)
    train = table if source.all() else table.filter(source)
    return numbered(train.select([*table.node, *table.edge, *_KEPT]))
