"""Write the catalog of a store: an index page, one page per artifact, CSS and scripts."""

from __future__ import annotations

import re
import shutil
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING

from gsx.errors import ArtifactError, UsageError
from gsx.pipeline.catalog.artifact_page import FOLDER, artifact_page
from gsx.pipeline.catalog.html import assets
from gsx.pipeline.catalog.index_page import index_page, search_index
from gsx.pipeline.catalog.inventory import Inventory, read_inventory
from gsx.stages.stage import Progress
from gsx.storage.artifacts.atomic_files import translate_os_errors
from gsx.storage.artifacts.store import NAME_LENGTH, Store
from gsx.storage.sharing.atomic_directory import atomic_directory, require_empty_target

if TYPE_CHECKING:
    from gsx.storage.sharing.signing import PublicKey

REPORTS = "reports"
"""Folder of copied HTML reports."""
_FOOTER = re.compile(
    rb"<footer><p>Corpus <code>([0-9a-f]{64})</code>, content <code>([0-9a-f]{64})</code>"
)
_REPORT_TITLE = "· gsx report</title>".encode()
_HEAD_BYTES, _TAIL_BYTES = 1 << 20, 1 << 16
"""Bytes at both ends of an HTML file in which a report names itself and its corpus."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Catalog:
    """A catalog that was written."""

    path: Path
    artifacts: dict[str, int]
    """Number of artifacts by kind."""
    pages: int
    bytes: int
    reports: int
    damaged: list[dict[str, str]]
    """``path`` and ``what`` of artifacts that cannot be read or have an invalid signature."""


def write_catalog(
    store: Store,
    target: Path,
    *,
    title: str | None = None,
    address: str | None = None,
    reports: Path | None = None,
    public_key: PublicKey | None = None,
    progress: Progress,
) -> Catalog:
    """Write the catalog of a store to a new or empty directory, completely or not at all.

    ``address`` is that of the store for readers of the catalog; ``reports`` is a directory with
    HTML reports that are copied. Signatures are checked with ``public_key``.
    """
    require_empty_target(target)
    address = address or _address(store)
    found = {} if reports is None else _find_reports(reports)
    inventory = read_inventory(store, public_key, progress)
    if not inventory.entries:
        problem = f" that can be read: {inventory.damaged[0]['what']}" if inventory.damaged else ""
        raise ArtifactError(
            f"{store.location.url} has no artifacts{problem or '.'} Nothing was written. Check the "
            "address of the store; `gsx ls --store` lists it."
        )
    known = {(entry.manifest.key, entry.manifest.digest): entry for entry in inventory.entries}
    copies = {
        f"{key[:NAME_LENGTH]}-{digest[:12]}-{number}.html": (path, digest)
        for (key, digest), paths in sorted(found.items())
        if (key, digest) in known
        for number, path in enumerate(paths, 1)
    }
    names: dict[str, list[str]] = {}
    for name, (_, digest) in copies.items():
        names.setdefault(digest, []).append(name)
    with (
        translate_os_errors(str(target), consequence="Nothing was written there.", option="-o DIR"),
        atomic_directory(target) as draft,
    ):
        _write(draft, "index.html", index_page(inventory, title or _title(address), address))
        _write(draft, "index.js", search_index(inventory))
        for name, data in assets().items():
            _write(draft, name, data)
        (draft / FOLDER).mkdir()
        total = len(inventory.entries)
        for number, entry in enumerate(inventory.entries, 1):
            data = artifact_page(entry, inventory, address, names)
            _write(draft, f"{FOLDER}/{entry.page}", data)
            progress(total + number, 2 * total)
        if copies:
            (draft / REPORTS).mkdir()
        for name, (path, _) in copies.items():
            shutil.copyfile(path, draft / REPORTS / name)
        size = sum(path.stat().st_size for path in draft.rglob("*") if path.is_file())
    return Catalog(
        path=target,
        artifacts=_counts(inventory),
        pages=1 + total,
        bytes=size,
        reports=len(copies),
        damaged=[*inventory.damaged, *_invalid_signatures(inventory)],
    )


def _write(folder: Path, name: str, data: bytes) -> None:
    (folder / name).write_bytes(data)


def _address(store: Store) -> str:
    """Return the directory or URL of a store, without credentials."""
    location = store.location
    return location.url if location.local is None else location.root


def _title(address: str) -> str:
    """Return the title of the catalog of a store: the last part of its address."""
    return f"Catalog of {address.rstrip('/').rpartition('/')[2] or address}"


def _counts(inventory: Inventory) -> dict[str, int]:
    counts: dict[str, int] = {}
    for entry in inventory.entries:
        counts[entry.manifest.kind] = counts.get(entry.manifest.kind, 0) + 1
    return dict(sorted(counts.items()))


def _invalid_signatures(inventory: Inventory) -> Iterator[dict[str, str]]:
    for entry in inventory.entries:
        if entry.signature.state == "invalid":
            yield {"path": entry.artifact.location.url, "what": entry.signature.text}


def _find_reports(folder: Path) -> dict[tuple[str, str], list[Path]]:
    """Return key and digest of corpora → the HTML reports of them in a directory."""
    if not folder.is_dir():
        raise UsageError(f"{folder} is not a directory with reports. Name one with --reports DIR.")
    reports: dict[tuple[str, str], list[Path]] = {}
    for path in sorted(folder.glob("*.html")):
        if path.is_symlink() or not path.is_file():
            continue
        with path.open("rb") as stream:
            head = stream.read(_HEAD_BYTES)
            stream.seek(max(path.stat().st_size - _TAIL_BYTES, 0))
            tail = stream.read()
        match = _FOOTER.search(tail)
        if match and _REPORT_TITLE in head:
            reports.setdefault((match[1].decode(), match[2].decode()), []).append(path)
    return reports
