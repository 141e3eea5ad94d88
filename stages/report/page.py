"""The report as a page: what it is, how it was made, how far it reaches, whether it is true."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from html import escape
from typing import Any

from gsx import __version__
from gsx.schema import SPLITS
from gsx.stages.report.check import Check
from gsx.stages.report.figures import gallery_section, reach_section
from gsx.stages.report.gallery import ORIGIN_WORDS
from gsx.stages.report.html import document, paragraph, section, table, tile
from gsx.stages.report.model_sections import learning_section, opinion_section
from gsx.stages.report.quality_sections import quality_section
from gsx.stages.report.report_data import Findings, NodeFindings
from gsx.stages.task_text import label_header, task_description
from gsx.storage.artifacts.manifest import Manifest
from gsx.storage.corpora.corpus import Corpus

MOST_ROWS = 30
"""Splits and environments up to which a table of them stands open."""
_MARKS = {"good": "✓", "bad": "✗", "note": "!"}
_SAID = {"good": "passed", "bad": "failed", "note": "to know"}


def graph_page(found: Findings) -> str:
    """Return the page of a corpus that labels graphs."""
    sections = [
        ("what", "What it is", what_section(found.corpus)),
        ("made", "How it was made", made_section(found.lineage)),
        ("reach", "How far it reaches", reach_section(found)),
        ("truth", "Is it still true?", truth_section(found)),
        ("looks", "What it looks like", gallery_section(found)),
        ("learning", "What it does for learning", learning_section(found.models)),
    ]
    return framed(found.corpus, list(_graph_tiles(found)), sections)


def framed(corpus: Corpus, tiles: Sequence[str], sections: Sequence[tuple[str, str, str]]) -> str:
    """Return the page with its head, its sections that hold anything, and its foot."""
    info, manifest = corpus.info, corpus.artifact.manifest
    kept = [each for each in sections if each[2]]
    links = "".join(f'<a href="#{name}">{escape(title)}</a>' for name, title, _ in kept)
    header = (
        f"<h1>{escape(info.name)}</h1>{paragraph(info.description, 'lead')}"
        f'<ul class="tiles">{"".join(tiles)}</ul><nav aria-label="Sections">{links}</nav>'
    )
    main = "".join(section(name, title, inside) for name, title, inside in kept)
    licence = escape(info.licence or "no licence stated")
    footer = (
        f"<p>Corpus <code>{manifest.key}</code>, content <code>{manifest.digest}</code>. "
        f"Licence: {licence}. {escape(info.citation)}</p>"
        f"<p>Written by gsx {escape(__version__)}: <code>gsx report {manifest.key[:12]}</code>. "
        "This page fetches nothing; what it shows was read from the corpus.</p>"
    )
    return document(f"{info.name} · gsx report", header, main, footer)


def _graph_tiles(found: Findings) -> Iterator[str]:
    facts, rows = found.facts, {row["group"]: row for row in found.sizes}
    yield tile(f"{len(facts.nodes):,}", "graphs")
    yield tile(found.corpus.info.domain, "is what shifts")
    if "augmented" in rows:
        yield tile(f"{rows['augmented']['graphs']:,}", "are synthetic, for training")
    if "train" in rows:
        yield tile(f"{rows['train']['min']} to {rows['train']['max']}", "nodes in source training")
    if "augmented" in rows:
        more = rows["augmented"]["below"] + rows["augmented"]["above"]
        yield tile(f"{more:.0%}", "of synthetic graphs leave that range")
    for row in found.scaffolds:
        if row["group"] == "augmented":
            yield tile(f"{row['unseen']:.0%}", "of them have a scaffold new to training")
    yield from checks_tile(found.checks)


def checks_tile(checks: Sequence[Check]) -> Iterator[str]:
    """Yield how many checks passed, where any was made."""
    judged = [check for check in checks if check.verdict != "note"]
    if judged:
        passed = sum(check.verdict == "good" for check in judged)
        notes = len(checks) - len(judged)
        words = f"checks passed, {notes} more to know" if notes else "checks passed"
        yield tile(f"{passed} of {len(judged)}", words)


def what_section(corpus: Corpus) -> str:
    """Return the task, the splits and the environments."""
    info, summary = corpus.info, corpus.artifact.manifest.summary
    items = "nodes" if corpus.nodes else "graphs"
    said = (
        f"{task_description(info)} What shifts between training and the OOD splits is the {info.domain}."
    )
    names = {environment.id: environment for environment in info.environments}
    groups = summary.get("node_groups") if corpus.nodes else summary.get("groups", ())
    ordered = sorted(
        groups or (), key=lambda group: (SPLITS.index(group["split"]), group["env_id"])
    )
    rows = [_group_row(group, names, sized=not corpus.nodes) for group in ordered]
    sized = ["nodes per graph"] if not corpus.nodes else []
    headers, counted = ["split", "environment", "origin", items, *sized], label_header(info)
    if counted is None:
        rows = [row[:-1] for row in rows]
    else:
        headers.append(counted)
    hidden = "Environments of OOD validation and test are hidden on purpose."
    if counted and any(sum(g["labels"]) < g["count"] for g in ordered):
        hidden += f" {items.capitalize()} without one plain label, such as soft ones, are in none."
    warned = "".join(paragraph(f"Warning: {text}") for text in corpus.artifact.manifest.warnings)
    dropped = "".join(
        paragraph(f"{each.count:,} left out: {each.reason}", "soft")
        for each in corpus.artifact.manifest.dropped
    )
    shown = table(headers, rows, "Splits and environments")
    if len(rows) > MOST_ROWS:
        words = f"{len(rows)} groups of split and environment"
        shown = f"<details><summary>{words}</summary>{shown}</details>"
    return paragraph(said) + shown + paragraph(hidden, "soft") + warned + dropped


def _group_row(group: Mapping[str, Any], names: Mapping[int, Any], *, sized: bool) -> list[object]:
    known = names.get(group["env_id"])
    return [
        group["split"],
        "hidden" if known is None else f"{known.id} · {known.name}",
        "source" if known is None else _origin(known.origin),
        group["count"],
        *([f"{group['min_nodes']} to {group['max_nodes']}"] if sized else []),
        " / ".join(f"{count:,}" for count in group["labels"]),
    ]


def _origin(origin: str) -> str:
    names = origin.split()
    return origin if names == ["source"] else "; ".join(ORIGIN_WORDS.get(n, n) for n in names)


def made_section(lineage: Sequence[Manifest]) -> str:
    """Return the steps that led to the corpus, the first one first."""
    steps = []
    for manifest in _in_order(lineage):
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
            f"<li><b>{escape(manifest.stage)}</b> made the {escape(manifest.kind)} "
            f"<code>{manifest.key[:12]}</code>{_amount(manifest)}{raw}"
            f'<details><summary>options</summary><div class="options">{options}</div></details>'
            "</li>"
        )
    said = "Each step names the content of what it read, so the same options give the same bytes."
    return paragraph(said) + f'<ol class="steps">{"".join(steps)}</ol>'


def _amount(manifest: Manifest) -> str:
    """Say how much was made, or from how much."""
    if manifest.kind == "corpus":
        count = sum(manifest.counts.values())
        return f" ({count:,} {'graph' if count == 1 else 'graphs'})"
    return "".join(
        f" from {count:,} {name}" for name, count in manifest.counts.items()
        if name in ("graphs", "nodes")
    )  # fmt: skip


def _in_order(lineage: Sequence[Manifest]) -> list[Manifest]:
    """Return manifests so that whatever was read comes before what it was read for."""
    waiting, found = list(reversed(lineage)), list[Manifest]()
    while waiting:
        left = {manifest.digest for manifest in waiting}
        ready = [m for m in waiting if not {p.digest for p in m.parents} & (left - {m.digest})]
        found += ready or waiting
        waiting = [manifest for manifest in waiting if manifest not in found]
    return found


def _short(value: object) -> str:
    return ", ".join(map(str, value)) if isinstance(value, list) else str(value)


def truth_section(found: Findings | NodeFindings) -> str:
    """Return checks, what a classifier tells, and how good the parts are."""
    names = {environment.id: environment.name for environment in found.corpus.info.environments}
    return (
        _checks(found.checks)
        + opinion_section(found.opinion, found.corpus.info)
        + quality_section(found.lineage, names)
    )


def _checks(checks: Sequence[Check]) -> str:
    if not checks:
        return paragraph("No graph here names others that it was made from: nothing to check.")
    items = "".join(
        f'<li class="{check.verdict}"><span class="mark" aria-hidden="true">'
        f"{_MARKS[check.verdict]}</span><h3><span>{escape(check.title)}</span>"
        f'<b><span class="unseen">{_SAID[check.verdict]}: </span>{escape(check.figure)}</b></h3>'
        f"<p>{escape(check.text)}</p></li>"
        for check in checks
    )
    return f'<ul class="checks">{items}</ul>'
