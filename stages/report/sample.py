"""What the report reads of a corpus: a little of every graph, and all of some graphs."""

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
CHANGED = ("dropnode", "dropedge", "maskfeature")
"""Origins of graphs that are one graph with something left out."""
SAMPLE = 1500
"""Graphs of every group that are looked at closely."""
PICTURED = 12
"""Graphs of every environment, origin and label that pictures are chosen from."""

GROUPS = {
    "train": "training, source",
    "augmented": "training, augmented",
    "id_test": "ID test",
    "ood_val": "OOD validation",
    "ood_test": "OOD test",
}
"""Groups that are compared, and how they are called."""


@dataclass(frozen=True, eq=False)
class Facts:
    """A little of every graph, ``[G]`` each, in the order of the corpus."""

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
        """Rows of the groups that are compared; a group without graphs is left out."""
        train = self.split == SPLITS.index("train")
        found = {
            "train": train & (self.origin == SOURCE),
            "augmented": train & (self.origin != SOURCE),
            **{
                name: self.split == SPLITS.index(name)
                for name in ("id_test", "ood_val", "ood_test")
            },
        }
        return {name: np.flatnonzero(rows) for name, rows in found.items() if rows.any()}


@dataclass(frozen=True, eq=False)
class Sample:
    """All of some graphs, and where they stand in the corpus."""

    table: GraphTable
    rows: Ints
    """``[S]`` rows of the corpus, rising."""
    drawn: Mapping[str, Ints]
    """Rows of the corpus that stand for every group: each of its graphs was as likely."""

    @property
    def groups(self) -> dict[str, Ints]:
        """Where what was drawn stands in the sample, by group."""
        return {name: self.at(rows) for name, rows in self.drawn.items()}

    def at(self, rows: Ints) -> Ints:
        """Return where rows of the corpus stand in the sample; those that do not are left out."""
        place = np.searchsorted(self.rows, rows)
        inside = (place < len(self.rows)) & (
            self.rows[np.minimum(place, len(self.rows) - 1)] == rows
        )
        return np.asarray(place[inside])


def read_facts(corpus: Corpus) -> Facts:
    """Read columns of graphs alone, which is quick."""
    names = ["graph_id", "split", "env_id", "origin", "label", "y", "provenance.parents"]
    parts = [corpus.graph_columns(number, names) for number in range(len(corpus.shards))]

    def column(name: str) -> Array:
        return np.concatenate([np.asarray(part[name]) for part in parts])

    lists = [part["provenance.parents"] for part in parts]
    return Facts(
        graph_id=column("graph_id"),
        split=column("split").astype(np.int64),
        env=column("env_id").astype(np.int64),
        origin=column("origin").astype(np.int64),
        label=column("label").astype(np.int64),
        nodes=column("num_nodes").astype(np.int64),
        edges=column("num_edges").astype(np.int64),
        y=column("y"),
        parents=concat_ragged([each for each in lists if isinstance(each, Ragged)]),
    )


def draw(facts: Facts, seed: int, each: int = SAMPLE) -> dict[str, Ints]:
    """Draw rows of every group, rising, each as likely as any other: shares stay those of all."""
    return {
        name: np.sort(rng(seed, "report", "sample", name).permutation(rows)[:each])
        for name, rows in facts.groups.items()
    }


def spread(facts: Facts, seed: int, each: int = PICTURED) -> Ints:
    """Return some rows of every environment, origin and label, however seldom, rising."""
    order = rng(seed, "report", "spread").permutation(np.concatenate(list(facts.groups.values())))
    kind = np.stack([facts.split, facts.env, facts.origin, facts.label], axis=1)[order]
    _, cell = np.unique(kind, axis=0, return_inverse=True)
    by_cell = np.argsort(cell, kind="stable")
    starts = np.searchsorted(cell[by_cell], np.arange(cell.max() + 1))
    turn = np.arange(len(order)) - starts[cell[by_cell]]
    return np.sort(order[by_cell[turn < each]])


def rows_by_id(facts: Facts, ids: Ints) -> Ints:
    """Return the row of every ``graph_id``; -1 where the corpus lacks it."""
    order = np.argsort(facts.graph_id, kind="stable")
    place = np.minimum(np.searchsorted(facts.graph_id[order], ids), len(order) - 1)
    found = order[place]
    return np.where(facts.graph_id[found] == ids, found, -1)


def with_parents(facts: Facts, rows: Ints) -> Ints:
    """Return the rows, their parents and theirs, as far as the corpus holds them, rising.

    Features may be moved of a graph that was spliced, so a parent can have parents.
    """
    found = np.unique(rows)
    while True:
        parents = rows_by_id(facts, facts.parents.take(found).values)
        grown = np.unique(np.concatenate([found, parents[parents >= 0]]))
        if len(grown) == len(found):
            return found
        found = grown


def read_sample(corpus: Corpus, facts: Facts, seed: int, progress: Progress) -> Sample:
    """Read graphs drawn of every group, some of every kind to show, and the parents of both."""
    drawn = draw(facts, seed)
    rows = with_parents(facts, np.concatenate([*drawn.values(), spread(facts, seed)]))
    known = {column.name for column in corpus.info.columns}
    kept = ("graph_id", "label", "node_feat", "edge_attr", "node_truth", "smiles",
            "provenance.parents", "provenance.node_slot", "provenance.node_number",
            "provenance.bridges")  # fmt: skip
    names = [name for name in kept if name in known]
    tables, done = [], 0
    for shard, group, size in corpus.group_sizes():
        inside = rows[np.searchsorted(rows, done) : np.searchsorted(rows, done + size)]
        if len(inside):
            tables.append(corpus.read_group((shard, group), names).take(inside - done))
        done += size
        progress(done, len(corpus))
    return Sample(concat(tables), rows, drawn)
