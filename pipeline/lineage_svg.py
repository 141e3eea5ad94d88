"""Draw the lineage of an artifact as SVG: sources on the left, the artifact on the right."""

from __future__ import annotations

import html
from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING

from gsx.errors import UsageError
from gsx.escape import printable

if TYPE_CHECKING:
    from gsx.storage.artifacts.lineage import Ancestor

BOX_WIDTH, BOX_HEIGHT, COLUMN_GAP, ROW_GAP, MARGIN, LANE_HEIGHT = 214, 52, 70, 24, 16, 14
MAX_BOXES = 200
"""Largest drawing; larger ones are not legible."""
CURVE_SAMPLES = 64
"""Points of a curve that are tested against boxes."""
COLORS = {"corpus": "#0072b2", "extractor": "#b36200", "bridge": "#00795a", "model": "#a04878"}
Point = tuple[float, float]


def escape(text: str) -> str:
    """Return text for an SVG file; XML does not allow control characters."""
    return html.escape(printable(text))


def can_draw(ancestors: Sequence[Ancestor]) -> bool:
    """Return whether a lineage is small enough to be drawn."""
    return len({a.key for a in ancestors}) <= MAX_BOXES and len(ancestors) <= 2 * MAX_BOXES


def lineage_svg(
    ancestors: Sequence[Ancestor], links: Mapping[str, str] | None = None, current: str = ""
) -> str:
    """Draw every artifact once, with an arrow from each input to the artifact built from it.

    An arrow is labelled with the role of the input, unless that equals its kind. An arrow that
    would pass behind a box runs around all boxes, in a lane below them. ``ancestors`` may hold
    several lineages. With ``links`` (key → URL), boxes are links with classes for CSS;
    ``current`` is the key of the box to emphasize.
    """
    parents = _parents(ancestors)
    if not can_draw(ancestors):
        raise UsageError(
            f"--svg draws at most {MAX_BOXES} artifacts and {2 * MAX_BOXES} arrows; this lineage "
            f"has {len(parents)} and {len(ancestors)}. Leave --svg out."
        )
    depth = _depths(parents)
    max_depth = max(depth.values())
    columns: dict[int, list[str]] = {}
    for key in parents:
        columns.setdefault(max_depth - depth[key], []).append(key)
    num_rows = max(len(keys) for keys in columns.values())
    width = MARGIN * 2 + (max_depth + 1) * BOX_WIDTH + max_depth * COLUMN_GAP
    bottom = MARGIN + num_rows * BOX_HEIGHT + (num_rows - 1) * ROW_GAP
    corners = {
        key: (
            MARGIN + column * (BOX_WIDTH + COLUMN_GAP),
            MARGIN
            + row * (BOX_HEIGHT + ROW_GAP)
            + (num_rows - len(keys)) * (BOX_HEIGHT + ROW_GAP) / 2,
        )
        for column, keys in columns.items()
        for row, key in enumerate(keys)
    }
    by_key = {ancestor.key: ancestor for ancestor in reversed(ancestors)}
    arrows, num_lanes = [], 0
    for child, inputs in parents.items():
        from_top = sorted(inputs, key=lambda pair: corners[pair[0]][1])
        for number, (key, role) in enumerate(from_top):
            entry = corners[child][1] + BOX_HEIGHT * (number + 1) / (len(inputs) + 1)
            start = (corners[key][0] + BOX_WIDTH, corners[key][1] + BOX_HEIGHT / 2)
            end = (corners[child][0] - 2, entry)
            obstacles = [corner for box, corner in corners.items() if box not in (key, child)]
            hidden = _passes_behind(start, end, obstacles)
            num_lanes += hidden
            lane = bottom + LANE_HEIGHT * num_lanes if hidden else None
            arrows.append(_arrow(start, end, lane, "" if role == by_key[key].kind else role))
    height = bottom + LANE_HEIGHT * num_lanes + MARGIN
    lines = [
        f'<svg xmlns="http://www.w3.org/2000/svg" viewBox="0 0 {width} {height:g}" '
        f'width="{width}" height="{height:g}" font-family="system-ui, sans-serif" font-size="13">',
        '<defs><marker id="a" viewBox="0 0 8 8" refX="7" refY="4" markerWidth="7" markerHeight="7" '
        'orient="auto"><path d="M0 0L8 4L0 8z" fill="#6b7680"/></marker></defs>',
        f'<rect width="{width}" height="{height:g}" fill="#fbfaf7"/>',
    ]
    lines += arrows
    boxes = {key: _box(corners[key], by_key[key]) for key in parents}
    if links is not None:
        boxes = {
            key: _link(box, by_key[key], links.get(key), is_current=key == current)
            for key, box in boxes.items()
        }
    lines += boxes.values()
    return "\n".join([*lines, "</svg>\n"])


def _parents(ancestors: Sequence[Ancestor]) -> dict[str, list[tuple[str, str]]]:
    """Return the key of every artifact → keys and roles of its inputs."""
    parents: dict[str, list[tuple[str, str]]] = {ancestor.key: [] for ancestor in ancestors}
    path: list[str] = []
    for ancestor in ancestors:
        path = path[: ancestor.depth]
        if path:
            pair = (ancestor.key, ancestor.role)
            if pair not in parents[path[-1]]:
                parents[path[-1]].append(pair)
        path.append(ancestor.key)
    return parents


def _depths(parents: dict[str, list[tuple[str, str]]]) -> dict[str, int]:
    """Return the length of the longest path from every artifact to the last artifact.

    Keys of unknown origin can form cycles; edges that close one do not count.
    """
    finished: list[str] = []
    state: dict[str, str] = {}
    forward: list[tuple[str, str]] = []
    for root in parents:
        pending = [] if root in state else [(root, iter(parents[root]))]
        state.setdefault(root, "open")
        while pending:
            child, inputs = pending[-1]
            for key, _ in inputs:
                if state.get(key) != "open":
                    forward.append((child, key))
                if key not in state:
                    state[key] = "open"
                    pending.append((key, iter(parents[key])))
                    break
            else:
                state[child] = "finished"
                finished.append(child)
                pending.pop()
    inputs_of: dict[str, list[str]] = {}
    for child, key in forward:
        inputs_of.setdefault(child, []).append(key)
    depths = dict.fromkeys(parents, 0)
    for child in reversed(finished):
        for key in inputs_of.get(child, ()):
            depths[key] = max(depths[key], depths[child] + 1)
    return depths


def _passes_behind(start: Point, end: Point, boxes: Sequence[Point]) -> bool:
    """Return whether a curve between two points passes behind a box."""
    (x, y), (u, v) = start, end
    for number in range(1, CURVE_SAMPLES):
        t = number / CURVE_SAMPLES
        curve_x = x + (u - x) * (1.5 * t * (1 - t) + t**3)
        curve_y = y + (v - y) * (3 * t**2 - 2 * t**3)
        if any(a <= curve_x <= a + BOX_WIDTH and b <= curve_y <= b + BOX_HEIGHT for a, b in boxes):
            return True
    return False


def _arrow(start: Point, end: Point, lane: float | None, role: str) -> str:
    """Return a curved arrow; with ``lane``, it runs at this height between its ends."""
    (x, y), (u, v) = start, end
    bend = (u - x) / 2
    curve = f"M{x:g} {y:g}C{x + bend:g} {y:g} {u - bend:g} {v:g} {u:g} {v:g}"
    if lane is not None:
        half, left, right = COLUMN_GAP / 2, x + COLUMN_GAP, u - COLUMN_GAP
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


def _box(corner: Point, ancestor: Ancestor) -> str:
    """Return the box of an artifact: kind, key and stage."""
    color = COLORS.get(ancestor.kind, "#5a646e")
    known = [f"by {ancestor.stage}"] if ancestor.stage else []
    origin = ", ".join([*known, *([] if ancestor.stored else ["not in this store"])])
    dashed = "" if ancestor.stored else ' stroke-dasharray="4 3"'
    left, kind_y, key_y = corner[0] + 14, corner[1] + 21, corner[1] + 39
    return (
        f'<g><rect x="{corner[0]:g}" y="{corner[1]:g}" width="{BOX_WIDTH}" height="{BOX_HEIGHT}" '
        f'rx="8" fill="#ffffff" stroke="{color}"{dashed}/>'
        f'<text x="{left:g}" y="{kind_y:g}" font-weight="600" fill="{color}">'
        f"{escape(ancestor.kind)}</text>"
        f'<text x="{left:g}" y="{key_y:g}" fill="#1d2329" font-size="12">'
        f"{escape(ancestor.key[:12])} {escape(origin)}</text></g>"
    )


def _link(box: str, ancestor: Ancestor, url: str | None, *, is_current: bool) -> str:
    """Return a box as a link with classes; without a URL, it has classes only."""
    classes = f"box {escape(ancestor.kind)}{' current' if is_current else ''}"
    if url is None:
        return f'<g class="{classes}">{box}</g>'
    here = ' aria-current="page"' if is_current else ""
    return f'<a class="{classes}" href="{escape(url)}"{here}>{box}</a>'
