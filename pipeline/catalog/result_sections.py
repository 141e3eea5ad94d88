"""Sections about results: scores of models, quality of other artifacts, models of a corpus."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from html import escape
from typing import Any

from gsx.pipeline.catalog.html import code, details, format_options, link, shorten, table
from gsx.pipeline.catalog.inventory import Entry
from gsx.pipeline.listing import ListedArtifact, distinguishing_options
from gsx.plurals import counted
from gsx.stages.export.card_text import quality_lines
from gsx.stages.report.html import paragraph
from gsx.stages.task_text import METRIC_NAMES
from gsx.stages.train.metrics import lower_is_better
from gsx.storage.artifacts.manifest import Manifest
from gsx.storage.corpora.summary import model_scores, read_quality, selected_rule

HELD_OUT = ("id_val", "id_test", "ood_val", "ood_test")
RULES = {
    "last": "last epoch",
    "ood_val": "best epoch by ood_val",
    "id_val": "best epoch by id_val",
    "augmented": "best epoch by augmented graphs",
}
"""Selection rules of an epoch, with their descriptions."""
MAX_OPEN, MAX_FIGURES, MAX_MODELS, MAX_DEPTH = 20, 60, 100, 4
"""Figures that are not folded, figures, models, and nesting of figures that are shown."""


def metric_name(metric: str | None) -> str:
    """Return the name of a metric for display."""
    return METRIC_NAMES.get(metric or "", metric or "")


def scores_section(manifest: Manifest) -> str:
    """Return the scores of a model by selection rule, the rule that it reports first."""
    quality = model_scores(manifest)
    selected = selected_rule(quality)
    rules = sorted(quality["selection"], key=lambda rule: (rule != selected, rule))
    rows = [
        (
            RULES.get(rule, rule) + (" (reported)" if rule == selected else ""),
            _integer(quality["selection"][rule].get("epoch")),
            *(quality["selection"][rule].get(split) for split in HELD_OUT),
        )
        for rule in rules
    ]
    return table((f"{metric_name(quality['metric'])} at", "epoch", *HELD_OUT), rows, "Scores")


def _integer(value: float | None) -> int | None:
    return None if value is None else int(value)


def quality_section(manifest: Manifest) -> str:
    """Return the quality metrics of an artifact as a table; empty if there are none."""
    figures = list(_flatten(read_quality(manifest)))
    if not figures:
        return ""
    lines = "".join(f"<li>{escape(line)}</li>" for line in quality_lines(manifest))
    shown = table(("measure", "value"), figures[:MAX_FIGURES], "Quality")
    more = len(figures) - MAX_FIGURES
    note = paragraph(f"{more} more figures are in the manifest.", "soft") if more > 0 else ""
    if len(figures) > MAX_OPEN:
        shown = details(f"{len(figures)} figures", shown, note)
    return (f"<ul>{lines}</ul>" if lines else "") + shown


def _flatten(value: Mapping[str, Any], names: tuple[str, ...] = ()) -> Iterator[tuple[str, object]]:
    """Yield the numbers and texts of nested objects; lists of objects are left out."""
    for name, item in value.items():
        path = (*names, str(name).replace("_", " "))
        if isinstance(item, dict) and len(path) < MAX_DEPTH:
            yield from _flatten(item, path)
        elif isinstance(item, bool | int | float | str):
            yield (
                shorten(" · ".join(path), 120),
                shorten(item, 200) if isinstance(item, str) else item,
            )
        elif isinstance(item, list) and item and all(isinstance(x, int | float) for x in item):
            yield shorten(" · ".join(path), 120), shorten(", ".join(f"{x:g}" for x in item), 200)


def models_section(models: Sequence[Entry]) -> str:
    """Return the models that were trained on a corpus, with their scores, the best first."""
    if not models:
        return ""
    ordered = sorted(models, key=lambda entry: _rank(entry.facts))
    options = distinguishing_options([entry.facts for entry in ordered])
    metrics = {entry.facts.metric for entry in ordered}
    tagged = any(entry.facts.tags for entry in ordered)
    rows = [
        (
            link(entry.page, entry.manifest.key[:12], code=True),
            *([", ".join(entry.facts.tags)] if tagged else []),
            *([metric_name(entry.facts.metric)] if len(metrics) > 1 else []),
            *(entry.facts.scores.get(split) for split in HELD_OUT),
            shorten(format_options({**own} or {"seed": entry.facts.options.get("seed")}), 160),
        )
        for entry, own in list(zip(ordered, options, strict=True))[:MAX_MODELS]
    ]
    more_columns = [*(["tags"] if tagged else []), *(["metric"] if len(metrics) > 1 else [])]
    headers = ("model", *more_columns, *HELD_OUT, "options")
    name = metric_name(ordered[0].facts.metric)
    text = (
        f"{counted(len(ordered), 'model')}, sorted by ood_val"
        f"{f' ({name})' if len(metrics) == 1 else ''}. Scores are those of the epoch that a model "
        "reports; options are those in which the models differ."
    )
    more = len(ordered) - len(rows)
    note = paragraph(f"{more:,} more models: search for the key of this corpus.", "soft")
    return paragraph(text) + table(headers, rows, "Models") + (note if more else "")


def _rank(facts: ListedArtifact) -> tuple[float, str]:
    value = facts.scores.get("ood_val")
    if value is None:
        return (float("inf"), facts.key)
    return (value if lower_is_better(facts.metric or "") else -value, facts.key)


def notes_section(manifest: Manifest) -> str:
    """Return warnings and dropped items of an artifact that has no card."""
    warnings = "".join(paragraph(f"Warning: {text}") for text in manifest.warnings)
    dropped = "".join(
        paragraph(f"{drop.count:,} left out: {drop.reason}", "soft") for drop in manifest.dropped
    )
    return warnings + dropped


def counts_text(manifest: Manifest) -> str:
    """Return the counts of an artifact, such as ``360 graphs``."""
    total = sum(manifest.counts.values())
    if manifest.kind == "corpus":
        return counted(total, "graph")
    return ", ".join(f"{count:,} {name}" for name, count in list(manifest.counts.items())[:2])


def options_section(manifest: Manifest) -> str:
    """Return all options of the stage, its seeds and its raw files, folded."""
    rows = [(code(name), shorten(_text(value), 300)) for name, value in manifest.config.items()]
    rows += [(code(f"seed of {name}"), str(seed)) for name, seed in manifest.seeds.items()]
    raw = [(code(name), code(sha)) for name, sha in list(manifest.raw.items())[:MAX_FIGURES]]
    stage = f"{manifest.stage} v{manifest.stage_version}"
    title = f"{counted(len(manifest.config), 'option')} of {stage}"
    return details(title, table(("option", "value"), rows, "Options")) + (
        details("Raw files", table(("file", "SHA-256"), raw, "Raw files")) if raw else ""
    )


def _text(value: object) -> str:
    return ", ".join(map(str, value)) if isinstance(value, list) else str(value)
