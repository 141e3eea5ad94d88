"""Is what FeatX made of graphs still true? Labels, edges and all other features must be kept."""

from __future__ import annotations

from collections.abc import Iterator, Sequence

import numpy as np

from gsx.ragged import Array, Ints
from gsx.schema import ORIGINS
from gsx.stages.report.check import TOLERANCE, Check, Verdict
from gsx.stages.report.sample import Facts, Sample, rows_by_id
from gsx.storage.artifacts.manifest import Manifest
from gsx.table import GraphTable

FEATX = ORIGINS.index("featx")


def moved_checks(facts: Facts, sample: Sample, lineage: Sequence[Manifest]) -> Iterator[Check]:
    """Yield what can be said of graphs whose features were moved, each beside its parent."""
    rows = np.flatnonzero(facts.origin == FEATX)
    if not len(rows):
        return
    parents = rows_by_id(facts, facts.parents.take(rows).values)
    title = "Moved graphs keep label and edges"
    if len(parents) != len(rows) or (parents < 0).any():
        text = "The graphs whose features were moved are not in this corpus."
        yield Check("note", title, "not checked", text)
        return
    told = np.isclose(facts.y[parents], facts.y[rows], atol=TOLERANCE, equal_nan=True).all(axis=1)
    looked = np.isin(rows, sample.rows)
    after = sample.table.take(sample.at(rows[looked]))
    before = sample.table.take(sample.at(parents[looked]))
    same = same_structure(before, after)
    wrong, torn = int((~told).sum()), int((~same).sum())
    text = (
        f"Of {len(rows):,} graphs with moved features {wrong:,} have another label than the graph "
        f"they came from; of {len(same):,} looked at, {torn:,} have other edges."
    )
    figure = f"{min(told.mean(), same.mean()):.1%}"
    yield Check("bad" if wrong or torn else "good", title, figure, text)
    if not torn:
        yield from _chosen(before, after, lineage)


def same_structure(before: GraphTable, after: GraphTable) -> Array:
    """Say of every pair of graphs whether edges and their attributes are the same, bit by bit."""
    same: Array = (before.num_nodes == after.num_nodes) & (before.num_edges == after.num_edges)
    rows = np.flatnonzero(same)
    one, other = before.take(rows), after.take(rows)
    owner = one.edge_graph()
    for name in one.edge:
        differ = one.dense("edge", name) != other.dense("edge", name)
        differ = differ if differ.ndim == 1 else differ.any(axis=1)
        same[rows[owner[differ]]] = False
    return same


def _chosen(before: GraphTable, after: GraphTable, lineage: Sequence[Manifest]) -> Iterator[Check]:
    asked = [
        m.summary["quality"]["featx"]["moved_features"]
        for m in lineage
        if m.stage == "generate" and "featx" in m.summary.get("quality", {})
    ]
    if not asked:
        return
    differ = before.dense("node", "node_feat") != after.dense("node", "node_feat")
    columns: Ints = np.flatnonzero(differ.any(axis=0))
    text = f"{len(columns):,} features differ anywhere, of {asked[0]:,} that were to be moved."
    verdict: Verdict = "good" if len(columns) <= asked[0] else "bad"
    yield Check(verdict, "Only chosen features moved", f"{len(columns):,}", text)
