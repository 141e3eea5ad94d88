"""Garbage: what a store and the cache hold that no one needs, and how to remove things safely."""

from __future__ import annotations

import secrets
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path

from filelock import FileLock, Timeout

from gsx.errors import StoreError, UsageError
from gsx.storage.disk import explained, regular_files, remove_tree
from gsx.storage.hotcache import cached_digests, hot_folder
from gsx.storage.lineage import descendants
from gsx.storage.manifest import MANIFEST
from gsx.storage.place import Place
from gsx.storage.store import Artifact, Store


@dataclass(frozen=True, slots=True)
class Garbage:
    """Something that can go."""

    what: str
    path: str
    bytes: int


def find_garbage(store: Store) -> Iterator[Garbage]:
    """Yield drafts nobody is working on, superseded generations, and caches without a corpus."""
    root = store.place.local
    if root is None:
        return
    for folder in (".drafts", ".trash"):
        what = "abandoned draft" if folder == ".drafts" else "half-removed artifact"
        for path in sorted((root / folder).glob("*")):
            if not _busy(root, path.name):
                yield Garbage(what, str(path), _bytes(path))
    latest: dict[tuple[str, str], int] = {}
    for kind, name, generation in store.entries():
        if (kind, name) in latest:
            old = Path(store.folder(kind, name, latest[kind, name]).root)
            yield Garbage("superseded generation", str(old), _bytes(old))
        latest[kind, name] = generation
    digests = {artifact.manifest.digest for artifact in store.artifacts()}
    for digest in cached_digests():
        if digest not in digests:
            yield Garbage("cache of a corpus not here", str(hot_folder(digest)),
                          _bytes(hot_folder(digest)))  # fmt: skip


def remove_garbage(store: Store, garbage: Garbage) -> None:
    """Remove one thing that ``find_garbage`` found."""
    with explained(garbage.path, lost="Some garbage may be left."):
        path = Path(garbage.path)
        if garbage.what == "superseded generation":
            _remove_artifact(store, path)
        else:
            remove_tree(path)


def list_artifacts(
    store: Store, names: Sequence[str], *, with_descendants: bool
) -> list[tuple[Garbage, Artifact]]:
    """Return artifacts to remove; one that others were made from only together with them."""
    chosen = {artifact.place.url: artifact for artifact in map(store.resolve, names)}
    for artifact in list(chosen.values()):
        for other in descendants(store, artifact):
            if other.place.url not in chosen and not with_descendants:
                raise UsageError(
                    f"{artifact.manifest.kind} {artifact.key[:12]} is what "
                    f"{other.manifest.kind} {other.key[:12]} was made from. "
                    "Add `--with-descendants` to remove both."
                )
            chosen[other.place.url] = other
    return [
        (Garbage(f"{a.manifest.kind} {a.key[:12]}", a.place.url, a.manifest.size), a)
        for a in chosen.values()
    ]


def remove_artifacts(store: Store, chosen: Sequence[Artifact]) -> None:
    """Remove artifacts, each in one step."""
    for artifact in chosen:
        with explained(artifact.place.url, lost="What could be removed is gone."):
            if artifact.place.local is None:
                _remove_remote(artifact.place)
            else:
                _remove_artifact(store, artifact.place.local)


def _remove_artifact(store: Store, path: Path) -> None:
    """Take the artifact out of sight in one step, then delete it."""
    root = store.place.local
    if root is None or root.resolve() not in path.resolve().parents:
        raise StoreError(f"{path} does not lie in the store {store.place.url}; not removed.")
    trash = root / ".trash"
    trash.mkdir(exist_ok=True)
    target = trash / secrets.token_hex(8)
    path.rename(target)
    remove_tree(target)


def _remove_remote(place: Place) -> None:
    """Remove the manifest first: without it there is no artifact."""
    place.fs.rm_file(place.path(MANIFEST))
    place.fs.rm(place.root, recursive=True)


def _busy(root: Path, key: str) -> bool:
    lock = FileLock(root / ".locks" / f"{key}.lock")
    if not (root / ".locks").is_dir():
        return False
    try:
        lock.acquire(timeout=0)
    except Timeout:
        return True
    lock.release()
    return False


def _bytes(path: Path) -> int:
    return sum(file.lstat().st_size for file in regular_files(path))
