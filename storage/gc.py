"""Garbage: what a store and the cache hold that no one needs, and how to remove things safely."""

from __future__ import annotations

import contextlib
import secrets
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path

from filelock import FileLock, Timeout

from gsx.errors import StoreError, UsageError
from gsx.storage.artifacts.atomic_files import explained, regular_files, remove_tree
from gsx.storage.artifacts.lineage import descendants
from gsx.storage.artifacts.location import Place, reachable
from gsx.storage.artifacts.manifest import MANIFEST
from gsx.storage.artifacts.publish import draft_folder, lock_of
from gsx.storage.artifacts.store import Artifact, Store
from gsx.storage.corpora.hot_cache import cached_digests, hot_folder
from gsx.storage.sharing.push_pull import TRANSFERS

DRAFT = "abandoned draft"
TRANSFER = "unfinished transfer"
SUPERSEDED = "superseded generation"
CACHE = "cache of a corpus not here"


@dataclass(frozen=True, slots=True)
class Garbage:
    """Something that can go."""

    what: str
    path: str
    bytes: int


def find_garbage(store: Store) -> Iterator[Garbage]:
    """Yield drafts nobody is working on, superseded generations, and caches without a corpus."""
    for path in sorted(draft_folder(store).glob("*")):
        if _free(lock_of(path)):
            yield Garbage(DRAFT, str(path), _bytes(path))
    if store.place.local is None:
        return
    for path in sorted((store.place.local / TRANSFERS).glob("*")):
        if _free(lock_of(path)):
            yield Garbage(TRANSFER, str(path), _bytes(path))
    for path in sorted((store.place.local / ".trash").glob("*")):
        yield Garbage("half-removed artifact", str(path), _bytes(path))
    artifacts = list(store.artifacts())
    yield from _superseded(artifacts)
    digests = {artifact.manifest.digest for artifact in artifacts}
    for name in cached_digests():
        folder = hot_folder(name)
        if name not in digests and _free(_lock_of_cache(folder)):
            yield Garbage(CACHE, str(folder), _bytes(folder))


def _superseded(artifacts: Sequence[Artifact]) -> Iterator[Garbage]:
    """Yield generations that have a newer one, unless something was made from just this content."""
    needed = {parent.digest for artifact in artifacts for parent in artifact.manifest.parents}
    newest = {(a.manifest.kind, a.key): a.manifest.digest for a in artifacts}
    last = {(a.manifest.kind, a.key): a.generation for a in artifacts}
    for artifact in artifacts:
        name, digest = (artifact.manifest.kind, artifact.key), artifact.manifest.digest
        if artifact.generation != last[name] and (digest not in needed or digest == newest[name]):
            path = Path(artifact.place.root)
            yield Garbage(SUPERSEDED, str(path), _bytes(path))


def remove_garbage(store: Store, garbage: Garbage) -> bool:
    """Remove one thing that ``find_garbage`` found; False when somebody uses it again."""
    path = Path(garbage.path)
    lock = None
    if garbage.what in (DRAFT, TRANSFER):
        lock = lock_of(path)
    elif garbage.what == CACHE:
        lock = _lock_of_cache(path)
    with explained(garbage.path, lost="Some garbage may be left."), _held(lock) as mine:
        if not mine:
            return False
        if garbage.what == SUPERSEDED:
            _remove_artifact(store, path)
        else:
            remove_tree(path)
    return True


def list_artifacts(
    store: Store, names: Sequence[str], *, with_descendants: bool
) -> list[tuple[Garbage, Artifact]]:
    """Return artifacts to remove; one that others were made from only together with them.

    Each comes after all it was made from.
    """
    places = [store.locate(name) for name in names]
    chosen = {place.url: store.peek_at(place) for place in places}
    for artifact in list(chosen.values()):
        for other in descendants(store, artifact):
            if other.place.url not in chosen and not with_descendants:
                raise UsageError(
                    f"{artifact.manifest.kind} {artifact.key[:12]} is what "
                    f"{other.manifest.kind} {other.key[:12]} was made from. "
                    "Add `--with-descendants` to remove both."
                )
            chosen.pop(other.place.url, None)
            chosen[other.place.url] = other  # at the end: after all it was made from
    return [
        (Garbage(f"{a.manifest.kind} {a.key[:12]}", a.place.url, a.manifest.size), a)
        for a in chosen.values()
    ]


def remove_artifacts(store: Store, chosen: Sequence[Artifact]) -> None:
    """Remove artifacts, each in one step, from the last to the first."""
    for artifact in reversed(chosen):
        with explained(artifact.place.url, lost="What could be removed is gone."):
            if artifact.place.local is None:
                _remove_remote(store, artifact.place)
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


def _remove_remote(store: Store, place: Place) -> None:
    """Remove the manifest first: without it there is no artifact."""
    if place.fs != store.place.fs or not place.root.startswith(f"{store.place.root}/"):
        raise StoreError(f"{place.url} does not lie in the store {store.place.url}; not removed.")
    with reachable(place):
        place.fs.rm_file(place.path(MANIFEST))
        place.fs.rm(place.root, recursive=True)


def _lock_of_cache(folder: Path) -> Path:
    """Return the lock of a hot cache, or of the hidden draft of one."""
    digest = folder.name.removeprefix(".").split(".")[0]
    return folder.with_name(f"{digest}.lock")


def _free(lock: Path) -> bool:
    with _held(lock) as mine:
        return mine


@contextlib.contextmanager
def _held(lock: Path | None) -> Iterator[bool]:
    """Hold a lock for a moment; False when somebody else has it or it cannot be had."""
    if lock is None or not lock.exists():
        yield True
        return
    held = FileLock(lock)
    try:
        held.acquire(timeout=0)
    except (Timeout, OSError):
        yield False
        return
    try:
        yield True
    finally:
        held.release()


def _bytes(path: Path) -> int:
    files = regular_files(path) if path.is_dir() and not path.is_symlink() else [path]
    return sum(file.lstat().st_size for file in files)
