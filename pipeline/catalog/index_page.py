"""Index page: a table of all artifacts with search, filters and sorting."""

from __future__ import annotations

from collections import Counter
from collections.abc import Sequence
from html import escape

from gsx.pipeline.catalog.artifact_page import FOLDER, title_of
from gsx.pipeline.catalog.html import (
    format_options,
    page,
    script_data,
    shorten,
    tag,
)
from gsx.pipeline.catalog.inventory import Entry, Inventory
from gsx.pipeline.catalog.result_sections import counts_text, metric_name
from gsx.pipeline.listing import distinguishing_options
from gsx.stages.report.html import section, tile
from gsx.text_table import format_bytes

MAX_CHOICES, MAX_CHOICE = 200, 60
"""Values of a filter, and characters of a value."""
MAX_OPTIONS, MAX_SEARCHED = 120, 1500
"""Characters of options in a row, and of options and descriptions in the search index."""
_COLUMNS = (
    ("name", "Artifact", ""),
    ("date", "Date", ""),
    ("count", "Content", ""),
    ("ood_val", "ood_val", "num"),
    ("ood_test", "ood_test", "num"),
    ("size", "Size", "num"),
)
"""Key, title and class of every column; the keys are fields of the search index."""


def ordered(inventory: Inventory) -> list[Entry]:
    """Return all artifacts by kind, corpora first; the newest of a kind come first."""
    kinds = ("corpus", "recommendation", "model", "extractor", "mask", "bridge", "statistics")
    newest = reversed(inventory.entries)
    return sorted(
        newest,
        key=lambda entry: (
            kinds.index(entry.manifest.kind) if entry.manifest.kind in kinds else len(kinds),
            entry.manifest.kind,
        ),
    )


def index_page(inventory: Inventory, title: str, address: str) -> bytes:
    """Return the index page; ``address`` is that of the store."""
    entries = ordered(inventory)
    kinds = Counter(entry.manifest.kind for entry in entries)
    tiles = [tile(f"{count:,}", _plural(kind, count)) for kind, count in kinds.items()]
    tiles.append(tile(format_bytes(sum(entry.manifest.size for entry in entries)), "in all files"))
    header = (
        f"<h1>{escape(title)}</h1>"
        + f'<p class="lead">Corpora of <code>{escape(address)}</code>, and the models and other '
        "artifacts built from them.</p>" + f'<ul class="tiles">{"".join(tiles)}</ul>'
    )
    main = section("artifacts", "Artifacts", _filters(entries), _table(entries))
    if inventory.damaged:
        items = "".join(f"<li>{escape(item['what'])}</li>" for item in inventory.damaged)
        main += section("damaged", "Damaged artifacts", f"<ul>{items}</ul>")
    return page(title, header, main, scripts=("index.js", "catalog.js"))


def _plural(kind: str, count: int) -> str:
    if count == 1 or kind == "statistics":
        return kind
    return "corpora" if kind == "corpus" else f"{kind}s"


def search_index(inventory: Inventory) -> bytes:
    """Return the script with the search index: one object per row of the table, in its order."""
    return script_data("CATALOG", [_index_row(entry) for entry in ordered(inventory)])


def _index_row(entry: Entry) -> dict[str, object]:
    facts, manifest = entry.facts, entry.manifest
    words = [
        title_of(entry),
        manifest.kind,
        manifest.stage,
        manifest.key,
        manifest.digest,
        *facts.tags,
        metric_name(facts.metric),
        format_options(facts.options)[:MAX_SEARCHED],
        *(parent.key[:12] for parent in manifest.parents),
        *([] if entry.corpus is None else [entry.corpus.info.description[:MAX_SEARCHED]]),
        entry.signature.state,
        entry.origin,
    ]
    scores = {
        split: round(value, 4)
        for split in ("ood_val", "ood_test")
        if (value := facts.scores.get(split)) is not None
    }
    return {
        "text": " ".join(words).lower(),
        "kind": manifest.kind,
        "stage": manifest.stage,
        "dataset": _dataset(entry),
        "name": title_of(entry).lower(),
        "date": facts.date,
        "count": sum(manifest.counts.values()),
        "size": manifest.size,
        **scores,
    }


def _dataset(entry: Entry) -> str:
    return shorten(entry.facts.name or "", MAX_CHOICE)


def _filters(entries: Sequence[Entry]) -> str:
    """Return the search form, which the script makes visible."""
    choices = {
        "kind": [entry.manifest.kind for entry in entries],
        "dataset": [_dataset(entry) for entry in entries],
        "stage": [entry.manifest.stage for entry in entries],
    }
    selects = "".join(
        f'<label>{name}<select name="{name}"><option value="">all</option>'
        + "".join(f"<option>{escape(value)}</option>" for value in sorted(values))
        + "</select></label>"
        for name, column in choices.items()
        if 1 < len(values := set(column) - {""}) <= MAX_CHOICES
    )
    return (
        '<form class="filters" role="search" hidden>'
        '<label class="grow">search<input type="search" name="q" autocomplete="off" '
        'placeholder="name, tag, key, option=value"></label>'
        f'{selects}<button type="reset">show all</button>'
        f'<span id="shown" class="soft" role="status">{len(entries):,} artifacts</span></form>'
    )


def _table(entries: Sequence[Entry]) -> str:
    options = distinguishing_options([entry.facts for entry in entries])
    head = "".join(
        f'<th scope="col" role="columnheader" class="{kind}" data-sort="{key}">{escape(title)}</th>'
        for key, title, kind in _COLUMNS
    )
    rows = "".join(
        _row(entry, format_options(own)) for entry, own in zip(entries, options, strict=True)
    )
    return (
        '<div class="scroll"><table id="list" role="table" aria-label="Artifacts">'
        f'<thead role="rowgroup"><tr role="row">{head}</tr></thead>'
        f'<tbody role="rowgroup">{rows}</tbody></table></div>'
        '<p id="none" class="soft" hidden>No artifact meets these conditions.</p>'
    )


def _row(entry: Entry, options: str) -> str:
    """Return the row of an artifact; on narrow screens its cells are stacked."""
    facts, manifest = entry.facts, entry.manifest
    tags = "".join(tag(name, "own") for name in facts.tags)
    metric = metric_name(facts.metric)
    about = " · ".join(
        text
        for text in (manifest.key[:12], manifest.stage, metric, shorten(options, MAX_OPTIONS))
        if text
    )
    name = (
        f'<a href="{FOLDER}/{entry.page}">{escape(title_of(entry))}</a> '
        f"{tag(manifest.kind, manifest.kind)}{tags}"
        f'<span class="about">{escape(about)}</span>'
    )
    scores = [
        "" if (value := facts.scores.get(split)) is None else f"{value:.1f}"
        for split in ("ood_val", "ood_test")
    ]
    cells = [
        ("name", name),
        ("date", escape(facts.date[:10])),
        ("count", escape(counts_text(manifest))),
        ("num", scores[0]),
        ("num", scores[1]),
        ("num size", format_bytes(manifest.size)),
    ]
    titles = [title for _, title, _ in _COLUMNS]
    return (
        '<tr role="row">'
        + "".join(
            f'<td role="cell" class="{kind}"'
            + (f' data-title="{titles[i]}"' if kind == "num" and content else "")
            + f">{content}</td>"
            for i, (kind, content) in enumerate(cells)
        )
        + "</tr>"
    )
