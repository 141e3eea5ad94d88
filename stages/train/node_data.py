"""Node-level corpora: reading, GraphSAINT sampling and evaluation.

Training uses random-walk samples, with losses and messages weighted by inverse sampling
probabilities. Evaluation uses the whole graph. Several graphs count as one disconnected graph; only
source nodes are evaluated. A replica has the nodes of its source graph with other features, and
usually the same edges. Source and replicas are the *variants* of the graph; each sample comes from
one variant.
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
    Adjacency,
    SamplingNorms,
    adjacency_from_edges,
    estimate_norms,
    gcn_matrix,
    induced_adjacency,
    sample_nodes,
)
from gsx.stages.graphs.node_features import COLUMNS, node_features
from gsx.stages.graphs.subgraphs import global_edges, sort_edges
from gsx.stages.nn.batches import BackboneShape
from gsx.stages.nn.gcn import GCN, NodeBatch, SampledSubgraph, build_node_batch
from gsx.stages.train.data import (
    HELD_OUT,
    check_metric,
    is_undirected,
    renumber_environments,
)
from gsx.stages.train.evaluator import require_finite_logits
from gsx.stages.train.metrics import score
from gsx.storage.corpora.corpus import Corpus
from gsx.storage.corpora.shared_edges import shares_parent_edges
from gsx.table import GraphTable

MAX_ATTEMPTS = 100
"""Largest number of samples that are drawn to find one with training nodes."""


@dataclass(frozen=True, slots=True, eq=False)
class NodeGraphs:
    """All source graphs of a corpus as one disconnected graph."""

    adjacency: Adjacency
    features: Array | csr_matrix
    """``[N, F]`` float32."""
    y: Array
    """``[N, C]``."""
    split: Ints
    """``[N]`` indices into ``SPLITS``."""
    env: Ints
    """``[N]``."""


@dataclass(frozen=True, slots=True, eq=False)
class GraphVariant:
    """The source graph or one replica of it."""

    adjacency: Adjacency
    """The source graph's, unless the replica has other edges."""
    features: Array | csr_matrix
    """``[N, F]`` float32."""
    train: Ints
    """``[T]`` training nodes."""
    env: Ints
    """``[T]`` their environments."""


@dataclass(frozen=True, slots=True, eq=False, kw_only=True)
class NodeTrainingData:
    """Nodes to train on and to evaluate on."""

    task: str
    metric: str
    graphs: NodeGraphs
    """The source graph."""
    variants: tuple[GraphVariant, ...]
    """Variants of the graph to train on."""
    env: Ints
    """``[T]`` environments of the training nodes of all variants, numbered from 0 without gaps."""
    num_envs: int
    held_out: Mapping[str, Ints]
    """Split → its nodes."""

    @property
    def train(self) -> Ints:
        """Training nodes of all variants, in the order of the variants."""
        return np.concatenate([variant.train for variant in self.variants])


def read_node_graphs(corpus: Corpus) -> NodeGraphs:
    """Return the source graphs of a node-level corpus."""
    return _node_graphs(_source_graphs(_read_table(corpus, ("node_y",)), corpus.info), corpus.info)


def _read_table(corpus: Corpus, extra_columns: Sequence[str]) -> GraphTable:
    """Return all graphs with the columns that training reads."""
    available = {column.name for column in corpus.info.columns}
    names = {"origin", "node_split", "node_env_id", *COLUMNS, *extra_columns}
    return corpus.table(columns=sorted(names & available))


def _source_graphs(table: GraphTable, info: CorpusInfo) -> GraphTable:
    source = table.filter(table.dense("graph", "origin") == ORIGINS.index("source"))
    if not source.total_nodes:
        raise StageError(
            f"{info.name} has no source nodes, and only these are evaluated. Generate it without "
            "`--augmented-only`."
        )
    return source


def _node_graphs(table: GraphTable, info: CorpusInfo) -> NodeGraphs:
    return NodeGraphs(
        adjacency=_adjacency(table, info),
        features=_features(table, info),
        y=np.array(table.dense("node", "node_y")),
        split=table.dense("node", "node_split").astype(np.int64),
        env=table.dense("node", "node_env_id").astype(np.int64),
    )


def _adjacency(table: GraphTable, info: CorpusInfo) -> Adjacency:
    table = sort_edges(table)
    if not is_undirected(table):
        raise StageError(
            f"{info.name} has directed edges, but backbones need undirected graphs. Store every "
            "edge in both directions."
        )
    src, dst = global_edges(table)
    return adjacency_from_edges(src, dst, table.total_nodes)


def _features(table: GraphTable, info: CorpusInfo) -> Array | csr_matrix:
    return node_features(table, info).astype(np.float32)


def read_node_training_data(
    corpus: Corpus,
    origins: Sequence[str] | None,
    algorithm: str,
    held_out_splits: Sequence[str] = HELD_OUT,
) -> NodeTrainingData:
    """Read source graphs and replicas of some origins, or of all if None; check the labels.

    Labels of nodes in neither ``train`` nor the given held-out splits become missing.
    """
    info = corpus.info
    table = _read_table(corpus, ("node_y", "provenance.parents", "graph_id"))
    source = _source_graphs(table, info)
    graphs = _node_graphs(source, info)
    labelled_splits = [SPLITS.index(split) for split in ("train", *held_out_splits)]
    graphs.y[~np.isin(graphs.split, labelled_splits)] = np.nan
    in_train = graphs.split == SPLITS.index("train")
    if not in_train.any():
        raise StageError(f"{info.name} has no `train` split. Prepare it with training nodes.")
    train = np.flatnonzero(in_train & (~np.isnan(graphs.y)).any(axis=1))
    if not len(train):
        raise StageError(f"{info.name} has no labelled training nodes. Add labels to them.")
    if len(np.unique(graphs.y[train], axis=0)) < 2:
        raise StageError(
            f"all training nodes of {info.name} have the same label. Add nodes of another label."
        )
    variants = _variants(table, source, graphs, train, info, origins)
    env_ids = np.concatenate([variant.env for variant in variants])
    env, num_envs = renumber_environments(env_ids, algorithm, "nodes")
    held_out = {}
    for split in held_out_splits:
        nodes = np.flatnonzero(graphs.split == SPLITS.index(split))
        if len(nodes):
            held_out[split] = nodes
            check_metric(info, split, graphs.y[nodes], "nodes")
    return NodeTrainingData(
        task=info.task,
        metric=info.metric,
        graphs=graphs,
        variants=variants,
        env=env,
        num_envs=num_envs,
        held_out=held_out,
    )


def _variants(
    table: GraphTable,
    source: GraphTable,
    graphs: NodeGraphs,
    train: Ints,
    info: CorpusInfo,
    origins: Sequence[str] | None,
) -> tuple[GraphVariant, ...]:
    """Return the source graph and its replicas, restricted to ``origins``."""
    variants = []
    if origins is None or "source" in origins:
        variants.append(GraphVariant(graphs.adjacency, graphs.features, train, graphs.env[train]))
    codes = {ORIGINS.index(origin) for origin in origins or ORIGINS} - {ORIGINS.index("source")}
    replicas = table.filter(np.isin(table.dense("graph", "origin"), sorted(codes)))
    parents = replicas.lists("graph", "provenance.parents")
    for rows in _replica_rows(replicas, parents.values, source.dense("graph", "graph_id"), info):
        replica = replicas.take(rows)
        env = replica.dense("node", "node_env_id").astype(np.int64)[train]
        same_edges = shares_parent_edges(replica).all()
        adjacency = graphs.adjacency if same_edges else _adjacency(replica, info)
        variants.append(GraphVariant(adjacency, _features(replica, info), train, env))
    if not variants:
        raise StageError(
            f"{info.name} has no nodes of origin {', '.join(origins or ())}. `gsx show` lists its "
            "origins."
        )
    return tuple(variants)


def _replica_rows(
    table: GraphTable, parents: Ints, source_ids: Ints, info: CorpusInfo
) -> list[Ints]:
    """Return the rows of each replica of the whole source, in the order of the source graphs."""
    if not len(table):
        return []
    count, remainder = divmod(len(table), len(source_ids))
    rows = [np.flatnonzero(parents == source_id) for source_id in source_ids]
    if len(parents) != len(table) or remainder or any(len(replicas) != count for replicas in rows):
        raise StageError(
            f"{info.name} has {len(table)} replicas of {len(source_ids)} graphs, not equally many "
            "per graph. Generate it again."
        )
    return list(np.stack(rows, axis=1))


def node_backbone_shape(info: CorpusInfo, width: int, layers: int) -> BackboneShape:
    """Return the shape of a GCN for the nodes of a corpus; reject features it does not support."""
    columns = {column.name: column for column in info.columns}
    if "edge_attr" in columns:
        raise StageError(
            f"{info.name} has edge features, which `gcn` does not support. Remove them."
        )
    if not info.sparse and columns["node_feat"].features:
        raise StageError(
            f"{info.name} has categorical node features, but `gcn` needs numeric ones. Encode "
            "them one-hot."
        )
    return BackboneShape(
        backbone="gcn",
        features=info.num_features,
        width=width,
        layers=layers,
        outputs=len(info.outputs),
    )


def whole_graph_batch(graphs: NodeGraphs, nodes: Ints, device: torch.device) -> NodeBatch:
    """Return the whole graph as a batch that predicts the labels of ``nodes``."""
    return _batch(graphs.features, gcn_matrix(graphs.adjacency), nodes, device)


def _batch(
    features: Array | csr_matrix,
    matrix: csr_matrix,
    nodes: Ints,
    device: torch.device,
    sample: SampledSubgraph | None = None,
) -> NodeBatch:
    rows = features if isinstance(features, csr_matrix) else torch.from_numpy(features)
    return build_node_batch(rows, matrix, torch.from_numpy(nodes), device, sample)


class NodeSampler:
    """GraphSAINT random-walk samples of the training graph."""

    def __init__(
        self,
        data: NodeTrainingData,
        *,
        walks: int,
        length: int,
        steps: int,
        coverage: float,
        seed: int,
        device: torch.device,
    ) -> None:
        self.data, self.walks, self.length, self.steps = data, walks, length, steps
        self.seed, self.device = seed, device
        graphs = data.graphs
        self.norms = self._estimate_norms(coverage)
        """Normalization of every variant."""
        self.y = graphs.y[data.train]
        labels = (~np.isnan(self.y)).sum(axis=1) if data.task != "classification" else 1
        pairs = zip(self.norms, data.variants, strict=True)
        node_norm = np.concatenate([norms.node[variant.train] for norms, variant in pairs])
        self.weight = (node_norm * labels).astype(np.float32)
        """``[T]`` weight of every training node in the loss."""
        self._row = np.full((len(data.variants), graphs.adjacency.num_nodes), -1, dtype=np.int64)
        """``[V, N]`` row of each node among all training nodes; -1 for other nodes."""
        first = 0
        for number, variant in enumerate(data.variants):
            self._row[number, variant.train] = first + np.arange(len(variant.train))
            first += len(variant.train)

    def _estimate_norms(self, coverage: float) -> list[SamplingNorms]:
        """Estimate sampling probabilities, once per distinct adjacency."""

        def stream(number: int) -> np.random.Generator:
            return rng(self.seed, "train", "coverage", number)

        norms: dict[int, SamplingNorms] = {}
        for adjacency in (variant.adjacency for variant in self.data.variants):
            if id(adjacency) not in norms:
                norms[id(adjacency)] = estimate_norms(
                    adjacency, self.walks, self.length, coverage, stream
                )
        return [norms[id(variant.adjacency)] for variant in self.data.variants]

    def __len__(self) -> int:
        """Return the number of training nodes of all variants."""
        return len(self.data.train)

    def draw(self, epoch: int, step: int) -> tuple[Ints, NodeBatch]:
        """Return one sample: the rows of its training nodes, and the batch."""
        variants = self.data.variants
        # Names of random streams are part of the results: they stay as they are.
        number = int(rng(self.seed, "train", "sheet", epoch, step).integers(len(variants)))
        variant, norms = variants[number], self.norms[number]
        for attempt in range(MAX_ATTEMPTS):
            stream = rng(self.seed, "train", "sample", epoch, step, attempt)
            nodes = sample_nodes(variant.adjacency, self.walks, self.length, stream)
            rows = self._row[number, nodes]
            labelled = np.flatnonzero(rows >= 0)
            if len(labelled) > 1:
                break
        else:
            raise StageError(
                f"{MAX_ATTEMPTS} samples of {self.walks} walks contain fewer than two training "
                "nodes. Increase `batch_size`, the number of walks."
            )
        adjacency, edges = induced_adjacency(variant.adjacency, nodes)
        weight = norms.edge[edges]
        size = (len(nodes), len(nodes))
        sample = SampledSubgraph(
            nodes,
            csr_matrix((weight, adjacency.columns, adjacency.ptr), shape=size),
            norms.node[nodes].astype(np.float32),
        )
        matrix = gcn_matrix(adjacency, weight)
        features = variant.features[nodes]
        return rows[labelled], _batch(features, matrix, labelled, self.device, sample)


class NodeEvaluator:
    """Computes the metric of every held-out split on the whole graph."""

    def __init__(self, data: NodeTrainingData, device: torch.device) -> None:
        self.data = data
        held_out = list(data.held_out.values())
        self.nodes = np.concatenate(held_out) if held_out else np.zeros(0, dtype=np.int64)
        self.batch = whole_graph_batch(data.graphs, self.nodes, device)

    def scores(self, network: GCN, epoch: int) -> dict[str, float]:
        """Return the score of every split; raise a ``DivergedError`` for non-finite outputs."""
        logits = node_logits(network, self.batch)
        require_finite_logits(logits, epoch)
        scores, start = {}, 0
        data = self.data
        for split, nodes in data.held_out.items():
            split_logits = logits[start : start + len(nodes)]
            start += len(nodes)
            value = score(data.metric, data.task, split_logits, data.graphs.y[nodes])
            assert value is not None  # check_metric rejects such splits before training
            scores[split] = value
        return scores


@torch.no_grad()
def node_logits(network: GCN, batch: NodeBatch) -> Array:
    """Return the logits ``[M, C]`` of the nodes whose labels a batch predicts."""
    network.eval()
    logits: Array = network(batch)[1].cpu().numpy()
    return logits
