"""What this machine has already verified, so that an artifact from elsewhere is hashed once.

The ledger lies in the user's cache. A record names the place, the manifest's bytes and the size and
change time of every file; anything else than an exact match means: verify again. Losing the ledger
costs time, never safety.
"""

from __future__ import annotations

import os
from pathlib import Path

import platformdirs

from gsx.storage.artifacts.atomic_files import write_atomically
from gsx.storage.artifacts.digest import canonical_json, sha256_bytes, sha256_file
from gsx.storage.artifacts.manifest import MANIFEST, RUN_RECORD, Manifest


def cache_root() -> Path:
    """Return the folder for what can always be made again: ``GSX_CACHE``, or the user's cache."""
    named = os.environ.get("GSX_CACHE")
    return Path(named) if named else Path(platformdirs.user_cache_dir("gsx"))


def is_trusted(root: Path, manifest: Manifest) -> bool:
    """Say whether the artifact at ``root`` was verified here and has not changed since."""
    try:
        return _record(root).read_bytes() == _fingerprint(root, manifest).encode()
    except OSError:
        return False


def trust(root: Path, manifest: Manifest) -> None:
    """Remember that the artifact at ``root`` was verified just now."""
    try:
        record = _record(root)
        record.parent.mkdir(parents=True, exist_ok=True)
        write_atomically(record, _fingerprint(root, manifest).encode())
    except OSError:
        return  # an unwritable cache only means that the next reader verifies again


def _record(root: Path) -> Path:
    return cache_root() / "verified" / sha256_bytes(str(root.resolve()).encode())[:32]


def _fingerprint(root: Path, manifest: Manifest) -> str:
    stats = {path: _stat(root / path) for path in manifest.files}
    if (root / RUN_RECORD).exists():
        stats[RUN_RECORD] = _stat(root / RUN_RECORD)
    return sha256_bytes(canonical_json([sha256_file(root / MANIFEST), stats]))


def _stat(path: Path) -> list[int]:
    found = path.lstat()
    return [found.st_size, found.st_mtime_ns, found.st_ctime_ns, found.st_ino, found.st_mode]
