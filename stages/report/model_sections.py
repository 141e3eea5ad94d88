"""The sections of the page that classifiers speak in: their scores, and their second opinion."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING

from gsx.schema import CorpusInfo
from gsx.stages.report import charts
from gsx.stages.report.html import figure, paragraph, table
from gsx.stages.report.model_results import Trained
from gsx.stages.report.sample import GROUPS

if TYPE_CHECKING:
    from gsx.stages.report.model_agreement import Opinion

HELD_OUT = ("id_test", "ood_val", "ood_test")


def learning_section(models: Sequence[Trained]) -> str:
    """Return the scores of classifiers, and curves of the best one per corpus."""
    if not models:
        return ""
    splits = [name for name in HELD_OUT
              if any(name in score for each in models for score in each.scores)]  # fmt: skip
    rows = [
        (each.name, each.where, len(each.scores), *(each.text(name) for name in splits))
        for each in models
    ]
    headers = ("classifier", "trained on", "seeds", *(GROUPS[name] for name in splits))
    words = (
        f"Scores ({models[0].metric}) of the classifiers found in the store, at the epoch that "
        "OOD validation selects; mean ± standard deviation over seeds, best validation first."
    )
    figures = _curves(models)
    key = charts.legend({name: GROUPS[name] for name in splits})
    return (
        paragraph(words)
        + table(headers, rows, "Scores of classifiers")
        + (f'{key}<div class="grid">{"".join(figures)}</div>' if figures else "")
    )


def _curves(models: Sequence[Trained]) -> list[str]:
    """Draw the best classifier of every corpus, all on one scale, so that eyes can compare."""
    best = {each.where: each for each in reversed(models) if each.curves}
    chosen = [each for each in models if best.get(each.where) is each]
    lines = [
        {
            name: [float(row[name]) for row in each.curves]
            for name in HELD_OUT
            if name in each.curves[0]
        }
        for each in chosen
    ]
    values = [value for drawn in lines for line in drawn.values() for value in line]
    return [
        figure(
            charts.curves(drawn, f"{each.metric} over epochs", (min(values), max(values))),
            f"{each.name}; one seed. All curves have one scale.",
            title=f"Trained on {each.where}",
        )
        for each, drawn in zip(chosen, lines, strict=True)
        if drawn
    ]


def opinion_section(opinion: Opinion | None, info: CorpusInfo) -> str:
    """Return what a classifier tells of every group and of every environment that was made."""
    if opinion is None:
        return ""
    told = [("same", "tells the label"), ("shared", "belief shared with it")]
    if info.metric != "accuracy":
        told.append(("score", f"{info.metric} on hard labels"))
    if info.task == "regression":
        told = [("off", "mean difference from the label")]
    items = "nodes" if info.level == "node" else "graphs"
    rows = [(row["name"], row["items"], *(_number(row.get(name), name) for name, _ in told))
            for row in opinion.rows]  # fmt: skip
    words = (
        f"Asked was {opinion.name} ({opinion.key[:12]}), trained on {opinion.where}, about sampled "
        f"{items}. Where it is sure of what it has never seen it may be wrong: read rows of "
        "synthetic ones beside those whose labels are known. A label torn between classes is told "
        "by either."
    )
    shown = table(("group", items, *(text for _, text in told)), rows, "A second opinion")
    return f'<h3 class="part">What a classifier tells</h3>{paragraph(words)}{shown}'


def _number(value: float | None, name: str) -> str:
    if value is None:
        return "-"
    return f"{value:.1%}" if name in ("same", "shared") else f"{value:.3g}"
