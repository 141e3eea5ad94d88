"""Copy an artifact out of a store: verified, and complete or not at all."""

from __future__ import annotations

import shutil
import tempfile
from pathlib import Path

from gsx.errors import ArtifactError, StoreError
from gsx.storage.artifacts.atomic_files import fsync_file, translate_os_errors
from gsx.storage.artifacts.location import Location
from gsx.storage.artifacts.manifest import MANIFEST
from gsx.storage.artifacts.publish_remote import require_create_only, upload_artifact
from gsx.storage.artifacts.sidecars import read_sidecars
from gsx.storage.artifacts.store import Artifact
from gsx.storage.artifacts.verification_cache import mark_verified
from gsx.storage.artifacts.verify_files import (
    find_file_problems,
    find_size_problems,
    raise_if_damaged,
    read_manifest,
    read_manifest_bytes,
)
from gsx.storage.sharing.atomic_directory import atomic_directory, require_empty_target


def copy_artifact(artifact: Artifact, target: Path) -> Path:
    """Copy ``artifact`` to the directory ``target``, which must not exist or be empty.

    A target that already holds the same content stays unchanged.
    """
    location = Location.at(target)
    with translate_os_errors(str(target), consequence="Nothing was written there."):
        if _has_same_content(target, artifact):
            return target
        require_empty_target(target)
        _require_complete(artifact)
        with atomic_directory(target) as draft:
            _copy_files(artifact, draft)
    mark_verified(location, artifact.manifest)
    return target


def upload_copy(artifact: Artifact, url: str) -> str:
    """Copy ``artifact`` to an empty prefix of an object store; the manifest is written last.

    A prefix that already holds the same artifact stays unchanged.
    """
    target = Location.at(url)
    require_create_only(target)
    _require_complete(artifact)
    with tempfile.TemporaryDirectory() as folder:
        copy = Path(folder) / "copy"
        _copy_files(artifact, copy)
        if upload_artifact(Location.at(copy), target, artifact.manifest):
            return target.url
    if read_manifest(target).digest != artifact.manifest.digest:
        raise StoreError(
            f"{target.url} holds another artifact. Choose an empty prefix with `--out`."
        )
    return target.url


def _require_complete(artifact: Artifact) -> None:
    problems = find_size_problems(artifact.location, artifact.manifest)
    raise_if_damaged(artifact.location, problems)


def _copy_files(artifact: Artifact, draft: Path) -> None:
    """Copy all files to ``draft`` with fsync, then verify the copy."""
    for name in artifact.manifest.files:
        path = draft / name
        path.parent.mkdir(parents=True, exist_ok=True)
        with artifact.location.open(name) as source, path.open("wb") as copy:
            shutil.copyfileobj(source, copy, 1 << 20)
        fsync_file(path)
    manifest = read_manifest_bytes(artifact.location)[0]
    for name, data in {**read_sidecars(artifact.location), MANIFEST: manifest}.items():
        (draft / name).write_bytes(data)
        fsync_file(draft / name)
    problems = find_file_problems(Location.at(draft), artifact.manifest)
    raise_if_damaged(artifact.location, problems)


def _has_same_content(target: Path, artifact: Artifact) -> bool:
    if not target.is_dir() or target.is_symlink():
        return False
    location = Location.at(target)
    try:
        manifest = read_manifest(location)
    except ArtifactError:
        return False
    same = manifest.digest == artifact.manifest.digest
    return same and not find_file_problems(location, manifest)
