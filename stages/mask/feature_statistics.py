"""What training data says of every feature, gathered in one pass over it.

Samples are training graphs, or training nodes where nodes have labels. Variances are those of
features of nodes; of a graph, what a network is shown is the mean over its nodes.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass

import numpy as np
from scipy.sparse import csr_matrix, vstack

from gsx.errors import StageError
from gsx.ragged import Ints, row_indices
from gsx.schema import ORIGINS, SPLITS, CorpusInfo
from gsx.seeds import rng
from gsx.stages.graphs.feature_variance import (
    FeatureRanges,
    Floats,
    Moments,
    infer_feature_ranges,
    merge_feature_ranges,
    within_group_variance_share,
)
from gsx.stages.graphs.node_features import COLUMNS, Features, node_features
from gsx.storage.corpora.corpus import Corpus
from gsx.table import GraphTable


@dataclass(frozen=True, slots=True, eq=False)
class Samples:
    """Samples with what a network may see of them."""

    features: Features
    """``[n, F]``."""
    label: Ints
    env: Ints

    def __len__(self) -> int:
        return len(self.label)


@dataclass(frozen=True, slots=True, eq=False, kw_only=True)
class FeatureStatistics:
    """What features are like, over all training data."""

    in_labels: Floats
    """``[F]`` share of the variance that is left inside labels."""
    in_envs: Floats
    """``[F]`` the same inside environments."""
    mean: Floats
    std: Floats
    """``[F]`` standard deviation; 0 for a feature that never varies."""
    domains: FeatureRanges
    samples: Samples
    """Some samples, at random."""
    total: int
    """Samples there are."""
    classes: int
    envs: int


@dataclass(frozen=True, slots=True, eq=False)
class _TrainingRows:
    """Training rows of one part of a corpus."""

    features: Features
    label: Ints
    env: Ints
    sample: Ints
    """``[n]`` number of the sample every row belongs to, in the part."""


def compute_feature_statistics(corpus: Corpus, *, seed: int, most: int) -> FeatureStatistics:
    """Read the training data of a corpus once; ``most`` bounds the samples that are kept."""
    info = corpus.info
    _require_classes(info)
    width, classes = info.num_features, len(info.outputs) if info.task == "classification" else 2
    by_label, whole = Moments.empty(classes, width), Moments.empty(1, width)
    by_env = Moments.empty(max(len(info.environments), 1), width)
    domains: FeatureRanges | None = None
    kept: list[Samples] = []
    share = min(1.0, most / max(_num_training_samples(corpus), 1))
    total = 0
    for number, part in enumerate(_iter_training_rows(corpus)):
        require_finite(part.features, info.name)
        by_label = by_label.updated(part.features, part.label)
        by_env = by_env.updated(part.features, part.env)
        whole = whole.updated(part.features, np.zeros(len(part.label), dtype=np.int64))
        found = infer_feature_ranges(part.features)
        domains = found if domains is None else merge_feature_ranges(domains, found)
        samples = _samples_from_rows(part)
        total += len(samples)
        stream = rng(seed, "mask", "samples", number)
        kept.append(_take(samples, np.flatnonzero(stream.random(len(samples)) < share)))
    _require_groups(info, by_label, by_env)
    assert domains is not None  # there are groups, so there were rows
    spread = np.sqrt(whole.squares[0] / max(whole.count[0] - 1, 1))
    if not spread.any():
        raise StageError(
            f"all {width} features of {info.name} are constant over its training data: nothing to "
            "extrapolate. Leave FeatX out."
        )
    return FeatureStatistics(
        in_labels=within_group_variance_share(by_label, whole),
        in_envs=within_group_variance_share(by_env, whole),
        mean=whole.mean[0],
        std=spread,
        domains=_with_vocabulary_ranges(domains, info),
        samples=_concat_samples(kept),
        total=total,
        classes=int((by_label.count > 0).sum()),
        envs=int((by_env.count > 0).sum()),
    )


def _iter_training_rows(corpus: Corpus) -> Iterator[_TrainingRows]:
    """Yield the training rows of source graphs that have a label and an environment."""
    info, nodes = corpus.info, corpus.info.level == "node"
    prefix = "node_" if nodes else ""
    known = {column.name for column in info.columns}
    wanted = {"origin", f"{prefix}label", f"{prefix}env_id", "node_split"} | COLUMNS
    split = None if nodes else "train"
    if split is not None and split not in corpus.splits:
        raise StageError(f"{info.name} has no `train` graphs; prepare it with that split.")
    for table in corpus.iter_tables(split=split, columns=sorted(wanted & known)):
        part = _training_rows(table, info, prefix)
        if len(part.label):
            yield part


def _training_rows(table: GraphTable, info: CorpusInfo, prefix: str) -> _TrainingRows:
    graph = row_indices(table.node_ptr)
    source = (table.dense("graph", "origin") == ORIGINS.index("source"))[graph]
    if prefix:
        label, env = table.dense("node", "node_label"), table.dense("node", "node_env_id")
        usable = source & (table.dense("node", "node_split") == SPLITS.index("train"))
        sample = np.arange(table.total_nodes)
    else:
        label, env = (table.dense("graph", name)[graph] for name in ("label", "env_id"))
        usable, sample = source, graph
    rows = np.flatnonzero(usable & (label >= 0) & (env >= 0))
    features = node_features(table, info)[rows]
    numbers = np.unique(sample[rows], return_inverse=True)[1]
    return _TrainingRows(features, label[rows].astype(np.int64), env[rows].astype(np.int64), numbers)


def _samples_from_rows(part: _TrainingRows) -> Samples:
    """Return one row per sample: a node, or the mean over the nodes of a graph."""
    rows = len(part.sample)
    first = np.unique(part.sample, return_index=True)[1]
    if len(first) == rows:
        return Samples(part.features, part.label, part.env)
    size = np.bincount(part.sample)
    mean = csr_matrix(
        (1 / size[part.sample], part.sample, np.arange(rows + 1)), shape=(rows, len(first))
    ).T.tocsr()
    return Samples(mean @ part.features, part.label[first], part.env[first])


def _take(samples: Samples, rows: Ints) -> Samples:
    return Samples(samples.features[rows], samples.label[rows], samples.env[rows])


def _concat_samples(parts: list[Samples]) -> Samples:
    features = [part.features for part in parts]
    stacked: Features
    if isinstance(features[0], csr_matrix):
        stacked = csr_matrix(vstack(features))
    else:
        stacked = np.concatenate(features)
    label = np.concatenate([part.label for part in parts])
    return Samples(stacked, label, np.concatenate([part.env for part in parts]))


def _num_training_samples(corpus: Corpus) -> int:
    return (corpus.nodes or corpus.splits).get("train", 0)


def _with_vocabulary_ranges(domains: FeatureRanges, info: CorpusInfo) -> FeatureRanges:
    """Give features whose values are words all their words as domain."""
    words = None if info.sparse else info.column("node_feat").features
    if not words:
        return domains
    high = np.array([len(feature.words) - 1 for feature in words], dtype=np.float64)
    return FeatureRanges(np.zeros(len(high)), high, np.where(high > 0, 1.0, 0.0))


def require_finite(features: Features, where: str) -> None:
    """Refuse features that are no numbers."""
    values = features.data if isinstance(features, csr_matrix) else features
    if not np.isfinite(values).all():
        raise StageError(
            f"{where} has training features that are NaN or infinite. Clean the source data; gsx "
            "does not guess features."
        )


def _require_classes(info: CorpusInfo) -> None:
    if info.task == "classification" or (info.task == "binary" and len(info.outputs) == 1):
        return
    raise StageError(
        f"{info.name} is {info.task}; a mask compares samples of one class, and needs one label "
        "of classes."
    )


def _require_groups(info: CorpusInfo, by_label: Moments, by_env: Moments) -> None:
    """Refuse training data that does not vary in what is compared."""
    labels, envs = (int((groups.count > 0).sum()) for groups in (by_label, by_env))
    if not labels:
        raise StageError(
            f"no training {info.level} of {info.name} has a label and an environment; prepare it "
            "with environments."
        )
    if labels < 2:
        raise StageError(
            f"all training {info.level}s of {info.name} have one label: no feature can be told to "
            "make it."
        )
    if envs < 2:
        raise StageError(
            f"all training {info.level}s of {info.name} have one environment: no feature can be "
            "told to vary with it. Prepare the corpus with environments."
        )
