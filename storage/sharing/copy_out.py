"""Copy an artifact out of a store: verified on the way, whole or not at all."""

from __future__ import annotations

import shutil
import tempfile
from pathlib import Path

from gsx.errors import ArtifactError, StoreError
from gsx.storage.artifacts.atomic_files import explained, flush_file
from gsx.storage.artifacts.location import Place
from gsx.storage.artifacts.manifest import MANIFEST, SIDECARS
from gsx.storage.artifacts.publish_remote import require_create_only, upload
from gsx.storage.artifacts.store import Artifact
from gsx.storage.artifacts.verification_cache import trust
from gsx.storage.artifacts.verify_files import find_problems, quick_problems, read_manifest, refuse
from gsx.storage.sharing.atomic_directory import new_directory, refuse_unless_free


def copy_artifact(artifact: Artifact, target: Path) -> Path:
    """Copy ``artifact`` to the directory ``target``, which must not exist or be empty.

    A target that already holds the same content is left as it is.
    """
    with explained(str(target), lost="Nothing was written there."):
        if _holds(target, artifact):
            return target
        refuse_unless_free(target)
        refuse(artifact.place, quick_problems(artifact.place, artifact.manifest))
        with new_directory(target) as draft:
            _copy_files(artifact, draft)
            refuse(artifact.place, find_problems(Place.at(draft), artifact.manifest))
    trust(target, artifact.manifest)
    return target


def send_artifact(artifact: Artifact, url: str) -> str:
    """Copy ``artifact`` to an empty prefix of an object store; the manifest goes last.

    A prefix that already holds the same artifact is left as it is.
    """
    target = Place.at(url)
    require_create_only(target)
    refuse(artifact.place, quick_problems(artifact.place, artifact.manifest))
    with tempfile.TemporaryDirectory() as folder:
        _copy_files(artifact, Path(folder) / "copy")
        refuse(artifact.place, find_problems(Place.at(Path(folder) / "copy"), artifact.manifest))
        if upload(Path(folder) / "copy", target, artifact.manifest):
            return target.url
    if read_manifest(target).digest != artifact.manifest.digest:
        raise StoreError(f"{target.url} holds another artifact. Name an empty prefix with `--out`.")
    return target.url


def _copy_files(artifact: Artifact, draft: Path) -> None:
    names = [*artifact.manifest.files, MANIFEST]
    names += [name for name in SIDECARS if artifact.place.exists(name)]
    for name in names:
        path = draft / name
        path.parent.mkdir(parents=True, exist_ok=True)
        with artifact.place.open(name) as source, path.open("wb") as copy:
            shutil.copyfileobj(source, copy, 1 << 20)
        flush_file(path)


def _holds(target: Path, artifact: Artifact) -> bool:
    if not target.is_dir() or target.is_symlink():
        return False
    place = Place.at(target)
    try:
        manifest = read_manifest(place)
    except ArtifactError:
        return False
    return manifest.digest == artifact.manifest.digest and not find_problems(place, manifest)
