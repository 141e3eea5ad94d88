"""Move the features of graphs away from a node of a partner; structure stays as it is."""

from __future__ import annotations

from collections import Counter
from dataclasses import dataclass

import numpy as np

from gsx.columns import ORIGINS, SPLITS, CorpusInfo
from gsx.errors import StageError
from gsx.ragged import Array, Ints, Ragged, pointers
from gsx.seeds import rng
from gsx.stages.extrapolating.rules import ORIGIN, MovingRules
from gsx.stages.kernels.featx import Partners
from gsx.stages.kernels.wl import Hashes, are_among, wl_hashes
from gsx.stages.splicing.columns import fill, same_text
from gsx.table import GraphTable, concat

REDRAWS = 24
"""Times a graph is moved anew after it came out as a held-out graph, the later ones another."""


@dataclass(frozen=True, slots=True, eq=False)
class MovedBlock:
    """Graphs with moved features, and how they came."""

    table: GraphTable
    """Every column but ``graph_id`` and ``env_id``."""
    hashes: Hashes
    refused: int
    """Draws that were a held-out graph."""
    unchanged: int
    """Graphs whose features came back to what they were."""


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

    def block(self, base: GraphTable, *name: str | int) -> MovedBlock:
        """Move the graphs of ``base``; the same whoever does it, for the name draws everything.

        A graph that comes out as a held-out graph is moved anew; one that always does gives its
        place to another.
        """
        origin, text = np.arange(len(base)), "/".join(map(str, name))
        found: list[GraphTable] = []
        rows, drawn = np.zeros(len(base), dtype=np.int64), 0
        hashes = np.zeros(len(base), dtype=np.uint64)
        same = np.zeros(len(base), dtype=bool)
        todo, refused = np.arange(len(base)), 0
        for attempt in range(REDRAWS):
            stream = rng(self.rules.seed, *name, attempt)
            if attempt > REDRAWS // 2:
                origin[todo] = stream.integers(len(base), size=len(todo))
            part = base if attempt == 0 else base.take(origin[todo])
            table, unchanged = self.draw(part, stream, text)
            hashed = wl_hashes(table)
            fine = ~are_among(hashed, self.forbidden)
            found.append(table)
            rows[todo], same[todo], hashes[todo] = drawn + np.arange(len(part)), unchanged, hashed
            drawn += len(part)
            refused += int((~fine).sum())
            todo = todo[~fine]
            if not len(todo):
                break
        else:
            raise StageError(
                f"{len(todo)} of {len(base)} graphs came out as held-out graphs {REDRAWS} times. "
                "Change the seed or the gamma distribution."
            )
        table = found[0] if len(found) == 1 else concat(found).take(rows)
        return MovedBlock(table, hashes, refused, int(same.sum()))

    def draw(
        self, base: GraphTable, stream: np.random.Generator, name: str
    ) -> tuple[GraphTable, Array]:
        """Return graphs with moved features, and which of them came out as they were."""
        label = drawn_labels(base.dense("graph", "y"), self.info.task, stream)
        env = base.dense("graph", "env_id").astype(np.int64)
        features, strength, chosen = self._move(base, label, env, stream)
        for _ in range(1, self.rules.rounds):
            # What was moved is in an environment of its own: any partner of its label will do.
            moved = base.with_columns(node={"node_feat": features})
            apart = np.full(len(base), len(self.info.environments), dtype=np.int64)
            features, strength, chosen = self._move(moved, label, apart, stream)
        table = self._table(base, features, strength, self.graph_id[chosen], name)
        return table, _same_graphs(base, features)

    def _move(
        self, base: GraphTable, label: Ints, env: Ints, stream: np.random.Generator
    ) -> tuple[Array, Array, Ints]:
        """Return features of all nodes, λ of every graph and the row of its partner."""
        chosen = self.partners.draw(label, env, stream)
        if (chosen < 0).any():
            graph = int(np.argmin(chosen))
            raise StageError(
                f"{base.describe(graph)} of {self.info.name} has no partner: no training graph of "
                f"class {int(label[graph])} lies in another environment. Leave FeatX out."
            )
        size = self.node_ptr[chosen + 1] - self.node_ptr[chosen]
        node = self.node_ptr[chosen] + (stream.random(len(chosen)) * size).astype(np.int64)
        strength = self.rules.strengths(len(chosen), stream).astype(np.float32)
        nodes = base.num_nodes
        moved = self.rules.move(
            base.dense("node", "node_feat"),
            np.repeat(self.features[node], nodes, axis=0),
            np.repeat(strength.astype(np.float64), nodes),
        )
        return np.asarray(moved), strength, chosen

    def _table(
        self, base: GraphTable, features: Array, strength: Array, partner: Ints, name: str
    ) -> GraphTable:
        count, nodes = len(base), base.total_nodes
        number = np.arange(nodes) - np.repeat(base.node_ptr[:-1], base.num_nodes)
        plain = base.select([*base.node, *base.edge, "y", "label"])
        table = plain.with_columns(
            node={"node_feat": features},
            graph={
                "split": np.full(count, SPLITS.index("train"), dtype=np.int8),
                "domain_id": np.full(count, -1, dtype=np.int32),
                "origin": np.full(count, ORIGINS.index(ORIGIN), dtype=np.int8),
                "provenance.parents": Ragged(
                    np.arange(count + 1), base.dense("graph", "graph_id").astype(np.int64)
                ),
                "provenance.node_slot": Ragged(base.node_ptr, np.zeros(nodes, dtype=np.int16)),
                "provenance.node_number": Ragged(base.node_ptr, number.astype(np.int32)),
                "provenance.bridges": Ragged(pointers(np.zeros(count)), np.zeros(0, np.int32)),
                "provenance.lambda": strength,
                "provenance.partner": partner,
                "provenance.stream": same_text(name, count),
            },
        )
        return fill(table, self.info)


def drawn_labels(y: Array, task: str, stream: np.random.Generator) -> Ints:
    """Return a class of every label, drawn from it where it is soft; -1 where it is missing."""
    known = np.nan_to_num(y.astype(np.float64))
    share = known if task == "classification" else np.column_stack([1 - known[:, 0], known[:, 0]])
    mark = stream.random(len(y)) * share.sum(axis=1)
    drawn = (np.cumsum(share, axis=1) <= mark[:, None]).sum(axis=1)
    drawn = np.minimum(drawn, share.shape[1] - 1)
    return np.where(np.isnan(y).any(axis=1), -1, drawn).astype(np.int64)


def _same_graphs(base: GraphTable, features: Array) -> Array:
    """Say of every graph, each of which has nodes, whether its features are those of ``base``."""
    differ = (features != base.dense("node", "node_feat")).ravel()
    found: Array = ~np.logical_or.reduceat(differ, base.node_ptr[:-1] * features.shape[1])
    return found


def summed(blocks: list[MovedBlock]) -> Counter[str]:
    """Add up what blocks say of themselves."""
    found: Counter[str] = Counter()
    for block in blocks:
        found.update(
            graphs=len(block.table),
            nodes=block.table.total_nodes,
            unchanged=block.unchanged,
            held_out=block.refused,
        )
    return found
