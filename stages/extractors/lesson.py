"""What an extractor may learn from, and what it gives back."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import Any

import numpy as np
import torch

from gsx.columns import CorpusInfo
from gsx.ragged import Array, Ints
from gsx.stages.kernels.subgraphs import Bools, Floats, sort_edges
from gsx.stages.nets.descent import History
from gsx.stages.nets.inputs import Coding, coding_of, input_width, spread
from gsx.table import GraphTable

Progress = Callable[[int, int], None]


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


@dataclass(frozen=True, slots=True)
class Codings:
    """How features of nodes and edges are read; made from training graphs, used for all."""

    node: Coding
    edge: Coding | None


def codings_of(table: GraphTable) -> Codings:
    """Decide how the features of a corpus are read, by its training graphs."""
    edge = coding_of(table.dense("edge", "edge_attr")) if "edge_attr" in table.edge else None
    return Codings(coding_of(table.dense("node", "node_feat")), edge)


def lesson_of(
    table: GraphTable,
    info: CorpusInfo,
    codings: Codings | None = None,
) -> Lesson:
    """Take from a corpus' table what an extractor may see.

    A node column ``unit`` numbers, from 0 in each graph, connected groups of nodes no piece may
    cut; without it every node is its own group.
    """
    codings = codings or codings_of(table)
    edge = {name: table.dense("edge", name) for name in ("edge_src", "edge_dst")}
    if codings.edge is not None and (codings.edge.kinds or codings.edge.reals):
        values = table.dense("edge", "edge_attr")
        kinds = spread(codings.edge.codes(values), codings.edge.width)
        edge["edge_inputs"] = np.column_stack([codings.edge.numbers(values), kinds])
    features = table.dense("node", "node_feat")
    node = {"reals": codings.node.numbers(features), "codes": codings.node.codes(features)}
    if "unit" in table.node:
        node["unit"] = table.dense("node", "unit").astype(np.int64)
    structure = sort_edges(GraphTable(table.node_ptr, table.edge_ptr, node=node, edge=edge))
    return Lesson(
        graphs=structure,
        y=table.dense("graph", "y").copy(),  # a mapped file is read-only, which torch warns about
        env=table.dense("graph", "env_id").astype(np.int64),
        task=info.task,
        kinds=codings.node.width,
    )


def units_of(graphs: GraphTable) -> Ints | None:
    """Return the unit of every node, numbered from 0 in each graph; None: every node is its own."""
    return graphs.dense("node", "unit") if "unit" in graphs.node else None


def weights_of(net: torch.nn.Module) -> dict[str, Array]:
    """Return the weights of a network as arrays."""
    return {name: value.cpu().numpy() for name, value in net.state_dict().items()}
