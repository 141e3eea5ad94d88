"""Carry shards of one corpus into another as they are: linked or copied, never encoded anew."""

from __future__ import annotations

import os
import shutil
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

from gsx.storage.artifacts.draft import Draft
from gsx.storage.corpora.corpus import Corpus
from gsx.storage.corpora.corpus_writer import Format, Shard, write_shard


def carry_corpus(
    draft: Draft, corpus: Corpus, more: int, formats: Sequence[Format], split: str = "train"
) -> list[Mapping[str, Any]]:
    """Carry all shards; ``more`` new ones will follow those of ``split``. Returns their facts."""
    for number, shard in enumerate(corpus.shards):
        total = shard.total + (more if shard.split == split else 0)
        renamed = Shard(shard.split, shard.number, total, shard.start, shard.stop)
        for form in formats:
            carry_shard(draft, corpus, number, renamed, form)
    summary = corpus.artifact.manifest.summary
    names = ("groups", "oddities", "node_groups")
    return [{name: summary[name] for name in names if name in summary}]


def carry_shard(draft: Draft, corpus: Corpus, number: int, shard: Shard, form: Format) -> None:
    """Put shard ``number`` of ``corpus`` into ``draft`` as ``shard``, with the same bytes.

    A corpus that does not hold the format is encoded into it.
    """
    unit, held = corpus.shard_unit(number, form)
    if held is None:
        write_shard(draft, shard, corpus.info, lambda: (corpus.read_shard(number),), (form,))
        return

    def write(target: Path) -> None:
        for name in held:
            inside = name.removeprefix(unit).removeprefix("/")
            path = target / inside if inside else target
            path.parent.mkdir(parents=True, exist_ok=True)
            _bring(corpus, name, path)

    draft.write(shard.path(form), write, rows=shard.stop - shard.start)


def _bring(corpus: Corpus, name: str, path: Path) -> None:
    place = corpus.artifact.place
    if place.local is not None:
        try:
            os.link(place.local / name, path)
        except OSError:
            pass  # another disk, or one without links: copy
        else:
            return
    with place.open(name) as source, path.open("wb") as copy:
        shutil.copyfileobj(source, copy, 1 << 20)
