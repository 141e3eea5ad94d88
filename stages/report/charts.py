"""Small pictures as SVG: every color is a variable of the page, every line has a pattern too."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from html import escape

import numpy as np

from gsx.ragged import Array

WIDTH, HEIGHT = 360, 210
LEFT, RIGHT, TOP, BOTTOM = 36, 8, 8, 34
PLANE = (560, 300)
BINS = 36
FEW_TICKS = 6
POINTS = 500
"""Points of a group that a scatter plot shows."""


def histogram(values: Mapping[str, Array], label: str) -> str:
    """Draw how the values of every group are spread, as shares of the group."""
    every = np.concatenate([np.asarray(each, dtype=np.float64) for each in values.values()])
    low, high = float(every.min()), float(np.quantile(every, 0.999))  # one giant must not rule
    log = low >= 1 and high / low > 20  # counts; shares of one are told apart without it
    edges = _edges(every, low, high, log=log)
    shares = {
        name: np.histogram(np.minimum(each, high), edges)[0] / max(len(each), 1)
        for name, each in values.items()
    }
    top = max(float(each.max()) for each in shares.values()) or 1.0
    scale = _scale(edges[0], edges[-1], log=log)
    lines = []
    for name, share in shares.items():
        at = np.repeat(edges, 2)
        heights = np.concatenate([[0], np.repeat(share, 2), [0]]) / top
        points = " ".join(f"{scale(x):.1f},{_y(h):.1f}" for x, h in zip(at, heights, strict=True))
        lines.append(f'<polyline class="line g-{name}" points="{points}"/>')
    if (every == np.round(every)).all() and high - low <= FEW_TICKS:
        axis = np.arange(low, high + 1).tolist()  # whole numbers alone, each of them
    else:
        axis = [tick for tick in _ticks(edges[0], edges[-1], log=log) if tick >= 1 or not log]
    return _frame("".join(lines), label, [(scale(v), f"{v:g}") for v in axis], f"{top:.0%}")


def _edges(every: Array, low: float, high: float, *, log: bool) -> Array:
    if high <= low:
        return np.array([low - 0.5, low + 0.5])
    whole = bool((every == np.round(every)).all())
    if whole and high - low < BINS:
        return np.arange(low - 0.5, high + 1.0)
    if log:
        edges = np.geomspace(low, high, BINS + 1)
        return np.unique(np.floor(edges) - 0.5) if whole and high > 100 else edges
    if whole:
        step = max(int(np.ceil((high - low + 1) / BINS)), 1)
        return np.arange(low, high + step + 1, step) - 0.5
    return np.linspace(low, high, BINS + 1)


def scatter(points: Mapping[str, Array], label: str) -> str:
    """Draw ``[G, 2]`` places of graphs; the last group lies on top, what is far out on the edge.

    Of a large group every n-th point is drawn, so that all its parts are there.
    """
    every = np.concatenate(list(points.values()))
    low, high = np.quantile(every, 0.01, axis=0), np.quantile(every, 0.99, axis=0)
    reach = np.where(high > low, high - low, 1) * 1.2
    low = low - reach / 12
    dots = []
    for name, each in points.items():
        some = np.linspace(0, len(each) - 1, min(POINTS, len(each))).astype(np.int64)
        inside = np.clip((each[some] - low) / reach, 0, 1)
        x = 6 + inside[:, 0] * (PLANE[0] - 12)
        y = PLANE[1] - 6 - inside[:, 1] * (PLANE[1] - 12)
        marks = "".join(f"M{a:.1f} {b:.1f}h0" for a, b in zip(x, y, strict=True))
        dots.append(f'<path class="dots g-{name}" d="{marks}"/>')
    return (
        f'<svg class="chart" viewBox="0 0 {PLANE[0]} {PLANE[1]}" role="img" '
        f'aria-label="{escape(label)}">{"".join(dots)}</svg>'
    )


def curves(lines: Mapping[str, Sequence[float]], label: str, ends: tuple[float, float]) -> str:
    """Draw one line per group over epochs, between the ``ends`` of the scale."""
    low, high = ends
    reach = high - low or 1.0
    longest = max(len(line) for line in lines.values())
    wide = (WIDTH - LEFT - RIGHT) / max(longest - 1, 1)
    drawn = []
    for name, line in lines.items():
        points = " ".join(
            f"{LEFT + place * wide:.1f},{_y((value - low) / reach):.1f}"
            for place, value in enumerate(line)
        )
        drawn.append(f'<polyline class="line g-{name}" points="{points}"/>')
    ticks = [(LEFT, "1"), (WIDTH - RIGHT, str(longest))]
    return _frame("".join(drawn), label, ticks, f"{high:.3g}", f"{low:.3g}")


def bars(rows: Sequence[tuple[str, str, float, str]]) -> str:
    """Draw one bar per row of group, name, share and text; a name that repeats is said once."""
    items, before = "", ""
    for group, name, share, text in rows:
        kind = ' class="same"' if name == before else ""
        said = f'<span class="unseen">{escape(name)}</span>' if kind else escape(name)
        items += (
            f'<li{kind}><span class="bar-name">{said}</span><span class="bar">'
            f'<span class="fill g-{group}" style="width:{share:.2%}"></span></span>'
            f'<span class="bar-value">{escape(text)}</span></li>'
        )
        before = name
    return f'<ul class="bars">{items}</ul>'


def legend(groups: Mapping[str, str]) -> str:
    """Draw the key to the groups of a chart."""
    items = "".join(
        f'<li><svg viewBox="0 0 26 8" aria-hidden="true"><path class="line g-{name}" d="M1 4h24"/>'
        f"</svg>{escape(text)}</li>"
        for name, text in groups.items()
    )
    return f'<ul class="legend">{items}</ul>'


def _frame(
    inside: str, label: str, ticks: Sequence[tuple[float, str]], top: str, low: str = ""
) -> str:
    floor = HEIGHT - BOTTOM
    marks = "".join(
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
        f'text-anchor="middle">{escape(label)}</text>{marks}{inside}</svg>'
    )


def _y(share: float) -> float:
    return HEIGHT - BOTTOM - share * (HEIGHT - TOP - BOTTOM)


def _scale(low: float, high: float, *, log: bool) -> Callable[[float], float]:
    """Return what gives the place of a value on the axis."""

    def ruler(value: float) -> float:
        return float(np.log(max(value, 0.5))) if log else float(value)

    first, reach = ruler(low), ruler(high) - ruler(low)
    return lambda value: LEFT + (ruler(value) - first) / reach * (WIDTH - LEFT - RIGHT)


def _ticks(low: float, high: float, *, log: bool) -> list[float]:
    """Return round numbers inside the range, at most six."""
    if log:
        powers = [m * 10.0**e for e in range(-3, 8) for m in (1, 2, 5)]
        inside = [value for value in powers if low <= value <= high]
        return inside[:: max(len(inside) // 5, 1)]
    raw = (high - low) / 4
    power = 10.0 ** np.floor(np.log10(raw))
    step = next(power * m for m in (1, 2, 2.5, 5, 10) if power * m >= raw)
    return [float(v) for v in np.arange(np.ceil(low / step) * step, high + step * 1e-6, step)]
