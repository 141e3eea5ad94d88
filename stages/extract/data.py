"""What an extractor may learn from, and what it gives back."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass, replace
from typing import Any

import numpy as np
import torch

from gsx.ragged import Array, Ints
from gsx.schema import CorpusInfo
from gsx.seeds import rng
from gsx.stages.graphs.subgraphs import Bools, Floats, sort_edges
from gsx.stages.nn.input_encoding import coding_of, input_width, spread
from gsx.stages.nn.training_loop import History
from gsx.table import GraphTable

Progress = Callable[[int, int], None]

HELD_OUT = 0.1
"""Share of the training graphs no network learns from; they choose and tell how good pieces are."""


@dataclass(frozen=True, slots=True, eq=False)
class Lesson:
    """Structure, features, labels and environments of some graphs; never their truth."""

    graphs: GraphTable
    """Edges sorted by source; node columns ``reals`` and ``codes``, and ``unit`` where some nodes
    must stay together; edge column ``edge_inputs`` where edges have features."""
    y: Array
    """``[G, C]`` labels, NaN where missing."""
    env: Ints
    """``[G]`` environments, from 0; -1 unknown."""
    task: str
    kinds: int = 0
    """Categories that ``codes`` counts."""

    def __len__(self) -> int:
        return len(self.graphs)

    @property
    def width(self) -> int:
        """Inputs of every node."""
        return input_width(self.graphs, self.kinds)

    def take(self, rows: Ints) -> Lesson:
        """Return the lesson of some of the graphs."""
        return replace(self, graphs=self.graphs.take(rows), y=self.y[rows], env=self.env[rows])


@dataclass(frozen=True, slots=True, eq=False)
class Pieces:
    """What was cut out of every graph."""

    score: Floats
    """``[N]`` how much a node speaks for the label."""
    causal: Bools
    """``[N]`` nodes of the causal piece: connected, and not empty where a graph has nodes."""
    environmental: Bools
    """``[N]`` nodes of the environmental piece: connected, outside the causal piece."""
    environmental_score: Floats | None = None
    """``[N]`` how much a node speaks for the environment, where that is learned by itself."""


@dataclass(frozen=True, slots=True, eq=False)
class Extraction:
    """What an extractor gives back; every extractor is a function that returns one."""

    pieces: Pieces
    """Pieces of the training graphs."""
    weights: Mapping[str, Mapping[str, Array]]
    """Weights of every network, by name."""
    history: History
    """Loss of every epoch."""
    quality: Mapping[str, Any]
    """What held-out graphs say about the pieces."""


def lesson_of(table: GraphTable, info: CorpusInfo) -> Lesson:
    """Take from a corpus' table what an extractor may see.

    A node column ``unit`` numbers, from 0 in each graph, connected groups of nodes no piece may
    cut; without it every node is its own group.
    """
    edge = {name: table.dense("edge", name) for name in ("edge_src", "edge_dst")}
    if "edge_attr" in table.edge:
        values = table.dense("edge", "edge_attr")
        coding = coding_of(values)
        if coding.kinds or coding.reals:
            kinds = spread(coding.codes(values), coding.width)
            edge["edge_inputs"] = np.column_stack([coding.numbers(values), kinds])
    features = table.dense("node", "node_feat")
    coding = coding_of(features)
    node = {"reals": coding.numbers(features), "codes": coding.codes(features)}
    if "unit" in table.node:
        node["unit"] = table.dense("node", "unit").astype(np.int64)
    structure = sort_edges(GraphTable(table.node_ptr, table.edge_ptr, node=node, edge=edge))
    return Lesson(
        graphs=structure,
        y=table.dense("graph", "y").copy(),  # a mapped file is read-only, which torch warns about
        env=table.dense("graph", "env_id").astype(np.int64),
        task=info.task,
        kinds=coding.width,
    )


@dataclass(frozen=True, slots=True, eq=False)
class Parts:
    """A lesson, and the graphs of it that are held out."""

    all: Lesson
    held_rows: Ints

    @property
    def taught(self) -> Lesson:
        """What networks learn from."""
        return self.all.take(np.setdiff1d(np.arange(len(self.all)), self.held_rows))

    @property
    def held(self) -> Lesson:
        """What they are asked about."""
        return self.all.take(self.held_rows)

    def of_held(self, nodes: Array) -> Array:
        """Return the values of nodes of held-out graphs, in their order."""
        held = np.isin(np.arange(len(self.all)), self.held_rows)
        return np.asarray(nodes[np.repeat(held, self.all.graphs.num_nodes)])


def hold_out(lesson: Lesson, seed: int) -> Parts:
    """Hold some graphs of a lesson out, at least one and never all."""
    order = rng(seed, "extract", "held-out").permutation(len(lesson))
    count = min(max(round(HELD_OUT * len(lesson)), 1), len(lesson) - 1)
    return Parts(lesson, np.sort(order[:count]))


def units_of(graphs: GraphTable) -> Ints | None:
    """Return the unit of every node, numbered from 0 in each graph; None: every node is its own."""
    return graphs.dense("node", "unit") if "unit" in graphs.node else None


def weights_of(net: torch.nn.Module) -> dict[str, Array]:
    """Return the weights of a network as arrays."""
    return {name: value.cpu().numpy() for name, value in net.state_dict().items()}
