"""Sections about classifiers: their scores, and their agreement with the labels."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING

from gsx.schema import CorpusInfo
from gsx.stages.report import charts
from gsx.stages.report.html import figure, paragraph, table
from gsx.stages.report.model_results import TrainedModels
from gsx.stages.report.sample import GROUPS
from gsx.stages.task_text import METRIC_NAMES
from gsx.stages.train.config import CLASSICAL

if TYPE_CHECKING:
    from gsx.stages.report.model_agreement import ModelAgreement

_SOFT_LABELS = {
    "classification": "For a soft label, any of its most likely classes counts as agreement."
}
_CONCORDANCE = (
    "For values and soft labels, it is the fraction of pairs with different labels whose "
    "predictions have the same order."
)
HELD_OUT = ("id_test", "ood_val", "ood_test")


def scores_section(models: Sequence[TrainedModels]) -> str:
    """Return a table of scores, and the curves of the best classifier per training corpus."""
    if not models:
        return ""
    splits = [name for name in HELD_OUT
              if any(name in score for model in models for score in model.scores)]  # fmt: skip
    rows = [
        (model.name, model.trained_on, len(model.scores), *(model.text(name) for name in splits))
        for model in models
    ]
    headers = ("classifier", "trained on", "seeds", *(GROUPS[name] for name in splits))
    text = (
        f"Scores ({models[0].metric}) of the classifiers in the store, at the epoch of their "
        "selection rule; mean ± standard deviation over seeds, sorted by OOD validation."
    )
    figures = _curves(models)
    key = charts.legend({name: GROUPS[name] for name in splits})
    return (
        paragraph(text)
        + table(headers, rows, "Scores of classifiers")
        + (f'{key}<div class="grid">{"".join(figures)}</div>' if figures else "")
    )


def _curves(models: Sequence[TrainedModels]) -> list[str]:
    """Draw the curves of the best classifier per training corpus, with a common scale."""
    networks = [model for model in models if model.config["backbone"] not in CLASSICAL]
    best = {model.trained_on: model for model in reversed(networks) if model.curves}
    selected = [model for model in models if best.get(model.trained_on) is model]
    lines = [
        {
            name: [float(row[name]) for row in model.curves]
            for name in HELD_OUT
            if all(name in row for row in model.curves)
        }
        for model in selected
    ]
    values = [value for model_lines in lines for line in model_lines.values() for value in line]
    return [
        figure(
            charts.curves(model_lines, f"{model.metric} over epochs", (min(values), max(values))),
            f"{model.name}; one seed. All charts have the same scale.",
            title=f"Trained on {model.trained_on}",
        )
        for model, model_lines in zip(selected, lines, strict=True)
        if model_lines
    ]


def agreement_section(agreement: ModelAgreement | None, info: CorpusInfo) -> str:
    """Return the agreement per group and per environment of generated items."""
    if agreement is None:
        return ""
    columns = [("agreement", agreement.measure), ("shared", "probability overlap")]
    if info.task == "classification":
        columns.insert(1, ("same", "accuracy"))
    if info.metric != "accuracy":
        columns.append(("score", f"{METRIC_NAMES.get(info.metric, info.metric)} on hard labels"))
    if info.task == "regression":
        columns = [("agreement", agreement.measure), ("off", "mean absolute error")]
    items = "nodes" if info.level == "node" else "graphs"
    rows = [(row["name"], row["items"], *(_number(row.get(name), name) for name, _ in columns))
            for row in agreement.rows]  # fmt: skip
    text = (
        f"Predictions of {agreement.name} ({agreement.key[:12]}), trained on "
        f"{agreement.trained_on}, compared with the labels of sampled {items}. The classifier can "
        "be wrong outside its training distribution: compare generated groups with groups whose "
        "labels are known. Chance is "
        f"{agreement.chance:.0%}. {_SOFT_LABELS.get(info.task, _CONCORDANCE)}"
    )
    html = table(("group", items, *(text for _, text in columns)), rows, "Classifier agreement")
    return f'<h3 class="part">Classifier agreement</h3>{paragraph(text)}{html}'


def _number(value: float | None, name: str) -> str:
    if value is None:
        return "-"
    return f"{value:.1%}" if name in ("agreement", "same", "shared") else f"{value:.3g}"
