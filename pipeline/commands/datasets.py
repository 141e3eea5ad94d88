"""`gsx datasets`: list the datasets that can be prepared."""

from __future__ import annotations

from pathlib import Path
from typing import Any

from gsx.stages.prepare.dataset import DatasetMetadata
from gsx.stages.prepare.download.catalog import remote_files
from gsx.stages.prepare.stage import FAMILIES


def list_datasets(raw: str | Path | None) -> list[dict[str, Any]]:
    """Return one row per dataset; ``raw`` is the directory of raw files."""
    return [
        {
            "name": name,
            "level": card.level,
            "shift": card.shift,
            "source": _source(card, raw),
            "counts": dict(card.counts),
            "fetch": bool(remote_files(card)),
            "confirmation": card.confirmation,
        }
        for family in FAMILIES
        if family.listed
        for name in family.names
        for card in (family.metadata(name),)
    ]


def _source(card: DatasetMetadata, raw: str | Path | None) -> str:
    """Return where the graphs of a dataset come from: built in, raw files, or not found."""
    if not card.raw:
        return "built in"
    exists = raw is not None and all(file.find(Path(raw)) for file in card.raw)
    return "raw files" if exists else "not found"
