"""Build an artifact once: reuse it if it exists, else build it in a draft and publish it.

In a local store a lock on the key admits one builder; the others wait and reuse its result. The
finished draft is renamed to its final path. In a remote store, files are uploaded under the final
prefix. The manifest, written with create-only semantics, is the commit point.
"""

from __future__ import annotations

import contextlib
import errno
from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from filelock import FileLock, Timeout

from gsx.errors import ArtifactError, GsxError, StoreError
from gsx.storage.artifacts.atomic_files import (
    atomic_write,
    fsync_directory,
    remove_tree,
    translate_os_errors,
)
from gsx.storage.artifacts.digest import artifact_key, readable_json, sha256_bytes
from gsx.storage.artifacts.draft import Draft
from gsx.storage.artifacts.location import Location
from gsx.storage.artifacts.manifest import (
    MANIFEST,
    RUN_RECORD,
    Dropped,
    Manifest,
    Parent,
    decode_manifest,
    encode_manifest,
    files_digest,
)
from gsx.storage.artifacts.origin import read_origin
from gsx.storage.artifacts.publish_remote import require_create_only, upload_artifact
from gsx.storage.artifacts.run_record import measure_run
from gsx.storage.artifacts.safe_files import make_directory, make_read_only, walk
from gsx.storage.artifacts.sidecars import read_run_record
from gsx.storage.artifacts.store import Artifact, Store
from gsx.storage.artifacts.verification_cache import cache_root, mark_verified
from gsx.storage.artifacts.worker_upload import remove_upload_records, upload_records

DRAFTS, LOCKS = ".drafts", ".locks"
"""Folders of a local store."""
DRAFT_KEPT = "Finished shards are kept; nothing was published."


@dataclass(frozen=True, slots=True, kw_only=True)
class Identity:
    """Everything that determines an artifact, known before it is built."""

    kind: str
    stage: str
    stage_version: int
    config: Mapping[str, Any]
    parents: tuple[Parent, ...] = ()
    raw: Mapping[str, str] = field(default_factory=dict)
    """SHA-256 of raw files, by name."""
    seeds: Mapping[str, int] = field(default_factory=dict)
    source: str = ""
    """Hash of the stage's code; recorded and compared, but not part of the key."""

    @property
    def key(self) -> str:
        """The key of the artifact."""
        return artifact_key(
            stage=self.stage,
            stage_version=self.stage_version,
            config=self.config,
            inputs={parent.role: parent.digest for parent in self.parents},
            raw=self.raw,
        )


@dataclass(frozen=True, slots=True, kw_only=True)
class StageResult:
    """Fields of the manifest that a stage computes."""

    counts: Mapping[str, int] = field(default_factory=dict)
    dropped: tuple[Dropped, ...] = ()
    warnings: tuple[str, ...] = ()
    summary: Mapping[str, Any] = field(default_factory=dict)
    device: str = ""
    """Device of the networks; written to the run record only."""
    timings: Mapping[str, float] = field(default_factory=dict)
    """Seconds of named parts of the computation; written to the run record only."""


@dataclass(frozen=True, slots=True)
class BuildResult:
    """An artifact and how it was obtained."""

    artifact: Artifact
    reused: bool
    seconds: float = 0.0
    note: str = ""
    """Message for the user, for example that different code built the reused artifact."""


def build_artifact(
    store: Store,
    identity: Identity,
    produce: Callable[[Draft], StageResult],
    *,
    force: bool = False,
    on_wait: Callable[[str], None] = lambda _: None,
) -> BuildResult:
    """Return the artifact of ``identity``; call ``produce`` only if it does not exist.

    ``force`` builds a new generation next to the existing one. ``on_wait`` receives a message if
    another process is building the same key.
    """
    before = store.reusable_generations(identity.kind, identity.key)
    if before and not force:
        _remove_published_draft(store, identity.key)
        return _reuse(store, identity)
    drafts = draft_folder(store)
    write_location = store.location.url
    if store.location.local is None:
        require_create_only(store.location)
        write_location = str(drafts)
    with translate_os_errors(write_location, consequence=DRAFT_KEPT):
        _make_folders(drafts)
        with _locked(lock_path(drafts / identity.key), on_wait):
            now = store.reusable_generations(identity.kind, identity.key)
            if now and (not force or now != before):
                return _reuse(store, identity)
            present = store.generations(identity.kind, identity.key)
            if present and not now:
                on_wait(_foreign_note(identity))
            target = store.folder(identity.kind, identity.key, present[-1] + 1 if present else 1)
            draft = Draft(drafts / identity.key, target)
            try:
                manifest, seconds, note = _fill(draft, identity, produce)
            except GsxError:
                if draft.is_empty():  # rejected before the first unit: nothing to resume
                    remove_tree(draft.root)
                raise
            published = _publish(draft, target, manifest)
            remove_tree(draft.root)
            if target.local is None:
                remove_upload_records(upload_records(store.location, identity.key))
    if not published:
        return _reuse(store, identity)
    return BuildResult(Artifact(target, manifest), reused=False, seconds=seconds, note=note)


def draft_folder(store: Store) -> Path:
    """Return the directory of drafts: inside a local store, in the cache for a remote one."""
    if store.location.local is not None:
        return store.location.local / DRAFTS
    return cache_root() / "drafts" / sha256_bytes(store.location.url.encode())[:16]


def lock_path(draft: Path) -> Path:
    """Return the lock file of a draft."""
    return draft.parent.parent / LOCKS / f"{draft.name}.lock"


def _make_folders(drafts: Path) -> None:
    """Create the folders of drafts and locks; a link in their place is an error."""
    drafts.parent.mkdir(parents=True, exist_ok=True)
    for name in (drafts.name, LOCKS):
        make_directory(drafts.parent, name)


def _foreign_note(identity: Identity) -> str:
    return (
        f"{identity.kind} {identity.key[:12]} is in the store but was not built here, so it is "
        "built again. `gsx pull --reuse` allows the use of a pulled artifact in place of a build."
    )


def _reuse(store: Store, identity: Identity) -> BuildResult:
    artifact = store.find(identity.kind, identity.key)
    if artifact is None:
        raise ArtifactError(
            f"artifact {identity.key[:12]} was removed from {store.location.url} during the build. "
            "Run the command again."
        )
    return BuildResult(artifact, reused=True, note=_source_note(artifact, identity.source))


def _source_note(artifact: Artifact, source: str) -> str:
    name = f"{artifact.manifest.kind} {artifact.key[:12]}"
    origin = read_origin(artifact.location)
    if origin is not None:
        return f"{name} was not built here: {origin.describe()}. `--force` builds it again."
    record = read_run_record(artifact.location)
    if record is not None and source and record.source and record.source != source:
        return (
            f"{name} was built by different code of {artifact.manifest.stage} version "
            f"{artifact.manifest.stage_version}; `--force` builds it again."
        )
    return ""


def _fill(
    draft: Draft, identity: Identity, produce: Callable[[Draft], StageResult]
) -> tuple[Manifest, float, str]:
    """Build the draft including its manifest; return manifest, seconds and a note."""
    with measure_run(identity.source) as watch:
        deleted = draft.prepare(identity.source)
        result = produce(draft)
        files = draft.seal()
        manifest = Manifest(
            kind=identity.kind,
            key=identity.key,
            digest=files_digest(files),
            stage=identity.stage,
            stage_version=identity.stage_version,
            config=dict(identity.config),
            parents=identity.parents,
            raw=dict(identity.raw),
            seeds=dict(identity.seeds),
            files=files,
            counts=dict(result.counts),
            dropped=result.dropped,
            warnings=result.warnings,
            summary=dict(result.summary),
        )
        data = encode_manifest(manifest)
        manifest = decode_manifest(data, f"the manifest of {identity.stage}")
        atomic_write(draft.content / MANIFEST, data)
    atomic_write(
        draft.content / RUN_RECORD, readable_json(watch.record(result.device, result.timings))
    )
    note = f"deleted an unfinished draft by different code of {identity.stage}" if deleted else ""
    return manifest, watch.seconds, note


def _publish(draft: Draft, target: Location, manifest: Manifest) -> bool:
    """Publish the finished draft as a whole; return False if another publisher was first."""
    if target.local is None:
        return upload_artifact(Location.at(draft.content), target, manifest)
    publish_directory(draft.content, target)
    mark_verified(target, manifest)
    return True


def publish_directory(content: Path, target: Location) -> None:
    """Make the files of a complete directory read-only, fsync, and rename it to ``target``."""
    path = Path(target.root)
    for name, _ in list(walk(content)):
        make_read_only(content, name)
    for folder in {path.parent for path in content.rglob("*")}:
        fsync_directory(folder)
    make_directory(Path(target.anchor), target.inner.rpartition("/")[0])
    fsync_directory(path.parent.parent)
    try:
        content.rename(path)
    except OSError as error:
        if error.errno not in (errno.ENOTEMPTY, errno.EEXIST, errno.ENOTDIR):
            raise
        raise StoreError(
            f"{path} already exists and is not an artifact: it has no {MANIFEST}. {DRAFT_KEPT}\n"
            "Move it elsewhere, then run the command again."
        ) from error
    fsync_directory(path.parent)


def _remove_published_draft(store: Store, key: str) -> None:
    """Remove the rest of a draft if a crash followed its rename."""
    draft = Draft(draft_folder(store) / key)
    if not draft.root.is_dir() or draft.content.exists():
        return
    lock = FileLock(lock_path(draft.root))
    with contextlib.suppress(OSError, Timeout), lock.acquire(timeout=0):
        if not draft.content.exists():
            remove_tree(draft.root)


@contextlib.contextmanager
def _locked(path: Path, on_wait: Callable[[str], None]) -> Iterator[None]:
    lock = FileLock(path)
    try:
        lock.acquire(timeout=0)
    except Timeout:
        on_wait(f"another gsx process is building {path.stem[:12]}; waiting for it")
        lock.acquire()
    try:
        yield
    finally:
        lock.release()
