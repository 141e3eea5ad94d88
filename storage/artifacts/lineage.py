"""Lineage: the ancestors of an artifact, as far as the store holds them."""

from __future__ import annotations

import itertools
from collections import defaultdict, deque
from collections.abc import Callable, Iterator
from dataclasses import dataclass

from gsx.errors import ArtifactError
from gsx.limits import ANCESTORS, MANIFEST_BYTES
from gsx.storage.artifacts.manifest import Manifest, Parent, decode_manifest
from gsx.storage.artifacts.origin import read_origin
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
    """None if the store knows nothing of the artifact."""
    same_content: bool
    """Whether the store holds the content that the child was built from."""
    origin: str = ""
    """Where the artifact was pulled from; empty if it was built in the store."""
    stored: bool = True
    """Whether the store holds the artifact; if not, its manifest may have been recorded."""


def walk_lineage(store: Store, artifact: Artifact) -> Iterator[Ancestor]:
    """Yield ``artifact`` and its ancestors, depth first: parents follow their child.

    Ancestors of an artifact that was already expanded are not listed again.
    """
    manifest = artifact.manifest
    yield Ancestor(
        0,
        "",
        manifest.kind,
        manifest.key,
        manifest.stage,
        same_content=True,
        origin=_origin(artifact),
    )
    expanded = {(manifest.key, manifest.digest)}
    pending = [(1, parent) for parent in reversed(manifest.parents)]
    count_ancestor = ancestor_counter(artifact.location.url)
    while pending:
        count_ancestor()
        depth, parent = pending.pop()
        stored = store.peek(parent.kind, parent.key, parent.digest)
        recorded = None if stored is not None else store.recorded(parent.kind, parent.digest)
        yield _ancestor(depth, parent, stored, recorded)
        known = stored.manifest if stored is not None else recorded
        if known is not None and (known.key, known.digest) not in expanded:
            expanded.add((known.key, known.digest))
            pending += [(depth + 1, older) for older in reversed(known.parents)]


def lineage_manifests(store: Store, artifact: Artifact) -> list[Manifest]:
    """Return the manifests of ``artifact`` and of every known ancestor, without duplicates.

    Manifests that the store lacks are taken from the ``lineage`` folder of a bundle, or from those
    that the store recorded.
    """
    bundled = _bundled_manifests(artifact)
    manifests = [artifact.manifest]
    visited = {artifact.manifest.digest}
    pending = deque(artifact.manifest.parents)
    count_ancestor = ancestor_counter(artifact.location.url)
    while pending:
        count_ancestor()
        parent = pending.popleft()
        if parent.digest in visited:
            continue
        stored = store.peek(parent.kind, parent.key, parent.digest)
        manifest = stored.manifest if stored is not None else bundled.get(parent.digest)
        if manifest is None:
            manifest = store.recorded(parent.kind, parent.digest)
        if manifest is not None and manifest.digest == parent.digest:
            visited.add(manifest.digest)
            manifests.append(manifest)
            pending += manifest.parents
    return manifests


def ancestor_counter(url: str) -> Callable[[], None]:
    """Return a function that counts its calls and raises ArtifactError above the limit."""
    limit = ANCESTORS.value
    num_ancestors = itertools.count(1)

    def count_ancestor() -> None:
        if next(num_ancestors) > limit:
            raise ArtifactError(
                f"{url}: its lineage has more than {limit:,} entries. {ANCESTORS.advice}"
            )

    return count_ancestor


def children(store: Store, digest: str, kind: str) -> list[Artifact]:
    """Return the artifacts of a kind that have a parent with the content ``digest``."""
    return [
        artifact
        for artifact in store.artifacts(kind)
        if any(parent.digest == digest for parent in artifact.manifest.parents)
    ]


def _bundled_manifests(artifact: Artifact) -> dict[str, Manifest]:
    """Return the manifests in the ``walk_lineage`` folder of a bundle, by digest."""
    bundled, total = {}, 0
    count_ancestor = ancestor_counter(artifact.location.url)
    for name, entry in artifact.manifest.files.items():
        if name.startswith(f"{LINEAGE}/"):
            count_ancestor()
            total += entry.size
            if total > MANIFEST_BYTES.value:
                raise ArtifactError(
                    f"{artifact.location.url}: the manifests of its lineage have more than the "
                    f"limit of {MANIFEST_BYTES.value:,} bytes. Nothing was read. "
                    f"{MANIFEST_BYTES.advice}"
                )
            data = artifact.location.read_bytes(name, limit=entry.size)
            manifest = decode_manifest(data, f"{artifact.location.url}/{name}")
            bundled[manifest.digest] = manifest
    return bundled


def _origin(artifact: Artifact) -> str:
    origin = read_origin(artifact.location)
    return "" if origin is None else origin.describe()


def _ancestor(
    depth: int, parent: Parent, stored: Artifact | None, recorded: Manifest | None
) -> Ancestor:
    known = stored.manifest if stored is not None else recorded
    return Ancestor(
        depth,
        parent.role,
        parent.kind,
        parent.key,
        stage=None if known is None else known.stage,
        same_content=known is not None and known.digest == parent.digest,
        origin="" if stored is None else _origin(stored),
        stored=stored is not None,
    )


def descendants(store: Store, artifact: Artifact) -> list[Artifact]:
    """Return the artifacts of the store that derive from ``artifact``, directly or indirectly.

    Every artifact comes after those that it derives from.
    """
    children_of: defaultdict[str, list[Artifact]] = defaultdict(list)
    for other in store.artifacts():
        for key in {parent.key for parent in other.manifest.parents}:
            children_of[key].append(other)
    visited, finished = set[str](), list[Artifact]()
    pending = [(artifact, iter(children_of[artifact.key]))]
    while pending:
        current, remaining = pending[-1]
        for child in remaining:
            if child.location.url not in visited:
                visited.add(child.location.url)
                pending.append((child, iter(children_of[child.key])))
                break
        else:
            finished.append(current)
            pending.pop()
    return finished[-2::-1]  # without the artifact itself, which finished last
