"""`gsx push` and `gsx pull`: copy artifacts between stores, with their ancestors."""

from __future__ import annotations

import time
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path

from gsx.errors import ArtifactError, UsageError
from gsx.pipeline.commands.session import Notify
from gsx.storage.artifacts.lineage import ancestor_counter
from gsx.storage.artifacts.location import Location
from gsx.storage.artifacts.manifest import Manifest, Parent
from gsx.storage.artifacts.store import Artifact, Store
from gsx.storage.artifacts.tags import is_tag_name
from gsx.storage.artifacts.verify_files import read_manifest
from gsx.storage.sharing.push_pull import pull as pull_artifact
from gsx.storage.sharing.push_pull import push as push_artifact
from gsx.storage.sharing.signing import read_public_key


@dataclass(frozen=True, slots=True, kw_only=True)
class Transferred:
    """A copied artifact."""

    artifact: Artifact
    reused: bool
    """Whether the copy existed already."""
    seconds: float


def push(
    artifact: Artifact, source: Store, target: Store, notify: Notify, *, with_lineage: bool
) -> Iterator[Transferred]:
    """Copy an artifact into another store; yield the copies, that of the artifact last."""
    ancestors = ancestor_locations(source, artifact.manifest, notify) if with_lineage else []
    first, *_ = locations = [*ancestors, artifact.location]
    return _transfer(
        locations,
        lambda location: push_artifact(
            source.resolve(location.url), target, probe=location is first
        ),
    )


def pull(
    artifact: str,
    target: Store,
    notify: Notify,
    *,
    origin: str | Path | None = None,
    kind: str = "corpus",
    trust: Path | None = None,
    reuse: bool = False,
    max_bytes: int | None = None,
    with_lineage: bool = False,
) -> Iterator[Transferred]:
    """Copy an artifact into a store; yield the copies, that of the artifact last."""
    key = read_public_key(trust) if trust is not None else None
    source = Store.at(origin) if origin else _enclosing_store(artifact)
    location = _locate(artifact, source if origin else None, kind)
    ancestors = ancestor_locations(source, read_manifest(location), notify) if with_lineage else []
    return _transfer(
        [*ancestors, location],
        lambda one: pull_artifact(one, target, key=key, max_bytes=max_bytes, reuse=reuse),
    )


def ancestor_locations(store: Store, manifest: Manifest, notify: Notify) -> list[Location]:
    """Return the locations of all ancestors that a store has, parents before children."""
    count_ancestor = ancestor_counter(f"{manifest.kind} {manifest.key[:12]}")
    visited: set[str] = set()
    locations: list[Location] = []
    pending: list[tuple[Location | None, Iterator[Parent]]] = [(None, iter(manifest.parents))]
    while pending:
        child, remaining = pending[-1]
        parent = next(remaining, None)
        if parent is None:
            pending.pop()
            locations += [child] if child is not None else []
            continue
        count_ancestor()
        location = store.folder(parent.kind, parent.key)
        if location.url in visited:
            continue
        visited.add(location.url)
        try:
            parent_manifest = read_manifest(location)
        except ArtifactError:
            notify(f"{parent.kind} {parent.key[:12]} is not in {store.location.url}; left out")
            continue
        if parent_manifest.digest == parent.digest:
            pending.append((location, iter(parent_manifest.parents)))
    return locations


def _transfer(
    locations: Sequence[Location], transfer: Callable[[Location], tuple[Artifact, bool]]
) -> Iterator[Transferred]:
    """Transfer artifacts one after another.

    ``transfer`` returns the copy, and whether it existed already.
    """
    for location in locations:
        started = time.perf_counter()
        copied, reused = transfer(location)
        seconds = time.perf_counter() - started
        yield Transferred(artifact=copied, reused=reused, seconds=seconds)


def _locate(artifact: str, store: Store | None, kind: str) -> Location:
    """Return the location of an artifact: a directory or URL, or a key in a store."""
    if store is None:
        if "://" not in artifact and not Path(artifact).is_dir():
            raise UsageError(
                f"`{artifact}` is neither a directory nor a URL. If it is a key, name its store: "
                f"`gsx pull {artifact} --from STORE`."
            )
        return Location.at(artifact)
    if not store.location.is_web or is_tag_name(artifact):
        try:
            return store.locate(artifact)
        except ArtifactError as error:
            first = str(error).split("\n")[0]
            raise ArtifactError(f"{first}\nCheck the key, and the store in `--from`.") from error
    if len(artifact) < 32:
        raise UsageError(
            "an HTTP store cannot be searched; give at least the first 32 digits of the key, or a "
            "tag."
        )
    return store.folder(kind, artifact)


def _enclosing_store(artifact: str) -> Store:
    """Return the store that would contain the artifact at this address: two directories up."""
    return Store.at(artifact.rstrip("/").rsplit("/", 2)[0])
