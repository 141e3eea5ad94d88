"""Reuse the shards of one corpus in another: hard-linked or copied, never encoded again."""

from __future__ import annotations

import os
import shutil
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

from gsx.errors import ArtifactError
from gsx.storage.artifacts.draft import Draft
from gsx.storage.artifacts.location import Location
from gsx.storage.artifacts.safe_files import stamp_of
from gsx.storage.artifacts.verification_cache import mark_verified
from gsx.storage.corpora.corpus import Corpus
from gsx.storage.corpora.corpus_writer import Format, Shard, write_shard


def link_corpus(
    draft: Draft, corpus: Corpus, new_shards: int, formats: Sequence[Format], split: str = "train"
) -> list[Mapping[str, Any]]:
    """Link all shards of ``corpus`` into ``draft`` and return their statistics.

    ``new_shards`` more shards will follow those of ``split``.
    """
    for index, shard in enumerate(corpus.shards):
        total = shard.total + (new_shards if shard.split == split else 0)
        renamed = Shard(shard.split, shard.number, total, shard.start, shard.stop)
        for file_format in formats:
            link_shard(draft, corpus, index, renamed, file_format)
    artifact = corpus.artifact
    if _is_in_store_of(draft, artifact.location):
        mark_verified(artifact.location, artifact.manifest)  # links changed the ctime of its files
    names = ("groups", "oddities", "node_groups")
    return [{name: value for name, value in corpus.summary.items() if name in names}]


def link_shard(draft: Draft, corpus: Corpus, index: int, shard: Shard, file_format: Format) -> None:
    """Link shard ``index`` of ``corpus`` into ``draft`` as ``shard``, with the same bytes.

    If the corpus lacks the format, the shard is encoded.
    """
    unit, files = corpus.shard_unit(index, file_format)
    if files is None:
        write_shard(draft, shard, corpus.info, lambda: corpus.iter_shard(index), (file_format,))
        return

    def write(target: Path) -> None:
        for name in files:
            inner = name.removeprefix(unit).removeprefix("/")
            path = target / inner if inner else target
            path.parent.mkdir(parents=True, exist_ok=True)
            _link_or_copy(corpus, name, path, draft)

    written = draft.write(shard.path(file_format), write, rows=shard.stop - shard.start)
    expected = {corpus.artifact.manifest.files[name].sha256 for name in files}
    if {entry.sha256 for entry in written.files.values()} != expected:
        draft.discard(written.name)
        raise ArtifactError(
            f"{corpus.artifact.location.url}/{unit} changed while it was copied. Nothing was "
            "published. Get the artifact from its source again."
        )


def _link_or_copy(corpus: Corpus, name: str, path: Path, draft: Draft) -> None:
    """Link a file of the same store, and copy any other.

    A link would share the file with the owner of another directory: publishing makes it read-only,
    and a later write there would change the published artifact.
    """
    location = corpus.artifact.location
    with location.open(name) as source:
        if _is_in_store_of(draft, location):
            try:
                os.link(Path(location.root) / name, path, follow_symlinks=False)
            except OSError:
                pass  # another disk, or a system without hard links: copy
            else:
                if path.lstat().st_ino == stamp_of(source).inode:
                    return
                path.unlink()
        with path.open("wb") as copy:
            shutil.copyfileobj(source, copy, 1 << 20)


def _is_in_store_of(draft: Draft, location: Location) -> bool:
    """Return whether an artifact is in the local store that a draft belongs to."""
    if location.local is None:
        return False
    return draft.root.parent.parent.resolve() in location.local.resolve().parents
