"""The forest plot of a recommendation: every recipe once, in order, escaped."""

import re

from gsx.stages.report.recommendation_section import forest_plot, recommendation_section
from gsx.storage.artifacts.manifest import Manifest


def row(mean, low, high):
    return {"mean": mean, "low": low, "high": high, "probability": 0.9}


def manifest(recipes, choice="grow"):
    summary = {
        "choice": choice, "reason": "it <helps>", "decided_by": "confirmation",
        "metric": "accuracy", "validation": "ood_val", "threshold": 0.99, "recipes": recipes,
    }  # fmt: skip
    return Manifest(
        kind="recommendation", key="k" * 64, digest="d" * 64, stage="recommend", stage_version=1,
        config={}, parents=(), raw={}, seeds={}, files={},
        summary={"name": "test", "recommendation": summary},
    )  # fmt: skip


def test_without_a_recommendation_there_is_no_section():
    assert recommendation_section([]) == ""


def test_both_phases_have_a_plot_with_the_best_recipe_first():
    recipes = [
        {"name": "none", "screen": None, "confirmed": None},
        {"name": "swap", "screen": row(-1, -2, 0.5), "confirmed": None},
        {"name": "grow", "screen": row(3, 1, 5), "confirmed": row(2, 1, 3)},
    ]
    html = recommendation_section([manifest(recipes)])
    assert html.count("<svg") == 2
    assert "Recommended recipe: grow. Reason: it &lt;helps&gt;." in html
    screen = html.split("<svg")[2]
    assert re.findall(r">(grow|swap|none)<", screen) == ["grow", "swap"]


def test_points_lie_inside_of_their_intervals_and_the_drawing():
    svg = forest_plot([("grow", row(3, 1, 5)), ("swap", row(-1, -2, 0.5))], "grow")
    lines = re.findall(r'x1="([\d.]+)" x2="([\d.]+)" y1', svg)
    points = [float(x) for x in re.findall(r'circle cx="([\d.]+)"', svg)]
    intervals = [(float(low), float(high)) for low, high in lines][-2:]
    assert all(low < x < high for x, (low, high) in zip(points, intervals, strict=True))
    assert all(0 < x < 620 for x in points)


def test_extreme_numbers_and_names_do_not_break_the_drawing():
    svg = forest_plot([("<b>", row(1e300, -1e300, 1e300))], "none")
    assert "<b>" not in svg
    assert "nan" not in svg
    assert "inf" not in svg
