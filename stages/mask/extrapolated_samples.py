"""Batches of training samples with extrapolated features, on which the paper's mask is trained.

Samples are training graphs, or training nodes for corpora with node labels. Held-out nodes are not
read, so messages pass between training nodes only.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass

import numpy as np
from scipy.sparse import csr_matrix, diags_array, eye_array, vstack

from gsx.errors import StageError
from gsx.ragged import Array, Ints, pointers, row_indices
from gsx.ragged import ranges as consecutive
from gsx.schema import ORIGINS, SPLITS, CorpusInfo
from gsx.seeds import rng
from gsx.stages.graphs.feature_variance import FeatureRanges, Floats, Partners
from gsx.stages.graphs.feature_wrapping import wrap
from gsx.stages.graphs.graphsaint import (
    Adjacency,
    adjacency_from_edges,
    induced_adjacency,
    random_walks,
)
from gsx.stages.graphs.node_features import COLUMNS, Features, node_features
from gsx.stages.graphs.subgraphs import global_edges
from gsx.storage.corpora.corpus import Corpus
from gsx.table import GraphTable

GAMMA_SHAPE, GAMMA_SCALE = 2.0, 0.5
"""Distribution of λ: the defaults of `gsx generate`."""
BATCH_GRAPHS, BATCH_NODES = 64, 256
"""Samples per batch; for nodes, random walks."""
WALK_LENGTH = 2


@dataclass(frozen=True, slots=True, eq=False)
class SampledBatch:
    """A batch of samples, with features before and after extrapolation of all features."""

    own: Floats
    """``[N, F]`` node features."""
    moved: Floats
    """``[N, F]`` extrapolated node features."""
    neighbors: csr_matrix
    """``[N, N]`` sum (graphs) or mean (nodes) over a node and its neighbors."""
    readout: csr_matrix
    """``[B, N]`` mean over the nodes of each sample."""
    label: Ints
    """``[B]``."""


@dataclass(frozen=True, slots=True, eq=False, kw_only=True)
class TrainingSamples:
    """Training nodes of all samples, their edges, and partners for extrapolation."""

    features: Features
    """``[N, F]`` features of training nodes."""
    adjacency: Adjacency
    """Edges between training nodes."""
    ptr: Ints
    """``[S + 1]`` offsets of the nodes of each sample."""
    label: Ints
    """``[S]`` classes, numbered from 0 without gaps."""
    env: Ints
    """``[S]``."""
    partners: Partners
    eligible: Ints
    """Samples that have a partner."""
    are_nodes: bool

    @property
    def num_classes(self) -> int:
        """Number of classes."""
        return int(self.label.max()) + 1

    def draw(self, stream: np.random.Generator, feature_ranges: FeatureRanges) -> SampledBatch:
        """Draw a batch in which every sample with a partner is extrapolated."""
        size = min(BATCH_NODES if self.are_nodes else BATCH_GRAPHS, len(self.eligible))
        rows = stream.choice(self.eligible, size, replace=False)
        if self.are_nodes:
            # Short random walks add a part of the neighborhood.
            rows = np.unique(random_walks(self.adjacency, rows, WALK_LENGTH, stream))
        partner = self.partners.draw(self.label[rows], self.env[rows], stream)
        has_partner = partner >= 0
        partner = np.where(has_partner, partner, rows)
        partner_sizes = self.ptr[partner + 1] - self.ptr[partner]
        partner_node = self.ptr[partner] + (stream.random(len(rows)) * partner_sizes).astype(int)
        strength = stream.gamma(GAMMA_SHAPE, GAMMA_SCALE, len(rows))
        sizes = self.ptr[rows + 1] - self.ptr[rows]
        nodes, sample = consecutive(self.ptr[rows], sizes), np.arange(len(rows)).repeat(sizes)
        own, other = self._dense(nodes), self._dense(partner_node)[sample]
        moved = wrap_rows(own + strength[sample, None] * (own - other), feature_ranges)
        moved = np.where(has_partner[sample, None], moved, own)
        mean = csr_matrix(
            (1 / sizes[sample], (sample, np.arange(len(nodes)))), shape=(len(rows), len(nodes))
        )
        return SampledBatch(
            own=own,
            moved=moved,
            neighbors=self._neighbors(nodes),
            readout=mean[has_partner],
            label=self.label[rows][has_partner],
        )

    def _dense(self, nodes: Ints) -> Floats:
        rows = self.features[nodes]
        values = rows.toarray() if isinstance(rows, csr_matrix) else rows
        return np.asarray(values, dtype=np.float64)

    def _neighbors(self, nodes: Ints) -> csr_matrix:
        inside, _ = induced_adjacency(self.adjacency, nodes)
        size = len(nodes)
        links = csr_matrix((np.ones(len(inside.columns)), inside.columns, inside.ptr), (size, size))
        sums = csr_matrix(links + eye_array(size, format="csr"))
        if not self.are_nodes:
            return sums
        return csr_matrix(diags_array(1 / np.asarray(sums.sum(axis=1)).ravel()) @ sums)


def wrap_rows(rows: Floats, feature_ranges: FeatureRanges) -> Floats:
    """Return feature rows ``[n, F]`` wrapped into the ranges of the features."""
    bounds = (
        np.broadcast_to(values, rows.shape).ravel()
        for values in (feature_ranges.low, feature_ranges.high, feature_ranges.step)
    )
    return wrap(rows.ravel(), *bounds).reshape(rows.shape)


@dataclass(frozen=True, slots=True, eq=False)
class _Part:
    """Samples of one table; edges are numbered within it."""

    features: Features
    sizes: Ints
    label: Ints
    env: Ints
    src: Ints
    dst: Ints


def read_training_samples(corpus: Corpus, *, seed: int, max_samples: int) -> TrainingSamples:
    """Read training samples that have a label and an environment.

    Of training graphs, about ``max_samples`` are kept at random; of training nodes all.
    """
    info = corpus.info
    are_nodes = info.level == "node"
    share = 1.0 if are_nodes else max_samples / max(corpus.splits.get("train", 0), 1)
    parts = list(_iter_parts(corpus, share, seed))
    sizes, label, env = (
        np.concatenate([getattr(part, name) for part in parts])
        for name in ("sizes", "label", "env")
    )
    offsets = pointers([part.features.shape[0] for part in parts])[:-1]
    src, dst = (
        np.concatenate(
            [getattr(part, end) + start for part, start in zip(parts, offsets, strict=True)]
        )
        for end in ("src", "dst")
    )
    order = np.lexsort((dst, src))
    label = np.unique(label, return_inverse=True)[1]
    partners = Partners.of(label, env)
    eligible = np.flatnonzero(partners.count(label, env) > 0)
    if not len(eligible):
        raise StageError(
            f"no training {info.level} of {info.name} has a partner with its label in another "
            "environment. Prepare the corpus with environments, or use `--mask-rule search`."
        )
    return TrainingSamples(
        features=_stack([part.features for part in parts]),
        adjacency=adjacency_from_edges(src[order], dst[order], int(sizes.sum())),
        ptr=pointers(sizes),
        label=label,
        env=env,
        partners=partners,
        eligible=eligible,
        are_nodes=are_nodes,
    )


def _iter_parts(corpus: Corpus, share: float, seed: int) -> Iterator[_Part]:
    info, are_nodes = corpus.info, corpus.info.level == "node"
    prefix = "node_" if are_nodes else ""
    available = {column.name for column in info.columns}
    names = {"origin", f"{prefix}label", f"{prefix}env_id", "node_split"} | COLUMNS
    split = None if are_nodes else "train"
    tables = corpus.iter_tables(split=split, columns=sorted(names & available))
    for number, table in enumerate(tables):
        if are_nodes:
            yield _training_nodes(table, info)
        else:
            kept = rng(seed, "mask", "paper", "samples", number).random(len(table)) < share
            yield _training_graphs(table, info, kept)


def _training_nodes(table: GraphTable, info: CorpusInfo) -> _Part:
    is_source = table.dense("graph", "origin") == ORIGINS.index("source")
    label, env, split = (
        table.dense("node", name) for name in ("node_label", "node_env_id", "node_split")
    )
    usable = is_source[row_indices(table.node_ptr)] & (split == SPLITS.index("train"))
    nodes = np.flatnonzero(usable & (label >= 0) & (env >= 0))
    position = np.full(table.total_nodes, -1, dtype=np.int64)
    position[nodes] = np.arange(len(nodes))
    src, dst = (position[ends] for ends in global_edges(table))
    inside = (src >= 0) & (dst >= 0)
    return _Part(
        features=node_features(table, info)[nodes],
        sizes=np.ones(len(nodes), dtype=np.int64),
        label=label[nodes].astype(np.int64),
        env=env[nodes].astype(np.int64),
        src=src[inside],
        dst=dst[inside],
    )


def _training_graphs(table: GraphTable, info: CorpusInfo, kept: Array) -> _Part:
    is_source = table.dense("graph", "origin") == ORIGINS.index("source")
    label, env = (table.dense("graph", name) for name in ("label", "env_id"))
    table = table.filter(kept & is_source & (label >= 0) & (env >= 0) & (table.num_nodes > 0))
    label, env = (table.dense("graph", name).astype(np.int64) for name in ("label", "env_id"))
    src, dst = global_edges(table)
    return _Part(node_features(table, info), table.num_nodes, label, env, src, dst)


def _stack(features: list[Features]) -> Features:
    if isinstance(features[0], csr_matrix):
        return csr_matrix(vstack(features))
    return np.concatenate(features)
