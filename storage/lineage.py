"""Lineage: the artifacts one artifact was made from, and theirs, as far as the store holds them."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass

from gsx.storage.manifest import Parent
from gsx.storage.store import Artifact, Store


@dataclass(frozen=True, slots=True)
class Ancestor:
    """One artifact on the way back to raw data."""

    depth: int
    role: str
    """What its child used it for; empty for the artifact one started from."""
    kind: str
    key: str
    stage: str | None
    """None when the store does not hold it."""
    same_content: bool
    """Whether the store's copy has the content the child was made from."""


def lineage(store: Store, artifact: Artifact) -> Iterator[Ancestor]:
    """Yield ``artifact`` and its ancestors, parents right after their child."""
    manifest = artifact.manifest
    yield Ancestor(0, "", manifest.kind, manifest.key, manifest.stage, same_content=True)
    for parent in manifest.parents:
        yield from _up(store, parent, 1)


def _up(store: Store, parent: Parent, depth: int) -> Iterator[Ancestor]:
    found = store.peek(parent.kind, parent.key, parent.digest)
    if found is None:
        yield Ancestor(depth, parent.role, parent.kind, parent.key, None, same_content=False)
        return
    same = found.manifest.digest == parent.digest
    yield Ancestor(
        depth, parent.role, parent.kind, parent.key, found.manifest.stage, same_content=same
    )
    for grandparent in found.manifest.parents:
        yield from _up(store, grandparent, depth + 1)


def descendants(store: Store, artifact: Artifact) -> list[Artifact]:
    """Return the artifacts of the store that were made from ``artifact``, directly or not."""
    everything = list(store.artifacts())
    keys = {artifact.key}
    found: dict[str, Artifact] = {}
    grew = True
    while grew:
        grew = False
        for other in everything:
            parents = {parent.key for parent in other.manifest.parents}
            if other.place.url not in found and parents & keys:
                found[other.place.url] = other
                keys.add(other.key)
                grew = True
    return list(found.values())
