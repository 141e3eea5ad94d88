"""Move the features of graphs away from nodes of a partner; structure stays as it is."""

from __future__ import annotations

from collections import Counter
from dataclasses import dataclass, replace

import numpy as np

from gsx.errors import StageError
from gsx.ragged import Array, Ints, Ragged, concat_ragged, ranges
from gsx.schema import ORIGINS, SPLITS, CorpusInfo
from gsx.seeds import rng, skip
from gsx.stages.augmented.derived_columns import fill, same_text
from gsx.stages.augmented.rejection import OWN_DRAWS, hopeless
from gsx.stages.generate.featx.feature_extrapolation import unchanged
from gsx.stages.generate.featx.parameters import ORIGIN, MovingRules
from gsx.stages.generate.featx.rank_matching import equal_rank, node_keys
from gsx.stages.graphs.feature_variance import Partners
from gsx.stages.graphs.wl_hash import Hashes, are_among, wl_hashes
from gsx.table import GraphTable

NUMBER = "provenance.node_number"
"""Column of nodes that are moved: their place in their graph. It becomes part of provenance."""


def numbered(graphs: GraphTable) -> GraphTable:
    """Give every node its place in its graph, counted from 0."""
    number = np.arange(graphs.total_nodes, dtype=np.int32)
    number -= np.repeat(graphs.node_ptr[:-1].astype(np.int32), graphs.num_nodes)
    return graphs.with_columns(node={NUMBER: number})


@dataclass(frozen=True, slots=True, eq=False)
class Drawn:
    """What came of draws for some graphs."""

    features: Ragged
    """Moved features of its nodes."""
    strength: Array
    """``[G]`` λ."""
    partner: Ints
    """``[G]`` ``graph_id`` of its partner."""
    same: Array
    """``[G]`` whether its features came back to what they were."""
    origin: Ints | None = None
    """``[G]`` the row each came from, where some gave their place to others."""

    def put(self, rows: Ints, origin: Ints, other: Drawn) -> Drawn:
        """Put what was drawn for other graphs in the places of some; this one is used up."""
        features = self.features
        counts, ptr = np.diff(features.ptr)[rows], other.features.ptr
        if np.array_equal(counts, np.diff(ptr)):
            features.values[ranges(features.ptr[rows], counts)] = other.features.values
        else:
            order = np.arange(len(features))
            order[rows] = len(order) + np.arange(len(rows))
            features = concat_ragged([features, other.features]).take(order)
        came = np.arange(len(features)) if self.origin is None else self.origin
        came[rows], self.strength[rows] = origin, other.strength
        self.partner[rows], self.same[rows] = other.partner, other.same
        return replace(self, features=features, origin=came)


@dataclass(frozen=True, slots=True, eq=False)
class MovedBlock:
    """Graphs with moved features, and how they came."""

    drawn: Drawn
    name: str
    """Of their random stream."""
    hashes: Hashes
    refused: int
    """Draws that were a held-out graph."""


@dataclass(frozen=True, slots=True, eq=False)
class Mover:
    """Everything needed to move the features of graphs."""

    rules: MovingRules
    info: CorpusInfo
    """Of the corpus that is made."""
    features: Array
    """``[N, F]`` of the nodes of all training graphs of the source."""
    node_ptr: Ints
    graph_id: Ints
    partners: Partners
    forbidden: Hashes
    """Sorted hashes of graphs that must not be made: those held out from training."""
    order: Ints | None = None
    """Nodes of every training graph by rank, where nodes meet those of equal rank."""

    def block(self, base: GraphTable, *name: str | int) -> MovedBlock:
        """Move the graphs of ``base``; the same whoever does it, for the name draws everything.

        A graph that comes out as a held-out graph is moved anew; one that always does gives its
        place to another.
        """
        drawn = self.draw(base, rng(self.rules.seed, *name, 0))
        hashes = _hashes(base, drawn)
        todo, refused, attempt = np.flatnonzero(are_among(hashes, self.forbidden)), 0, 0
        while len(todo):
            refused += len(todo)
            attempt += 1
            if hopeless(attempt, len(todo), len(base)):
                share = refused / (len(base) + refused - len(todo))
                raise StageError(
                    f"{len(todo)} of {len(base)} graphs came out as held-out graphs {attempt} "
                    f"times, as {share:.0%} of all draws did: their features have few values to "
                    "move to. Give them more with `--domain`, or change the gamma distribution."
                )
            stream = rng(self.rules.seed, *name, attempt)
            again = todo
            if attempt > OWN_DRAWS:
                again = stream.integers(len(base), size=len(todo))
            part = base.take(again)
            other = self.draw(part, stream)
            drawn = drawn.put(todo, again, other)
            hashes[todo] = _hashes(part, other)
            todo = todo[are_among(hashes[todo], self.forbidden)]
        return MovedBlock(drawn, "/".join(map(str, name)), hashes, refused)

    def draw(self, base: GraphTable, stream: np.random.Generator) -> Drawn:
        """Draw λ and a partner of every graph, and move its features."""
        label = _classes(base, self.info.task, stream)
        env = base.dense("graph", "env_id").astype(np.int64)
        own = features = base.dense("node", "node_feat")
        for _ in range(self.rules.rounds):
            features, same, strength, chosen = self._move(base, features, label, env, stream)
            # What was moved is in an environment of its own: any partner of its label will do.
            env = np.full(len(base), len(self.info.environments), dtype=np.int64)
        return Drawn(
            features=Ragged(base.node_ptr, features),
            strength=strength,
            partner=self.graph_id.take(chosen),
            same=same if self.rules.rounds == 1 else unchanged(own, features, base.node_ptr),
        )

    def _move(
        self,
        base: GraphTable,
        own: Array,
        label: Ints,
        env: Ints,
        stream: np.random.Generator,
    ) -> tuple[Array, Array, Array, Ints]:
        """Return features of all nodes, and of each graph if all stay, λ, and the partner's row."""
        chosen = self.partners.draw(label, env, stream)
        if chosen.min() < 0:
            graph = int(np.argmin(chosen))
            raise StageError(
                f"{base.describe(graph)} of {self.info.name} has no partner: no training graph of "
                f"class {int(label[graph])} lies in another environment. Leave FeatX out."
            )
        first = self.node_ptr.take(chosen)
        size = self.node_ptr.take(chosen + 1) - first
        turn = stream.random(len(chosen))  # drawn in any case: λ is the same either way
        strength = self.rules.strengths(len(chosen), stream).astype(np.float32)
        if self.order is None:
            node, far = first + (turn * size).astype(np.int64), strength.astype(np.float64)
            features, same = self.rules.move_runs(own, self.features, node, far, base.node_ptr)
            return features, same, strength, chosen
        keys = node_keys(own, self.rules.ways.mask, self.rules.ways.domains)
        place = equal_rank(keys, base.node_ptr, size)
        partner = self.features[self.order[np.repeat(first, base.num_nodes) + place]]
        far = np.repeat(strength.astype(np.float64), base.num_nodes)
        features = np.asarray(self.rules.move(own, partner, far))
        return features, unchanged(own, features, base.node_ptr), strength, chosen

    def table(self, base: GraphTable, block: MovedBlock) -> GraphTable:
        """Return every column of moved graphs but ``graph_id`` and ``env_id``.

        ``base`` are the graphs that were moved, with numbered nodes; structure is shared with them.
        """
        drawn = block.drawn
        if drawn.origin is not None:
            base = base.take(drawn.origin)
        count, nodes = len(base), base.total_nodes
        plain = base.select([*(base.node.keys() - {NUMBER}), *base.edge, "y", "label"])
        table = plain.with_columns(
            node={"node_feat": drawn.features.values},
            graph={
                "split": np.full(count, SPLITS.index("train"), dtype=np.int8),
                "domain_id": np.full(count, -1, dtype=np.int32),
                "origin": np.full(count, ORIGINS.index(ORIGIN), dtype=np.int8),
                "provenance.parents": Ragged(
                    np.arange(count + 1),
                    base.dense("graph", "graph_id").astype(np.int64, copy=False),
                ),
                "provenance.node_slot": Ragged(base.node_ptr, np.zeros(nodes, dtype=np.int16)),
                "provenance.node_number": Ragged(base.node_ptr, base.dense("node", NUMBER)),
                "provenance.bridges": Ragged(np.zeros(count + 1, np.int64), np.zeros(0, np.int32)),
                "provenance.lambda": drawn.strength,
                "provenance.partner": drawn.partner,
                "provenance.stream": same_text(block.name, count),
            },
        )
        return fill(table, self.info)


def _classes(base: GraphTable, task: str, stream: np.random.Generator) -> Ints:
    """Return a class of every graph; where all are certain none depends on what is drawn."""
    label = base.dense("graph", "label")
    if label.min() < 0:
        return drawn_labels(base.dense("graph", "y"), task, stream)
    skip(stream, len(label))  # as many as uncertain labels take
    return label.astype(np.int64)


def drawn_labels(y: Array, task: str, stream: np.random.Generator) -> Ints:
    """Return a class of every label, drawn from it where it is soft; -1 where it is missing."""
    missing = np.isnan(y)
    known = np.where(missing, 0, y).astype(np.float64)
    share = known if task == "classification" else np.column_stack([1 - known[:, 0], known[:, 0]])
    mark = stream.random(len(y)) * share.sum(axis=1)
    total, drawn = np.zeros(len(y)), np.zeros(len(y), dtype=np.int64)
    for column in share.T:
        total += column
        drawn += total <= mark
    np.minimum(drawn, share.shape[1] - 1, out=drawn)
    return np.where(missing.any(axis=1), -1, drawn) if missing.any() else drawn


def _hashes(base: GraphTable, drawn: Drawn) -> Hashes:
    return wl_hashes(base.with_columns(node={"node_feat": drawn.features.values}))


def counted(block: MovedBlock) -> Counter[str]:
    """Count what a block says of itself."""
    return Counter(
        graphs=len(block.drawn.same),
        nodes=len(block.drawn.features.values),
        unchanged=int(block.drawn.same.sum()),
        held_out=block.refused,
    )
