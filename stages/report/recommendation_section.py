"""The recommendation in the lineage of a corpus: choice, reason, and a forest plot of recipes."""

from __future__ import annotations

from collections.abc import Sequence
from html import escape

import numpy as np

from gsx.stages.report.html import figure, paragraph
from gsx.storage.artifacts.manifest import Manifest
from gsx.storage.corpora.summary import DifferenceRow, Recommendation, recommendation_summary

WIDTH, ROW, TOP, BOTTOM, LEFT, RIGHT = 620, 20, 8, 34, 190, 14
MAX_ROWS = 40
_DECIDED_BY = {
    "confirmation": "networks trained with and without the new graphs",
    "screen": "linear models",
}


def recommendation_section(lineage: Sequence[Manifest]) -> str:
    """Return the recommendation of a lineage with its evidence; empty if there is none."""
    manifest = next((entry for entry in lineage if entry.kind == "recommendation"), None)
    if manifest is None:
        return ""
    summary = recommendation_summary(manifest)
    text = f"Recommended recipe: {summary['choice']}. Reason: {summary['reason']}."
    phases = (("confirmed", "Trained networks"), ("screen", "Linear models"))
    plots = [
        figure(chart, _caption(summary, phase), title=title)
        for phase, title in phases
        if (chart := forest_plot(_rows(summary, phase), summary["choice"]))
    ]
    return paragraph(text) + "".join(
        f'<div style="margin-bottom:16px">{plot}</div>' for plot in plots
    )


def _caption(summary: Recommendation, phase: str) -> str:
    models = _DECIDED_BY["confirmation" if phase == "confirmed" else "screen"]
    return (
        f"Difference to no augmentation in {summary['metric']} on validation data "
        f"({summary['validation']}), positive is better, with 95 % intervals over seeds and "
        f"validation items; {models}. No test score was read."
    )


def _rows(summary: Recommendation, phase: str) -> list[tuple[str, DifferenceRow]]:
    """Return the recipes that have a difference in a phase, the best first."""
    rows: list[tuple[str, DifferenceRow]] = []
    for recipe in summary["recipes"]:
        difference = recipe["confirmed"] if phase == "confirmed" else recipe["screen"]
        if difference is not None:
            rows.append((recipe["name"], difference))
    rows.sort(key=lambda row: -row[1]["mean"])
    return rows[:MAX_ROWS]


def forest_plot(rows: Sequence[tuple[str, DifferenceRow]], choice: str) -> str:
    """Draw one line per recipe: the difference to no augmentation with its interval."""
    if not rows:
        return ""
    ends = [0.0, *(value for _, row in rows for value in (row["low"], row["high"]))]
    low, high = float(np.clip(min(ends), -1e6, 0)), float(np.clip(max(ends), 0, 1e6))
    margin = (high - low) * 0.05 or 1.0
    low, high = low - margin, high + margin
    height = TOP + ROW * len(rows) + BOTTOM

    def x(value: float) -> float:
        return LEFT + (float(np.clip(value, low, high)) - low) / (high - low) * (
            WIDTH - LEFT - RIGHT
        )

    parts = [
        f'<line x1="{x(0):.1f}" x2="{x(0):.1f}" y1="{TOP}" y2="{height - BOTTOM}" '
        'stroke="currentColor" stroke-opacity=".5"/>'
    ]
    for number, (name, row) in enumerate(rows):
        y = TOP + ROW * (number + 0.5)
        group = "augmented" if name == choice else "train"
        weight = ' font-weight="700"' if name == choice else ""
        parts.append(
            f'<text x="{LEFT - 8}" y="{y + 3.5:.1f}" text-anchor="end"{weight}>{escape(name)}'
            f'</text><line class="g-{group}" style="stroke-dasharray:none" stroke-width="2" '
            f'x1="{x(row["low"]):.1f}" x2="{x(row["high"]):.1f}" y1="{y:.1f}" y2="{y:.1f}"/>'
            f'<circle cx="{x(row["mean"]):.1f}" cy="{y:.1f}" r="3.5" fill="var(--g-{group})"/>'
        )
    parts += [
        f'<text x="{x(value):.1f}" y="{height - BOTTOM + 14}" text-anchor="middle">'
        f"{f'{value:+.3g}' if value else '0'}</text>"
        for value in (low + margin, 0.0, high - margin)
    ]
    parts.append(
        f'<text x="{(LEFT + WIDTH - RIGHT) / 2:.1f}" y="{height - 4}" text-anchor="middle">'
        "difference to no augmentation</text>"
    )
    names = ", ".join(name for name, _ in rows)
    return (
        f'<svg class="chart" viewBox="0 0 {WIDTH} {height}" role="img" '
        f'aria-label="Forest plot of {escape(names)}">{"".join(parts)}</svg>'
    )
