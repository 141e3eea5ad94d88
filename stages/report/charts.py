"""SVG charts. Colors and line patterns are CSS classes of the page."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from html import escape

import numpy as np

from gsx.ragged import Array

WIDTH, HEIGHT = 360, 210
LEFT, RIGHT, TOP, BOTTOM = 36, 8, 8, 34
SCATTER_SIZE = (560, 300)
BINS = 36
MAX_INTEGER_TICKS = 6
MAX_POINTS = 500
"""Largest number of points per group in a scatter plot."""


def histogram(values: Mapping[str, Array], label: str) -> str:
    """Draw histograms of all groups, as shares of the group."""
    all_values = np.concatenate(
        [np.asarray(group_values, dtype=np.float64) for group_values in values.values()]
    )
    low, high = (
        float(all_values.min()),
        float(np.quantile(all_values, 0.999)),
    )  # ignore extreme outliers
    log = low >= 1 and high / low > 20  # counts only
    edges = _edges(all_values, low, high, log=log)
    shares = {
        name: np.histogram(np.minimum(group_values, high), edges)[0] / max(len(group_values), 1)
        for name, group_values in values.items()
    }
    top = max(float(group_values.max()) for group_values in shares.values()) or 1.0
    scale = _scale(edges[0], edges[-1], log=log)
    lines = []
    for name, share in shares.items():
        x_values = np.repeat(edges, 2)
        heights = np.concatenate([[0], np.repeat(share, 2), [0]]) / top
        points = " ".join(
            f"{scale(x):.1f},{_y(h):.1f}" for x, h in zip(x_values, heights, strict=True)
        )
        lines.append(f'<polyline class="line g-{name}" points="{points}"/>')
    if (all_values == np.round(all_values)).all() and high - low <= MAX_INTEGER_TICKS:
        axis = np.arange(low, high + 1).tolist()  # one tick per integer
    else:
        axis = [tick for tick in _ticks(edges[0], edges[-1], log=log) if tick >= 1 or not log]
    return _frame("".join(lines), label, [(scale(v), f"{v:g}") for v in axis], f"{top:.0%}")


def _edges(values: Array, low: float, high: float, *, log: bool) -> Array:
    if high <= low:
        return np.array([low - 0.5, low + 0.5])
    integers = bool((values == np.round(values)).all())
    if integers and high - low < BINS:
        return np.arange(low - 0.5, high + 1.0)
    if log:
        edges = np.geomspace(low, high, BINS + 1)
        return np.unique(np.floor(edges) - 0.5) if integers and high > 100 else edges
    if integers:
        step = max(int(np.ceil((high - low + 1) / BINS)), 1)
        return np.arange(low, high + step + 1, step) - 0.5
    return np.linspace(low, high, BINS + 1)


def scatter(points: Mapping[str, Array], label: str) -> str:
    """Draw points ``[G, 2]`` of all groups, the last group on top; outliers move to the border.

    Large groups are thinned evenly to ``MAX_POINTS`` points.
    """
    all_points = np.concatenate(list(points.values()))
    low, high = np.quantile(all_points, 0.01, axis=0), np.quantile(all_points, 0.99, axis=0)
    extent = np.where(high > low, high - low, 1) * 1.2
    low = low - extent / 12
    paths = []
    for name, group_points in points.items():
        drawn = np.linspace(0, len(group_points) - 1, min(MAX_POINTS, len(group_points))).astype(
            np.int64
        )
        relative = np.clip((group_points[drawn] - low) / extent, 0, 1)
        x = 6 + relative[:, 0] * (SCATTER_SIZE[0] - 12)
        y = SCATTER_SIZE[1] - 6 - relative[:, 1] * (SCATTER_SIZE[1] - 12)
        marks = "".join(f"M{a:.1f} {b:.1f}h0" for a, b in zip(x, y, strict=True))
        paths.append(f'<path class="dots g-{name}" d="{marks}"/>')
    return (
        f'<svg class="chart" viewBox="0 0 {SCATTER_SIZE[0]} {SCATTER_SIZE[1]}" role="img" '
        f'aria-label="{escape(label)}">{"".join(paths)}</svg>'
    )


def curves(lines: Mapping[str, Sequence[float]], label: str, ends: tuple[float, float]) -> str:
    """Draw one line per group over epochs; ``ends`` are the limits of the y axis."""
    low, high = ends
    extent = high - low or 1.0
    longest = max(len(line) for line in lines.values())
    step = (WIDTH - LEFT - RIGHT) / max(longest - 1, 1)
    polylines = []
    for name, line in lines.items():
        points = " ".join(
            f"{LEFT + epoch * step:.1f},{_y((value - low) / extent):.1f}"
            for epoch, value in enumerate(line)
        )
        polylines.append(f'<polyline class="line g-{name}" points="{points}"/>')
    ticks = [(LEFT, "1"), (WIDTH - RIGHT, str(longest))]
    return _frame("".join(polylines), label, ticks, f"{high:.3g}", f"{low:.3g}")


def bars(rows: Sequence[tuple[str, str, float, str]]) -> str:
    """Draw one bar per row of group, name, share and text; repeated names are shown once."""
    items, previous = "", ""
    for group, name, share, text in rows:
        css_class = ' class="same"' if name == previous else ""
        name_html = f'<span class="unseen">{escape(name)}</span>' if css_class else escape(name)
        items += (
            f'<li{css_class}><span class="bar-name">{name_html}</span><span class="bar">'
            f'<span class="fill g-{group}" style="width:{share:.2%}"></span></span>'
            f'<span class="bar-value">{escape(text)}</span></li>'
        )
        previous = name
    return f'<ul class="bars">{items}</ul>'


def legend(groups: Mapping[str, str]) -> str:
    """Draw the legend of the groups."""
    items = "".join(
        f'<li><svg viewBox="0 0 26 8" aria-hidden="true"><path class="line g-{name}" d="M1 4h24"/>'
        f"</svg>{escape(text)}</li>"
        for name, text in groups.items()
    )
    return f'<ul class="legend">{items}</ul>'


def _frame(
    content: str, label: str, ticks: Sequence[tuple[float, str]], top: str, low: str = ""
) -> str:
    floor = HEIGHT - BOTTOM
    tick_labels = "".join(
        f'<text x="{min(max(x, LEFT + 4), WIDTH - RIGHT - 4):.1f}" y="{floor + 14}" '
        f'text-anchor="middle">{escape(text)}</text>'
        for x, text in ticks
    )
    return (
        f'<svg class="chart" viewBox="0 0 {WIDTH} {HEIGHT}" role="img" '
        f'aria-label="{escape(label)}">'
        f'<path class="axis" d="M{LEFT} {TOP}V{floor}H{WIDTH - RIGHT}"/>'
        f'<text x="{LEFT - 4}" y="{TOP + 9}" text-anchor="end">{escape(top)}</text>'
        f'<text x="{LEFT - 4}" y="{floor}" text-anchor="end">{escape(low)}</text>'
        f'<text class="label" x="{(LEFT + WIDTH - RIGHT) / 2}" y="{HEIGHT - 4}" '
        f'text-anchor="middle">{escape(label)}</text>{tick_labels}{content}</svg>'
    )


def _y(share: float) -> float:
    return HEIGHT - BOTTOM - share * (HEIGHT - TOP - BOTTOM)


def _scale(low: float, high: float, *, log: bool) -> Callable[[float], float]:
    """Return a function from values to x coordinates."""

    def transform(value: float) -> float:
        return float(np.log(max(value, 0.5))) if log else float(value)

    first, extent = transform(low), transform(high) - transform(low)
    return lambda value: LEFT + (transform(value) - first) / extent * (WIDTH - LEFT - RIGHT)


def _ticks(low: float, high: float, *, log: bool) -> list[float]:
    """Return up to six round numbers within the range."""
    if log:
        powers = [m * 10.0**e for e in range(-3, 8) for m in (1, 2, 5)]
        inside = [value for value in powers if low <= value <= high]
        return inside[:: max(len(inside) // 5, 1)]
    raw = (high - low) / 4
    power = 10.0 ** np.floor(np.log10(raw))
    step = next(power * m for m in (1, 2, 2.5, 5, 10) if power * m >= raw)
    numbers = np.arange(np.ceil(low / step), high / step + 1e-6)
    return [float(number * step) + 0.0 for number in numbers]  # no negative zero
