"""Statistics of every feature over the training data, computed in one pass.

Samples are training graphs, or training nodes for corpora with node labels. Variances are those of
node features. The sample of a graph is the mean over its nodes.
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
    """Features, labels and environments of samples."""

    features: Features
    """``[n, F]``."""
    label: Ints
    env: Ints

    def __len__(self) -> int:
        return len(self.label)


@dataclass(frozen=True, slots=True, eq=False, kw_only=True)
class FeatureStatistics:
    """Statistics of features over all training data."""

    within_labels: Floats
    """``[F]`` fraction of the variance within labels."""
    within_environments: Floats
    """``[F]`` fraction of the variance within environments."""
    label_variance: Floats
    """``[F]`` variance within labels, in squared units of the feature."""
    environment_variance: Floats
    """``[F]`` variance within environments."""
    mean: Floats
    std: Floats
    """``[F]`` standard deviation; 0 for constant features."""
    ranges: FeatureRanges
    samples: Samples
    """Random subset of the samples."""
    num_samples: int
    """Number of all samples."""
    num_classes: int
    num_environments: int


@dataclass(frozen=True, slots=True, eq=False)
class _TrainingRows:
    """Training rows of one table of a corpus."""

    features: Features
    label: Ints
    env: Ints
    sample: Ints
    """``[n]`` sample of each row, numbered within the table."""


def compute_feature_statistics(corpus: Corpus, *, seed: int, max_samples: int) -> FeatureStatistics:
    """Read the training data of a corpus once.

    About ``max_samples`` random samples are kept; variances are those of all samples.
    """
    info = corpus.info
    _require_classes(info)
    width, classes = info.num_features, len(info.outputs) if info.task == "classification" else 2
    by_label, whole = Moments.empty(classes, width), Moments.empty(1, width)
    by_env = Moments.empty(max(len(info.environments), 1), width)
    ranges: FeatureRanges | None = None
    kept: list[Samples] = []
    share = min(1.0, max_samples / max(_num_training_samples(corpus), 1))
    total = 0
    for number, rows in enumerate(_iter_training_rows(corpus)):
        require_finite(rows.features, info.name)
        by_label = by_label.updated(rows.features, rows.label)
        by_env = by_env.updated(rows.features, rows.env)
        whole = whole.updated(rows.features, np.zeros(len(rows.label), dtype=np.int64))
        table_ranges = infer_feature_ranges(rows.features)
        ranges = table_ranges if ranges is None else merge_feature_ranges(ranges, table_ranges)
        samples = _samples_from_rows(rows)
        total += len(samples)
        stream = rng(seed, "mask", "samples", number)
        kept.append(_take(samples, np.flatnonzero(stream.random(len(samples)) < share)))
    _require_groups(info, by_label, by_env)
    assert ranges is not None  # there are groups, so there were rows
    std = np.sqrt(whole.squares[0] / max(whole.count[0] - 1, 1))
    if not std.any():
        raise StageError(
            f"all {width} features of {info.name} are constant over its training data, so there is "
            "nothing to extrapolate. Omit --featx."
        )
    return FeatureStatistics(
        within_labels=within_group_variance_share(by_label, whole),
        within_environments=within_group_variance_share(by_env, whole),
        label_variance=by_label.within(),
        environment_variance=by_env.within(),
        mean=whole.mean[0],
        std=std,
        ranges=_with_vocabulary_ranges(ranges, info),
        samples=_concat_samples(kept),
        num_samples=total,
        num_classes=int((by_label.count > 0).sum()),
        num_environments=int((by_env.count > 0).sum()),
    )


def _iter_training_rows(corpus: Corpus) -> Iterator[_TrainingRows]:
    """Yield the training rows of source graphs that have a label and an environment."""
    info, nodes = corpus.info, corpus.info.level == "node"
    prefix = "node_" if nodes else ""
    available = {column.name for column in info.columns}
    columns = {"origin", f"{prefix}label", f"{prefix}env_id", "node_split"} | COLUMNS
    split = None if nodes else "train"
    if split is not None and split not in corpus.splits:
        raise StageError(
            f"{info.name} has no `train` graphs. Prepare the corpus with a `train` split."
        )
    for table in corpus.iter_tables(split=split, columns=sorted(columns & available)):
        rows = _training_rows(table, info, prefix)
        if len(rows.label):
            yield rows


def _training_rows(table: GraphTable, info: CorpusInfo, prefix: str) -> _TrainingRows:
    graph = row_indices(table.node_ptr)
    is_source = (table.dense("graph", "origin") == ORIGINS.index("source"))[graph]
    if prefix:
        label, env = table.dense("node", "node_label"), table.dense("node", "node_env_id")
        usable = is_source & (table.dense("node", "node_split") == SPLITS.index("train"))
        sample = np.arange(table.total_nodes)
    else:
        label, env = (table.dense("graph", name)[graph] for name in ("label", "env_id"))
        usable, sample = is_source, graph
    rows = np.flatnonzero(usable & (label >= 0) & (env >= 0))
    features = node_features(table, info)[rows]
    numbers = np.unique(sample[rows], return_inverse=True)[1]
    return _TrainingRows(
        features, label[rows].astype(np.int64), env[rows].astype(np.int64), numbers
    )


def _samples_from_rows(rows: _TrainingRows) -> Samples:
    """Return one row per sample: a node, or the mean over the nodes of a graph."""
    num_rows = len(rows.sample)
    first = np.unique(rows.sample, return_index=True)[1]
    if len(first) == num_rows:
        return Samples(rows.features, rows.label, rows.env)
    size = np.bincount(rows.sample)
    mean = csr_matrix(
        (1 / size[rows.sample], rows.sample, np.arange(num_rows + 1)),
        shape=(num_rows, len(first)),
    ).T.tocsr()
    return Samples(mean @ rows.features, rows.label[first], rows.env[first])


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


def _with_vocabulary_ranges(ranges: FeatureRanges, info: CorpusInfo) -> FeatureRanges:
    """Return the ranges of categorical features: all their categories."""
    features = None if info.sparse else info.column("node_feat").features
    if not features:
        return ranges
    high = np.array([len(feature.words) - 1 for feature in features], dtype=np.float64)
    return FeatureRanges(np.zeros(len(high)), high, np.where(high > 0, 1.0, 0.0))


def require_finite(features: Features, name: str) -> None:
    """Reject features that are NaN or infinite."""
    values = features.data if isinstance(features, csr_matrix) else features
    if not np.isfinite(values).all():
        raise StageError(
            f"{name} has training features that are NaN or infinite. Clean the source data; gsx "
            "does not impute features."
        )


def _require_classes(info: CorpusInfo) -> None:
    if info.task == "classification" or (info.task == "binary" and len(info.outputs) == 1):
        return
    raise StageError(
        f"{info.name} has the task {info.task}, but a mask compares samples of the same class. Use "
        "a corpus with one class label."
    )


def _require_groups(info: CorpusInfo, by_label: Moments, by_env: Moments) -> None:
    """Reject training data with fewer than two labels or environments."""
    labels, envs = (int((groups.count > 0).sum()) for groups in (by_label, by_env))
    if not labels:
        raise StageError(
            f"no training {info.level} of {info.name} has a label and an environment. Prepare the "
            "corpus with environments."
        )
    if labels < 2:
        raise StageError(
            f"all training {info.level}s of {info.name} have one label, so causal features cannot "
            "be identified. Prepare the corpus with at least two labels."
        )
    if envs < 2:
        raise StageError(
            f"all training {info.level}s of {info.name} have one environment, so "
            "environment-dependent features cannot be identified. Prepare the corpus with "
            "environments."
        )
