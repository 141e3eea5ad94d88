"""Manifests of inputs that a store does not hold, such as a corpus in a received directory.

They complete the lineage of what was built from these inputs. ``.lineage/<kind>-<digest>.json``
holds the manifest of the artifact of this kind and content. Nothing but lineages depends on it.
"""

from __future__ import annotations

import re
from collections.abc import Iterable

from gsx.errors import ArtifactError, StoreError
from gsx.limits import MANIFEST_BYTES
from gsx.storage.artifacts.atomic_files import atomic_write, translate_os_errors
from gsx.storage.artifacts.location import Location, translate_remote_errors
from gsx.storage.artifacts.manifest import KIND, Manifest, decode_manifest, encode_manifest
from gsx.storage.artifacts.safe_files import make_directory

RECORDS = ".lineage"
_DIGEST = re.compile(r"[0-9a-f]{64}")


def record_manifests(store: Location, manifests: Iterable[Manifest]) -> None:
    """Record manifests in a store, each once."""
    for manifest in manifests:
        name = _path(manifest.kind, manifest.digest)
        if name is None or store.exists(name):
            continue
        data = encode_manifest(manifest)
        if store.local is None:
            with translate_remote_errors(store):
                store.fs.pipe_file(store.path(name), data)
            continue
        consequence = "The artifact was built, but its lineage is incomplete."
        with translate_os_errors(f"{store.url}/{RECORDS}", consequence=consequence):
            make_directory(store.local, RECORDS)
            atomic_write(store.local / name, data)


def read_recorded(store: Location, kind: str, digest: str) -> Manifest | None:
    """Return the recorded manifest of an artifact; None if there is no valid one."""
    name = _path(kind, digest)
    if name is None or store.is_web:
        return None
    try:
        data = store.read_bytes(name, limit=MANIFEST_BYTES)
        manifest = decode_manifest(data, f"{store.url}/{name}")
    except (FileNotFoundError, NotADirectoryError, ArtifactError, StoreError):
        return None
    return manifest if (manifest.kind, manifest.digest) == (kind, digest) else None


def _path(kind: str, digest: str) -> str | None:
    if not (KIND.fullmatch(kind) and _DIGEST.fullmatch(digest)):
        return None
    return f"{RECORDS}/{kind}-{digest}.json"
