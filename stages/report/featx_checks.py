"""Validity checks of FeatX: labels, edges and unselected features must be unchanged."""

from __future__ import annotations

from collections.abc import Iterator, Sequence

import numpy as np

from gsx.ragged import Array, Ints
from gsx.schema import ORIGINS
from gsx.stages.augmented.check import TOLERANCE, Check, Verdict
from gsx.stages.report.sample import GraphColumns, Sample, rows_by_id
from gsx.storage.artifacts.manifest import Manifest
from gsx.storage.corpora.summary import read_quality
from gsx.table import GraphTable

FEATX = ORIGINS.index("featx")


def featx_checks(
    columns: GraphColumns, sample: Sample, lineage: Sequence[Manifest]
) -> Iterator[Check]:
    """Yield checks that compare graphs with extrapolated features with their parents."""
    rows = np.flatnonzero(columns.origin == FEATX)
    if not len(rows):
        return
    parents = rows_by_id(columns, columns.parents.take(rows).values)
    title = "FeatX keeps labels and edges"
    if len(parents) != len(rows) or (parents < 0).any():
        text = "The parents of the graphs with extrapolated features are not in this corpus."
        yield Check("note", title, "not checked", text)
        return
    label_kept = np.isclose(
        columns.y[parents], columns.y[rows], atol=TOLERANCE, equal_nan=True
    ).all(axis=1)
    in_sample = np.isin(rows, sample.rows)
    after = sample.table.take(sample.at(rows[in_sample]))
    before = sample.table.take(sample.at(parents[in_sample]))
    structure_kept = same_structure(before, after)
    num_relabelled, num_rewired = int((~label_kept).sum()), int((~structure_kept).sum())
    text = (
        f"{num_relabelled:,} of {len(rows):,} graphs with extrapolated features have another label "
        f"than their parent; {num_rewired:,} of {len(structure_kept):,} sampled ones have other "
        "edges."
    )
    figure = f"{min(label_kept.mean(), structure_kept.mean()):.1%}"
    verdict: Verdict = "bad" if num_relabelled or num_rewired else "good"
    yield Check(verdict, title, figure, text, by_construction=True)
    if not num_rewired:
        yield from _selected_feature_check(before, after, lineage)


def same_structure(before: GraphTable, after: GraphTable) -> Array:
    """Return, for every pair of graphs, whether edges and edge attributes are identical."""
    same: Array = (before.num_nodes == after.num_nodes) & (before.num_edges == after.num_edges)
    rows = np.flatnonzero(same)
    first, second = before.take(rows), after.take(rows)
    owner = first.edge_graph()
    for name in first.edge:
        differs = first.dense("edge", name) != second.dense("edge", name)
        differs = differs if differs.ndim == 1 else differs.any(axis=1)
        same[rows[owner[differs]]] = False
    return same


def _selected_feature_check(
    before: GraphTable, after: GraphTable, lineage: Sequence[Manifest]
) -> Iterator[Check]:
    selected_counts = [
        quality["featx"]["extrapolated_features"]
        for quality in map(read_quality, lineage)
        if "extrapolated_features" in quality.get("featx", {})
    ]
    if not selected_counts:
        return
    differs = before.dense("node", "node_feat") != after.dense("node", "node_feat")
    changed: Ints = np.flatnonzero(differs.any(axis=0))
    text = (
        f"{len(changed):,} features differ from the parents; {selected_counts[0]:,} were selected."
    )
    verdict: Verdict = "good" if len(changed) <= selected_counts[0] else "bad"
    title = "FeatX changes selected features only"
    yield Check(verdict, title, f"{len(changed):,}", text, by_construction=True)
