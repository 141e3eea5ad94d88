"""Reuse the shards of one corpus in another: hard-linked or copied, never encoded again."""

from __future__ import annotations

import os
import shutil
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

from gsx.storage.artifacts.draft import Draft
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
    summary = corpus.artifact.manifest.summary
    names = ("groups", "oddities", "node_groups")
    return [{name: summary[name] for name in names if name in summary}]


def link_shard(draft: Draft, corpus: Corpus, index: int, shard: Shard, file_format: Format) -> None:
    """Link shard ``index`` of ``corpus`` into ``draft`` as ``shard``, with the same bytes.

    If the corpus lacks the format, the shard is encoded.
    """
    unit, files = corpus.shard_unit(index, file_format)
    if files is None:
        write_shard(draft, shard, corpus.info, lambda: (corpus.read_shard(index),), (file_format,))
        return

    def write(target: Path) -> None:
        for name in files:
            inner = name.removeprefix(unit).removeprefix("/")
            path = target / inner if inner else target
            path.parent.mkdir(parents=True, exist_ok=True)
            _link_or_copy(corpus, name, path)

    draft.write(shard.path(file_format), write, rows=shard.stop - shard.start)


def _link_or_copy(corpus: Corpus, name: str, path: Path) -> None:
    location = corpus.artifact.location
    if location.local is not None:
        try:
            os.link(location.local / name, path)
        except OSError:
            pass  # another disk, or a file system without hard links: copy
        else:
            return
    with location.open(name) as source, path.open("wb") as copy:
        shutil.copyfileobj(source, copy, 1 << 20)
