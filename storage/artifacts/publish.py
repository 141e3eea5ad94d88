"""Build an artifact once: find it, or make it in a draft and publish it whole.

Local stores: a lock on the key lets one builder build while others wait and then find the result;
the finished draft is renamed into place. Remote stores: files go up under the final prefix and the
manifest, put with create-only semantics, is the commit point.
"""

from __future__ import annotations

import contextlib
import errno
from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import msgspec
from filelock import FileLock, Timeout

from gsx.errors import ArtifactError, GsxError, StoreError
from gsx.storage.artifacts.atomic_files import (
    explained,
    flush_directory,
    regular_files,
    remove_tree,
    write_atomically,
)
from gsx.storage.artifacts.digest import artifact_key, readable_json, sha256_bytes
from gsx.storage.artifacts.draft import Draft
from gsx.storage.artifacts.location import Place
from gsx.storage.artifacts.manifest import (
    MANIFEST,
    RUN_RECORD,
    Dropped,
    Manifest,
    Parent,
    decode_manifest,
    digest_of,
    encode_manifest,
)
from gsx.storage.artifacts.publish_remote import require_create_only, upload
from gsx.storage.artifacts.run_record import RunRecord, stopwatch
from gsx.storage.artifacts.store import Artifact, Store
from gsx.storage.artifacts.verification_cache import cache_root, trust
from gsx.storage.artifacts.worker_upload import forget_records, records_of

KEPT = "Finished shards are kept; nothing was published."


@dataclass(frozen=True, slots=True, kw_only=True)
class Identity:
    """Everything that decides what an artifact will be, known before it is made."""

    kind: str
    stage: str
    stage_version: int
    config: Mapping[str, Any]
    parents: tuple[Parent, ...] = ()
    raw: Mapping[str, str] = field(default_factory=dict)
    """SHA-256 of raw files, by name."""
    seeds: Mapping[str, int] = field(default_factory=dict)
    source: str = ""
    """Hash of the stage's code; recorded, and a mismatch warns, but not part of the key."""

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
class Outcome:
    """What a stage says about the artifact it made."""

    counts: Mapping[str, int] = field(default_factory=dict)
    dropped: tuple[Dropped, ...] = ()
    warnings: tuple[str, ...] = ()
    summary: Mapping[str, Any] = field(default_factory=dict)
    device: str = ""
    """Where a network computed; goes into the run record, for it decides nothing."""


@dataclass(frozen=True, slots=True)
class Built:
    """An artifact and how it came."""

    artifact: Artifact
    reused: bool
    seconds: float = 0.0
    note: str = ""
    """Something a person should know, for example that other code made the reused artifact."""


def build(
    store: Store,
    identity: Identity,
    produce: Callable[[Draft], Outcome],
    *,
    force: bool = False,
    on_wait: Callable[[str], None] = lambda _: None,
) -> Built:
    """Return the artifact of ``identity``, made by ``produce`` only if it is not there.

    ``force`` makes a new generation beside the old one. ``on_wait`` is told when another process
    is building the same key.
    """
    before = store.generations(identity.kind, identity.key)
    if before and not force:
        _clear_published_draft(store, identity.key)
        return _reuse(store, identity)
    drafts = draft_folder(store)
    shown = store.place.url
    if store.place.local is None:
        require_create_only(store.place)
        shown = str(drafts)
    with explained(shown, lost=KEPT):
        drafts.mkdir(parents=True, exist_ok=True)
        with _locked(lock_of(drafts / identity.key), on_wait):
            now = store.generations(identity.kind, identity.key)
            if now and (not force or now != before):
                return _reuse(store, identity)
            target = store.folder(identity.kind, identity.key, now[-1] + 1 if now else 1)
            draft = Draft(drafts / identity.key, target)
            try:
                manifest, seconds, note = _fill(draft, identity, produce)
            except GsxError:
                if draft.is_empty():  # what was refused at once leaves nothing to go on with
                    remove_tree(draft.root)
                raise
            won = _publish(draft, target, manifest)
            remove_tree(draft.root)
            if target.local is None:
                forget_records(records_of(store.place, identity.key))
    if not won:
        return _reuse(store, identity)
    return Built(Artifact(target, manifest), reused=False, seconds=seconds, note=note)


def draft_folder(store: Store) -> Path:
    """Return where drafts grow: in a local store, or in the cache for a remote one."""
    if store.place.local is not None:
        return store.place.local / ".drafts"
    return cache_root() / "drafts" / sha256_bytes(store.place.url.encode())[:16]


def lock_of(draft: Path) -> Path:
    """Return the file whose lock is held by whoever works on a draft."""
    return draft.parent.parent / ".locks" / f"{draft.name}.lock"


def _reuse(store: Store, identity: Identity) -> Built:
    artifact = store.find(identity.kind, identity.key)
    if artifact is None:
        raise ArtifactError(f"artifact {identity.key[:12]} vanished from {store.place.url}")
    return Built(artifact, reused=True, note=_source_note(artifact, identity.source))


def _source_note(artifact: Artifact, source: str) -> str:
    with contextlib.suppress(OSError, ArtifactError, UnicodeDecodeError, msgspec.MsgspecError):
        data = artifact.place.read_bytes(RUN_RECORD, limit=1 << 20)
        made_by = msgspec.json.decode(data, type=RunRecord).source
        if source and made_by and made_by != source:
            return (
                f"{artifact.manifest.kind} {artifact.key[:12]} was made by other code of "
                f"{artifact.manifest.stage} version {artifact.manifest.stage_version}; "
                "`--force` makes it again."
            )
    return ""


def _fill(
    draft: Draft, identity: Identity, produce: Callable[[Draft], Outcome]
) -> tuple[Manifest, float, str]:
    """Fill the draft up to its manifest; return that, the seconds it took and a note."""
    with stopwatch(identity.source) as watch:
        lost = draft.prepare(identity.source)
        outcome = produce(draft)
        files = draft.seal()
        manifest = Manifest(
            kind=identity.kind,
            key=identity.key,
            digest=digest_of(files),
            stage=identity.stage,
            stage_version=identity.stage_version,
            config=dict(identity.config),
            parents=identity.parents,
            raw=dict(identity.raw),
            seeds=dict(identity.seeds),
            files=files,
            counts=dict(outcome.counts),
            dropped=outcome.dropped,
            warnings=outcome.warnings,
            summary=dict(outcome.summary),
        )
        data = encode_manifest(manifest)
        manifest = decode_manifest(data, f"the manifest of {identity.stage}")
        write_atomically(draft.content / MANIFEST, data)
    write_atomically(draft.content / RUN_RECORD, readable_json(watch.record(outcome.device)))
    note = f"an unfinished draft by other code of {identity.stage} was thrown away" if lost else ""
    return manifest, watch.seconds, note


def _publish(draft: Draft, target: Place, manifest: Manifest) -> bool:
    """Make the finished draft visible as a whole; False when another publisher came first."""
    if target.local is None:
        return upload(draft.content, target, manifest)
    move_into_place(draft.content, target.local)
    trust(target.local, manifest)
    return True


def move_into_place(content: Path, target: Path) -> None:
    """Give a complete directory its final name; its files can then no longer be written."""
    for path in regular_files(content):
        path.chmod(0o444)
    for folder in {path.parent for path in content.rglob("*")}:
        flush_directory(folder)
    target.parent.mkdir(parents=True, exist_ok=True)
    flush_directory(target.parent.parent)
    try:
        content.rename(target)
    except OSError as error:
        if error.errno not in (errno.ENOTEMPTY, errno.EEXIST, errno.ENOTDIR):
            raise
        raise StoreError(
            f"{target} is in the way: it is no artifact, for it has no {MANIFEST}. {KEPT}\n"
            "Move it elsewhere and run the same command again."
        ) from error
    flush_directory(target.parent)


def _clear_published_draft(store: Store, key: str) -> None:
    """Remove what is left of a draft if a crash came right after it was renamed into place."""
    draft = Draft(draft_folder(store) / key)
    if not draft.root.is_dir() or draft.content.exists():
        return
    lock = FileLock(lock_of(draft.root))
    with contextlib.suppress(OSError, Timeout), lock.acquire(timeout=0):
        if not draft.content.exists():
            remove_tree(draft.root)


@contextlib.contextmanager
def _locked(path: Path, on_wait: Callable[[str], None]) -> Iterator[None]:
    path.parent.mkdir(exist_ok=True)
    lock = FileLock(path)
    try:
        lock.acquire(timeout=0)
    except Timeout:
        on_wait(f"another gsx is building {path.stem[:12]}; waiting for it")
        lock.acquire()
    try:
        yield
    finally:
        lock.release()
