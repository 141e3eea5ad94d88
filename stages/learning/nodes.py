"""Labelled nodes of one big graph: what is read, how it is sampled, how it is scored.

Training goes over samples drawn by random walks, weighted for how often each node and edge is
drawn. Scores are taken on the whole graph. Several graphs are one without edges between them; only
those of the source are scored.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass

import numpy as np
import torch
from scipy.sparse import csr_matrix

from gsx.columns import ORIGINS, SPLITS, CorpusInfo
from gsx.errors import StageError
from gsx.ragged import Array, Ints, rows_of
from gsx.seeds import rng
from gsx.stages.kernels.saint import Links, convolution, links_of, measure, sample, subgraph
from gsx.stages.kernels.subgraphs import global_edges, sort_edges
from gsx.stages.learning.lesson import HELD_OUT, check_metric, number_environments
from gsx.stages.learning.metrics import score
from gsx.stages.learning.scoring import DivergedError
from gsx.stages.nets.backbones import BackboneShape
from gsx.stages.nets.gcn import GCN, NodeBatch, node_batch
from gsx.storage.corpus import Corpus

TRIES = 100
"""Samples drawn for one that holds training nodes."""


@dataclass(frozen=True, slots=True, eq=False)
class NodeGraphs:
    """Graphs as one, with what a classifier may see."""

    links: Links
    features: Array | csr_matrix
    """``[N, F]`` float32."""
    y: Array
    """``[N, C]``."""
    split: Ints
    env: Ints
    source: Array
    """``[N]`` whether a node is one of the source graphs, not of an augmented one."""


@dataclass(frozen=True, slots=True, eq=False, kw_only=True)
class NodeLesson:
    """What is learned and scored."""

    task: str
    metric: str
    graphs: NodeGraphs
    train: Ints
    """Nodes that are learned from."""
    env: Ints
    """``[T]`` environments of training nodes, from 0 without a gap."""
    num_envs: int
    held_out: Mapping[str, Ints]
    """Nodes that are scored, by split."""


def read_graphs(corpus: Corpus, origins: Sequence[str] | None) -> NodeGraphs:
    """Return the graphs of some origins; None takes all."""
    info = corpus.info
    known = {column.name for column in info.columns}
    names = {"origin", "node_y", "node_split", "node_env_id", "node_feat", "node_feat_index",
             "node_feat_value"}  # fmt: skip
    table = corpus.table(columns=sorted(names & known))
    if origins is not None:
        codes = [ORIGINS.index(origin) for origin in origins]
        table = table.filter(np.isin(table.dense("graph", "origin"), codes))
    if not table.total_nodes:
        raise StageError(f"{info.name} has no nodes of the origins asked for.")
    table = sort_edges(table)
    src, dst = global_edges(table)
    order = np.lexsort((src, dst))
    if not (np.array_equal(src[order], dst) and np.array_equal(dst[order], src)):
        raise StageError(
            f"{info.name} has edges without their way back; backbones read undirected graphs. "
            "Store every edge in both directions."
        )
    features: Array | csr_matrix
    if info.sparse:
        index = table.lists("node", "node_feat_index")
        value = table.lists("node", "node_feat_value").values.astype(np.float32)
        shape = (table.total_nodes, info.num_features)
        features = csr_matrix((value, index.values, index.ptr), shape=shape)
    else:
        features = table.dense("node", "node_feat").astype(np.float32)
    source = table.dense("graph", "origin") == ORIGINS.index("source")
    return NodeGraphs(
        links=links_of(src, dst, table.total_nodes),
        features=features,
        y=np.array(table.dense("node", "node_y")),
        split=table.dense("node", "node_split").astype(np.int64),
        env=table.dense("node", "node_env_id").astype(np.int64),
        source=source[rows_of(table.node_ptr)],
    )


def read_lesson(corpus: Corpus, origins: Sequence[str] | None, learner: str) -> NodeLesson:
    """Return what can be learned of a corpus; refuse one that teaches nothing."""
    info = corpus.info
    graphs = read_graphs(corpus, origins)
    inside = graphs.split == SPLITS.index("train")
    if not inside.any():
        raise StageError(f"{info.name} has no `train` nodes; prepare it with that split.")
    train = np.flatnonzero(inside & (~np.isnan(graphs.y)).any(axis=1))
    if not len(train):
        raise StageError(f"no training node of {info.name} has a label; nothing can be learned.")
    if len(np.unique(graphs.y[train], axis=0)) < 2:
        raise StageError(f"all training nodes of {info.name} have one label: nothing to learn.")
    env, num_envs = number_environments(graphs.env[train], learner, "nodes")
    held_out = {}
    for split in HELD_OUT:
        nodes = np.flatnonzero((graphs.split == SPLITS.index(split)) & graphs.source)
        if len(nodes):
            held_out[split] = nodes
            check_metric(info, split, graphs.y[nodes], "nodes")
    return NodeLesson(
        task=info.task,
        metric=info.metric,
        graphs=graphs,
        train=train,
        env=env,
        num_envs=num_envs,
        held_out=held_out,
    )


def node_shape(info: CorpusInfo, width: int, layers: int) -> BackboneShape:
    """Return the shape of a network for the nodes of a corpus; refuse what it cannot read."""
    columns = {column.name: column for column in info.columns}
    if "edge_attr" in columns:
        raise StageError(f"{info.name} has features of edges, which `gcn` does not read.")
    if not info.sparse and columns["node_feat"].features:
        raise StageError(f"{info.name} has words as features of nodes; `gcn` reads numbers.")
    return BackboneShape(
        backbone="gcn",
        features=info.num_features,
        width=width,
        layers=layers,
        outputs=len(info.outputs),
    )


def layout(graphs: NodeGraphs, told: Ints, device: torch.device) -> NodeBatch:
    """Lay the whole graph out for a network."""
    return _batch(graphs.features, convolution(graphs.links), told, device)


def _batch(
    features: Array | csr_matrix, links: csr_matrix, told: Ints, device: torch.device
) -> NodeBatch:
    rows = features if isinstance(features, csr_matrix) else torch.from_numpy(features)
    return node_batch(rows, links, torch.from_numpy(told), device)


class NodeSampler:
    """Samples of training nodes with what lies around them."""

    def __init__(
        self,
        lesson: NodeLesson,
        *,
        walks: int,
        length: int,
        steps: int,
        coverage: float,
        seed: int,
        device: torch.device,
    ) -> None:
        self.lesson, self.walks, self.length, self.steps = lesson, walks, length, steps
        self.seed, self.device = seed, device
        graphs = lesson.graphs
        self.norms = measure(
            graphs.links,
            walks,
            length,
            coverage,
            lambda number: rng(seed, "train", "coverage", number),
        )
        self.y = graphs.y[lesson.train]
        known = (~np.isnan(self.y)).sum(axis=1) if lesson.task != "classification" else 1
        self.weight = (self.norms.node[lesson.train] * known).astype(np.float32)
        """``[T]`` what the loss of every training node counts."""
        self._place = np.full(graphs.links.nodes, -1, dtype=np.int64)
        self._place[lesson.train] = np.arange(len(lesson.train))

    def __len__(self) -> int:
        """Training nodes."""
        return len(self.lesson.train)

    def draw(self, epoch: int, step: int) -> tuple[Ints, NodeBatch]:
        """Return one sample: its training nodes, as places among all of them, and the graph."""
        graphs = self.lesson.graphs
        for attempt in range(TRIES):
            stream = rng(self.seed, "train", "sample", epoch, step, attempt)
            nodes = sample(graphs.links, self.walks, self.length, stream)
            rows = self._place[nodes]
            told = np.flatnonzero(rows >= 0)
            if len(told) > 1:
                break
        else:
            raise StageError(
                f"{TRIES} samples of {self.walks} walks held no two training nodes. Raise "
                "`batch_size`: it is the number of walks."
            )
        links, edges = subgraph(graphs.links, nodes)
        matrix = convolution(links, self.norms.edge[edges])
        return rows[told], _batch(graphs.features[nodes], matrix, told, self.device)


class NodeJudge:
    """The whole graph, laid out once and scored every epoch."""

    def __init__(self, lesson: NodeLesson, device: torch.device) -> None:
        self.lesson = lesson
        held_out = list(lesson.held_out.values())
        self.nodes = np.concatenate(held_out) if held_out else lesson.train[:0]
        self.batch = layout(lesson.graphs, self.nodes, device)

    def scores(self, net: GCN, epoch: int) -> dict[str, float]:
        """Return the score of every held-out split."""
        logits = node_logits(net, self.batch)
        if not np.isfinite(logits).all():
            raise DivergedError(f"the network tells no numbers after epoch {epoch}")
        found, start = {}, 0
        for split, nodes in self.lesson.held_out.items():
            part = logits[start : start + len(nodes)]
            start += len(nodes)
            value = score(self.lesson.metric, self.lesson.task, part, self.lesson.graphs.y[nodes])
            assert value is not None  # refused before training
            found[split] = value
        return found


@torch.no_grad()
def node_logits(net: GCN, batch: NodeBatch) -> Array:
    """Return the logits ``[M, C]`` of the nodes a batch asks for."""
    net.eval()
    found: Array = net(batch)[1].cpu().numpy()
    return found
