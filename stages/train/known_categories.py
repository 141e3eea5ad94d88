"""Categories of node and edge features that training graphs have.

A network has one embedding per category. The embeddings of categories without training examples
keep their random initial values, so predictions for graphs with such categories are unreliable.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass

import numpy as np

from gsx.ragged import Array, row_indices
from gsx.schema import ORIGINS, Axis, CorpusInfo
from gsx.storage.corpora.corpus import Corpus
from gsx.table import GraphTable

COLUMNS: tuple[tuple[str, Axis], ...] = (("node_feat", "node"), ("edge_attr", "edge"))


@dataclass(frozen=True, slots=True, eq=False)
class KnownFeature:
    """One categorical feature, and which of its categories training graphs have."""

    name: str
    words: tuple[str, ...]
    known: Array
    """``[W]`` booleans, by code."""


KnownCategories = Mapping[str, tuple[KnownFeature, ...]]
"""Column → its features; columns of numeric features are missing."""


def read_known_categories(corpus: Corpus, origins: Sequence[str] | None) -> KnownCategories:
    """Return the categories of the training graphs of some origins, or of all if None."""
    categories = _empty_categories(corpus.info)
    if not categories or "train" not in corpus.splits:
        return {}
    codes = [ORIGINS.index(origin) for origin in origins or ORIGINS]
    for table in corpus.iter_tables(split="train", columns=["origin", *categories]):
        graphs = table.filter(np.isin(table.dense("graph", "origin"), codes))
        for column, axis in COLUMNS:
            if column in categories:
                values = graphs.dense(axis, column)
                for number, feature in enumerate(categories[column]):
                    feature.known[np.unique(values[:, number])] = True
    return categories


def describe_unknown_categories(table: GraphTable, categories: KnownCategories) -> list[str]:
    """Return for each graph a text that lists its unknown categories; empty without any."""
    unknown: dict[int, list[str]] = {}
    for column, axis in COLUMNS:
        owner = row_indices(table.node_ptr if axis == "node" else table.edge_ptr)
        for number, feature in enumerate(categories.get(column, ())):
            codes = table.dense(axis, column)[:, number].astype(np.int64)
            rows = np.flatnonzero(~feature.known[codes])
            pairs = np.unique(np.stack([owner[rows], codes[rows]], axis=1), axis=0)
            for graph, code in pairs.tolist():
                unknown.setdefault(graph, []).append(f"{feature.name} {feature.words[code]}")
    return [
        f"no training graph has {', '.join(unknown[graph])}" if graph in unknown else ""
        for graph in range(len(table))
    ]


def _empty_categories(info: CorpusInfo) -> dict[str, tuple[KnownFeature, ...]]:
    columns = {column.name: column for column in info.columns}
    return {
        name: tuple(
            KnownFeature(feature.name, feature.words, np.zeros(len(feature.words), dtype=bool))
            for feature in columns[name].features or ()
        )
        for name, _ in COLUMNS
        if name in columns and columns[name].features
    }
