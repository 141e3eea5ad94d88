"""Learning curves as SVG, without a plotting library: equal curves give equal bytes."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any
from xml.sax.saxutils import escape

WIDTH, HEIGHT, LEFT, TOP = 420, 220, 56, 28
COLORS = {
    "id_val": "#7aa6d6",
    "id_test": "#1f5fa8",
    "ood_val": "#f0a35e",
    "ood_test": "#c4501b",
    "augmented": "#7b5ea7",
    "loss": "#555555",
}


def curves_svg(curves: Sequence[Mapping[str, Any]], metric: str, title: str) -> bytes:
    """Return an SVG with two panels: the metric of every split, and the loss."""
    splits = [name for name in COLORS if name != "loss" and name in curves[0]]
    width, height = 2 * (WIDTH + LEFT) + 20, HEIGHT + 2 * TOP + 20
    lines = [
        f'<svg xmlns="http://www.w3.org/2000/svg" viewBox="0 0 {width} {height}" '
        f'width="{width}" height="{height}" font-family="sans-serif" font-size="11">',
        f'<rect width="{width}" height="{height}" fill="white"/>',
        f'<text x="{LEFT}" y="16" font-weight="bold">{escape(title)}</text>',
        *_panel(curves, splits, metric, LEFT),
        *_panel(curves, ["loss"], "loss", 2 * LEFT + WIDTH),
        "</svg>\n",
    ]
    return "\n".join(lines).encode()


def _panel(
    curves: Sequence[Mapping[str, Any]], names: Sequence[str], label: str, left: int
) -> list[str]:
    """Return the SVG elements of one panel with a line per name."""
    values = [curve[name] for curve in curves for name in names]
    low, high = (min(values), max(values)) if values else (0.0, 1.0)
    value_range = high - low or 1.0
    bottom = TOP + HEIGHT
    step = WIDTH / max(len(curves) - 1, 1)
    lines = [
        f'<rect x="{left}" y="{TOP}" width="{WIDTH}" height="{HEIGHT}" fill="none" stroke="#bbb"/>',
        f'<text x="{left - 4}" y="{TOP + 10}" text-anchor="end">{high:.4g}</text>',
        f'<text x="{left - 4}" y="{bottom}" text-anchor="end">{low:.4g}</text>',
        f'<text x="{left}" y="{bottom + 16}">{escape(label)} over {len(curves)} epochs</text>',
    ]
    for position, name in enumerate(names):
        points = " ".join(
            f"{left + epoch * step:.1f},{bottom - (curve[name] - low) / value_range * HEIGHT:.1f}"
            for epoch, curve in enumerate(curves)
        )
        color = COLORS[name]
        lines.append(f'<polyline fill="none" stroke="{color}" points="{points}"/>')
        if name != "loss":
            lines.append(
                f'<text x="{left + position * 70}" y="{bottom + 32}" fill="{color}">{name}</text>'
            )
    return lines
