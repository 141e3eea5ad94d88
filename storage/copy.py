"""Copy an artifact out of a store: verified on the way, whole or not at all."""

from __future__ import annotations

import shutil
from pathlib import Path

from gsx.errors import ArtifactError
from gsx.storage.disk import explained, flush_file
from gsx.storage.manifest import MANIFEST, SIDECARS
from gsx.storage.outside import new_directory, refuse_unless_free
from gsx.storage.place import Place
from gsx.storage.store import Artifact
from gsx.storage.trust import trust
from gsx.storage.verify import find_problems, quick_problems, read_manifest, refuse


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
