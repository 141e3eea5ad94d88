"""Draw docs/figures/recommended.svg: ``python docs/figures/forest.py``; ``--stdout`` prints it.

One row per dataset and method: the difference to training without new graphs, with its 95 %
interval, from ``results/differences/recommend.json``.
"""

from __future__ import annotations

import json
import sys
from pathlib import Path

HERE = Path(__file__).parent
SOURCE = HERE.parents[1] / "results" / "differences" / "recommend.json"
INK, FAINT, GRID = "#1f2328", "#59636e", "#d1d9e0"
COLORS = {"auto": "#0969da", "paper": "#bc4c00", "paper-featx": "#bc4c00"}
FONT = "-apple-system, Segoe UI, Helvetica, Arial, DejaVu Sans, sans-serif"
WIDTH, ROW, TOP, LEFT, RIGHT = 860, 24, 70, 250, 700
POINTS = {"mcc": 100.0}


def rows() -> list[dict]:
    """Return the OOD rows by dataset, ``auto`` first, in points."""
    document = json.loads(SOURCE.read_text(encoding="utf-8"))
    chosen = [row for row in document["differences"] if row["split"] == "ood_test"]
    for row in chosen:
        scale = POINTS.get(row["metric"], 1.0)
        row.update({name: row[name] * scale for name in ("difference", "low", "high")})
    return sorted(chosen, key=lambda row: (row["dataset"], row["method"] != "auto"))


def words(x: float, y: float, text: str, color: str = FAINT, anchor: str = "start") -> str:
    """Return a line of text."""
    place = f'x="{x:.1f}" y="{y:.1f}" font-size="12.5"'
    return f'<text {place} fill="{color}" text-anchor="{anchor}">{text}</text>'


def forest() -> str:
    """Return the picture."""
    table = rows()
    low = min(-5.0, *(row["low"] for row in table))
    high = max(5.0, *(row["high"] for row in table))
    height = TOP + ROW * len(table) + 46

    def place(value: float) -> float:
        return LEFT + (value - low) / (high - low) * (RIGHT - LEFT)

    parts = [
        f'<svg xmlns="http://www.w3.org/2000/svg" viewBox="0 0 {WIDTH} {height}" width="{WIDTH}" '
        f'height="{height}" font-family="{FONT}" role="img">',
        "<title>Difference of OOD test scores to no augmentation, with intervals</title>",
        f'<rect width="{WIDTH}" height="{height}" rx="8" fill="#ffffff" stroke="{GRID}"/>',
        words(
            20, 30, "OOD test score: difference to no augmentation, in points, 95 % interval", INK
        ),
        words(
            20,
            50,
            "auto: the recipe recommended by validation data. Right of zero is better.",
        ),
    ]
    bottom = TOP + ROW * len(table)
    step = 10 if high - low < 80 else 20
    for tick in range(-100, 101, step):
        if low <= tick <= high:
            x = place(tick)
            color = INK if tick == 0 else GRID
            parts.append(
                f'<line x1="{x:.1f}" y1="{TOP - 6}" x2="{x:.1f}" y2="{bottom}" stroke="{color}"/>'
            )
            parts.append(words(x, bottom + 18, f"{tick:+d}" if tick else "0", anchor="middle"))
    for number, row in enumerate(table):
        y, color = TOP + ROW * number + ROW / 2, COLORS.get(row["method"], FAINT)
        if not number or table[number - 1]["dataset"] != row["dataset"]:
            parts.append(words(20, y + 4, row["dataset"], INK))
        parts.append(words(LEFT - 14, y + 4, row["method"], color, "end"))
        parts.append(
            f'<line x1="{place(row["low"]):.1f}" y1="{y}" x2="{place(row["high"]):.1f}" y2="{y}" '
            f'stroke="{color}" stroke-width="2"/>'
        )
        parts.append(
            f'<circle cx="{place(row["difference"]):.1f}" cy="{y}" r="4.5" fill="{color}"/>'
        )
        summary = f"{row['difference']:+.1f} ({row['low']:+.1f} to {row['high']:+.1f})"
        parts.append(words(RIGHT + 16, y + 4, summary))
    return "\n".join([*parts, "</svg>\n"])


if __name__ == "__main__":
    if "--stdout" in sys.argv:
        sys.stdout.write(forest())
    else:
        (HERE / "recommended.svg").write_text(forest(), encoding="utf-8")
