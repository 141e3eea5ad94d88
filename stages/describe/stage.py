"""Describe a corpus: how the graphs of every split and environment look, and how far they shift."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass
from typing import Any

import msgspec
import numpy as np

from gsx.ragged import Array, Ints, row_indices
from gsx.schema import ORIGINS, SPLITS, CorpusInfo
from gsx.stages.describe.node_shift import node_report, node_warnings
from gsx.stages.describe.shift import distance, repeats, unshifted
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
from gsx.table import GraphTable

STATISTICS = "statistics.json"
SIZE_DOMAINS = ("size", "length", "size-color")
"""Shifts of the number of nodes."""
_TOLD = 0.01
"""Share of a split that may equal training graphs before a warning says so."""
_SHOWN_FEATURES = 16


class DescribeConfig(msgspec.Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """Options of ``[describe]``."""


@dataclass(frozen=True, slots=True, eq=False)
class _Graphs:
    """What is kept of every graph, ``[G]`` each."""

    split: Ints
    domain: Ints
    env: Ints
    nodes: Ints
    mean_degree: Array
    max_degree: Ints
    label: Ints
    hash: Array
    labels: Array
    """``[G, C]`` how many labels of each class a graph has."""

    def of(self, rows: Array) -> dict[str, Any]:
        """Sum up some graphs."""
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
    features = _Features(corpus.info)
    graphs = _collect(corpus, features, progress)
    here = [code for code in range(len(SPLITS)) if (graphs.split == code).any()]
    train = graphs.split == SPLITS.index("train")
    rows = [
        {"split": SPLITS[code], "domain_id": domain, **graphs.of(members)}
        for (code, domain), members in _groups(graphs.split, graphs.domain)
    ]
    document = {
        "corpus": corpus.key,
        "quantiles": QUANTILES,
        "groups": rows,
        "splits": [
            {
                "split": SPLITS[code],
                **graphs.of(np.flatnonzero(graphs.split == code)),
                "features": features.of(code),
            }
            for code in here
        ],
        "environments": [
            {"env_id": env, **graphs.of(members)}
            for (env,), members in _groups(np.where(train, graphs.env, -1))
            if env >= 0
        ],
        "outside_training_sizes": _outside(graphs, here) if train.any() else {},
        "shift": _shift(graphs, here) if train.any() else {},
        "equal_to_training": _repeats(graphs, here) if train.any() else {},
    }
    draft.write_bytes(STATISTICS, readable_json(document))
    return StageResult(
        counts={"groups": len(rows)},
        warnings=tuple(_warnings(corpus.info, document)),
        summary={
            "name": corpus.info.name,
            **{key: document[key] for key in ("outside_training_sizes", "equal_to_training")},
        },
    )


def _describe_nodes(corpus: Corpus, draft: Draft) -> StageResult:
    """Describe the labelled nodes of the source graphs of a corpus."""
    info = corpus.info
    known = {column.name for column in info.columns}
    wanted = {"origin", "node_feat", "node_feat_index", "node_feat_value", "node_label",
              "node_split", "node_env_id", "node_domain_id"}  # fmt: skip
    table = corpus.table(columns=sorted(known & wanted))
    table = table.filter(table.dense("graph", "origin") == ORIGINS.index("source"))
    classes = len(info.outputs) if info.task == "classification" else 2
    found = node_report(table, classes)
    document = {"corpus": corpus.key, "quantiles": QUANTILES, "level": "node", **found}
    draft.write_bytes(STATISTICS, readable_json(document))
    return StageResult(
        counts={"groups": len(found["splits"])},
        warnings=tuple(node_warnings(found)),
        summary={"name": info.name, "equal_to_training": found["equal_to_training"]},
    )


class _Features:
    """What node features are in every split: means, or words that training never shows."""

    def __init__(self, info: CorpusInfo) -> None:
        columns = {column.name: column for column in info.columns}
        column = columns.get("node_feat")
        self.read = column is not None
        self._words = (column.features or ()) if column is not None else ()
        self._seen = [np.zeros(len(each.words), dtype=bool) for each in self._words]
        self._sums: dict[int, Array] = {}

    def add(self, table: GraphTable, code: int) -> None:
        """Count the nodes of some graphs of one split; training comes first in a corpus."""
        if not self.read:
            return
        values = table.dense("node", "node_feat")
        if self._words:
            if code == SPLITS.index("train"):
                for place, seen in enumerate(self._seen):
                    seen[np.unique(values[:, place])] = True
            new = np.zeros(len(values), dtype=bool)
            for place, seen in enumerate(self._seen):
                new |= ~seen[values[:, place]]
            found = np.array([len(values), new.sum()], dtype=np.float64)
        else:
            wide = values[:, :_SHOWN_FEATURES].astype(np.float64)
            found = np.concatenate([[len(wide)], wide.sum(axis=0), (wide**2).sum(axis=0)])
        self._sums[code] = self._sums.get(code, 0) + found

    def of(self, code: int) -> dict[str, Any]:
        """Return what is known of the features of a split."""
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


def _collect(corpus: Corpus, features: _Features, progress: Progress) -> _Graphs:
    info = corpus.info
    known = {column.name for column in info.columns}
    names = [*("split", "domain_id", "env_id", "label"),
             *(name for name in ("node_feat", "edge_attr") if name in known)]  # fmt: skip
    classes = len(info.outputs) if info.task == "classification" else 2
    parts: list[tuple[Array, ...]] = []
    done = 0
    for table in corpus.iter_tables(columns=names):
        split = table.dense("graph", "split").astype(np.int64)
        for code in np.unique(split).tolist():
            features.add(table.filter(split == code), code)
        hard = table.dense("graph", "label")
        owner = np.arange(len(table))
        parts.append(
            (
                split,
                table.dense("graph", "domain_id"),
                table.dense("graph", "env_id"),
                table.num_nodes,
                mean_degrees(table),
                _largest(degrees(table), table),
                hard,
                wl_hashes(table),
                np.bincount(
                    owner[hard >= 0] * classes + hard[hard >= 0], minlength=len(table) * classes
                ).reshape(len(table), classes),
            )
        )
        done += len(table)
        progress(done, len(corpus))
    if not parts:
        parts = [(*[np.zeros(0, dtype=np.int64)] * 8, np.zeros((0, classes), dtype=np.int64))]
    return _Graphs(*map(np.concatenate, zip(*parts, strict=True)))


def _largest(values: Ints, table: GraphTable) -> Ints:
    """Return the largest value of the nodes of each graph, 0 without nodes."""
    found = np.zeros(len(table), dtype=np.int64)
    np.maximum.at(found, row_indices(table.node_ptr), values)
    return found


def _groups(*columns: Ints) -> Iterator[tuple[tuple[int, ...], Ints]]:
    """Yield every combination of values in order, and the rows that have it."""
    order = np.lexsort(columns[::-1])
    sorted_ = np.stack([column[order] for column in columns], axis=1)
    changes = np.flatnonzero((sorted_[1:] != sorted_[:-1]).any(axis=1)) + 1
    for members in np.split(order, changes) if len(order) else []:
        yield tuple(int(column[members[0]]) for column in columns), members


def _held_out(here: Iterable[int]) -> list[int]:
    return [code for code in here if SPLITS[code] != "train"]


def _outside(graphs: _Graphs, here: list[int]) -> dict[str, dict[str, float]]:
    """Return, per split, the share of graphs smaller or larger than any training graph."""
    train = graphs.nodes[graphs.split == SPLITS.index("train")]
    return {
        SPLITS[code]: share_outside(graphs.nodes[graphs.split == code], train.min(), train.max())
        for code in _held_out(here)
    }


def _shift(graphs: _Graphs, here: list[int]) -> dict[str, dict[str, Any]]:
    """Return, per split, how its domains and labels differ from those of training."""
    found = {}
    train = graphs.split == SPLITS.index("train")
    for code in _held_out(here):
        inside = graphs.split == code
        far = distance(
            (graphs.domain[train], graphs.label[train]),
            (graphs.domain[inside], graphs.label[inside]),
        )
        found[SPLITS[code]] = {
            "domains_of_training": round(far.seen, 6),
            "distance": round(far.variation, 6),
            "distance_by_chance": round(far.chance, 6),
            "none": far.none,
        }
    return found


def _repeats(graphs: _Graphs, here: list[int]) -> dict[str, dict[str, Any]]:
    """Return, per split, how many graphs have the hash of a training graph."""
    train = graphs.split == SPLITS.index("train")
    known, labels = graphs.hash[train], graphs.label[train]
    found: dict[str, dict[str, Any]] = {}
    for code in _held_out(here):
        inside = graphs.split == code
        count, other = repeats(graphs.hash[inside], graphs.label[inside], known, labels)
        share = round(count / int(inside.sum()), 6)
        found[SPLITS[code]] = {"graphs": count, "share": share, "with_another_label": other}
    return found


def _warnings(info: CorpusInfo, document: Mapping[str, Any]) -> Iterator[str]:
    for row in document["environments"]:
        if info.task in ("classification", "binary") and sum(map(bool, row["labels"])) == 1:
            yield f"environment {row['env_id']} has training graphs of one class only"
    for split, share in document["outside_training_sizes"].items():
        alike = share["below"] + share["above"] == 0
        if info.domain in SIZE_DOMAINS and split.startswith("ood") and alike:
            yield f"no graph of {split} is larger or smaller than the training graphs"
    yield from unshifted(document["shift"])
    for split, same in document["equal_to_training"].items():
        if same["share"] >= _TOLD:
            yield (
                f"{same['graphs']:,} graphs of {split} ({same['share']:.1%}) look like a training "
                f"graph, {same['with_another_label']:,} of them with another label"
            )


STAGE = Stage(
    module=__name__,
    name="describe",
    version=3,
    kind="statistics",
    config=DescribeConfig,
    inputs={"corpus": "prepare"},
    resolve=lambda config: config,
    run=run,
)
