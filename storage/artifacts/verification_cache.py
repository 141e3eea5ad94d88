"""Verification cache: which artifacts this machine has already verified.

With it, an artifact from another machine is hashed only once. An entry in the user's cache
directory identifies the location, the bytes of the manifest, and size and timestamps of every file.
Any mismatch causes a new verification. Losing the cache costs time, never safety.
"""

from __future__ import annotations

import os
from pathlib import Path

import platformdirs

from gsx.storage.artifacts.atomic_files import atomic_write
from gsx.storage.artifacts.digest import canonical_json, sha256_bytes, sha256_file
from gsx.storage.artifacts.manifest import MANIFEST, RUN_RECORD, Manifest


def cache_root() -> Path:
    """Return the directory of caches that can be rebuilt: ``GSX_CACHE`` or the user's cache."""
    configured = os.environ.get("GSX_CACHE")
    return Path(configured) if configured else Path(platformdirs.user_cache_dir("gsx"))


def is_verified(root: Path, manifest: Manifest) -> bool:
    """Return whether the artifact at ``root`` was verified here and is unchanged since then."""
    try:
        return _entry(root).read_bytes() == _fingerprint(root, manifest).encode()
    except OSError:
        return False


def mark_verified(root: Path, manifest: Manifest) -> None:
    """Record that the artifact at ``root`` has just been verified."""
    try:
        entry = _entry(root)
        entry.parent.mkdir(parents=True, exist_ok=True)
        atomic_write(entry, _fingerprint(root, manifest).encode())
    except OSError:
        return  # without a writable cache, the next reader verifies again


def _entry(root: Path) -> Path:
    return cache_root() / "verified" / sha256_bytes(str(root.resolve()).encode())[:32]


def _fingerprint(root: Path, manifest: Manifest) -> str:
    stats = {path: _stat(root / path) for path in manifest.files}
    if (root / RUN_RECORD).exists():
        stats[RUN_RECORD] = _stat(root / RUN_RECORD)
    return sha256_bytes(canonical_json([sha256_file(root / MANIFEST), stats]))


def _stat(path: Path) -> list[int]:
    status = path.lstat()
    return [status.st_size, status.st_mtime_ns, status.st_ctime_ns, status.st_ino, status.st_mode]
