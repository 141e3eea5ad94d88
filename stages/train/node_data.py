"""Labelled nodes of one big graph: what is read, how it is sampled, how it is scored.

Training goes over samples drawn by random walks, weighted for how often each node and edge is
drawn. Scores are taken on the whole graph. Several graphs are one without edges between them; only
those of the source are scored. Replicas are sheets over the same nodes, and most over the same
edges: a sample is drawn from one sheet, so it is as dense as if there were no others.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass

import numpy as np
import torch
from scipy.sparse import csr_matrix

from gsx.errors import StageError
from gsx.ragged import Array, Ints
from gsx.schema import ORIGINS, SPLITS, CorpusInfo
from gsx.seeds import rng
from gsx.stages.graphs.graphsaint import (
    Links,
    Norms,
    convolution,
    links_of,
    measure,
    sample,
    subgraph,
)
from gsx.stages.graphs.node_features import COLUMNS, features_of
from gsx.stages.graphs.subgraphs import global_edges, sort_edges
from gsx.stages.nn.backbones import BackboneShape
from gsx.stages.nn.gcn import GCN, NodeBatch, Sample, node_batch
from gsx.stages.train.data import HELD_OUT, check_metric, number_environments
from gsx.stages.train.evaluator import DivergedError
from gsx.stages.train.metrics import score
from gsx.storage.corpora.corpus import Corpus
from gsx.storage.corpora.shared_edges import borrowers
from gsx.table import GraphTable

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


@dataclass(frozen=True, slots=True, eq=False)
class Sheet:
    """What the nodes of a graph are once: as in the source, or as in a replica."""

    links: Links
    """Those of the source, unless edges are what a replica differs in."""
    features: Array | csr_matrix
    """``[N, F]`` float32."""
    train: Ints
    """Nodes that are learned from."""
    env: Ints
    """``[T]`` their environments."""


@dataclass(frozen=True, slots=True, eq=False, kw_only=True)
class NodeLesson:
    """What is learned and scored."""

    task: str
    metric: str
    graphs: NodeGraphs
    """Source graphs: their structure, and what is scored."""
    sheets: tuple[Sheet, ...]
    """What is learned from, one after the other."""
    env: Ints
    """``[T]`` environments of training nodes of all sheets, from 0 without a gap."""
    num_envs: int
    held_out: Mapping[str, Ints]
    """Nodes that are scored, by split."""

    @property
    def train(self) -> Ints:
        """Nodes that are learned from, sheet after sheet."""
        return np.concatenate([sheet.train for sheet in self.sheets])


def read_graphs(corpus: Corpus) -> NodeGraphs:
    """Return the source graphs."""
    return _graphs_of(_source(_table(corpus, ("node_y",)), corpus.info), corpus.info)


def _table(corpus: Corpus, more: Sequence[str]) -> GraphTable:
    """Return all graphs with what a classifier may see of nodes."""
    known = {column.name for column in corpus.info.columns}
    names = {"origin", "node_split", "node_env_id", *COLUMNS, *more}
    return corpus.table(columns=sorted(names & known))


def _source(table: GraphTable, info: CorpusInfo) -> GraphTable:
    found = table.filter(table.dense("graph", "origin") == ORIGINS.index("source"))
    if not found.total_nodes:
        raise StageError(f"{info.name} has no nodes of the source, which alone are scored.")
    return found


def _graphs_of(table: GraphTable, info: CorpusInfo) -> NodeGraphs:
    return NodeGraphs(
        links=_links_of(table, info),
        features=_numbers(table, info),
        y=np.array(table.dense("node", "node_y")),
        split=table.dense("node", "node_split").astype(np.int64),
        env=table.dense("node", "node_env_id").astype(np.int64),
    )


def _links_of(table: GraphTable, info: CorpusInfo) -> Links:
    table = sort_edges(table)
    src, dst = global_edges(table)
    order = np.lexsort((src, dst))
    if not (np.array_equal(src[order], dst) and np.array_equal(dst[order], src)):
        raise StageError(
            f"{info.name} has edges without their way back; backbones read undirected graphs. "
            "Store every edge in both directions."
        )
    return links_of(src, dst, table.total_nodes)


def _numbers(table: GraphTable, info: CorpusInfo) -> Array | csr_matrix:
    return features_of(table, info).astype(np.float32)


def read_lesson(corpus: Corpus, origins: Sequence[str] | None, learner: str) -> NodeLesson:
    """Return what can be learned of a corpus; refuse one that teaches nothing."""
    info = corpus.info
    table = _table(corpus, ("node_y", "provenance.parents", "graph_id"))
    source = _source(table, info)
    graphs = _graphs_of(source, info)
    inside = graphs.split == SPLITS.index("train")
    if not inside.any():
        raise StageError(f"{info.name} has no `train` nodes; prepare it with that split.")
    train = np.flatnonzero(inside & (~np.isnan(graphs.y)).any(axis=1))
    if not len(train):
        raise StageError(f"no training node of {info.name} has a label; nothing can be learned.")
    if len(np.unique(graphs.y[train], axis=0)) < 2:
        raise StageError(f"all training nodes of {info.name} have one label: nothing to learn.")
    sheets = _sheets(table, source, graphs, train, info, origins)
    told = np.concatenate([sheet.env for sheet in sheets])
    env, num_envs = number_environments(told, learner, "nodes")
    held_out = {}
    for split in HELD_OUT:
        nodes = np.flatnonzero(graphs.split == SPLITS.index(split))
        if len(nodes):
            held_out[split] = nodes
            check_metric(info, split, graphs.y[nodes], "nodes")
    return NodeLesson(
        task=info.task,
        metric=info.metric,
        graphs=graphs,
        sheets=sheets,
        env=env,
        num_envs=num_envs,
        held_out=held_out,
    )


def _sheets(
    table: GraphTable,
    source: GraphTable,
    graphs: NodeGraphs,
    train: Ints,
    info: CorpusInfo,
    origins: Sequence[str] | None,
) -> tuple[Sheet, ...]:
    """Return the source graphs and every replica of all of them, those of the origins asked for."""
    sheets = []
    if origins is None or "source" in origins:
        sheets.append(Sheet(graphs.links, graphs.features, train, graphs.env[train]))
    codes = {ORIGINS.index(origin) for origin in origins or ORIGINS} - {ORIGINS.index("source")}
    chosen = table.filter(np.isin(table.dense("graph", "origin"), sorted(codes)))
    parents = chosen.lists("graph", "provenance.parents")
    for ids in _rounds(chosen, parents.values, source.dense("graph", "graph_id"), info):
        replica = chosen.take(ids)
        env = replica.dense("node", "node_env_id").astype(np.int64)[train]
        links = graphs.links if borrowers(replica).all() else _links_of(replica, info)
        sheets.append(Sheet(links, _numbers(replica, info), train, env))
    if not sheets:
        raise StageError(f"{info.name} has no nodes of the origins asked for.")
    return tuple(sheets)


def _rounds(table: GraphTable, parents: Ints, wanted: Ints, info: CorpusInfo) -> list[Ints]:
    """Return rows of replicas, those of all source graphs together, in the order of these."""
    if not len(table):
        return []
    count, rest = divmod(len(table), len(wanted))
    rows = [np.flatnonzero(parents == parent) for parent in wanted]
    if len(parents) != len(table) or rest or any(len(each) != count for each in rows):
        raise StageError(
            f"{info.name} has {len(table)} replicas of {len(wanted)} graphs, not as many of each. "
            "Generate it anew."
        )
    return list(np.stack(rows, axis=1))


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
    features: Array | csr_matrix,
    links: csr_matrix,
    told: Ints,
    device: torch.device,
    sample: Sample | None = None,
) -> NodeBatch:
    rows = features if isinstance(features, csr_matrix) else torch.from_numpy(features)
    return node_batch(rows, links, torch.from_numpy(told), device, sample)


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
        self.norms = self._measured(coverage)
        """Of every sheet."""
        self.y = graphs.y[lesson.train]
        known = (~np.isnan(self.y)).sum(axis=1) if lesson.task != "classification" else 1
        pairs = zip(self.norms, lesson.sheets, strict=True)
        drawn = np.concatenate([norms.node[sheet.train] for norms, sheet in pairs])
        self.weight = (drawn * known).astype(np.float32)
        """``[T]`` what the loss of every training node counts."""
        self._place = np.full((len(lesson.sheets), graphs.links.nodes), -1, dtype=np.int64)
        first = 0
        for number, sheet in enumerate(lesson.sheets):
            self._place[number, sheet.train] = first + np.arange(len(sheet.train))
            first += len(sheet.train)

    def _measured(self, coverage: float) -> list[Norms]:
        """Measure how often nodes and edges are drawn, once for every structure."""

        def stream(number: int) -> np.random.Generator:
            return rng(self.seed, "train", "coverage", number)

        known: dict[int, Norms] = {}
        for links in (sheet.links for sheet in self.lesson.sheets):
            if id(links) not in known:
                known[id(links)] = measure(links, self.walks, self.length, coverage, stream)
        return [known[id(sheet.links)] for sheet in self.lesson.sheets]

    def __len__(self) -> int:
        """Training nodes of all sheets."""
        return len(self.lesson.train)

    def draw(self, epoch: int, step: int) -> tuple[Ints, NodeBatch]:
        """Return one sample: its training nodes, as places among all of them, and the graph."""
        sheets = self.lesson.sheets
        number = int(rng(self.seed, "train", "sheet", epoch, step).integers(len(sheets)))
        sheet, norms = sheets[number], self.norms[number]
        for attempt in range(TRIES):
            stream = rng(self.seed, "train", "sample", epoch, step, attempt)
            nodes = sample(sheet.links, self.walks, self.length, stream)
            rows = self._place[number, nodes]
            told = np.flatnonzero(rows >= 0)
            if len(told) > 1:
                break
        else:
            raise StageError(
                f"{TRIES} samples of {self.walks} walks held no two training nodes. Raise "
                "`batch_size`: it is the number of walks."
            )
        links, edges = subgraph(sheet.links, nodes)
        weight = norms.edge[edges]
        size = (len(nodes), len(nodes))
        drawn = Sample(
            nodes,
            csr_matrix((weight, links.columns, links.ptr), shape=size),
            norms.node[nodes].astype(np.float32),
        )
        matrix = convolution(links, weight)
        return rows[told], _batch(sheet.features[nodes], matrix, told, self.device, drawn)


class NodeJudge:
    """The whole graph, laid out once and scored every epoch."""

    def __init__(self, lesson: NodeLesson, device: torch.device) -> None:
        self.lesson = lesson
        held_out = list(lesson.held_out.values())
        self.nodes = np.concatenate(held_out) if held_out else np.zeros(0, dtype=np.int64)
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
