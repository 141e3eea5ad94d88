"""Differences between two artifacts: what was asked for, what went in, what came out."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from typing import Any

import msgspec

from gsx.storage.artifacts.manifest import Manifest


@dataclass(frozen=True, slots=True)
class Difference:
    """One fact that is not the same."""

    where: str
    left: Any
    right: Any


def diff(left: Manifest, right: Manifest) -> list[Difference]:
    """Return what differs between two manifests, files by content; nothing for equal content."""
    found: list[Difference] = []
    for field in ("kind", "stage", "stage_version", "config", "raw", "seeds", "counts", "summary"):
        a = msgspec.to_builtins(getattr(left, field))
        b = msgspec.to_builtins(getattr(right, field))
        found += _walk(field, a, b)
    parents = [
        {parent.role: f"{parent.kind} {parent.digest}" for parent in side.parents}
        for side in (left, right)
    ]
    found += _walk("parents", parents[0], parents[1])
    files = [{path: entry.sha256 for path, entry in side.files.items()} for side in (left, right)]
    found += _walk("files", files[0], files[1])
    return found


def _walk(where: str, left: object, right: object) -> Iterator[Difference]:
    if isinstance(left, Mapping) and isinstance(right, Mapping):
        for key in sorted({*left, *right}):
            yield from _walk(f"{where}.{key}", left.get(key), right.get(key))
    elif isinstance(left, list) and isinstance(right, list) and len(left) == len(right):
        for number, (a, b) in enumerate(zip(left, right, strict=True)):
            yield from _walk(f"{where}[{number}]", a, b)
    elif left != right:
        yield Difference(where, left, right)
