"""Verification cache: which artifacts this machine has already verified.

With it, an artifact from another machine is hashed only once. An entry in the user's cache
directory holds the content digest of the artifact and the stamp that every file had while its hash
was computed. Any difference causes a new verification, and files are opened only if they still have
their stamp. Losing the cache costs time, never safety.
"""

from __future__ import annotations

import os
from collections.abc import Mapping
from pathlib import Path

import msgspec
import platformdirs

from gsx import typed_values
from gsx.errors import ArtifactError
from gsx.limits import MANIFEST_BYTES
from gsx.storage.artifacts.atomic_files import atomic_write
from gsx.storage.artifacts.digest import read_at_most, sha256_bytes
from gsx.storage.artifacts.location import Location
from gsx.storage.artifacts.manifest import Manifest
from gsx.storage.artifacts.safe_files import FileStamp, open_regular
from gsx.storage.artifacts.verify_files import current_stamps

VERSION = 2


class _Entry(msgspec.Struct, frozen=True):
    version: int
    location: str
    digest: str
    stamps: dict[str, FileStamp]


def cache_root() -> Path:
    """Return the directory of caches that can be rebuilt: ``GSX_CACHE`` or the user's cache."""
    configured = os.environ.get("GSX_CACHE")
    return Path(configured) if configured else Path(platformdirs.user_cache_dir("gsx"))


def known_stamps(location: Location, manifest: Manifest) -> Mapping[str, FileStamp]:
    """Return the stamps that the files of a local artifact had when they were verified."""
    try:
        with open_regular(cache_root(), _entry_name(location)) as stream:
            data = read_at_most(stream, MANIFEST_BYTES.value)
        entry = typed_values.decode_json(data, _Entry)
    except (OSError, ArtifactError, msgspec.MsgspecError, UnicodeDecodeError, RecursionError):
        return {}
    expected = (VERSION, str(_resolved(location)), manifest.digest)
    return entry.stamps if (entry.version, entry.location, entry.digest) == expected else {}


def mark_verified(
    location: Location, manifest: Manifest, stamps: Mapping[str, FileStamp] | None = None
) -> None:
    """Record that the local artifact at ``location`` is verified.

    ``stamps`` are those of the hashed files. Without them, this process has just written and hashed
    the files. A file that changed so recently that another change might keep its timestamps is not
    recorded.
    """
    try:
        if stamps is None:
            current = current_stamps(location)
            stamps = {path: current[path] for path in manifest.files}
        else:
            stamps = {path: stamp for path, stamp in stamps.items() if not stamp.is_recent()}
        entry = _Entry(VERSION, str(_resolved(location)), manifest.digest, dict(stamps))
        path = cache_root() / _entry_name(location)
        path.parent.mkdir(parents=True, exist_ok=True)
        atomic_write(path, msgspec.json.encode(entry))
    except (OSError, KeyError, ArtifactError):
        return  # without a writable cache, the next reader verifies again


def _resolved(location: Location) -> Path:
    return Path(location.root).resolve()


def _entry_name(location: Location) -> str:
    return f"verified/{sha256_bytes(str(_resolved(location)).encode())[:32]}"
