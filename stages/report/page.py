"""Report page of a graph-labelled corpus, and the sections that both kinds of pages share."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from html import escape
from typing import Any

from gsx import __version__
from gsx.schema import SPLITS
from gsx.stages.augmented.check import Check
from gsx.stages.report.figures import coverage_section, gallery_section
from gsx.stages.report.gallery import ORIGIN_NAMES
from gsx.stages.report.html import document, inline, paragraph, section, table, tile
from gsx.stages.report.model_sections import agreement_section, scores_section
from gsx.stages.report.quality_sections import quality_section
from gsx.stages.report.recommendation_section import recommendation_section
from gsx.stages.report.report_data import NodeReportData, ReportData
from gsx.stages.task_text import label_header, task_description
from gsx.storage.artifacts.manifest import Manifest
from gsx.storage.corpora.corpus import Corpus

MAX_OPEN_ROWS = 30
"""Largest table of splits and environments that is shown expanded."""
_MARKS = {"good": "✓", "bad": "✗", "note": "!"}
_VERDICT_TEXT = {"good": "passed", "bad": "failed", "note": "note"}


def graph_page(data: ReportData) -> str:
    """Return the page as HTML."""
    sections = [
        ("overview", "Overview", overview_section(data.corpus)),
        ("lineage", "Lineage", lineage_section(data.lineage)),
        ("recommendation", "Recommendation", recommendation_section(data.lineage)),
        ("coverage", "Coverage beyond the training distribution", coverage_section(data)),
        ("checks", "Validity checks", checks_section(data)),
        ("gallery", "Gallery", gallery_section(data)),
        ("scores", "Classifier scores", scores_section(data.models)),
    ]
    return page_frame(data.corpus, list(_graph_tiles(data)), sections)


def page_frame(
    corpus: Corpus, tiles: Sequence[str], sections: Sequence[tuple[str, str, str]]
) -> str:
    """Return the page with header, navigation, non-empty sections and footer."""
    info, manifest = corpus.info, corpus.artifact.manifest
    shown = [entry for entry in sections if entry[2]]
    links = "".join(f'<a href="#{name}">{escape(title)}</a>' for name, title, _ in shown)
    header = (
        f"<h1>{escape(info.name)}</h1>{paragraph(info.description, 'lead')}"
        f'<ul class="tiles">{"".join(tiles)}</ul><nav aria-label="Sections">{links}</nav>'
    )
    main = "".join(section(name, title, body) for name, title, body in shown)
    licence = escape(info.licence or "no licence stated")
    footer = (
        f"<p>Corpus <code>{manifest.key}</code>, content <code>{manifest.digest}</code>. "
        f"Licence: {licence}. {escape(info.citation)}</p>"
        f"<p>Written by gsx {escape(__version__)}: <code>gsx report {manifest.key[:12]}</code>. "
        "The page is self-contained and loads no other files.</p>"
    )
    return document(f"{info.name} · gsx report", header, main, footer)


def _graph_tiles(data: ReportData) -> Iterator[str]:
    columns, rows = data.columns, {row["group"]: row for row in data.sizes}
    yield tile(f"{len(columns.nodes):,}", "graphs")
    yield tile(data.corpus.info.domain, "domain that shifts")
    if "augmented" in rows:
        yield tile(f"{rows['augmented']['graphs']:,}", "generated training graphs")
    if "train" in rows:
        yield tile(
            f"{rows['train']['min']} to {rows['train']['max']}", "nodes per source training graph"
        )
    if "augmented" in rows:
        more = rows["augmented"]["below"] + rows["augmented"]["above"]
        yield tile(f"{more:.0%}", "of generated graphs outside this range")
    for row in data.scaffolds:
        if row["group"] == "augmented":
            yield tile(f"{row['unseen']:.0%}", "of generated molecules with a new scaffold")
    yield from checks_tile(data.checks)


def checks_tile(checks: Sequence[Check]) -> Iterator[str]:
    """Yield a tile with the number of passed checks, if there are checks.

    Properties that generation guarantees count only if they are violated.
    """
    decided = [check for check in checks if check.verdict != "note" and not _is_guaranteed(check)]
    if decided:
        passed = sum(check.verdict == "good" for check in decided)
        notes = sum(check.verdict == "note" for check in checks)
        text = (
            f"checks passed, {notes} {'note' if notes == 1 else 'notes'}"
            if notes
            else "checks passed"
        )
        yield tile(f"{passed} of {len(decided)}", text)


def overview_section(corpus: Corpus) -> str:
    """Return the task, splits, environments, warnings and dropped items."""
    info, summary = corpus.info, corpus.summary
    items = "nodes" if corpus.nodes else "graphs"
    text = (
        f"{task_description(info)} The domain that shifts between training and the OOD splits is "
        f"the {info.domain}."
    )
    names = {environment.id: environment for environment in info.environments}
    groups = summary.get("node_groups", []) if corpus.nodes else summary["groups"]
    ordered: Sequence[Mapping[str, Any]] = sorted(
        groups, key=lambda group: (SPLITS.index(group["split"]), group["env_id"])
    )
    rows = [_group_row(group, names, sized=not corpus.nodes) for group in ordered]
    sized = ["nodes per graph"] if not corpus.nodes else []
    headers, label_names = ["split", "environment", "origin", items, *sized], label_header(info)
    if label_names is None:
        rows = [row[:-1] for row in rows]
    else:
        headers.append(label_names)
    note = "Environments of OOD validation and test are unknown by design."
    if label_names and any(sum(g["labels"]) < g["count"] for g in ordered):
        note += f" Label counts do not include {items} without a hard label."
    warnings = "".join(paragraph(f"Warning: {text}") for text in corpus.artifact.manifest.warnings)
    dropped = "".join(
        paragraph(f"{drop.count:,} dropped: {drop.reason}", "soft")
        for drop in corpus.artifact.manifest.dropped
    )
    groups_table = table(headers, rows, "Splits and environments")
    if len(rows) > MAX_OPEN_ROWS:
        title = f"{len(rows)} groups of split and environment"
        groups_table = f"<details><summary>{title}</summary>{groups_table}</details>"
    return paragraph(text) + groups_table + paragraph(note, "soft") + warnings + dropped


def _group_row(group: Mapping[str, Any], names: Mapping[int, Any], *, sized: bool) -> list[object]:
    environment = names.get(group["env_id"])
    return [
        group["split"],
        "unknown" if environment is None else f"{environment.id} · {environment.name}",
        "source" if environment is None else _origin(environment.origin),
        group["count"],
        *([f"{group['min_nodes']} to {group['max_nodes']}"] if sized else []),
        " / ".join(f"{count:,}" for count in group["labels"]),
    ]


def _origin(origin: str) -> str:
    names = origin.split()
    return origin if names == ["source"] else "; ".join(ORIGIN_NAMES.get(n, n) for n in names)


def lineage_section(lineage: Sequence[Manifest]) -> str:
    """Return the stages that produced the corpus, in order."""
    steps = []
    for manifest in _parents_first(lineage):
        options = "".join(
            f"<span><code>{escape(str(key))}</code> {escape(_short(value))}</span>"
            for key, value in manifest.config.items()
        )
        raw = "".join(
            f'<p class="soft">raw file <code>{escape(name)}</code>, SHA-256 '
            f"<code>{escape(sha)}</code></p>"
            for name, sha in manifest.raw.items()
        )
        steps.append(
            f"<li><b>{escape(manifest.stage)}</b> wrote the {escape(manifest.kind)} "
            f"<code>{manifest.key[:12]}</code>{_amount(manifest)}{raw}"
            f'<details><summary>options</summary><div class="options">{options}</div></details>'
            "</li>"
        )
    text = (
        "Every stage records the digests of its inputs; the same inputs and options give the same "
        "bytes."
    )
    return paragraph(text) + f'<ol class="steps">{"".join(steps)}</ol>'


def _amount(manifest: Manifest) -> str:
    """Return the number of graphs of a corpus, or of the items that a model was fitted to."""
    if manifest.kind == "corpus":
        count = sum(manifest.counts.values())
        return f" ({count:,} {'graph' if count == 1 else 'graphs'})"
    return "".join(
        f" from {count:,} {name}" for name, count in manifest.counts.items()
        if name in ("graphs", "nodes")
    )  # fmt: skip


def _parents_first(lineage: Sequence[Manifest]) -> list[Manifest]:
    """Return manifests in topological order, parents first."""
    waiting, ordered = list(reversed(lineage)), list[Manifest]()
    while waiting:
        remaining = {manifest.digest for manifest in waiting}
        ready = [
            m
            for m in waiting
            if not any(p.digest in remaining and p.digest != m.digest for p in m.parents)
        ]
        ordered += ready or waiting
        placed = {manifest.digest for manifest in ready or waiting}
        waiting = [manifest for manifest in waiting if manifest.digest not in placed]
    return ordered


def _short(value: object) -> str:
    return ", ".join(map(str, value)) if isinstance(value, list) else str(value)


def checks_section(data: ReportData | NodeReportData) -> str:
    """Return checks, classifier agreement, and quality of the models of the lineage."""
    names = {environment.id: environment.name for environment in data.corpus.info.environments}
    return (
        _checks(data.checks)
        + agreement_section(data.agreement, data.corpus.info)
        + quality_section(data.lineage, names)
    )


def _checks(checks: Sequence[Check]) -> str:
    if not checks:
        return paragraph(
            "The corpus has no generated graphs or replicas, so there is nothing to check."
        )
    guaranteed = [check for check in checks if _is_guaranteed(check)]
    items = "".join(
        f'<li class="{check.verdict}"><span class="mark" aria-hidden="true">'
        f"{_MARKS[check.verdict]}</span><h3><span>{escape(check.title)}</span>"
        f'<b><span class="unseen">{_VERDICT_TEXT[check.verdict]}: </span>'
        f"{escape(check.figure)}</b></h3>"
        f"<p>{inline(check.text)}</p></li>"
        for check in checks
        if not _is_guaranteed(check)
    )
    return (f'<ul class="checks">{items}</ul>' if items else "") + _guarantees(guaranteed)


def _is_guaranteed(check: Check) -> bool:
    """Return whether generation guarantees the property, and it holds."""
    return check.by_construction and check.verdict == "good"


def _guarantees(checks: Sequence[Check]) -> str:
    """Return properties that hold by construction; recomputing them is no evidence of quality."""
    if not checks:
        return ""
    items = "".join(
        f"<li><b>{escape(check.title)}</b> ({escape(check.figure)}). {inline(check.text)}</li>"
        for check in checks
    )
    count = "1 property that generation guarantees was recomputed and holds"
    if len(checks) > 1:
        count = f"{len(checks)} properties that generation guarantees were recomputed and hold"
    return f"<details><summary>{count}</summary><ul>{items}</ul></details>"
