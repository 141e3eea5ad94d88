"""Lineage: the artifacts one artifact was made from, and theirs, as far as the store holds them."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass

from gsx.storage.artifacts.manifest import MAX_MANIFEST_BYTES, Manifest, Parent, decode_manifest
from gsx.storage.artifacts.store import Artifact, Store

LINEAGE = "lineage"
"""Folder of a bundle that holds the manifests of what it was made from."""


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
    """Yield ``artifact`` and its ancestors, parents right after their child.

    Ancestors of an artifact that was met before are not listed again.
    """
    manifest = artifact.manifest
    yield Ancestor(0, "", manifest.kind, manifest.key, manifest.stage, same_content=True)
    met = {(manifest.key, manifest.digest)}
    waiting = [(1, parent) for parent in reversed(manifest.parents)]
    while waiting:
        depth, parent = waiting.pop()
        found = store.peek(parent.kind, parent.key, parent.digest)
        yield _ancestor(depth, parent, found)
        if found is not None and (found.key, found.manifest.digest) not in met:
            met.add((found.key, found.manifest.digest))
            waiting += [(depth + 1, older) for older in reversed(found.manifest.parents)]


def manifests(store: Store, artifact: Artifact) -> list[Manifest]:
    """Return the manifest of ``artifact`` and of every ancestor the store holds, each once.

    What a bundle carries in its ``lineage`` folder stands in for what the store lacks.
    """
    carried = _carried(artifact)
    found = [artifact.manifest]
    waiting = list(artifact.manifest.parents)
    while waiting:
        parent = waiting.pop(0)
        if any(parent.digest == known.digest for known in found):
            continue
        held = store.peek(parent.kind, parent.key, parent.digest)
        manifest = carried.get(parent.digest) if held is None else held.manifest
        if manifest is not None and manifest.digest == parent.digest:
            found.append(manifest)
            waiting += manifest.parents
    return found


def children(store: Store, digest: str, kind: str) -> list[Artifact]:
    """Return the artifacts of a kind that were made directly from the content ``digest``."""
    return [
        artifact
        for artifact in store.artifacts(kind)
        if any(parent.digest == digest for parent in artifact.manifest.parents)
    ]


def _carried(artifact: Artifact) -> dict[str, Manifest]:
    """Return the manifests in the ``lineage`` folder of a bundle, by digest."""
    found = {}
    for name in artifact.manifest.files:
        if name.startswith(f"{LINEAGE}/"):
            data = artifact.place.read_bytes(name, limit=MAX_MANIFEST_BYTES)
            manifest = decode_manifest(data, f"{artifact.place.url}/{name}")
            found[manifest.digest] = manifest
    return found


def _ancestor(depth: int, parent: Parent, found: Artifact | None) -> Ancestor:
    return Ancestor(
        depth,
        parent.role,
        parent.kind,
        parent.key,
        stage=None if found is None else found.manifest.stage,
        same_content=found is not None and found.manifest.digest == parent.digest,
    )


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
