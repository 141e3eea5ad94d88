"""Extrapolate the features of graphs away from nodes of a partner; structure does not change."""

from __future__ import annotations

from collections import Counter
from dataclasses import dataclass, replace

import numpy as np

from gsx.errors import StageError
from gsx.ragged import Array, Ints, Ragged, concat_ragged, ranges
from gsx.schema import CorpusInfo
from gsx.seeds import rng, skip
from gsx.stages.augmented.derived_columns import (
    derived_columns,
    fill_missing_columns,
    one_parent_each,
)
from gsx.stages.augmented.rejection import DRAWS_BEFORE_REPLACEMENT, should_give_up
from gsx.stages.generate.featx.feature_extrapolation import (
    extrapolate,
    extrapolate_runs,
    unchanged_runs,
)
from gsx.stages.generate.featx.parameters import ORIGIN, FeatxParameters
from gsx.stages.generate.featx.rank_matching import equal_rank_positions, rank_keys
from gsx.stages.graphs.feature_variance import Partners
from gsx.stages.graphs.wl_hash import Hashes, contained_in, wl_hashes
from gsx.table import GraphTable

NODE_NUMBER = "provenance.node_number"
"""Node column of graphs to extrapolate: number of the node in its graph. It becomes provenance."""


def number_nodes(graphs: GraphTable) -> GraphTable:
    """Add the column ``NODE_NUMBER``, which counts the nodes of every graph from 0."""
    number = np.arange(graphs.total_nodes, dtype=np.int32)
    number -= np.repeat(graphs.node_ptr[:-1].astype(np.int32), graphs.num_nodes)
    return graphs.with_columns(node={NODE_NUMBER: number})


@dataclass(frozen=True, slots=True, eq=False)
class DrawnFeatures:
    """Extrapolated features of some graphs."""

    features: Ragged
    """Features of the nodes of each graph."""
    strength: Array
    """``[G]`` λ."""
    partner: Ints
    """``[G]`` ``graph_id`` of the partner."""
    same: Array
    """``[G]`` whether all features are unchanged."""
    base_row: Ints | None = None
    """``[G]`` row of the base graph, if some graphs were replaced by others."""

    def replace_rows(self, rows: Ints, base_rows: Ints, other: DrawnFeatures) -> DrawnFeatures:
        """Return a result in which ``rows`` are replaced by all rows of ``other``.

        ``base_rows`` are the base graphs of ``other``. Arrays of this object are overwritten.
        """
        features = self.features
        counts, ptr = np.diff(features.ptr)[rows], other.features.ptr
        if np.array_equal(counts, np.diff(ptr)):
            features.values[ranges(features.ptr[rows], counts)] = other.features.values
        else:
            order = np.arange(len(features))
            order[rows] = len(order) + np.arange(len(rows))
            features = concat_ragged([features, other.features]).take(order)
        base_row = np.arange(len(features)) if self.base_row is None else self.base_row
        base_row[rows], self.strength[rows] = base_rows, other.strength
        self.partner[rows], self.same[rows] = other.partner, other.same
        return replace(self, features=features, base_row=base_row)


@dataclass(frozen=True, slots=True, eq=False)
class ExtrapolatedBlock:
    """Extrapolated features of a block of graphs."""

    drawn: DrawnFeatures
    stream: str
    """Name of the random stream."""
    hashes: Hashes
    rejected: int
    """Draws that equalled a held-out graph."""


@dataclass(frozen=True, slots=True, eq=False)
class GraphExtrapolator:
    """Extrapolates the features of graphs."""

    parameters: FeatxParameters
    info: CorpusInfo
    """Description of the augmented corpus."""
    features: Array
    """``[N, F]`` features of the nodes of all training graphs."""
    node_ptr: Ints
    """``[R + 1]`` first node of each training graph."""
    graph_id: Ints
    """``[R]`` of all training graphs."""
    partners: Partners
    forbidden: Hashes
    """Sorted hashes of held-out graphs, which must not be generated."""
    order: Ints | None = None
    """Nodes of every training graph sorted by rank, for rank matching."""

    def block(self, base: GraphTable, *name: str | int) -> ExtrapolatedBlock:
        """Extrapolate the graphs ``base``; the stream's name determines the result.

        Rejection sampling: a graph that equals a held-out graph is drawn again. After several
        rejected draws another graph of the block replaces it.
        """
        drawn = self.draw(base, rng(self.parameters.seed, *name, 0))
        hashes = _hashes(base, drawn)
        pending, rejected, attempt = np.flatnonzero(contained_in(hashes, self.forbidden)), 0, 0
        while len(pending):
            rejected += len(pending)
            attempt += 1
            if should_give_up(attempt, len(pending), len(base)):
                share = rejected / (len(base) + rejected - len(pending))
                raise StageError(
                    f"feature extrapolation: {len(pending)} of {len(base)} graphs equalled "
                    f"held-out graphs in {attempt} draws ({share:.0%} of all draws), because their "
                    "features have few possible values. Allow more with `--feature-range`, or "
                    "change the gamma distribution."
                )
            stream = rng(self.parameters.seed, *name, attempt)
            redrawn = pending
            if attempt > DRAWS_BEFORE_REPLACEMENT:
                redrawn = stream.integers(len(base), size=len(pending))
            redrawn_base = base.take(redrawn)
            other = self.draw(redrawn_base, stream)
            drawn = drawn.replace_rows(pending, redrawn, other)
            hashes[pending] = _hashes(redrawn_base, other)
            pending = pending[contained_in(hashes[pending], self.forbidden)]
        return ExtrapolatedBlock(drawn, "/".join(map(str, name)), hashes, rejected)

    def draw(self, base: GraphTable, stream: np.random.Generator) -> DrawnFeatures:
        """Draw λ and a partner of every graph and extrapolate its features."""
        label = _draw_classes(base, self.info.task, stream)
        env = base.dense("graph", "env_id").astype(np.int64)
        own = features = base.dense("node", "node_feat")
        for _ in range(self.parameters.rounds):
            features, same, strength, partner = self._extrapolate(
                base, features, label, env, stream
            )
            # Extrapolated graphs have an environment of their own, so any partner of the label
            # is from another environment.
            env = np.full(len(base), len(self.info.environments), dtype=np.int64)
        if self.parameters.rounds > 1:
            same = unchanged_runs(own, features, base.node_ptr)
        return DrawnFeatures(
            features=Ragged(base.node_ptr, features),
            strength=strength,
            partner=self.graph_id.take(partner),
            same=same,
        )

    def _extrapolate(
        self,
        base: GraphTable,
        own: Array,
        label: Ints,
        env: Ints,
        stream: np.random.Generator,
    ) -> tuple[Array, Array, Array, Ints]:
        """Extrapolate once; return features ``[N, F]`` and per graph same, λ, partner's row."""
        partner = self.partners.draw(label, env, stream)
        if partner.min() < 0:
            graph = int(np.argmin(partner))
            raise StageError(
                f"{base.describe(graph)} of {self.info.name} has no partner: no training graph of "
                f"class {int(label[graph])} is in another environment. Leave FeatX out."
            )
        first = self.node_ptr.take(partner)
        size = self.node_ptr.take(partner + 1) - first
        # Also drawn for rank matching, so that λ does not depend on the kind of pairing.
        node_fraction = stream.random(len(partner))
        strength = self.parameters.draw_strengths(len(partner), stream).astype(np.float32)
        wrap_around = self.parameters.wrap_around
        if self.order is None:
            node = first + (node_fraction * size).astype(np.int64)
            features, same = extrapolate_runs(
                own, self.features, node, strength.astype(np.float64), base.node_ptr, wrap_around
            )
            return features, same, strength, partner
        keys = rank_keys(own, wrap_around.mask, wrap_around.ranges)
        position = equal_rank_positions(keys, base.node_ptr, size)
        partner_nodes = self.order[np.repeat(first, base.num_nodes) + position]
        node_strength = np.repeat(strength.astype(np.float64), base.num_nodes)
        features = np.asarray(
            extrapolate(own, self.features[partner_nodes], node_strength, wrap_around)
        )
        return features, unchanged_runs(own, features, base.node_ptr), strength, partner

    def table(self, base: GraphTable, block: ExtrapolatedBlock) -> GraphTable:
        """Return all columns of the extrapolated graphs except ``graph_id`` and ``env_id``.

        ``base`` are the base graphs with numbered nodes. Structure shares memory with them.
        """
        drawn = block.drawn
        if drawn.base_row is not None:
            base = base.take(drawn.base_row)
        plain = base.select([*(base.node.keys() - {NODE_NUMBER}), *base.edge, "y", "label"])
        table = plain.with_columns(
            node={"node_feat": drawn.features.values},
            graph=derived_columns(
                len(base),
                origin=ORIGIN,
                stream=block.stream,
                parents=one_parent_each(base.dense("graph", "graph_id")),
                node_number=Ragged(base.node_ptr, base.dense("node", NODE_NUMBER)),
                strength=drawn.strength,
                partner=drawn.partner,
            ),
        )
        return fill_missing_columns(table, self.info)


def _draw_classes(base: GraphTable, task: str, stream: np.random.Generator) -> Ints:
    """Return a class of every graph; the stream advances equally for hard and soft labels."""
    label = base.dense("graph", "label")
    if label.min() < 0:
        return sample_classes(base.dense("graph", "y"), task, stream)
    skip(stream, len(label))  # the number of draws that soft labels take
    return label.astype(np.int64)


def sample_classes(y: Array, task: str, stream: np.random.Generator) -> Ints:
    """Sample a class from every soft label; -1 if the label is missing."""
    missing = np.isnan(y)
    known = np.where(missing, 0, y).astype(np.float64)
    weight = known if task == "classification" else np.column_stack([1 - known[:, 0], known[:, 0]])
    threshold = stream.random(len(y)) * weight.sum(axis=1)
    cumulative, drawn = np.zeros(len(y)), np.zeros(len(y), dtype=np.int64)
    for column in weight.T:
        cumulative += column
        drawn += cumulative <= threshold
    np.minimum(drawn, weight.shape[1] - 1, out=drawn)
    return np.where(missing.any(axis=1), -1, drawn) if missing.any() else drawn


def _hashes(base: GraphTable, drawn: DrawnFeatures) -> Hashes:
    return wl_hashes(base.with_columns(node={"node_feat": drawn.features.values}))


def block_counts(block: ExtrapolatedBlock) -> Counter[str]:
    """Return counts of a block, which add up over blocks."""
    return Counter(
        graphs=len(block.drawn.same),
        nodes=len(block.drawn.features.values),
        unchanged=int(block.drawn.same.sum()),
        held_out=block.rejected,
    )
