"""Lineage: the ancestors of an artifact, as far as the store holds them."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass

from gsx.storage.artifacts.manifest import MAX_MANIFEST_BYTES, Manifest, Parent, decode_manifest
from gsx.storage.artifacts.store import Artifact, Store

LINEAGE = "lineage"
"""Folder of a bundle that holds the manifests of its ancestors."""


@dataclass(frozen=True, slots=True)
class Ancestor:
    """One artifact in a lineage."""

    depth: int
    role: str
    """Role in its child; empty for the artifact the lineage starts from."""
    kind: str
    key: str
    stage: str | None
    """None if the store does not hold the artifact."""
    same_content: bool
    """Whether the store holds the content that the child was built from."""


def walk_lineage(store: Store, artifact: Artifact) -> Iterator[Ancestor]:
    """Yield ``artifact`` and its ancestors, depth first: parents follow their child.

    Ancestors of an artifact that was already expanded are not listed again.
    """
    manifest = artifact.manifest
    yield Ancestor(0, "", manifest.kind, manifest.key, manifest.stage, same_content=True)
    expanded = {(manifest.key, manifest.digest)}
    pending = [(1, parent) for parent in reversed(manifest.parents)]
    while pending:
        depth, parent = pending.pop()
        stored = store.peek(parent.kind, parent.key, parent.digest)
        yield _ancestor(depth, parent, stored)
        if stored is not None and (stored.key, stored.manifest.digest) not in expanded:
            expanded.add((stored.key, stored.manifest.digest))
            pending += [(depth + 1, older) for older in reversed(stored.manifest.parents)]


def lineage_manifests(store: Store, artifact: Artifact) -> list[Manifest]:
    """Return the manifests of ``artifact`` and of every known ancestor, without duplicates.

    Manifests that the store lacks are taken from the ``walk_lineage`` folder of a bundle.
    """
    bundled = _bundled_manifests(artifact)
    manifests = [artifact.manifest]
    pending = list(artifact.manifest.parents)
    while pending:
        parent = pending.pop(0)
        if any(parent.digest == listed.digest for listed in manifests):
            continue
        stored = store.peek(parent.kind, parent.key, parent.digest)
        manifest = bundled.get(parent.digest) if stored is None else stored.manifest
        if manifest is not None and manifest.digest == parent.digest:
            manifests.append(manifest)
            pending += manifest.parents
    return manifests


def children(store: Store, digest: str, kind: str) -> list[Artifact]:
    """Return the artifacts of a kind that have a parent with the content ``digest``."""
    return [
        artifact
        for artifact in store.artifacts(kind)
        if any(parent.digest == digest for parent in artifact.manifest.parents)
    ]


def _bundled_manifests(artifact: Artifact) -> dict[str, Manifest]:
    """Return the manifests in the ``walk_lineage`` folder of a bundle, by digest."""
    bundled = {}
    for name in artifact.manifest.files:
        if name.startswith(f"{LINEAGE}/"):
            data = artifact.location.read_bytes(name, limit=MAX_MANIFEST_BYTES)
            manifest = decode_manifest(data, f"{artifact.location.url}/{name}")
            bundled[manifest.digest] = manifest
    return bundled


def _ancestor(depth: int, parent: Parent, stored: Artifact | None) -> Ancestor:
    return Ancestor(
        depth,
        parent.role,
        parent.kind,
        parent.key,
        stage=None if stored is None else stored.manifest.stage,
        same_content=stored is not None and stored.manifest.digest == parent.digest,
    )


def descendants(store: Store, artifact: Artifact) -> list[Artifact]:
    """Return the artifacts of the store that derive from ``artifact``, directly or indirectly."""
    all_artifacts = list(store.artifacts())
    keys = {artifact.key}
    derived: dict[str, Artifact] = {}
    grew = True
    while grew:
        grew = False
        for other in all_artifacts:
            parents = {parent.key for parent in other.manifest.parents}
            if other.location.url not in derived and parents & keys:
                derived[other.location.url] = other
                keys.add(other.key)
                grew = True
    return list(derived.values())
