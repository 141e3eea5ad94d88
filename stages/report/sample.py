"""Data that the report reads: some columns of all graphs, and all columns of a sample."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from functools import cached_property

import numpy as np

from gsx.ragged import Array, Ints, Ragged, concat_ragged
from gsx.schema import ORIGINS, SPLITS
from gsx.seeds import rng
from gsx.stages.stage import Progress
from gsx.storage.corpora.corpus import Corpus
from gsx.table import GraphTable, concat

SOURCE = ORIGINS.index("source")
PERTURBED = ("dropnode", "dropedge", "maskfeature")
"""Origins of graphs that are perturbed copies of one parent."""
SAMPLE_SIZE = 1500
"""Largest number of sampled graphs or nodes per group."""
GALLERY_CANDIDATES = 12
"""Largest number of gallery candidates per split, environment, origin and label."""

GROUPS = {
    "train": "training, source",
    "augmented": "training, augmented",
    "id_test": "ID test",
    "ood_val": "OOD validation",
    "ood_test": "OOD test",
}
"""Groups that the report compares → their names."""


@dataclass(frozen=True, eq=False)
class GraphColumns:
    """Columns of all graphs, ``[G]`` each, in the order of the corpus."""

    graph_id: Ints
    split: Ints
    env: Ints
    origin: Ints
    label: Ints
    nodes: Ints
    edges: Ints
    y: Array
    """``[G, C]``"""
    parents: Ragged
    """``graph_id`` of the parents."""

    @cached_property
    def groups(self) -> dict[str, Array]:
        """Rows of every non-empty group."""
        train = self.split == SPLITS.index("train")
        masks = {
            "train": train & (self.origin == SOURCE),
            "augmented": train & (self.origin != SOURCE),
            **{
                name: self.split == SPLITS.index(name)
                for name in ("id_test", "ood_val", "ood_test")
            },
        }
        return {name: np.flatnonzero(rows) for name, rows in masks.items() if rows.any()}


@dataclass(frozen=True, eq=False)
class Sample:
    """Sampled graphs with all columns that the report needs, and their rows in the corpus."""

    table: GraphTable
    rows: Ints
    """``[S]`` rows of the corpus, ascending."""
    drawn: Mapping[str, Ints]
    """Uniformly sampled rows of the corpus, by group."""

    @property
    def groups(self) -> dict[str, Ints]:
        """Positions of the uniform sample in ``table``, by group."""
        return {name: self.at(rows) for name, rows in self.drawn.items()}

    def at(self, rows: Ints) -> Ints:
        """Return the positions of corpus rows in ``table``; rows outside the sample are skipped."""
        positions = np.searchsorted(self.rows, rows)
        inside = (positions < len(self.rows)) & (
            self.rows[np.minimum(positions, len(self.rows) - 1)] == rows
        )
        return np.asarray(positions[inside])


def read_graph_columns(corpus: Corpus) -> GraphColumns:
    """Read graph columns of the whole corpus, without nodes and edges."""
    names = ["graph_id", "split", "env_id", "origin", "label", "y", "provenance.parents"]
    shard_columns = [
        corpus.graph_columns(shard_index, names) for shard_index in range(len(corpus.shards))
    ]

    def column(name: str) -> Array:
        return np.concatenate([np.asarray(columns[name]) for columns in shard_columns])

    parents = [columns["provenance.parents"] for columns in shard_columns]
    return GraphColumns(
        graph_id=column("graph_id"),
        split=column("split").astype(np.int64),
        env=column("env_id").astype(np.int64),
        origin=column("origin").astype(np.int64),
        label=column("label").astype(np.int64),
        nodes=column("num_nodes").astype(np.int64),
        edges=column("num_edges").astype(np.int64),
        y=column("y"),
        parents=concat_ragged([ragged for ragged in parents if isinstance(ragged, Ragged)]),
    )


def sample_rows(columns: GraphColumns, seed: int, max_rows: int = SAMPLE_SIZE) -> dict[str, Ints]:
    """Sample rows of every group uniformly, ascending, so that label shares are preserved."""
    return {
        name: np.sort(rng(seed, "report", "sample", name).permutation(rows)[:max_rows])
        for name, rows in columns.groups.items()
    }


def gallery_rows(columns: GraphColumns, seed: int, max_rows: int = GALLERY_CANDIDATES) -> Ints:
    """Return up to ``max_rows`` rows per split, environment, origin and label, ascending."""
    order = rng(seed, "report", "spread").permutation(np.concatenate(list(columns.groups.values())))
    categories = np.stack([columns.split, columns.env, columns.origin, columns.label], axis=1)[
        order
    ]
    _, category = np.unique(categories, axis=0, return_inverse=True)
    by_category = np.argsort(category, kind="stable")
    starts = np.searchsorted(category[by_category], np.arange(category.max() + 1))
    rank = np.arange(len(order)) - starts[category[by_category]]
    return np.sort(order[by_category[rank < max_rows]])


def rows_by_id(columns: GraphColumns, ids: Ints) -> Ints:
    """Return the row of every ``graph_id``; -1 if the corpus does not have it."""
    order = np.argsort(columns.graph_id, kind="stable")
    positions = np.minimum(np.searchsorted(columns.graph_id[order], ids), len(order) - 1)
    rows = order[positions]
    return np.where(columns.graph_id[rows] == ids, rows, -1)


def with_ancestors(columns: GraphColumns, rows: Ints) -> Ints:
    """Return rows and the rows of their ancestors in the corpus, ascending.

    FeatX can extrapolate a spliced graph, so parents can have parents.
    """
    known_rows = np.unique(rows)
    while True:
        parents = rows_by_id(columns, columns.parents.take(known_rows).values)
        extended = np.unique(np.concatenate([known_rows, parents[parents >= 0]]))
        if len(extended) == len(known_rows):
            return known_rows
        known_rows = extended


def read_sample(corpus: Corpus, columns: GraphColumns, seed: int, progress: Progress) -> Sample:
    """Read the uniform sample of every group, gallery candidates, and the ancestors of both."""
    drawn = sample_rows(columns, seed)
    rows = with_ancestors(columns, np.concatenate([*drawn.values(), gallery_rows(columns, seed)]))
    available = {column.name for column in corpus.info.columns}
    wanted = ("graph_id", "label", "node_feat", "edge_attr", "node_truth", "smiles",
            "provenance.parents", "provenance.node_slot", "provenance.node_number",
            "provenance.bridges")  # fmt: skip
    names = [name for name in wanted if name in available]
    tables, done = [], 0
    for shard, group, size in corpus.group_sizes():
        inside = rows[np.searchsorted(rows, done) : np.searchsorted(rows, done + size)]
        if len(inside):
            tables.append(corpus.read_group((shard, group), names).take(inside - done))
        done += size
        progress(done, len(corpus))
    return Sample(concat(tables), rows, drawn)
