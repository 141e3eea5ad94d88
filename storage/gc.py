"""Garbage collection: find unused data in a store and the cache, and remove artifacts safely."""

from __future__ import annotations

import contextlib
import secrets
import stat
from collections.abc import Iterator, Mapping, Sequence, Set
from dataclasses import dataclass
from pathlib import Path

from filelock import FileLock, Timeout

from gsx.errors import StoreError, UsageError
from gsx.storage.artifacts.atomic_files import translate_os_errors
from gsx.storage.artifacts.in_use import lock_for_removal
from gsx.storage.artifacts.lineage import descendants
from gsx.storage.artifacts.location import Location, translate_remote_errors
from gsx.storage.artifacts.manifest import MANIFEST
from gsx.storage.artifacts.origin import remove_origin
from gsx.storage.artifacts.publish import draft_folder, lock_path
from gsx.storage.artifacts.safe_files import (
    make_directory,
    remove_beneath,
    rename_beneath,
    require_directory,
    walk,
)
from gsx.storage.artifacts.store import Artifact, Store
from gsx.storage.artifacts.tags import TAGS, Tag, read_tags, remove_tag
from gsx.storage.corpora.hot_cache import cached_digests, hot_cache_dir, is_used, record_path
from gsx.storage.sharing.push_pull import TRANSFERS

DRAFT = "abandoned draft"
TRASH = ".trash"
TRANSFER = "unfinished transfer"
SUPERSEDED = "superseded generation"
CACHE = "cache of a missing corpus"
DANGLING = "tag of a missing artifact"


@dataclass(frozen=True, slots=True)
class Garbage:
    """A directory or file that can be deleted."""

    what: str
    path: str
    bytes: int


def find_garbage(store: Store) -> Iterator[Garbage]:
    """Yield unlocked drafts and transfers, superseded generations and caches without a corpus.

    A cache is kept if its corpus is in this store, or in a local directory in which it was read.
    """
    artifacts = list(store.artifacts()) if store.location.local is not None else []
    for path in _children(draft_folder(store)):
        if _is_unlocked(lock_path(path)):
            yield Garbage(DRAFT, str(path), _total_bytes(path))
    if store.location.local is None:
        return
    for path in _children(store.location.local / TRANSFERS):
        if _is_unlocked(lock_path(path)):
            yield Garbage(TRANSFER, str(path), _total_bytes(path))
    for path in _children(store.location.local / TRASH):
        yield Garbage("half-removed artifact", str(path), _total_bytes(path))
    tags = read_tags(store.location)
    yield from _superseded(artifacts, {tag.digest for tag in tags.values()})
    yield from _dangling_tags(store.location.local, tags, artifacts)
    digests = {artifact.manifest.digest for artifact in artifacts}
    for name in cached_digests():
        folder = hot_cache_dir(name)
        if name not in digests and not is_used(name) and _is_unlocked(_cache_lock_path(folder)):
            yield Garbage(CACHE, str(folder), _total_bytes(folder))


def _dangling_tags(
    root: Path, tags: Mapping[str, Tag], artifacts: Sequence[Artifact]
) -> Iterator[Garbage]:
    """Yield tags of artifacts that the store does not have."""
    present = {(a.manifest.kind, a.key, a.manifest.digest) for a in artifacts}
    for name, tag in tags.items():
        if (tag.kind, tag.key, tag.digest) not in present:
            path = root / TAGS / f"{name}.json"
            yield Garbage(DANGLING, str(path), path.stat().st_size)


def _superseded(artifacts: Sequence[Artifact], tagged: Set[str]) -> Iterator[Garbage]:
    """Yield generations with a newer one, unless something needs exactly their content.

    ``tagged`` are the content digests of tags.
    """
    parents = {parent.digest for artifact in artifacts for parent in artifact.manifest.parents}
    needed = parents | tagged
    newest = {(a.manifest.kind, a.key): a.manifest.digest for a in artifacts}
    last = {(a.manifest.kind, a.key): a.generation for a in artifacts}
    for artifact in artifacts:
        name, digest = (artifact.manifest.kind, artifact.key), artifact.manifest.digest
        if artifact.generation != last[name] and (digest not in needed or digest == newest[name]):
            path = Path(artifact.location.root)
            yield Garbage(SUPERSEDED, str(path), _total_bytes(path))


def remove_garbage(store: Store, garbage: Garbage) -> bool:
    """Remove one item of ``find_garbage``; return False if it is in use again."""
    path = Path(garbage.path)
    lock = None
    if garbage.what in (DRAFT, TRANSFER):
        lock = lock_path(path)
    elif garbage.what == CACHE:
        lock = _cache_lock_path(path)
    consequence = "Some garbage may be left."
    with (
        translate_os_errors(garbage.path, consequence=consequence),
        _try_lock(lock) as acquired,
    ):
        if not acquired:
            return False
        if garbage.what == SUPERSEDED:
            return _remove_artifact(store, path)
        if garbage.what == DANGLING:
            remove_tag(store.location, path.stem)
            return True
        remove_beneath(path.parent.parent, f"{path.parent.name}/{path.name}")
        if garbage.what == CACHE:
            record_path(path.name).unlink(missing_ok=True)
    return True


def list_artifacts(
    store: Store, names: Sequence[str], *, with_descendants: bool
) -> list[tuple[Garbage, Artifact]]:
    """Return the artifacts to remove, each after all of its ancestors.

    An artifact with descendants needs ``with_descendants``, which adds the descendants.
    """
    locations = [store.locate(name) for name in names]
    chosen = {location.url: store.peek_at(location) for location in locations}
    for artifact in list(chosen.values()):
        for other in descendants(store, artifact):
            if other.location.url not in chosen and not with_descendants:
                raise UsageError(
                    f"{other.manifest.kind} {other.key[:12]} was built from "
                    f"{artifact.manifest.kind} {artifact.key[:12]}. "
                    "Add `--with-descendants` to remove both."
                )
            chosen.pop(other.location.url, None)
            chosen[other.location.url] = other  # moved to the end, after all its ancestors
    return [
        (Garbage(f"{a.manifest.kind} {a.key[:12]}", a.location.url, a.manifest.size), a)
        for a in chosen.values()
    ]


def remove_artifacts(store: Store, chosen: Sequence[Artifact]) -> None:
    """Remove artifacts in reverse order, each atomically, and their tags."""
    for artifact in reversed(chosen):
        consequence = "Some artifacts may have been removed."
        with translate_os_errors(artifact.location.url, consequence=consequence):
            if artifact.location.local is None:
                _remove_remote(store, artifact.location)
            elif not _remove_artifact(store, artifact.location.local):
                raise StoreError(
                    f"{artifact.location.url} is in use by another gsx process; not removed. "
                    "Wait for it to finish, then run the command again."
                )
    removed = {(a.manifest.kind, a.key, a.manifest.digest) for a in chosen}
    for name, tag in read_tags(store.location).items():
        if (tag.kind, tag.key, tag.digest) in removed:
            remove_tag(store.location, name)


def _remove_artifact(store: Store, path: Path) -> bool:
    """Unpublish the artifact by a rename to the trash, then delete it; return False if in use."""
    root = store.location.local
    if root is None or root not in path.parents:
        raise StoreError(f"{path} is not inside the store {store.location.url}; not removed.")
    name = path.relative_to(root).as_posix()
    make_directory(root, TRASH)
    target = f"{TRASH}/{secrets.token_hex(8)}"
    with lock_for_removal(path) as acquired:
        if not acquired:
            return False
        rename_beneath(root, name, target)
    remove_origin(store.location.child(name))
    remove_beneath(root, target)
    return True


def _remove_remote(store: Store, location: Location) -> None:
    """Unpublish the artifact by removing its manifest, then delete the other files."""
    inside = location.root.startswith(f"{store.location.root}/")
    if location.fs != store.location.fs or not inside:
        raise StoreError(
            f"{location.url} is not inside the store {store.location.url}; not removed."
        )
    with translate_remote_errors(location):
        location.fs.rm_file(location.path(MANIFEST))
        location.fs.rm(location.root, recursive=True)


def _cache_lock_path(folder: Path) -> Path:
    """Return the lock file of a hot cache, or of its unfinished draft."""
    digest = folder.name.removeprefix(".").split(".")[0]
    return folder.with_name(f"{digest}.lock")


def _is_unlocked(lock: Path) -> bool:
    with _try_lock(lock) as acquired:
        return acquired


@contextlib.contextmanager
def _try_lock(path: Path | None) -> Iterator[bool]:
    """Acquire a lock without waiting; yield False if another process holds it."""
    if path is None or not path.exists():
        yield True
        return
    lock = FileLock(path)
    try:
        lock.acquire(timeout=0)
    except (Timeout, OSError):
        yield False
        return
    try:
        yield True
    finally:
        lock.release()


def _children(folder: Path) -> list[Path]:
    """Return the sorted entries of an internal folder of a store; a link is an error."""
    with contextlib.suppress(FileNotFoundError):
        if require_directory(folder.parent, folder.name):
            return sorted(folder.iterdir())
    return []


def _total_bytes(path: Path) -> int:
    status = path.lstat()
    if not stat.S_ISDIR(status.st_mode):
        return status.st_size
    return sum(status.st_size for _, status in walk(path.parent, path.name))
