"""Read a store once: manifests, run records, descriptions of corpora, tags and signatures."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterator, Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass, field
from functools import partial
from typing import TYPE_CHECKING

from gsx.errors import ArtifactError, GsxError, UsageError
from gsx.limits import JSON_BYTES
from gsx.pipeline.catalog.signatures import SignatureState, signature_state
from gsx.pipeline.listing import ListedArtifact, describe_artifact, tags_by_content
from gsx.stages.stage import Progress
from gsx.storage.artifacts.digest import sha256_bytes
from gsx.storage.artifacts.location import Location
from gsx.storage.artifacts.manifest import Manifest
from gsx.storage.artifacts.origin import read_origin
from gsx.storage.artifacts.store import NAME_LENGTH, Artifact, Store
from gsx.storage.artifacts.verify_files import read_manifest_bytes
from gsx.storage.corpora.artifact_files import read_file
from gsx.storage.corpora.corpus import Corpus
from gsx.storage.corpora.corpus_writer import INFO
from gsx.storage.corpora.summary import check_summary

if TYPE_CHECKING:
    from gsx.storage.sharing.signing import PublicKey

REMOTE_READERS = 16
"""Threads that read the manifests of a remote store."""
Tags = Mapping[tuple[str, str, str], Sequence[str]]


@dataclass(frozen=True, slots=True, kw_only=True)
class Entry:
    """One artifact of a catalog."""

    artifact: Artifact
    facts: ListedArtifact
    signature: SignatureState
    origin: str
    """Where the artifact was pulled from; empty if it was built in the store."""
    corpus: Corpus | None
    """The corpus, if the artifact is one; only its description was read."""

    @property
    def manifest(self) -> Manifest:
        """The manifest of the artifact."""
        return self.artifact.manifest

    @property
    def page(self) -> str:
        """File name of its page, made of checked parts: kind, key and generation."""
        generation = f".g{self.facts.generation}" if self.facts.generation > 1 else ""
        return f"{self.manifest.kind}-{self.manifest.key[:NAME_LENGTH]}{generation}.html"


@dataclass(frozen=True, slots=True)
class ReadStore(Store):
    """A store whose manifests are in memory, so that lineages need no further reads."""

    known: Mapping[tuple[str, str], Sequence[Artifact]]
    """Kind and key → generations, oldest first."""
    records: dict[tuple[str, str], Manifest | None] = field(default_factory=dict, compare=False)
    """Kind and digest → recorded manifest of an artifact that the store lacks."""

    def peek(self, kind: str, key: str, digest: str) -> Artifact | None:
        """Return the generation of a key with ``digest``, else the newest, else None."""
        generations = self.known.get((kind, key), ())
        same = (entry for entry in generations if entry.manifest.digest == digest)
        return next(same, generations[-1] if generations else None)

    def recorded(self, kind: str, digest: str) -> Manifest | None:
        """Return the recorded manifest of an artifact that the store does not hold."""
        if (kind, digest) not in self.records:
            self.records[kind, digest] = Store(self.location).recorded(kind, digest)
        return self.records[kind, digest]


@dataclass(frozen=True, slots=True, kw_only=True)
class Inventory:
    """All artifacts of a store, and those that cannot be read."""

    store: ReadStore
    entries: list[Entry]
    damaged: list[dict[str, str]]
    """``path`` and ``what`` of each damaged artifact."""
    children: Mapping[str, Sequence[Entry]]
    """Content digest → the artifacts that were built from this content."""

    def entry(self, kind: str, key: str, digest: str) -> Entry | None:
        """Return the entry of an artifact, with the digest if there is one."""
        found = self.store.peek(kind, key, digest)
        return None if found is None else self.by_url[found.location.url]

    by_url: Mapping[str, Entry]
    """Address of an artifact → its entry."""


def read_inventory(store: Store, public_key: PublicKey | None, progress: Progress) -> Inventory:
    """Read all artifacts of a store, sorted by kind, name and date.

    An artifact that cannot be read is listed as damaged; the others are not affected.
    """
    if store.location.is_web:
        raise UsageError(
            f"{store.location.url} is a web server, which cannot list a store. Name a directory or "
            "an object store."
        )
    locations = [store.folder(*entry) for entry in store.entries()]
    tags = tags_by_content(store)
    entries, damaged = list[Entry](), []
    read = partial(_read, store, tags, public_key)
    for number, result in enumerate(_map(read, locations, remote=store.location.local is None)):
        if isinstance(result, Entry):
            entries.append(result)
        else:
            damaged.append({"path": locations[number].url, "what": str(result)})
        progress(number + 1, 2 * len(locations))
    entries.sort(key=lambda entry: (entry.facts.date, entry.manifest.key, entry.facts.generation))
    known, children = defaultdict(list), defaultdict(list)
    for entry in sorted(entries, key=lambda entry: entry.facts.generation):
        known[entry.manifest.kind, entry.manifest.key].append(entry.artifact)
    for entry in entries:
        for digest in dict.fromkeys(parent.digest for parent in entry.manifest.parents):
            children[digest].append(entry)
    return Inventory(
        store=ReadStore(store.location, known),
        entries=entries,
        damaged=damaged,
        children=children,
        by_url={entry.artifact.location.url: entry for entry in entries},
    )


def _map(
    read: partial[Entry | GsxError], locations: Sequence[Location], *, remote: bool
) -> Iterator[Entry | GsxError]:
    """Yield the results in order; several requests to a remote store run at once."""
    if not remote:
        yield from map(read, locations)
        return
    with ThreadPoolExecutor(REMOTE_READERS) as pool:
        yield from pool.map(read, locations)


def _read(
    store: Store, tags: Tags, public_key: PublicKey | None, location: Location
) -> Entry | GsxError:
    """Return the entry of an artifact, or the error if it cannot be read."""
    try:
        data, manifest = read_manifest_bytes(location)
        artifact = store.peek_at(location, manifest)
        check_summary(manifest)
        origin = read_origin(location)
        return Entry(
            artifact=artifact,
            facts=describe_artifact(artifact, tags),
            signature=signature_state(location, data, public_key),
            origin="" if origin is None else origin.describe(public=True),
            corpus=_open_corpus(artifact) if manifest.kind == "corpus" else None,
        )
    except GsxError as error:
        return error


def _open_corpus(artifact: Artifact) -> Corpus:
    """Open a corpus and compare its description, the only file that is read, with its hash."""
    entry = artifact.manifest.files.get(INFO)
    data = read_file(artifact.location, INFO, limit=JSON_BYTES)
    if entry is None or (len(data), sha256_bytes(data)) != (entry.size, entry.sha256):
        raise ArtifactError(
            f"{artifact.location.url}/{INFO} does not match the SHA-256 in the manifest. Get the "
            "artifact from its source again, or build it again with `--force`."
        )
    corpus = Corpus(artifact)
    _ = corpus.summary  # checked against the description
    return corpus
