"""Inputs and outputs of the extractors."""

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
from gsx.stages.nn.input_encoding import fit_encoding, input_width, one_hot
from gsx.stages.nn.training_loop import History
from gsx.table import GraphTable

Progress = Callable[[int, int], None]
"""Progress callback: finished epochs and total epochs."""

HELD_OUT_SHARE = 0.1
"""Fraction of the training graphs that no network is trained on. They select the size penalty and
measure the quality of causal subgraphs."""


@dataclass(frozen=True, slots=True, eq=False)
class ExtractorData:
    """Structure, features, labels and environments of graphs, without ground truth."""

    graphs: GraphTable
    """Edges sorted by source. Node columns: ``numeric``, ``codes``, and ``unit`` if some nodes must
    stay together. Edge column: ``edge_inputs`` if edges have features."""
    y: Array
    """``[G, C]`` labels, NaN if missing."""
    env: Ints
    """``[G]`` environments, numbered from 0; -1 if unknown."""
    task: str
    num_categories: int = 0
    """Number of categories in ``codes``."""

    def __len__(self) -> int:
        return len(self.graphs)

    @property
    def input_width(self) -> int:
        """Number of network inputs of a node."""
        return input_width(self.graphs, self.num_categories)

    def take(self, rows: Ints) -> ExtractorData:
        """Return the data of some of the graphs."""
        return replace(self, graphs=self.graphs.take(rows), y=self.y[rows], env=self.env[rows])


@dataclass(frozen=True, slots=True, eq=False)
class ExtractedSubgraphs:
    """Causal and environmental subgraph of every graph."""

    score: Floats
    """``[N]`` evidence of a node for the label."""
    causal: Bools
    """``[N]`` nodes of the causal subgraph: connected, and not empty unless the graph is."""
    environmental: Bools
    """``[N]`` nodes of the environmental subgraph: connected, disjoint from the causal one."""
    environmental_score: Floats | None = None
    """``[N]`` evidence of a node for the environment, if an extractor learns it separately."""
    causal_samples: Bools | None = None
    """``[S, N]`` nodes of sampled causal subgraphs, if an extractor samples them."""
    environmental_samples: Bools | None = None
    """``[S, N]`` nodes of sampled environmental subgraphs, if an extractor samples them."""


@dataclass(frozen=True, slots=True, eq=False)
class Extraction:
    """Result of an extractor."""

    subgraphs: ExtractedSubgraphs
    """Subgraphs of the training graphs."""
    weights: Mapping[str, Mapping[str, Array]]
    """Weights of every network, by network name."""
    history: History
    """Loss of every epoch."""
    quality: Mapping[str, Any]
    """Metrics on held-out graphs."""


def build_extractor_data(table: GraphTable, info: CorpusInfo) -> ExtractorData:
    """Return the columns of a corpus table that an extractor may use.

    A node column ``unit`` numbers connected groups of nodes that no subgraph may divide, from 0 in
    each graph. Without it, every node is a group.
    """
    edge = {name: table.dense("edge", name) for name in ("edge_src", "edge_dst")}
    if "edge_attr" in table.edge:
        values = table.dense("edge", "edge_attr")
        encoding = fit_encoding(values)
        if encoding.categorical or encoding.numeric:
            categories = one_hot(encoding.codes(values), encoding.num_categories)
            edge["edge_inputs"] = np.column_stack([encoding.numeric_values(values), categories])
    features = table.dense("node", "node_feat")
    encoding = fit_encoding(features)
    node = {"numeric": encoding.numeric_values(features), "codes": encoding.codes(features)}
    if "unit" in table.node:
        node["unit"] = table.dense("node", "unit").astype(np.int64)
    structure = sort_edges(GraphTable(table.node_ptr, table.edge_ptr, node=node, edge=edge))
    return ExtractorData(
        graphs=structure,
        y=table.dense("graph", "y").copy(),  # memory-mapped arrays are read-only; torch warns
        env=table.dense("graph", "env_id").astype(np.int64),
        task=info.task,
        num_categories=encoding.num_categories,
    )


@dataclass(frozen=True, slots=True, eq=False)
class HeldOutSplit:
    """Training graphs, some of which are held out."""

    data: ExtractorData
    held_out_rows: Ints

    @property
    def train(self) -> ExtractorData:
        """Graphs that networks are trained on."""
        return self.data.take(np.setdiff1d(np.arange(len(self.data)), self.held_out_rows))

    @property
    def held_out(self) -> ExtractorData:
        """Graphs that networks are evaluated on."""
        return self.data.take(self.held_out_rows)

    def held_out_nodes(self, values: Array) -> Array:
        """Return the entries of node values ``[N]`` that belong to held-out graphs, in order."""
        is_held_out = np.isin(np.arange(len(self.data)), self.held_out_rows)
        return np.asarray(values[np.repeat(is_held_out, self.data.graphs.num_nodes)])


def split_held_out(data: ExtractorData, seed: int) -> HeldOutSplit:
    """Hold out a random fraction of the graphs: at least one, never all."""
    order = rng(seed, "extract", "held-out").permutation(len(data))
    count = min(max(round(HELD_OUT_SHARE * len(data)), 1), len(data) - 1)
    return HeldOutSplit(data, np.sort(order[:count]))


def node_units(graphs: GraphTable) -> Ints | None:
    """Return the unit of every node, numbered from 0 in each graph; None without units."""
    return graphs.dense("node", "unit") if "unit" in graphs.node else None


def state_arrays(network: torch.nn.Module) -> dict[str, Array]:
    """Return the state dict of a network as NumPy arrays."""
    return {name: value.cpu().numpy() for name, value in network.state_dict().items()}
