"""The lineage of an artifact as a picture: sources on the left, the artifact on the right."""

from __future__ import annotations

from collections.abc import Sequence
from html import escape
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from gsx.storage.artifacts.lineage import Ancestor

BOX, HIGH, ACROSS, DOWN, EDGE, LANE = 190, 52, 70, 24, 16, 14
POINTS = 64
"""Of a curve, that are held against boxes."""
COLORS = {"corpus": "#0072b2", "extractor": "#b36200", "bridge": "#00795a", "model": "#a04878"}


def lineage_svg(steps: Sequence[Ancestor]) -> str:
    """Draw every artifact once; an arrow leads from what was read to what was made.

    An arrow says what it was read for, unless that is what it is. One that would run behind a box
    goes around all of them, in a lane below.
    """
    parents = _parents(steps)
    column = {key: _depth(key, parents, frozenset()) for key in parents}
    most = max(column.values())
    rows: dict[int, list[str]] = {}
    for key in parents:
        rows.setdefault(most - column[key], []).append(key)
    tallest = max(len(keys) for keys in rows.values())
    width = EDGE * 2 + (most + 1) * BOX + most * ACROSS
    below = EDGE + tallest * HIGH + (tallest - 1) * DOWN
    place = {
        key: (
            EDGE + at * (BOX + ACROSS),
            EDGE + row * (HIGH + DOWN) + (tallest - len(keys)) * (HIGH + DOWN) / 2,
        )
        for at, keys in rows.items()
        for row, key in enumerate(keys)
    }
    first = {step.key: step for step in reversed(steps)}
    arrows, lanes = [], 0
    for child, found in parents.items():
        for number, (key, role) in enumerate(sorted(found, key=lambda pair: place[pair[0]][1])):
            entry = place[child][1] + HIGH * (number + 1) / (len(found) + 1)
            start = (place[key][0] + BOX, place[key][1] + HIGH / 2)
            end = (place[child][0] - 2, entry)
            others = [at for box, at in place.items() if box not in (key, child)]
            behind = _hidden(start, end, others)
            lanes += behind
            lane = below + LANE * lanes if behind else None
            arrows.append(_arrow(start, end, lane, "" if role == first[key].kind else role))
    height = below + LANE * lanes + EDGE
    lines = [
        f'<svg xmlns="http://www.w3.org/2000/svg" viewBox="0 0 {width} {height:g}" '
        f'width="{width}" height="{height:g}" font-family="system-ui, sans-serif" font-size="13">',
        '<defs><marker id="a" viewBox="0 0 8 8" refX="7" refY="4" markerWidth="7" markerHeight="7" '
        'orient="auto"><path d="M0 0L8 4L0 8z" fill="#6b7680"/></marker></defs>',
        f'<rect width="{width}" height="{height:g}" fill="#fbfaf7"/>',
    ]
    lines += arrows
    lines += [_box(place[key], first[key]) for key in parents]
    return "\n".join([*lines, "</svg>\n"])


def _parents(steps: Sequence[Ancestor]) -> dict[str, list[tuple[str, str]]]:
    """Return, of every artifact, the keys it was made from and what for."""
    found: dict[str, list[tuple[str, str]]] = {step.key: [] for step in steps}
    above: list[str] = []
    for step in steps:
        above = above[: step.depth]
        if above:
            pair = (step.key, step.role)
            if pair not in found[above[-1]]:
                found[above[-1]].append(pair)
        above.append(step.key)
    return found


def _depth(key: str, parents: dict[str, list[tuple[str, str]]], met: frozenset[str]) -> int:
    """Return how many steps lie between an artifact and the one that everything leads to."""
    children = [child for child, found in parents.items() if key in [p for p, _ in found]]
    steps = [_depth(child, parents, met | {key}) for child in children if child not in met]
    return max(steps, default=-1) + 1


Point = tuple[float, float]


def _hidden(start: Point, end: Point, boxes: Sequence[Point]) -> bool:
    """Say whether a curve between two points runs behind a box."""
    (x, y), (u, v) = start, end
    for number in range(1, POINTS):
        t = number / POINTS
        at = x + (u - x) * (1.5 * t * (1 - t) + t**3)
        high = y + (v - y) * (3 * t**2 - 2 * t**3)
        if any(a <= at <= a + BOX and b <= high <= b + HIGH for a, b in boxes):
            return True
    return False


def _arrow(start: Point, end: Point, lane: float | None, role: str) -> str:
    (x, y), (u, v) = start, end
    bend = (u - x) / 2
    curve = f"M{x:g} {y:g}C{x + bend:g} {y:g} {u - bend:g} {v:g} {u:g} {v:g}"
    if lane is not None:
        half, left, right = ACROSS / 2, x + ACROSS, u - ACROSS
        curve = (
            f"M{x:g} {y:g}C{x + half:g} {y:g} {x + half:g} {lane:g} {left:g} {lane:g}"
            f"H{right:g}C{u - half:g} {lane:g} {u - half:g} {v:g} {u:g} {v:g}"
        )
    label = (
        f'<text x="{u - 10:g}" y="{v - 5:g}" text-anchor="end" font-size="11" fill="#5a646e">'
        f"{escape(role)}</text>"
        if role
        else ""
    )
    return f'<path d="{curve}" fill="none" stroke="#6b7680" marker-end="url(#a)"/>{label}'


def _box(at: tuple[float, float], step: Ancestor) -> str:
    color = COLORS.get(step.kind, "#5a646e")
    made = f"by {step.stage}" if step.stage else "not in this store"
    dashed = "" if step.stage else ' stroke-dasharray="4 3"'
    text = (at[0] + 14, at[1] + 21, at[1] + 39)
    return (
        f'<g><rect x="{at[0]:g}" y="{at[1]:g}" width="{BOX}" height="{HIGH}" rx="8" '
        f'fill="#ffffff" stroke="{color}"{dashed}/>'
        f'<text x="{text[0]:g}" y="{text[1]:g}" font-weight="600" fill="{color}">'
        f"{escape(step.kind)}</text>"
        f'<text x="{text[0]:g}" y="{text[2]:g}" fill="#1d2329" font-size="12">'
        f"{escape(step.key[:12])} {escape(made)}</text></g>"
    )
