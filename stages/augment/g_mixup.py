"""G-Mixup (Han et al. 2022): graphs with soft labels, sampled from mixed graphons of two classes.

A class is described by a graphon over K node ranks, where K is the median number of nodes, and by
the nodes at each rank. Numerical features are averaged per rank and mixed like the graphons.
Categorical features and integers cannot be averaged: they are copied from a random training node at
this rank, of either class with the probability of its weight. Edge attributes are copied from a
random edge of either class. Nodes without edges are removed, as in the published code; a graph
without edges has one node.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass

import msgspec
import numpy as np

from gsx.errors import StageError
from gsx.ragged import Array, Ints, Ragged, pointers
from gsx.schema import CorpusInfo, Environment
from gsx.seeds import rng
from gsx.stages.augment.graphons import (
    Floats,
    degree_ranks,
    mean_adjacency,
    sample_edges,
    sample_from_groups,
    sort_by_group,
    universal_singular_value_threshold,
)
from gsx.stages.augment.perturbation import augmented_info
from gsx.stages.augment.rejection_sampling import DrawnGraphs
from gsx.stages.augmented.derived_columns import missing_values
from gsx.table import GraphTable, Values

ORIGIN = "g_mixup"
MAX_NODES = 2048
"""Largest number of ranks; a graphon has the square of it as entries."""


@dataclass(frozen=True, slots=True, eq=False)
class ClassGraphons:
    """Graphons and features of C classes of training graphs, over K node ranks."""

    train: GraphTable
    graphs: Ints
    """``[C]`` training graphs of each class."""
    graphons: Floats
    """``[C, K, K]``."""
    nodes: Ints
    """Training nodes sorted by class and rank."""
    node_ptr: Ints
    """``[C * K + 1]`` start of each class and rank in ``nodes``."""
    edges: Ints
    """Edges sorted by class."""
    edge_ptr: Ints
    """``[C + 1]`` start of each class in ``edges``."""
    means: Floats | None
    """``[C, K, F]`` mean features; None if features cannot be averaged."""

    @property
    def size(self) -> int:
        """K, the number of ranks."""
        return int(self.graphons.shape[1])

    @classmethod
    def estimate(cls, train: GraphTable, label: Ints, count: int, name: str) -> ClassGraphons:
        """Estimate the graphons of ``count`` classes; every training graph has a label."""
        size = int(np.median(train.num_nodes))
        if not 2 <= size <= MAX_NODES:
            raise StageError(
                f"G-Mixup samples graphs of the median size, which is {size} for {name}; it must "
                f"be in 2..{MAX_NODES}. Use another augmenter."
            )
        rank = degree_ranks(train)
        graphs = np.bincount(label, minlength=count)
        graphons = np.zeros((count, size, size))
        for class_id in np.flatnonzero(graphs):
            in_class = label == class_id
            class_rank = rank[np.repeat(in_class, train.num_nodes)]
            mean = mean_adjacency(train.filter(in_class), class_rank, size)
            graphons[class_id] = universal_singular_value_threshold(mean, int(graphs[class_id]))
        # Ranks beyond K share one extra group, which is never sampled from.
        group = np.repeat(label, train.num_nodes) * size + rank
        group = np.where(rank < size, group, count * size)
        nodes, node_ptr = sort_by_group(group, count * size + 1)
        edges, edge_ptr = sort_by_group(label[train.edge_graph()], count)
        features = train.dense("node", "node_feat")
        means = None
        if features.dtype.kind == "f":
            means = _group_means(features[nodes], node_ptr)[:-1].reshape(count, size, -1)
        return cls(train, graphs, graphons, nodes, node_ptr, edges, edge_ptr, means)


@dataclass(frozen=True, slots=True, eq=False)
class GMixup:
    """Augmenter that samples graphs from mixed graphons of P pairs of classes."""

    info: CorpusInfo
    """Description of the augmented corpus; its last environment holds all mixed graphs."""
    classes: ClassGraphons
    pairs: Ints
    """``[P, 2]`` mixed classes."""
    weight: Floats
    """``[P]`` λ, the weight of the first class."""
    graphons: Floats
    """``[P, K, K]`` mixed graphons."""
    origin: str = ORIGIN

    @classmethod
    def estimate(
        cls, info: CorpusInfo, train: GraphTable, mix: tuple[float, float], pairs: int, seed: int
    ) -> GMixup:
        """Estimate graphons, and draw pairs of classes with weights in the range ``mix``."""
        label = train.dense("graph", "label").astype(np.int64)
        usable = (label >= 0) & (train.num_nodes > 0)
        train, label = train.filter(usable), label[usable]
        count = len(info.outputs) if info.task == "classification" else 2
        present = np.unique(label)
        if len(present) < 2:
            raise StageError(
                f"G-Mixup mixes two classes; the training graphs of {info.name} with a hard label "
                f"have {len(present)}. Use another augmenter."
            )
        classes = ClassGraphons.estimate(train, label, count, info.name)
        stream = rng(seed, "augment", ORIGIN, "pairs")
        chosen = np.stack([stream.permutation(present)[:2] for _ in range(pairs)])
        weight = stream.uniform(*mix, pairs)
        graphons = (
            weight[:, None, None] * classes.graphons[chosen[:, 0]]
            + (1 - weight)[:, None, None] * classes.graphons[chosen[:, 1]]
        )
        return cls(mixed_info(info), classes, chosen, weight, graphons)

    @property
    def env_id(self) -> int:
        """Environment of all mixed graphs."""
        return self.info.environments[-1].id

    def draw(self, items: Ints, stream: np.random.Generator) -> DrawnGraphs:
        """Sample one graph from each of the given pairs."""
        count, size = len(items), self.classes.size
        graph, first, second = sample_edges(self.graphons, items, stream)
        has_node = np.zeros((count, size), dtype=bool)
        has_node[graph, first] = has_node[graph, second] = True
        has_node[:, 0] |= ~has_node.any(axis=1)
        node_graph, rank = np.nonzero(has_node)
        node_ptr = pointers(has_node.sum(axis=1))
        number = (np.cumsum(has_node.ravel()) - 1).reshape(has_node.shape) - node_ptr[:-1, None]
        src, dst = number[graph, first], number[graph, second]
        both_directions = np.concatenate([graph, graph])
        ends = np.concatenate([src, dst]), np.concatenate([dst, src])
        order = np.lexsort((ends[1], ends[0], both_directions))
        table = GraphTable(
            node_ptr=node_ptr,
            edge_ptr=pointers(2 * np.bincount(graph, minlength=count)),
            node=self._node_columns(items[node_graph], rank, stream),
            edge={
                "edge_src": ends[0][order].astype(np.int32),
                "edge_dst": ends[1][order].astype(np.int32),
                **self._edge_columns(items[graph], order, stream),
            },
            graph=self._label_columns(items),
        )
        none = pointers(np.zeros(count))
        return DrawnGraphs(
            table=table,
            parents=Ragged(none, np.zeros(0, dtype=np.int64)),
            node_number=Ragged(none, np.zeros(0, dtype=np.int32)),
            strength=self.weight[items],
            unchanged=np.zeros(count, dtype=bool),
            removed=np.zeros(count, dtype=np.int64),
            total=np.zeros(count, dtype=np.int64),
        )

    def _label_columns(self, items: Ints) -> dict[str, Array]:
        first, second = self.pairs[items].T
        weight = self.weight[items]
        if self.info.task == "classification":
            y = np.zeros((len(items), len(self.info.outputs)))
            y[np.arange(len(items)), first] = weight
            y[np.arange(len(items)), second] = 1 - weight
        else:
            y = (weight * first + (1 - weight) * second)[:, None]
        return {
            "y": y.astype(np.float32),
            "label": np.full(len(items), -1, dtype=np.int32),
            "env_id": np.full(len(items), self.env_id, dtype=np.int32),
        }

    def _node_columns(
        self, pair: Ints, rank: Ints, stream: np.random.Generator
    ) -> dict[str, Values]:
        """Return the columns of nodes, given their pair of classes and their rank."""
        classes = self.classes
        first, second = (self.pairs[pair].T * classes.size) + rank
        weight = _first_weight(classes.node_ptr, first, second, self.weight[pair])
        train_features = classes.train.dense("node", "node_feat")
        if classes.means is not None:
            means = classes.means.reshape(-1, train_features.shape[1])
            features = weight[:, None] * means[first] + (1 - weight)[:, None] * means[second]
        else:
            group = np.where(stream.random(len(pair)) < weight, first, second)
            drawn = sample_from_groups(classes.node_ptr, group, stream)
            features = train_features[classes.nodes[drawn]]
        columns = {"node_feat": features.astype(train_features.dtype)}
        return _add_missing(columns, classes.train.node, len(pair))

    def _edge_columns(
        self, pair: Ints, order: Ints, stream: np.random.Generator
    ) -> dict[str, Values]:
        """Return the columns of edges; both directions of an edge have the same attributes."""
        classes = self.classes
        columns: dict[str, Array] = {}
        if "edge_attr" in classes.train.edge:
            first, second = self.pairs[pair].T
            weight = _first_weight(classes.edge_ptr, first, second, self.weight[pair])
            group = np.where(stream.random(len(pair)) < weight, first, second)
            edge = classes.edges[sample_from_groups(classes.edge_ptr, group, stream)]
            attributes = classes.train.dense("edge", "edge_attr")[edge]
            columns["edge_attr"] = np.concatenate([attributes, attributes])[order]
        return _add_missing(columns, classes.train.edge, len(order))


def _first_weight(ptr: Ints, first: Ints, second: Ints, weight: Floats) -> Floats:
    """Return the weight of the first of two groups; 0 or 1 if one of them is empty."""
    count = np.diff(ptr)
    adjusted = np.where(count[first] == 0, 0.0, np.where(count[second] == 0, 1.0, weight))
    return np.asarray(adjusted)


def _add_missing(
    columns: Mapping[str, Array], schema: Mapping[str, Values], rows: int
) -> dict[str, Values]:
    """Add the columns of the dataset that are not set, as missing values."""
    missing = {
        name: missing_values(values.dtype, (rows, *values.shape[1:]))
        for name, values in schema.items()
        if name not in (*columns, "edge_src", "edge_dst") and isinstance(values, np.ndarray)
    }
    return {**columns, **missing}


def _group_means(rows: Array, ptr: Ints) -> Floats:
    """Return the mean of every group of rows; 0 for empty groups."""
    count = np.diff(ptr)
    means = np.zeros((len(count), rows.shape[1]))
    non_empty = count > 0
    sums = np.add.reduceat(rows, ptr[:-1][non_empty], axis=0, dtype=np.float64)
    means[non_empty] = sums / count[non_empty][:, None]
    return means


def mixed_info(info: CorpusInfo) -> CorpusInfo:
    """Return the description of a corpus plus an environment of mixed graphs."""
    environment = Environment(
        id=len(info.environments), name="classes mixed by their graphons", origin=ORIGIN
    )
    return msgspec.structs.replace(
        augmented_info(info, "G-Mixup"), environments=(*info.environments, environment)
    )
