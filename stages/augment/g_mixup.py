"""G-Mixup (Han et al. 2022): graphs sampled from the mix of two classes' graphons, soft labels.

A class is a graphon over K places, K the median number of nodes, and what nodes at each place are
like. Features that are numbers are means per place, mixed as the graphons are. What cannot be
averaged, words and whole numbers, is that of a training node at this place, of either class by
their weights; so are attributes of edges, of any edge of the class. Nodes without an edge are left
out, as in the published code; a graph without any edge is one node.
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
    draw_of_groups,
    graphon_of,
    group_items,
    mean_adjacency,
    places,
    sample_edges,
)
from gsx.stages.augment.perturbation import described
from gsx.stages.augment.rejection_sampling import Drawn
from gsx.stages.augmented.derived_columns import missing
from gsx.table import GraphTable, Values

ORIGIN = "g_mixup"
LARGEST = 2048
"""Places of a graphon beyond which it is not estimated: it has as many squared cells."""


@dataclass(frozen=True, slots=True, eq=False)
class Classes:
    """The classes of training graphs, each as a graphon with features."""

    train: GraphTable
    graphs: Ints
    """``[C]`` training graphs of each."""
    graphons: Floats
    """``[C, K, K]``."""
    nodes: Ints
    """Training nodes sorted by class and place."""
    node_ptr: Ints
    """``[C * K + 1]`` pointers into them."""
    edges: Ints
    """Edges sorted by class."""
    edge_ptr: Ints
    means: Floats | None
    """``[C, K, F]`` mean features; None where they cannot be averaged."""

    @property
    def size(self) -> int:
        """K, the number of places."""
        return int(self.graphons.shape[1])

    @classmethod
    def of(cls, train: GraphTable, label: Ints, count: int, name: str) -> Classes:
        """Estimate the graphons of ``count`` classes from graphs with a label."""
        size = int(np.median(train.num_nodes))
        if not 2 <= size <= LARGEST:
            raise StageError(
                f"G-Mixup samples graphs of the median size, which is {size} for {name}; it must "
                f"lie in 2..{LARGEST}. Use another augmenter."
            )
        place = places(train)
        graphs = np.bincount(label, minlength=count)
        graphons = np.zeros((count, size, size))
        for each in np.flatnonzero(graphs):
            part, seat = train.filter(label == each), np.repeat(label == each, train.num_nodes)
            graphons[each] = graphon_of(mean_adjacency(part, place[seat], size), int(graphs[each]))
        # Places beyond the last share a group of their own, which nobody asks for.
        group = np.repeat(label, train.num_nodes) * size + place
        group = np.where(place < size, group, count * size)
        nodes, node_ptr = group_items(group, count * size + 1)
        edges, edge_ptr = group_items(label[train.edge_graph()], count)
        features = train.dense("node", "node_feat")
        means = None
        if features.dtype.kind == "f":
            means = _means(features[nodes], node_ptr)[:-1].reshape(count, size, -1)
        return cls(train, graphs, graphons, nodes, node_ptr, edges, edge_ptr, means)


@dataclass(frozen=True, slots=True, eq=False)
class Mixer:
    """Makes graphs of pairs of classes."""

    info: CorpusInfo
    """Of the corpus that is made; the last environment is that of all its new graphs."""
    classes: Classes
    pairs: Ints
    """``[P, 2]`` classes that are mixed."""
    weight: Floats
    """``[P]`` λ, what the first of them counts."""
    graphons: Floats
    """``[P, K, K]``."""
    origin: str = ORIGIN

    @classmethod
    def of(
        cls, info: CorpusInfo, train: GraphTable, mix: tuple[float, float], pairs: int, seed: int
    ) -> Mixer:
        """Estimate graphons, and draw which classes are mixed how."""
        label = train.dense("graph", "label").astype(np.int64)
        fit = (label >= 0) & (train.num_nodes > 0)
        train, label = train.filter(fit), label[fit]
        count = len(info.outputs) if info.task == "classification" else 2
        there = np.unique(label)
        if len(there) < 2:
            raise StageError(
                f"G-Mixup mixes classes, and the training graphs of {info.name} with a hard label "
                f"have {len(there)}. Use another augmenter."
            )
        classes = Classes.of(train, label, count, info.name)
        stream = rng(seed, "augment", ORIGIN, "pairs")
        chosen = np.stack([stream.permutation(there)[:2] for _ in range(pairs)])
        weight = stream.uniform(*mix, pairs)
        graphons = (
            weight[:, None, None] * classes.graphons[chosen[:, 0]]
            + (1 - weight)[:, None, None] * classes.graphons[chosen[:, 1]]
        )
        return cls(with_environment(info), classes, chosen, weight, graphons)

    @property
    def env_id(self) -> int:
        """The environment of all new graphs."""
        return self.info.environments[-1].id

    def draw(self, items: Ints, stream: np.random.Generator) -> Drawn:
        """Make a graph of every pair asked for."""
        count, size = len(items), self.classes.size
        graph, first, second = sample_edges(self.graphons, items, stream)
        here = np.zeros((count, size), dtype=bool)
        here[graph, first] = here[graph, second] = True
        here[:, 0] |= ~here.any(axis=1)
        owner, place = np.nonzero(here)
        node_ptr = pointers(here.sum(axis=1))
        number = (np.cumsum(here.ravel()) - 1).reshape(here.shape) - node_ptr[:-1, None]
        src, dst = number[graph, first], number[graph, second]
        both = np.concatenate([graph, graph])
        ends = np.concatenate([src, dst]), np.concatenate([dst, src])
        order = np.lexsort((ends[1], ends[0], both))
        table = GraphTable(
            node_ptr=node_ptr,
            edge_ptr=pointers(2 * np.bincount(graph, minlength=count)),
            node=self._node_columns(items[owner], place, stream),
            edge={
                "edge_src": ends[0][order].astype(np.int32),
                "edge_dst": ends[1][order].astype(np.int32),
                **self._edge_columns(items[graph], order, stream),
            },
            graph=self._labels(items),
        )
        none = pointers(np.zeros(count))
        return Drawn(
            table=table,
            parents=Ragged(none, np.zeros(0, dtype=np.int64)),
            number=Ragged(none, np.zeros(0, dtype=np.int32)),
            weight=self.weight[items],
            unchanged=np.zeros(count, dtype=bool),
            lost=np.zeros(count, dtype=np.int64),
            whole=np.zeros(count, dtype=np.int64),
        )

    def _labels(self, items: Ints) -> dict[str, Array]:
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
        self, pair: Ints, place: Ints, stream: np.random.Generator
    ) -> dict[str, Values]:
        classes = self.classes
        first, second = (self.pairs[pair].T * classes.size) + place
        share = _share(classes.node_ptr, first, second, self.weight[pair])
        known = classes.train.dense("node", "node_feat")
        if classes.means is not None:
            flat = classes.means.reshape(-1, known.shape[1])
            features = share[:, None] * flat[first] + (1 - share)[:, None] * flat[second]
        else:
            group = np.where(stream.random(len(pair)) < share, first, second)
            features = known[classes.nodes[draw_of_groups(classes.node_ptr, group, stream)]]
        found = {"node_feat": features.astype(known.dtype)}
        return _with_missing(found, classes.train.node, len(pair))

    def _edge_columns(
        self, pair: Ints, order: Ints, stream: np.random.Generator
    ) -> dict[str, Values]:
        """Return the columns of edges in both directions, which have the same attributes."""
        classes = self.classes
        found: dict[str, Array] = {}
        if "edge_attr" in classes.train.edge:
            first, second = self.pairs[pair].T
            share = _share(classes.edge_ptr, first, second, self.weight[pair])
            group = np.where(stream.random(len(pair)) < share, first, second)
            like = classes.edges[draw_of_groups(classes.edge_ptr, group, stream)]
            known = classes.train.dense("edge", "edge_attr")[like]
            found["edge_attr"] = np.concatenate([known, known])[order]
        return _with_missing(found, classes.train.edge, len(order))


def _share(ptr: Ints, first: Ints, second: Ints, weight: Floats) -> Floats:
    """Return the weight of the first of two groups; all or nothing where one of them is empty."""
    count = np.diff(ptr)
    found = np.where(count[first] == 0, 0.0, np.where(count[second] == 0, 1.0, weight))
    return np.asarray(found)


def _with_missing(
    found: Mapping[str, Array], columns: Mapping[str, Values], rows: int
) -> dict[str, Values]:
    """Add the dataset's own columns, marked as missing."""
    more = {
        name: missing(old.dtype, (rows, *old.shape[1:]))
        for name, old in columns.items()
        if name not in (*found, "edge_src", "edge_dst") and isinstance(old, np.ndarray)
    }
    return {**found, **more}


def _means(rows: Array, ptr: Ints) -> Floats:
    """Return the mean of every group of rows; 0 where a group is empty."""
    count = np.diff(ptr)
    found = np.zeros((len(count), rows.shape[1]))
    there = count > 0
    sums = np.add.reduceat(rows, ptr[:-1][there], axis=0, dtype=np.float64)
    found[there] = sums / count[there][:, None]
    return found


def with_environment(info: CorpusInfo) -> CorpusInfo:
    """Describe a corpus that has mixed graphs, in an environment of all."""
    environment = Environment(
        id=len(info.environments), name="classes mixed by their graphons", origin=ORIGIN
    )
    return msgspec.structs.replace(
        described(info, "G-Mixup"), environments=(*info.environments, environment)
    )
