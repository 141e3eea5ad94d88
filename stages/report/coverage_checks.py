"""Checks of what generated graphs are for: nearness to OOD graphs, labels at new sizes."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from typing import Any

import numpy as np

from gsx.schema import ORIGINS, SPLITS, CorpusInfo
from gsx.stages.augmented.check import Check, Verdict
from gsx.stages.augmented.label_trends import has_trend, label_sums, worst_contradiction
from gsx.stages.report.sample import GROUPS, SOURCE, GraphColumns

OOD = ("ood_val", "ood_test")
_KINDS = {
    "g_inv": "Option 1",
    "g_inv_env": "Option 2",
    "g_whole": "Option 3",
    "featx": "Extrapolated features",
}
"""Origins of generated graphs in texts of checks."""


def nearness_check(distances: Sequence[Mapping[str, Any]]) -> Iterator[Check]:
    """Yield whether OOD graphs are nearer to generated graphs than to source graphs."""
    rows = [row for row in distances if row["group"] in OOD and "nearer" in row]
    if not rows:
        return
    parts = ", ".join(
        f"{row['nearer']:.1%} of {GROUPS[row['group']]} (median distance "
        f"{row['to_augmented']:.2f} and {row['to_source']:.2f})"
        for row in rows
    )
    text = (
        "OOD graphs whose nearest generated graph is nearer than the nearest source graph, among "
        f"equal numbers of both, in the untrained embedding: {parts}. Chance is 50 %."
    )
    away = [GROUPS[row["group"]] for row in rows if row["nearer"] < 0.5]
    verdict: Verdict = "good" if not away else "note"
    if away:
        text += f" Generated graphs point away from {' and '.join(away)}."
    title = "Generated graphs approach OOD graphs"
    yield Check(verdict, title, f"{min(row['nearer'] for row in rows):.1%}", text)


def trend_check(info: CorpusInfo, columns: GraphColumns) -> Iterator[Check]:
    """Yield whether labels of generated graphs follow the training trend over size, if any."""
    training = (columns.origin == SOURCE) & (columns.split == SPLITS.index("train"))
    nodes, y = columns.nodes[training], columns.y[training]
    generated = np.unique(columns.origin[columns.origin != SOURCE])
    if not len(generated) or not has_trend(nodes, y):
        return
    contradictions = []
    for origin in generated.tolist():
        rows = columns.origin == origin
        sums = label_sums(columns.nodes[rows], columns.y[rows])
        found = worst_contradiction(sums, nodes, y, info)
        if found is not None:
            contradictions.append(f"{_KINDS.get(ORIGINS[origin], ORIGINS[origin])}: {found}.")
    followed = len(generated) - len(contradictions)
    text = " ".join(contradictions) or (
        "Training labels have a trend over size, and labels of no kind of generated graphs "
        "contradict it."
    )
    verdict: Verdict = "bad" if contradictions else "good"
    title = "Labels follow the trend over size"
    yield Check(verdict, title, f"{followed} of {len(generated)}", text)
