"""Build graphs with extrapolated features: plan all shards, write each, summarize them."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np

from gsx.errors import StageError, UsageError
from gsx.schema import ORIGINS, CorpusInfo
from gsx.stages.augmented.cycle import Cycle
from gsx.stages.augmented.shards import (
    graphs_per_shard,
    num_generated,
    write_shard_with_hashes,
)
from gsx.stages.augmented.source_graphs import SOURCE, training_graphs
from gsx.stages.generate.config import GenerateConfig
from gsx.stages.generate.featx.extrapolate_graphs import (
    ExtrapolatedBlock,
    GraphExtrapolator,
    block_counts,
    number_nodes,
)
from gsx.stages.generate.featx.node_replicas import check_config
from gsx.stages.generate.featx.parameters import featx_parameters, require_extrapolatable
from gsx.stages.generate.featx.plan import (
    BaseShard,
    ExtrapolatedShard,
    base_rows,
    plan_extrapolated_shards,
)
from gsx.stages.generate.featx.rank_matching import rank_keys, rank_order
from gsx.stages.graphs.feature_variance import Partners
from gsx.stages.graphs.wl_hash import Hashes
from gsx.stages.sharded_build import GRAPH_NODES, ShardStats, max_shard_nodes
from gsx.storage.artifacts.draft import Draft
from gsx.storage.artifacts.store import Artifact
from gsx.storage.corpora.corpus import Corpus
from gsx.storage.corpora.corpus_writer import open_draft_shard
from gsx.table import GraphTable, rechunk

BLOCK_GRAPHS = 4096
"""Graphs extrapolated from one random stream, or the graphs of a shard if these are fewer."""
_BASE_COLUMNS = ("graph_id", "env_id", "y", "label")
"""Graph columns that are read of base graphs."""


@dataclass(frozen=True, slots=True, eq=False)
class Extrapolation:
    """Everything needed to build any shard of graphs with extrapolated features."""

    config: GenerateConfig
    train: GraphTable
    """Training graphs of the source corpus, with the columns that extrapolated graphs keep."""
    padded_train: GraphTable
    """Training graphs, followed by the first of them again if a block may cross the end. Blocks are
    slices of it. It shares memory with ``train``."""
    rows: Cycle
    """Row of every base graph."""
    extrapolator: GraphExtrapolator
    planned: list[ExtrapolatedShard]

    @property
    def graphs(self) -> int:
        """Number of planned graphs."""
        return sum(plan.stop - plan.start for plan in self.planned)

    @property
    def info(self) -> CorpusInfo:
        """Description of the augmented corpus."""
        return self.extrapolator.info

    @property
    def env_id(self) -> int:
        """Environment of all extrapolated graphs."""
        return self.info.environments[-1].id

    def bases(self, start: int, stop: int) -> GraphTable:
        """Return base graphs; in complete passes over all graphs they share memory with them."""
        total, rows = len(self.train), self.rows
        if len(rows.items) < total or stop > len(rows) - len(rows.last_pass):
            return self.train.take(rows[start:stop])
        return self.padded_train.slice(start % total, start % total + stop - start)


def plan_extrapolation(
    config: GenerateConfig,
    inputs: Mapping[str, Artifact],
    info: CorpusInfo,
    held_out: Hashes,
    *,
    spliced: Sequence[BaseShard],
    before: int,
    first_id: int,
) -> Extrapolation:
    """Read corpus and mask and plan all shards; ``info`` describes the augmented corpus.

    The shards follow ``before`` other ``train`` shards, and their ids start at ``first_id``.
    """
    corpus = Corpus(inputs["corpus"])
    parameters = featx_parameters(config, inputs, corpus.info)
    train = _source_training_graphs(corpus)
    label, env = (train.dense("graph", name).astype(np.int64) for name in ("label", "env_id"))
    usable = train.num_nodes > 0
    partners = Partners.of(np.where(usable, label, -1), env)
    eligible = np.flatnonzero(usable & (label >= 0) & (env >= 0) & (partners.count(label, env) > 0))
    if not len(eligible):
        raise StageError(
            f"nothing to extrapolate: no training graph of {corpus.info.name} has a partner with "
            "its label in another environment. Prepare the corpus with environments."
        )
    count = num_generated(config.count, config.ratio, len(train))
    block = min(BLOCK_GRAPHS, config.shard_graphs)
    padded_train = pad_cyclically(train, count if len(eligible) == len(train) else 0, block)
    train = padded_train.slice(0, len(train))
    features = train.dense("node", "node_feat")
    order = None
    if parameters.ranked:
        wrap_around = parameters.wrap_around
        keys = rank_keys(features, wrap_around.mask, wrap_around.ranges)
        order = rank_order(keys, train.node_ptr)
    extrapolator = GraphExtrapolator(
        parameters=parameters,
        info=info,
        features=features,
        node_ptr=train.node_ptr,
        graph_id=train.dense("graph", "graph_id"),
        partners=partners,
        forbidden=held_out,
        order=order,
    )
    shard_graphs = graphs_per_shard(
        config.shard_graphs,
        max_shard_nodes(GRAPH_NODES, train),
        float(train.num_nodes.mean()),
        block,
    )
    planned = plan_extrapolated_shards(count, shard_graphs, spliced, before, first_id)
    rows = base_rows(eligible, count, config.seed)
    return Extrapolation(config, train, padded_train, rows, extrapolator, planned)


def pad_cyclically(train: GraphTable, count: int, block: int) -> GraphTable:
    """Append the first graphs so that every block of a cycle over ``count`` graphs is a slice."""
    padding = min(block, count - len(train))
    if padding <= 0:
        return train
    return train.take(np.arange(len(train) + padding) % len(train))


def extrapolated_blocks(
    extrapolation: Extrapolation, plan: ExtrapolatedShard, draft: Draft
) -> Iterator[tuple[GraphTable, ExtrapolatedBlock]]:
    """Yield the graphs of one shard block by block; depends on the arguments only.

    Spliced graphs are read from their shard in the draft.
    """
    extrapolator = extrapolation.extrapolator
    size = min(BLOCK_GRAPHS, extrapolation.config.shard_graphs)
    for number, base in enumerate(_base_blocks(extrapolation, plan, draft, size)):
        start = number * size
        block = extrapolator.block(base, "generate", "featx", plan.base, plan.start + start)
        ids = plan.first_id + start + np.arange(len(base), dtype=np.int64)
        env = np.full(len(base), extrapolation.env_id, dtype=np.int32)
        table = extrapolator.table(base, block)
        yield table.with_columns(graph={"graph_id": ids, "env_id": env}), block


def _base_blocks(
    extrapolation: Extrapolation, plan: ExtrapolatedShard, draft: Draft, size: int
) -> Iterator[GraphTable]:
    """Yield the base graphs of a shard, ``size`` at a time."""
    if plan.base_shard is None:
        for start in range(plan.start, plan.stop, size):
            yield extrapolation.bases(start, min(start + size, plan.stop))
        return
    stored = open_draft_shard(draft, plan.base_shard, extrapolation.config.formats[0])
    for table in rechunk(stored.iter_groups(), size):
        yield number_nodes(table.select([*table.node, *table.edge, *_BASE_COLUMNS]))


def write_extrapolated_shard(
    extrapolation: Extrapolation, plan: ExtrapolatedShard, draft: Draft
) -> dict[str, Any]:
    """Write one shard and the hashes of its graphs, unless both exist; return its statistics."""
    hashes: list[Hashes] = []
    counts: Counter[str] = Counter()

    def tables() -> Iterator[GraphTable]:
        for table, block in extrapolated_blocks(extrapolation, plan, draft):
            hashes.append(block.hashes)
            counts.update(block_counts(block))
            yield table

    return write_shard_with_hashes(
        draft,
        plan.shard,
        extrapolation.info,
        tables,
        hashes,
        extrapolation.config.formats,
        lambda: {"extrapolated": dict(counts)},
    )


def extrapolation_quality(
    extrapolation: Extrapolation,
    stats: Sequence[ShardStats],
    duplicates: Mapping[str, int],
) -> dict[str, Any]:
    """Return quality metrics of all extrapolated graphs; raise if all are unchanged.

    ``stats`` are the statistics of the planned shards, in their order.
    """
    total: Counter[str] = Counter()
    by_base: Counter[str] = Counter()
    for plan, shard_stats in zip(extrapolation.planned, stats, strict=True):
        total.update(shard_stats["extrapolated"])
        by_base[plan.base] += shard_stats["extrapolated"]["graphs"]
    if total["unchanged"] == total["graphs"]:
        raise StageError(
            f"nothing was extrapolated: all {total['graphs']} graphs of {extrapolation.info.name} "
            "are unchanged. Extrapolate all features with `--featx-features all`, or leave FeatX "
            "out."
        )
    return {
        "graphs": total["graphs"],
        "of": dict(by_base),
        "extrapolated_features": int(extrapolation.extrapolator.parameters.wrap_around.mask.sum()),
        "unchanged": total["unchanged"],
        **duplicates,
        "rejected": {"held-out graph": total["held_out"]} if total["held_out"] else {},
    }


def extrapolation_warnings(quality: Mapping[str, Any]) -> list[str]:
    """Return warnings about duplicates and rejected draws."""
    warnings, graphs = [], quality["graphs"]
    if quality["distinct"] < graphs / 2:
        warnings.append(
            f"FeatX: {quality['distinct']:,} of {graphs:,} graphs are distinct; the rest repeat "
            "one of them"
        )
    rejected = quality["rejected"].get("held-out graph", 0)
    if rejected > graphs:
        warnings.append(
            f"FeatX: {rejected:,} of {graphs + rejected:,} draws equal a held-out graph and were "
            "rejected, because features have few possible values. Allow more with "
            "`--feature-range`."
        )
    return warnings


def preflight(config: GenerateConfig, inputs: Mapping[str, Artifact]) -> None:
    """Check the inputs that exist already, from their metadata only."""
    corpus = Corpus(inputs["corpus"])
    require_extrapolatable(corpus.info)
    if corpus.info.level == "node":
        check_config(config, corpus.info)
    elif config.replicas != type(config)().replicas:
        raise UsageError(
            f"{corpus.info.name} has graph labels; replicas are for labelled nodes. Set the number "
            "of graphs with `--count` or `--ratio`."
        )
    if "mask" in inputs:
        featx_parameters(config, inputs, corpus.info)


def _source_training_graphs(corpus: Corpus) -> GraphTable:
    """Return the training graphs that were not generated, with numbered nodes."""
    table = training_graphs(corpus, (*_BASE_COLUMNS, "origin"), "extrapolate")
    is_source = table.dense("graph", "origin") == ORIGINS.index(SOURCE)
    train = table if is_source.all() else table.filter(is_source)
    return number_nodes(train.select([*table.node, *table.edge, *_BASE_COLUMNS]))
