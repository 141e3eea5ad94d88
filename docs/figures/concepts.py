"""Draw shifts.svg and streams.svg: ``python docs/figures/concepts.py``."""

from __future__ import annotations

from pathlib import Path

FOLDER = Path(__file__).parent
TEXT, MUTED, LINE, PANEL = "#1f2328", "#59636e", "#d1d9e0", "#f6f8fa"
BLUE, ORANGE, GREEN, RED = "#0969da", "#bc4c00", "#1a7f37", "#cf222e"
FONT = "-apple-system, Segoe UI, Helvetica, Arial, DejaVu Sans, sans-serif"


def text(x: float, y: float, words: str, *, color: str = MUTED, weight: int = 400) -> str:
    """Return a centered line of text."""
    return (
        f'<text x="{x:g}" y="{y:g}" font-size="13" fill="{color}" text-anchor="middle" '
        f'font-weight="{weight}">{words}</text>'
    )


def box(x: float, y: float, width: float, height: float, color: str = LINE) -> str:
    """Return a panel."""
    return (
        f'<rect x="{x:g}" y="{y:g}" width="{width:g}" height="{height:g}" rx="6" fill="{PANEL}" '
        f'stroke="{color}" stroke-width="1.5"/>'
    )


def picture(width: int, height: int, title: str, parts: list[str]) -> str:
    """Return an SVG document."""
    head = (
        f'<svg xmlns="http://www.w3.org/2000/svg" viewBox="0 0 {width} {height}" width="{width}" '
        f'height="{height}" font-family="{FONT}" role="img">\n<title>{title}</title>\n'
        f'<rect width="{width}" height="{height}" rx="8" fill="#ffffff" stroke="{LINE}"/>'
    )
    return "\n".join([head, *parts, "</svg>\n"])


def shifts() -> str:
    """Return the figure of domains, environments and splits."""
    parts = []
    for number in range(24):
        x, size = 40 + 30 * number, 3 + number * 0.45
        color = BLUE if number < 15 else ORANGE if number < 19 else RED
        parts.append(
            f'<circle cx="{x}" cy="62" r="{size:.2f}" fill="{color}" fill-opacity="0.75"/>'
        )
    parts.append(text(385, 30, "graphs sorted by domain, such as size →", color=TEXT, weight=600))
    for start, stop, name in (
        (0, 4, "environment 0"),
        (5, 9, "environment 1"),
        (10, 14, "environment 2"),
    ):
        left = 27 + 30 * start
        parts += [
            box(left, 92, 30 * (stop - start) + 26, 30),
            text((left * 2 + 146) / 2, 112, name),
        ]
    splits = (
        (27, 446, BLUE, "train · id_val · id_test"),
        (477, 116, ORANGE, "ood_val"),
        (597, 146, RED, "ood_test"),
    )
    for left, width, color, name in splits:
        parts += [
            box(left, 134, width, 34, color),
            text(left + width / 2, 156, name, color=color, weight=600),
        ]
    parts.append(text(250, 192, "scores in distribution (ID)"))
    parts.append(text(535, 192, "choose recipes"))
    parts.append(text(670, 192, "scores OOD, read once"))
    return picture(770, 210, "Domains become environments and splits", parts)


def streams() -> str:
    """Return the figure of named random streams."""
    parts = [
        text(
            385, 30, "root seed + name of the block → its own random stream", color=TEXT, weight=600
        )
    ]
    colors = (BLUE, GREEN, ORANGE, BLUE, ORANGE, GREEN)
    for number, color in enumerate(colors):
        left = 30 + 120 * number
        parts += [
            box(left, 50, 108, 48, color),
            text(left + 54, 71, f"g_whole / {number}", color=color, weight=600),
            text(left + 54, 89, "1,024 graphs"),
            f'<line x1="{left + 54}" y1="98" x2="{left + 54}" y2="128" stroke="{MUTED}"/>',
        ]
    parts.append(box(30, 128, 708, 40))
    parts.append(
        text(384, 153, "one shard: the same bytes for any worker and order", color=TEXT, weight=600)
    )
    for left, color, name in (
        (150, BLUE, "worker 1"),
        (330, GREEN, "worker 2"),
        (510, ORANGE, "after a restart"),
    ):
        parts.append(f'<circle cx="{left}" cy="188" r="6" fill="{color}"/>')
        parts.append(text(left + 12 + 3.4 * len(name), 193, name))
    return picture(770, 210, "Blocks have random streams of their own", parts)


if __name__ == "__main__":
    (FOLDER / "shifts.svg").write_text(shifts(), encoding="utf-8")
    (FOLDER / "streams.svg").write_text(streams(), encoding="utf-8")
