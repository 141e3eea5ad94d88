"""Statistics and shift of labelled nodes, per split and environment."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from itertools import combinations
from typing import Any

import numpy as np

from gsx.ragged import Array, Ints
from gsx.schema import SPLITS
from gsx.stages.describe.shift import count_repeated, no_shift_warnings, shift_distance
from gsx.stages.graphs.label_alignment import SparseEntries, align_labels
from gsx.stages.graphs.statistics import degrees, summary_statistics
from gsx.stages.graphs.subgraphs import global_edges
from gsx.stages.graphs.wl_hash import Hashes
from gsx.table import GraphTable

TRAIN = SPLITS.index("train")
MIN_REPORTED_SHARE = 0.01
"""Smallest share of nodes with features of training nodes that gives a warning."""
MIN_SHARED_NODES = 0.5
"""Smallest share of nodes shared by two environments that gives a warning."""
MAX_PAIRS = 200
"""Maximum number of compared pairs of environments."""
_SHOWN_FEATURES = 16
_PLACE, _VALUE = np.uint64(0x9E3779B97F4A7C15), np.uint64(0xD6E8FEB86659FD93)


@dataclass(frozen=True, slots=True, eq=False)
class _NodeStatistics:
    """Statistics of every node, ``[N]`` each."""

    split: Ints
    domain: Ints
    env: Ints
    label: Ints
    degree: Ints
    features: Ints
    """Number of non-zero features."""
    hash: Hashes
    """Equal for nodes with equal features."""
    classes: int

    def of(self, rows: Array) -> dict[str, Any]:
        """Summarize a selection of nodes."""
        labels = self.label[rows][self.label[rows] >= 0]
        return {
            "nodes": len(self.label[rows]),
            "degree": summary_statistics(self.degree[rows]),
            "features_present": summary_statistics(self.features[rows]),
            "labels": np.bincount(labels, minlength=self.classes).tolist(),
        }


def node_report(table: GraphTable, classes: int) -> dict[str, Any]:
    """Describe the labelled nodes of the graphs of ``table``."""
    entries = SparseEntries.of(table)
    present, hashes = feature_hashes(entries, table.total_nodes)
    split, domain, env, label = (
        table.dense("node", f"node_{name}").astype(np.int64)
        for name in ("split", "domain_id", "env_id", "label")
    )
    nodes = _NodeStatistics(split, domain, env, label, degrees(table), present, hashes, classes)
    present_splits = [code for code in range(len(SPLITS) - 1) if (nodes.split == code).any()]
    src, dst = global_edges(table)
    pool = np.where(np.isin(nodes.split, range(3)), nodes.env, -1)
    report: dict[str, Any] = {
        "splits": [
            {
                "split": SPLITS[code],
                **nodes.of(nodes.split == code),
                "edges_to_training": _share(nodes.split[dst[nodes.split[src] == code]] == TRAIN),
                "features": _feature_means(table, nodes.split == code),
            }
            for code in present_splits
        ],
        "environments": [
            {"env_id": env, **nodes.of((nodes.split == TRAIN) & (nodes.env == env))}
            for env in np.unique(nodes.env[nodes.split == TRAIN]).tolist()
            if env >= 0
        ],
        "shift": {},
        "equal_to_training": {},
        "class_numbering": {},
        "equal_environments": list(_shared_features(nodes.hash, pool)),
    }
    train = nodes.split == TRAIN
    for code in present_splits if train.any() else []:
        if code == TRAIN:
            continue
        inside = nodes.split == code
        distance = shift_distance((nodes.domain[train], nodes.label[train]),
                       (nodes.domain[inside], nodes.label[inside]))  # fmt: skip
        report["shift"][SPLITS[code]] = {
            "domains_of_training": round(distance.known_share, 6),
            "distance": round(distance.variation, 6),
            "distance_by_chance": round(distance.chance, 6),
            "none": distance.none,
        }
        count, other = count_repeated(
            nodes.hash[inside], nodes.label[inside], nodes.hash[train], nodes.label[train]
        )
        report["equal_to_training"][SPLITS[code]] = {
            "nodes": count,
            "share": round(count / int(inside.sum()), 6),
            "with_another_label": other,
        }
        alignment = align_labels(entries, nodes.label, train, inside, classes)
        if alignment is not None:
            report["class_numbering"][SPLITS[code]] = {
                "agreement": alignment.agreement,
                "best": alignment.best,
                "matched_classes": alignment.matched_class,
                "largest": alignment.largest,
                "differ": alignment.differs,
            }
    return report


def node_warnings(report: Mapping[str, Any]) -> Iterator[str]:
    """Yield warnings about a report."""
    for row in report["environments"]:
        if sum(map(bool, row["labels"])) == 1:
            yield f"environment {row['env_id']} has training nodes of one class only"
    yield from no_shift_warnings(report["shift"])
    for split, same in report["equal_to_training"].items():
        if same["share"] >= MIN_REPORTED_SHARE:
            yield (
                f"{same['nodes']:,} nodes of {split} ({same['share']:.1%}) have the features of a "
                f"training node, {same['with_another_label']:,} of them only of nodes with "
                "another label"
            )
    for split, numbers in report["class_numbering"].items():
        if numbers["differ"]:
            meaning = ", ".join(
                f"{own} as {matched}" for own, matched in enumerate(numbers["matched_classes"])
            )
            yield (
                f"classes of {split} seem to be numbered differently from those of training: a "
                f"classifier on features predicts the class of {numbers['agreement']:.1%} of its "
                f"nodes, and of {numbers['best']:.1%} if classes are renumbered ({meaning})"
            )
    for pair in report["equal_environments"]:
        if pair["share"] >= MIN_SHARED_NODES:
            yield (
                f"environments {pair['first']} and {pair['second']} have similar features: "
                f"{pair['share']:.1%} of the nodes of one have the features of a node of the other"
            )


def feature_hashes(entries: SparseEntries, nodes: int) -> tuple[Ints, Hashes]:
    """Return the number of non-zero features of every node, and a hash of them.

    Dense and sparse rows with equal values have equal hashes.
    """
    position = _mix(entries.column.astype(np.uint64) * _PLACE)
    sums = np.zeros(nodes, dtype=np.uint64)
    np.add.at(sums, entries.row, _mix(position + entries.value.view(np.uint64) * _VALUE))
    return np.bincount(entries.row, minlength=nodes), sums


def _mix(values: Hashes) -> Hashes:
    values = (values ^ (values >> np.uint64(30))) * np.uint64(0xBF58476D1CE4E5B9)
    values = (values ^ (values >> np.uint64(27))) * np.uint64(0x94D049BB133111EB)
    return values ^ (values >> np.uint64(31))


def _shared_features(hashes: Hashes, env: Ints) -> Iterator[dict[str, Any]]:
    """Yield pairs of environments with the share of the smaller that occurs in the larger."""
    hashes_of = {number: hashes[env == number] for number in np.unique(env[env >= 0]).tolist()}
    for first, second in list(combinations(hashes_of, 2))[:MAX_PAIRS]:
        small, large = sorted((hashes_of[first], hashes_of[second]), key=len)
        share = _share(np.isin(small, large))
        if share:
            yield {"first": first, "second": second, "share": share}


def _feature_means(table: GraphTable, rows: Array) -> dict[str, Any]:
    """Return mean and standard deviation of the first features; empty for sparse features."""
    values = table.node.get("node_feat")
    if not isinstance(values, np.ndarray):
        return {}
    wide = values[rows, :_SHOWN_FEATURES].astype(np.float64)
    return {
        "mean": [round(value, 6) for value in wide.mean(axis=0).tolist()],
        "std": [round(value, 6) for value in wide.std(axis=0).tolist()],
    }


def _share(flags: Array) -> float:
    return round(float(flags.mean()), 6) if len(flags) else 0.0
