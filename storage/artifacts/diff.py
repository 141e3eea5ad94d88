"""Differences between two artifacts: configuration, inputs, results and files."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from typing import Any

import msgspec

from gsx.storage.artifacts.manifest import Manifest


@dataclass(frozen=True, slots=True)
class Difference:
    """One value that differs between two manifests."""

    where: str
    """Path of the value, such as ``config.seed``."""
    left: Any
    right: Any


def diff_manifests(left: Manifest, right: Manifest) -> list[Difference]:
    """Return the differences between two manifests; files are compared by content."""
    differences: list[Difference] = []
    for field in ("kind", "stage", "stage_version", "config", "raw", "seeds", "counts", "summary"):
        a = msgspec.to_builtins(getattr(left, field))
        b = msgspec.to_builtins(getattr(right, field))
        differences += _walk(field, a, b)
    parents = [
        {parent.role: f"{parent.kind} {parent.digest}" for parent in side.parents}
        for side in (left, right)
    ]
    differences += _walk("parents", parents[0], parents[1])
    files = [{path: entry.sha256 for path, entry in side.files.items()} for side in (left, right)]
    differences += _walk("files", files[0], files[1])
    return differences


def _walk(where: str, left: object, right: object) -> Iterator[Difference]:
    if isinstance(left, Mapping) and isinstance(right, Mapping):
        for key in sorted({*left, *right}):
            yield from _walk(f"{where}.{key}", left.get(key), right.get(key))
    elif isinstance(left, list) and isinstance(right, list) and len(left) == len(right):
        for index, (a, b) in enumerate(zip(left, right, strict=True)):
            yield from _walk(f"{where}[{index}]", a, b)
    elif left != right:
        yield Difference(where, left, right)
