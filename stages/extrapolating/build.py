"""Build graphs with moved features: plan every shard, make each by itself, sum them up."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from itertools import pairwise
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np
from safetensors.numpy import save_file

from gsx.columns import ORIGINS, CorpusInfo
from gsx.errors import StageError, UsageError
from gsx.ragged import Array, Ints
from gsx.stages.extrapolating import nodes
from gsx.stages.extrapolating.graphs import Mover, numbered, summed
from gsx.stages.extrapolating.plan import (
    SOURCE,
    MovedShard,
    Spliced,
    base_rows,
    plan_moved,
)
from gsx.stages.extrapolating.rules import require_movable, rules_of
from gsx.stages.kernels.featx import Partners
from gsx.stages.kernels.ranking import by_rank, node_keys
from gsx.stages.kernels.turns import Turns
from gsx.stages.kernels.wl import Hashes
from gsx.stages.shards import GRAPH_NODES, Facts, hashes_path, shard_nodes
from gsx.storage.carry import read_draft_shard
from gsx.storage.corpus import Corpus
from gsx.storage.corpus_writer import write_shard
from gsx.storage.draft import Draft
from gsx.storage.store import Artifact
from gsx.table import GraphTable, concat

if TYPE_CHECKING:
    from gsx.stages.generate import GenerateConfig

BLOCK_GRAPHS = 4096
"""Graphs moved from one random stream, or as many as a shard has."""
GRAPHS_OF_A_RUN = 128
"""Graphs that follow each other, on average, from which slices are faster than gathering."""


@dataclass(frozen=True, slots=True, eq=False)
class Extrapolation:
    """What FeatX makes of a corpus, and everything needed to make any shard of it."""

    config: GenerateConfig
    train: GraphTable
    """Source graphs for training, with the columns that moved graphs keep."""
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
    features = train.dense("node", "node_feat")
    order = None
    if rules.ranked:
        order = by_rank(node_keys(features, rules.chosen, rules.domains), train.node_ptr)
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
    block = min(BLOCK_GRAPHS, config.shard_graphs)
    shard_graphs = max(wanted // block, 1) * block
    planned = plan_moved(count, shard_graphs, spliced, before, first_id)
    return Extrapolation(config, train, base_rows(eligible, count, config.seed), mover, planned)


def build_moved(
    extrapolation: Extrapolation, plan: MovedShard, draft: Draft
) -> tuple[GraphTable, Hashes, Counter[str]]:
    """Make the graphs of one shard; needs nothing but its arguments, so any worker may do it.

    Spliced graphs are read from the shard of the draft that holds them.
    """
    size = min(BLOCK_GRAPHS, extrapolation.config.shard_graphs)
    if plan.parent is None:
        rows = extrapolation.rows[plan.start : plan.stop]
        base, own = source_graphs(extrapolation.train, rows, size)
    else:
        stored = read_draft_shard(draft, plan.parent, extrapolation.config.formats)
        base, own = numbered(stored.select([*stored.node, *stored.edge, *_KEPT])), None
    blocks, room = [], room_for(base, extrapolation.train)
    for number, (part, place) in enumerate(in_blocks(base, own, size)):
        name = ("generate", "featx", plan.base, plan.start + number * size)
        blocks.append(extrapolation.mover.block(part, *name, room=room[place]))
    table = extrapolation.mover.table(
        base, [block.drawn for block in blocks], [block.name for block in blocks], room
    )
    ids = plan.first_id + np.arange(len(table), dtype=np.int64)
    env = np.full(len(table), extrapolation.env_id, dtype=np.int32)
    hashes = np.concatenate([block.hashes for block in blocks])
    return table.with_columns(graph={"graph_id": ids, "env_id": env}), hashes, summed(blocks)


def write_moved(extrapolation: Extrapolation, plan: MovedShard, draft: Draft) -> dict[str, Any]:
    """Write one shard and the hashes of its graphs, unless they are there; return its facts."""
    name = hashes_path(plan.shard)
    made: dict[str, Any] = {}

    def make() -> GraphTable:
        table, made["hashes"], made["moved"] = build_moved(extrapolation, plan, draft)
        return table

    def more(_: GraphTable) -> dict[str, Any]:
        def save(path: Path) -> None:
            save_file({"wl": made["hashes"]}, path)

        draft.write(name, save)
        return {"moved": dict(made["moved"])}

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
        "moved_features": int(extrapolation.mover.rules.chosen.sum()),
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


def source_graphs(
    train: GraphTable, rows: Ints, size: int
) -> tuple[GraphTable, Iterator[Array] | None]:
    """Return some graphs without their features, and these block by block.

    Features are replaced: those of a whole shard are never put side by side, unless they are
    already, as where every graph is moved once; then graphs have their features, and share their
    memory with the source.
    """
    if (np.diff(rows) == 1).all():
        return train.slice(int(rows[0]), int(rows[-1]) + 1), None
    structure = replace(
        train, node={name: values for name, values in train.node.items() if name != "node_feat"}
    )
    nodes = GraphTable(
        node_ptr=train.node_ptr,
        edge_ptr=np.zeros_like(train.edge_ptr),
        node={"node_feat": train.node["node_feat"]},
    )
    starts = range(0, len(rows), size)
    own = (taken(nodes, rows[at : at + size]).dense("node", "node_feat") for at in starts)
    return taken(structure, rows), own


def room_for(base: GraphTable, train: GraphTable) -> Array:
    """Return an array for features of all nodes of ``base``, like those of the source."""
    like = train.dense("node", "node_feat")
    return np.empty((base.total_nodes, like.shape[1]), dtype=like.dtype)


def in_blocks(
    base: GraphTable, own: Iterator[Array] | None, size: int
) -> Iterator[tuple[GraphTable, slice]]:
    """Yield blocks of graphs with their features, and the nodes of each in ``base``."""
    for start in range(0, len(base), size):
        part = base.slice(start, start + size)
        first = int(base.node_ptr[start])
        if own is not None:
            part = part.with_columns(node={"node_feat": next(own)})
        yield part, slice(first, first + part.total_nodes)


def taken(table: GraphTable, rows: Ints) -> GraphTable:
    """Return some graphs; where many follow each other in the table they are not gathered.

    What comes out may share memory with the table.
    """
    ends = np.flatnonzero(np.diff(rows) != 1) + 1
    if len(rows) < (len(ends) + 1) * GRAPHS_OF_A_RUN:
        return table.take(rows)
    runs = pairwise([0, *ends.tolist(), len(rows)])
    return concat([table.slice(int(rows[a]), int(rows[b - 1]) + 1) for a, b in runs])


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
