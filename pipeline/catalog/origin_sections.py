"""Sections about origin: lineage, artifacts built from this one, checksums and signature."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from html import escape

from gsx.errors import ArtifactError
from gsx.pipeline.catalog.html import (
    code,
    details,
    format_options,
    link,
    shorten,
    table,
)
from gsx.pipeline.catalog.inventory import Entry, Inventory
from gsx.pipeline.lineage_svg import can_draw, lineage_svg
from gsx.plurals import counted
from gsx.stages.report.html import paragraph
from gsx.storage.artifacts.lineage import Ancestor, walk_lineage
from gsx.text_table import format_bytes

MAX_FILES, MAX_CHILDREN, MAX_ROWS = 40, 6, 100
"""Files in a table, later artifacts in a picture, and later artifacts in a table."""


def lineage_section(entry: Entry, inventory: Inventory) -> str:
    """Return a picture of the lineage with links, and the artifacts built from this one."""
    children = inventory.children.get(entry.manifest.digest, ())
    others = [child for child in children if child.manifest.kind != "model"]
    try:
        ancestors = list(walk_lineage(inventory.store, entry.artifact))
    except ArtifactError as error:
        return paragraph(str(error)) + _children(children)
    pictured = others[:MAX_CHILDREN]
    drawn = [*ancestors, *(row for child in pictured for row in _inputs_of(child, inventory))]
    if not can_draw(drawn):
        drawn = ancestors
    if not can_draw(drawn):
        number = len({row.key for row in ancestors})
        text = (
            f"The lineage has {number} artifacts, too many for a picture. `gsx lineage` lists it."
        )
        return paragraph(text) + _children(children)
    links = dict(_links(drawn, entry, inventory))
    picture = lineage_svg(drawn, links, entry.manifest.key)
    return (
        '<div class="scroll lineage" tabindex="0" role="region" aria-label="Picture of the '
        f'lineage">{picture}</div>' + _notes(ancestors) + _children(children)
    )


def _inputs_of(child: Entry, inventory: Inventory) -> Iterator[Ancestor]:
    """Yield a later artifact and its direct inputs, as a lineage of its own."""
    rows = walk_lineage(inventory.store, child.artifact)
    yield from (row for row in rows if row.depth <= 1)


def _links(
    rows: Sequence[Ancestor], entry: Entry, inventory: Inventory
) -> Iterator[tuple[str, str]]:
    """Yield the keys of stored artifacts and the file names of their pages."""
    digests = {parent.key: parent.digest for parent in entry.manifest.parents}
    for row in rows:
        found = inventory.entry(row.kind, row.key, digests.get(row.key, ""))
        if found is not None:
            yield row.key, found.page
    yield entry.manifest.key, entry.page


def _notes(ancestors: Sequence[Ancestor]) -> str:
    """Return notes about ancestors that are missing or changed."""
    missing = sum(not row.stored for row in ancestors)
    changed = sum(row.stored and not row.same_content for row in ancestors)
    texts = []
    if missing:
        texts.append(f"Dashed: {missing} not in this store.")
    if changed:
        texts.append(f"{changed} of the inputs have been built again since, with other content.")
    return paragraph(" ".join(texts), "soft") if texts else ""


def _children(children: Sequence[Entry]) -> str:
    """Return a table of the artifacts that were built from this one, without models."""
    others = [child for child in children if child.manifest.kind != "model"]
    if not others:
        return ""
    rows = [
        (
            link(child.page, f"{child.manifest.kind} {child.manifest.key[:12]}"),
            child.manifest.stage,
            child.facts.date[:10],
            shorten(format_options(child.facts.options), 160),
        )
        for child in others[:MAX_ROWS]
    ]
    more = len(others) - len(rows)
    note = paragraph(f"{more:,} more: search for the key of this artifact.", "soft") if more else ""
    return "<h3 class=part>Built from this artifact</h3>" + table(
        ("artifact", "stage", "date", "options"), rows, "Artifacts built from this one"
    ) + note  # fmt: skip


def checksums_section(entry: Entry) -> str:
    """Return key, digest, signature, origin, and the hash of every file."""
    manifest, signature = entry.manifest, entry.signature
    mark = {"valid": "good", "invalid": "bad", "unchecked": "note", "unsigned": ""}
    facts = [
        ("key", code(manifest.key)),
        ("content digest", code(manifest.digest)),
        ("origin", entry.origin[:1].upper() + entry.origin[1:] if entry.origin else "Built here."),
    ]
    rows = "".join(
        f"<dt>{escape(name)}</dt><dd>{value if name != 'origin' else escape(value)}</dd>"
        for name, value in facts
    )
    rows += (
        f'<dt>signature</dt><dd class="state {mark[signature.state]}">{escape(signature.text)}</dd>'
    )
    files = list(manifest.files.items())
    table_rows = [
        (code(name), format_bytes(file.size), code(file.sha256)) for name, file in files[:MAX_FILES]
    ]
    more = len(files) - MAX_FILES
    note = paragraph(f"{more:,} more files are in manifest.json.", "soft") if more > 0 else ""
    title = f"{counted(len(files), 'file')}, {format_bytes(manifest.size)}"
    return f'<dl class="facts">{rows}</dl>' + details(
        title, table(("file", "size", "SHA-256"), table_rows, "Files"), note
    )
