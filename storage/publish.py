"""Build an artifact once: find it, or make it in a draft and publish it whole.

Local stores: a lock on the key lets one builder build while others wait and then find the result;
the finished draft is renamed into place. Remote stores: files go up under the final prefix and the
manifest, put with create-only semantics, is the commit point.
"""

from __future__ import annotations

import contextlib
from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass, field
from typing import Any

import msgspec
from filelock import FileLock, Timeout

from gsx.errors import ArtifactError, StoreError
from gsx.storage.digest import artifact_key, readable_json, sha256_bytes
from gsx.storage.disk import explained, flush_directory, remove_tree, write_atomically
from gsx.storage.draft import Draft
from gsx.storage.manifest import (
    MANIFEST,
    RUN_RECORD,
    Dropped,
    Manifest,
    Parent,
    decode_manifest,
    digest_of,
    encode_manifest,
)
from gsx.storage.remote import upload
from gsx.storage.runs import RunRecord, stopwatch
from gsx.storage.store import Artifact, Store
from gsx.storage.trust import cache_root, trust

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
        return _reuse(store, identity)
    root = store.place.local
    if root is None:
        return _build_remote(store, identity, produce, generation=len(before) + 1)
    with explained(store.place.url, lost=KEPT):
        root.mkdir(parents=True, exist_ok=True)
        with _locked(store, identity.key, on_wait):
            now = store.generations(identity.kind, identity.key)
            if now and (not force or now != before):
                return _reuse(store, identity)
            draft = Draft(root / ".drafts" / identity.key)
            with stopwatch(identity.source) as watch:
                manifest = _fill(draft, identity, produce)
            write_atomically(draft.content / RUN_RECORD, readable_json(watch.record()))
            target = store.folder(identity.kind, identity.key, (now[-1] + 1) if now else 1)
            _move_into_place(draft, target.local)
            trust(target.local, manifest)  # type: ignore[arg-type]
    return Built(Artifact(target, manifest, len(now) + 1), reused=False, seconds=watch.seconds)


def _reuse(store: Store, identity: Identity) -> Built:
    artifact = store.find(identity.kind, identity.key)
    if artifact is None:
        raise ArtifactError(f"artifact {identity.key[:12]} vanished from {store.place.url}")
    return Built(artifact, reused=True, note=_source_note(artifact, identity.source))


def _source_note(artifact: Artifact, source: str) -> str:
    with contextlib.suppress(OSError, msgspec.MsgspecError):
        data = artifact.place.read_bytes(RUN_RECORD, limit=1 << 20)
        made_by = msgspec.json.decode(data, type=RunRecord).source
        if source and made_by and made_by != source:
            return (
                f"{artifact.manifest.kind} {artifact.key[:12]} was made by other code of "
                f"{artifact.manifest.stage} version {artifact.manifest.stage_version}; "
                "`--force` makes it again."
            )
    return ""


def _fill(draft: Draft, identity: Identity, produce: Callable[[Draft], Outcome]) -> Manifest:
    draft.prepare()
    outcome = produce(draft)
    files = {path: entry for unit in draft.units() for path, entry in unit.files.items()}
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
    write_atomically(draft.content / MANIFEST, data)
    return decode_manifest(data, str(draft.content / MANIFEST))


def _move_into_place(draft: Draft, target: Any) -> None:  # noqa: ANN401
    for path in draft.content.rglob("*"):
        if path.is_file():
            path.chmod(0o444)
    target.parent.mkdir(parents=True, exist_ok=True)
    for folder in sorted({path.parent for path in draft.content.rglob("*")}):
        flush_directory(folder)
    draft.content.rename(target)
    flush_directory(target.parent)
    remove_tree(draft.root)


@contextlib.contextmanager
def _locked(store: Store, key: str, on_wait: Callable[[str], None]) -> Iterator[None]:
    root = store.place.local
    if root is None:
        raise StoreError(f"{store.place.url} cannot be locked")
    (root / ".locks").mkdir(exist_ok=True)
    lock = FileLock(root / ".locks" / f"{key}.lock")
    try:
        lock.acquire(timeout=0)
    except Timeout:
        on_wait(f"another gsx is building {key[:12]}; waiting for it")
        lock.acquire()
    try:
        yield
    finally:
        lock.release()


def _build_remote(
    store: Store, identity: Identity, produce: Callable[[Draft], Outcome], *, generation: int
) -> Built:
    name = sha256_bytes(store.place.url.encode())[:16]
    root = cache_root() / "drafts" / name / identity.key
    draft = Draft(root)
    with explained(str(root), lost=KEPT):
        root.parent.mkdir(parents=True, exist_ok=True)
        with FileLock(root.with_suffix(".lock")):
            with stopwatch(identity.source) as watch:
                manifest = _fill(draft, identity, produce)
            write_atomically(draft.content / RUN_RECORD, readable_json(watch.record()))
            target = store.folder(identity.kind, identity.key, generation)
            won = upload(draft.content, target, manifest)
            remove_tree(root)
    if not won:
        return _reuse(store, identity)
    return Built(Artifact(target, manifest, generation), reused=False, seconds=watch.seconds)
