"""Page of one artifact."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from html import escape

from gsx.errors import ArtifactError
from gsx.pipeline.catalog.corpus_sections import card_section, num_generated, splits_section
from gsx.pipeline.catalog.html import page, tag
from gsx.pipeline.catalog.inventory import Entry, Inventory
from gsx.pipeline.catalog.origin_sections import checksums_section, lineage_section
from gsx.pipeline.catalog.result_sections import (
    metric_name,
    models_section,
    notes_section,
    options_section,
    quality_section,
    scores_section,
)
from gsx.pipeline.catalog.snippets import load_section
from gsx.plurals import counted
from gsx.stages.report.html import paragraph, section, tile
from gsx.stages.report.recommendation_section import recommendation_section
from gsx.storage.artifacts.lineage import lineage_manifests
from gsx.storage.artifacts.manifest import Manifest
from gsx.text_table import format_bytes

MAX_NAME = 200
"""Longest name of a dataset on a page."""
FOLDER = "artifacts"
"""Folder of the pages of artifacts."""


def title_of(entry: Entry) -> str:
    """Return the name of the dataset, or kind and key."""
    name = (entry.facts.name or "").strip()[:MAX_NAME]
    return name or f"{entry.manifest.kind} {entry.manifest.key[:12]}"


def artifact_page(
    entry: Entry, inventory: Inventory, address: str, reports: Mapping[str, Sequence[str]]
) -> bytes:
    """Return the page of an artifact.

    ``address`` is that of the store; ``reports`` maps content digests to files of HTML reports.
    """
    lineage, found = _lineage(entry, inventory), reports.get(entry.manifest.digest, ())
    contents = _sections(entry, inventory, lineage, address, found)
    sections = [row for row in contents if row[2]]
    links = "".join(f'<a href="#{name}">{escape(title)}</a>' for name, title, _ in sections)
    tags = "".join(tag(name, "own") for name in entry.facts.tags)
    header = (
        '<p class="crumbs"><a href="../index.html">All artifacts</a></p>'
        f"<h1>{escape(title_of(entry))}</h1><p>{tag(entry.manifest.kind, entry.manifest.kind)}"
        f"{tags}{tag(entry.signature.state)} <code>{entry.manifest.key[:12]}</code> by "
        f"{escape(entry.manifest.stage)}</p>"
        f'<ul class="tiles">{"".join(_tiles(entry, lineage))}</ul>'
        f'<nav aria-label="Sections">{links}</nav>'
    )
    main = "".join(section(name, title, body) for name, title, body in sections)
    title = f"{title_of(entry)} · {entry.manifest.kind} {entry.manifest.key[:12]}"
    return page(title, header, main, root="../")


def _tiles(entry: Entry, lineage: Sequence[Manifest]) -> Iterator[str]:
    facts, manifest = entry.facts, entry.manifest
    if facts.date:
        yield tile(facts.date[:10], "date (UTC)")
    if entry.corpus is not None:
        corpus = entry.corpus
        nodes = sum(corpus.nodes.values())
        yield tile(f"{nodes or len(corpus):,}", "labelled nodes" if nodes else "graphs")
        generated = num_generated(corpus, lineage)
        if generated:
            yield tile(f"{generated:,}", "generated or replicated graphs")
        yield tile(corpus.info.domain[:40], "domain that shifts")
    elif manifest.counts:
        total = next(iter(manifest.counts.items()))
        yield tile(f"{total[1]:,}", total[0][:40])
    for split in ("ood_val", "ood_test"):
        if facts.scores.get(split) is not None:
            yield tile(f"{facts.scores[split]:.1f}", f"{metric_name(facts.metric)} on {split}")
    yield tile(format_bytes(manifest.size), f"in {counted(len(manifest.files), 'file')}")


def _sections(
    entry: Entry,
    inventory: Inventory,
    lineage: Sequence[Manifest],
    address: str,
    reports: Sequence[str],
) -> Iterator[tuple[str, str, str]]:
    """Yield name, title and content of every section; empty ones are left out."""
    manifest = entry.manifest
    if entry.corpus is not None:
        yield "card", "Dataset card", card_section(entry.corpus, lineage)
        yield "splits", "Splits and sizes", splits_section(entry.corpus)
    elif manifest.kind == "model":
        yield "scores", "Scores", scores_section(manifest) + notes_section(manifest)
    else:
        yield "notes", "Notes", notes_section(manifest)
    if manifest.kind != "model":
        yield "quality", "Quality", quality_section(manifest) + _reports(entry, reports)
    recommended = lineage if entry.corpus is not None else [manifest]
    yield "recommendation", "Recommendation", recommendation_section(recommended)
    models = [
        child
        for child in inventory.children.get(manifest.digest, ())
        if child.manifest.kind == "model"
    ]
    yield "models", "Models trained on it", models_section(models)
    yield "lineage", "Lineage", lineage_section(entry, inventory)
    yield "load", "How to load it", load_section(entry, address)
    yield "options", "How it was built", options_section(manifest)
    yield "checksums", "Checksums and signature", checksums_section(entry)


def _lineage(entry: Entry, inventory: Inventory) -> list[Manifest]:
    """Return the manifests of an artifact and its ancestors; of itself if these are too many."""
    if entry.corpus is None:
        return [entry.manifest]
    try:
        return lineage_manifests(inventory.store, entry.artifact)
    except ArtifactError:
        return [entry.manifest]


def _reports(entry: Entry, reports: Sequence[str]) -> str:
    """Return links to HTML reports of a corpus, or the command that writes one."""
    if entry.corpus is None:
        return ""
    links = "".join(
        f'<li><a href="../reports/{escape(name)}">Quality report{number}</a></li>'
        for name, number in zip(reports, ["", *(f" {n}" for n in range(2, 1000))], strict=False)
    )
    if links:
        return f"<ul>{links}</ul>"
    key = entry.manifest.key[:12]
    text = f"gsx report {key} -o {key}.html"
    return (
        paragraph("This command writes the quality report: validity checks, drawings and charts.")
        + f'<pre class="snippet" tabindex="0" aria-label="Command"><code>{text}</code></pre>'
    )
