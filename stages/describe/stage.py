"""The stage `describe`: statistics of every split and environment, and the shift between splits."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass
from typing import Any

import msgspec
import numpy as np

from gsx.ragged import Array, Ints, row_indices
from gsx.schema import ORIGINS, SPLITS, CorpusInfo
from gsx.stages.describe.node_shift import node_report, node_warnings
from gsx.stages.describe.shift import count_repeated, no_shift_warnings, shift_distance
from gsx.stages.describe.statistics_file import STATISTICS, STATISTICS_FILE
from gsx.stages.graphs.statistics import (
    QUANTILES,
    degrees,
    mean_degrees,
    share_outside,
    summary_statistics,
)
from gsx.stages.graphs.wl_hash import wl_hashes
from gsx.stages.stage import Progress, Stage
from gsx.storage.artifacts.digest import readable_json
from gsx.storage.artifacts.draft import Draft
from gsx.storage.artifacts.publish import StageResult
from gsx.storage.artifacts.store import Artifact
from gsx.storage.corpora.corpus import Corpus
from gsx.storage.corpora.split_warnings import (
    label_shift_warnings,
    small_split_warnings,
    small_task_warnings,
)
from gsx.storage.corpora.target_statistics import (
    has_target_values,
    target_groups,
    target_values,
)
from gsx.table import GraphTable

SIZE_DOMAINS = ("size", "length", "size-color")
"""Domains that shift the number of nodes."""
MIN_REPORTED_SHARE = 0.01
"""Smallest share of graphs equal to training graphs that gives a warning."""
_SHOWN_FEATURES = 16
_LISTED_DOMAINS = 256
"""Largest number of domains whose names are stored."""


class DescribeConfig(msgspec.Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """Options of ``[describe]``."""


@dataclass(frozen=True, slots=True, eq=False)
class _GraphStatistics:
    """Statistics of every graph, ``[G]`` each."""

    split: Ints
    domain: Ints
    env: Ints
    nodes: Ints
    mean_degree: Array
    max_degree: Ints
    label: Ints
    hash: Array
    labels: Array
    """``[G, C]`` label counts per class."""

    def of(self, rows: Array) -> dict[str, Any]:
        """Summarize a selection of graphs."""
        return {
            "graphs": len(self.nodes[rows]),
            "nodes": summary_statistics(self.nodes[rows]),
            "mean_degree": summary_statistics(self.mean_degree[rows]),
            "max_degree": int(self.max_degree[rows].max(initial=0)),
            "labels": self.labels[rows].sum(axis=0).tolist(),
        }


def run(
    config: DescribeConfig, inputs: Mapping[str, Artifact], draft: Draft, progress: Progress
) -> StageResult:
    """Read the corpus once, row group by row group, and write ``statistics.json``."""
    del config
    corpus = Corpus(inputs["corpus"])
    if corpus.info.level == "node":
        return _describe_nodes(corpus, draft)
    features = _FeatureStatistics(corpus.info)
    graphs = _collect(corpus, features, progress)
    present = [code for code in range(len(SPLITS)) if (graphs.split == code).any()]
    train = graphs.split == SPLITS.index("train")
    rows = [
        {"split": SPLITS[code], "domain_id": domain, **graphs.of(members)}
        for (code, domain), members in _groups(graphs.split, graphs.domain)
    ]
    document = {
        "corpus": corpus.key,
        "quantiles": QUANTILES,
        **_definitions(corpus.info),
        **_targets(corpus),
        "groups": rows,
        "splits": [
            {
                "split": SPLITS[code],
                **graphs.of(np.flatnonzero(graphs.split == code)),
                "features": features.of(code),
            }
            for code in present
        ],
        "environments": [
            {"env_id": env, **graphs.of(members)}
            for (env,), members in _groups(np.where(train, graphs.env, -1))
            if env >= 0
        ],
        "outside_training_sizes": _share_outside_training(graphs, present) if train.any() else {},
        "shift": _shift(graphs, present) if train.any() else {},
        "equal_to_training": (
            _equal_to_training(graphs, _label_codes(corpus, graphs), present) if train.any() else {}
        ),
    }
    draft.write_bytes(STATISTICS, readable_json(document))
    return StageResult(
        counts={"splits": len(present)},
        warnings=(*_split_warnings(corpus), *_warnings(corpus.info, document)),
        summary={
            "name": corpus.info.name,
            **{key: document[key] for key in ("outside_training_sizes", "equal_to_training")},
        },
    )


def _describe_nodes(corpus: Corpus, draft: Draft) -> StageResult:
    """Describe the labelled nodes of the source graphs of a corpus."""
    info = corpus.info
    available = {column.name for column in info.columns}
    wanted = {"origin", "node_feat", "node_feat_index", "node_feat_value", "node_label",
              "node_split", "node_env_id", "node_domain_id"}  # fmt: skip
    table = corpus.table(columns=sorted(available & wanted))
    table = table.filter(table.dense("graph", "origin") == ORIGINS.index("source"))
    classes = len(info.outputs) if info.task == "classification" else 2
    report = node_report(table, classes)
    document = {
        "corpus": corpus.key,
        "quantiles": QUANTILES,
        "level": "node",
        **_definitions(info),
        **_targets(corpus),
        **report,
    }
    draft.write_bytes(STATISTICS, readable_json(document))
    return StageResult(
        counts={"splits": len(report["splits"])},
        warnings=(*_split_warnings(corpus), *node_warnings(report)),
        summary={"name": info.name, "equal_to_training": report["equal_to_training"]},
    )


def _definitions(info: CorpusInfo) -> dict[str, Any]:
    """Return the names that the numbers of the document refer to."""
    columns = {column.name: column for column in info.columns}
    features = columns["node_feat"].value_names if "node_feat" in columns else ()
    return {
        "task": info.task,
        "outputs": info.outputs,
        "domain": info.domain,
        "domains": info.domains if len(info.domains) <= _LISTED_DOMAINS else (),
        "feature_names": features[:_SHOWN_FEATURES],
    }


def _targets(corpus: Corpus) -> dict[str, Any]:
    """Return the statistics of targets per split, unless class counts describe them."""
    if not has_target_values(corpus.info):
        return {}
    groups = target_groups(corpus, by_environment=False)
    return {"targets": {group["split"]: group["targets"] for group in groups}}


def _label_codes(corpus: Corpus, graphs: _GraphStatistics) -> Ints:
    """Return a number per graph that is equal for equal labels."""
    if not has_target_values(corpus.info):
        return graphs.label
    values = np.nan_to_num(target_values(corpus)[2], nan=np.inf)
    return np.unique(values, axis=0, return_inverse=True)[1].reshape(-1)


class _FeatureStatistics:
    """Node feature statistics per split: means, or the share of nodes with unseen categories."""

    def __init__(self, info: CorpusInfo) -> None:
        columns = {column.name: column for column in info.columns}
        column = columns.get("node_feat")
        self.read = column is not None
        self._words = (column.features or ()) if column is not None else ()
        self._in_training = [np.zeros(len(feature.words), dtype=bool) for feature in self._words]
        self._sums: dict[int, Array] = {}

    def add(self, table: GraphTable, code: int) -> None:
        """Add the nodes of graphs of one split; the training split comes first in a corpus."""
        if not self.read:
            return
        values = table.dense("node", "node_feat")
        if self._words:
            if code == SPLITS.index("train"):
                for column, in_training in enumerate(self._in_training):
                    in_training[np.unique(values[:, column])] = True
            new = np.zeros(len(values), dtype=bool)
            for column, in_training in enumerate(self._in_training):
                new |= ~in_training[values[:, column]]
            sums = np.array([len(values), new.sum()], dtype=np.float64)
        else:
            wide = values[:, :_SHOWN_FEATURES].astype(np.float64)
            sums = np.concatenate([[len(wide)], wide.sum(axis=0), (wide**2).sum(axis=0)])
        self._sums[code] = self._sums.get(code, 0) + sums

    def of(self, code: int) -> dict[str, Any]:
        """Return the feature statistics of a split."""
        if code not in self._sums or not self._sums[code][0]:
            return {}
        count, *sums = self._sums[code].tolist()
        if self._words:
            return {"nodes_with_unseen_words": round(sums[0] / count, 6)}
        half = len(sums) // 2
        means = [value / count for value in sums[:half]]
        return {
            "mean": [round(value, 6) for value in means],
            "std": [round(max(square / count - mean**2, 0) ** 0.5, 6)
                    for square, mean in zip(sums[half:], means, strict=True)],
        }  # fmt: skip


def _collect(corpus: Corpus, features: _FeatureStatistics, progress: Progress) -> _GraphStatistics:
    info = corpus.info
    available = {column.name for column in info.columns}
    names = [*("split", "domain_id", "env_id", "label"),
             *(name for name in ("node_feat", "edge_attr") if name in available)]  # fmt: skip
    classes = len(info.outputs) if info.task == "classification" else 2
    blocks: list[tuple[Array, ...]] = []
    done = 0
    for table in corpus.iter_tables(columns=names):
        split = table.dense("graph", "split").astype(np.int64)
        for code in np.unique(split).tolist():
            features.add(table.filter(split == code), code)
        hard = table.dense("graph", "label")
        owner = np.arange(len(table))
        blocks.append(
            (
                split,
                table.dense("graph", "domain_id"),
                table.dense("graph", "env_id"),
                table.num_nodes,
                mean_degrees(table),
                _max_per_graph(degrees(table), table),
                hard,
                wl_hashes(table),
                np.bincount(
                    owner[hard >= 0] * classes + hard[hard >= 0], minlength=len(table) * classes
                ).reshape(len(table), classes),
            )
        )
        done += len(table)
        progress(done, len(corpus))
    if not blocks:
        blocks = [(*[np.zeros(0, dtype=np.int64)] * 8, np.zeros((0, classes), dtype=np.int64))]
    return _GraphStatistics(*map(np.concatenate, zip(*blocks, strict=True)))


def _max_per_graph(values: Ints, table: GraphTable) -> Ints:
    """Return the largest node value of each graph; 0 without nodes."""
    largest = np.zeros(len(table), dtype=np.int64)
    np.maximum.at(largest, row_indices(table.node_ptr), values)
    return largest


def _groups(*columns: Ints) -> Iterator[tuple[tuple[int, ...], Ints]]:
    """Yield every combination of values in order, with its rows."""
    order = np.lexsort(columns[::-1])
    sorted_ = np.stack([column[order] for column in columns], axis=1)
    changes = np.flatnonzero((sorted_[1:] != sorted_[:-1]).any(axis=1)) + 1
    for members in np.split(order, changes) if len(order) else []:
        yield tuple(int(column[members[0]]) for column in columns), members


def _held_out(present: Iterable[int]) -> list[int]:
    return [code for code in present if SPLITS[code] != "train"]


def _share_outside_training(
    graphs: _GraphStatistics, present: list[int]
) -> dict[str, dict[str, float]]:
    """Return, per split, the share of graphs smaller or larger than any training graph."""
    train = graphs.nodes[graphs.split == SPLITS.index("train")]
    return {
        SPLITS[code]: share_outside(graphs.nodes[graphs.split == code], train.min(), train.max())
        for code in _held_out(present)
    }


def _shift(graphs: _GraphStatistics, present: list[int]) -> dict[str, dict[str, Any]]:
    """Return, per split, the distance of its domains and labels from training."""
    shifts = {}
    train = graphs.split == SPLITS.index("train")
    for code in _held_out(present):
        inside = graphs.split == code
        distance = shift_distance(
            (graphs.domain[train], graphs.label[train]),
            (graphs.domain[inside], graphs.label[inside]),
        )
        shifts[SPLITS[code]] = {
            "domains_of_training": round(distance.known_share, 6),
            "distance": round(distance.variation, 6),
            "distance_by_chance": round(distance.chance, 6),
            "none": distance.none,
        }
    return shifts


def _equal_to_training(
    graphs: _GraphStatistics, labels: Ints, present: list[int]
) -> dict[str, dict[str, Any]]:
    """Return, per split, the number of graphs with the hash of a training graph."""
    train = graphs.split == SPLITS.index("train")
    repeated: dict[str, dict[str, Any]] = {}
    for code in _held_out(present):
        inside = graphs.split == code
        count, other = count_repeated(
            graphs.hash[inside], labels[inside], graphs.hash[train], labels[train]
        )
        share = round(count / int(inside.sum()), 6)
        repeated[SPLITS[code]] = {"graphs": count, "share": share, "with_another_label": other}
    return repeated


def _split_warnings(corpus: Corpus) -> Iterator[str]:
    """Yield warnings about small test splits and about domains that predict the class."""
    groups = corpus.summary.get("node_groups", corpus.summary["groups"])
    yield from small_split_warnings(corpus.info, groups)
    yield from label_shift_warnings(corpus.info, groups)
    if corpus.info.task == "multitask":
        split, _, y = target_values(corpus)
        values = {name: y[split == code] for code, name in enumerate(SPLITS)}
        yield from small_task_warnings(corpus.info, values)


def _warnings(info: CorpusInfo, document: Mapping[str, Any]) -> Iterator[str]:
    for row in document["environments"]:
        if info.task in ("classification", "binary") and sum(map(bool, row["labels"])) == 1:
            yield f"environment {row['env_id']} has training graphs of one class only"
    for split, share in document["outside_training_sizes"].items():
        alike = share["below"] + share["above"] == 0
        if info.domain in SIZE_DOMAINS and split.startswith("ood") and alike:
            yield f"no graph of {split} is larger or smaller than the training graphs"
    yield from no_shift_warnings(document["shift"])
    for split, same in document["equal_to_training"].items():
        if same["share"] >= MIN_REPORTED_SHARE:
            yield (
                f"{same['graphs']:,} graphs of {split} ({same['share']:.1%}) equal a training "
                f"graph, {same['with_another_label']:,} of them with another label"
            )


STAGE = Stage(
    module=__name__,
    name="describe",
    version=4,
    kind="statistics",
    config=DescribeConfig,
    json_files=lambda: {STATISTICS: STATISTICS_FILE},
    inputs={"corpus": "prepare"},
    resolve=lambda config: config,
    run=run,
)
