"""Plan, write and finish the shards of an augmented corpus.

Generated graphs are stored in ``train`` shards after those of the source corpus. Next to each shard
there is a file with the WL hashes of its graphs.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping, Sequence
from typing import Any

from gsx.schema import CorpusInfo
from gsx.stages.graphs.wl_hash import Hashes
from gsx.stages.sharded_build import ShardStats, hashes_path, write_hashes
from gsx.storage.artifacts.draft import Draft
from gsx.storage.artifacts.publish import StageResult
from gsx.storage.corpora.corpus import Corpus
from gsx.storage.corpora.corpus_writer import Format, Shard, finish_corpus, write_shard
from gsx.storage.corpora.link_shards import link_corpus
from gsx.table import GraphTable


def num_generated(count: int | None, ratio: float | None, training: int) -> int:
    """Return how many graphs to generate: ``count``, or ``ratio`` per training graph."""
    if count is not None:
        return count
    return max(round(training * (ratio or 1.0)), 1)


def graphs_per_shard(shard_graphs: int, max_nodes: int, nodes_per_graph: float, block: int) -> int:
    """Return the size of a shard in graphs: whole blocks, at most ``max_nodes`` nodes.

    A shard has at least one block, even if that exceeds the limits.
    """
    limit = min(shard_graphs, int(max_nodes / max(nodes_per_graph, 1.0)))
    return max(limit // block, 1) * block


def split_range(count: int, size: int) -> list[tuple[int, int]]:
    """Split ``range(count)`` into consecutive ranges of ``size``; the last may be shorter."""
    return [(start, min(start + size, count)) for start in range(0, count, size)]


def consecutive_shards(sizes: Sequence[int], before: int) -> list[Shard]:
    """Return ``train`` shards of the given sizes that follow ``before`` source shards.

    Graphs are counted from 0 over all these shards.
    """
    shards, first = [], 0
    total = before + len(sizes)
    for number, size in enumerate(sizes, start=before):
        shards.append(Shard("train", number, total, first, first + size))
        first += size
    return shards


def num_source_shards(corpus: Corpus, *, augmented_only: bool) -> int:
    """Return how many ``train`` shards of the source corpus the augmented corpus holds."""
    return 0 if augmented_only else sum(shard.split == "train" for shard in corpus.shards)


def link_source_shards(
    draft: Draft,
    corpus: Corpus,
    new_shards: int,
    formats: Sequence[Format],
    *,
    augmented_only: bool,
) -> list[Mapping[str, Any]]:
    """Link the source shards, followed by ``new_shards`` new ones, and return their statistics."""
    return [] if augmented_only else link_corpus(draft, corpus, new_shards, formats)


def write_shard_with_hashes(
    draft: Draft,
    shard: Shard,
    info: CorpusInfo,
    tables: Callable[[], Iterable[GraphTable]],
    hashes: Sequence[Hashes],
    formats: Sequence[Format],
    stats: Callable[[], Mapping[str, Any]],
    labelled: Sequence[Hashes] = (),
) -> dict[str, Any]:
    """Write one shard and the hashes of its graphs, unless both exist, and return its statistics.

    ``tables`` yields the graphs, and the caller appends their hashes to ``hashes`` meanwhile, and
    hashes that depend on their labels to ``labelled``.
    ``stats`` is called after the last table and returns statistics to store with the shard.
    """
    name = hashes_path(shard)

    def write_hashes_and_return_stats() -> Mapping[str, Any]:
        write_hashes(draft, name, hashes, labelled)
        return stats()

    if draft.find_finished(name) is None:
        for form in formats:
            draft.discard(shard.path(form))
    return write_shard(draft, shard, info, tables, formats, write_hashes_and_return_stats)


def finish_augmented(
    draft: Draft,
    info: CorpusInfo,
    stats: Sequence[ShardStats],
    quality: Mapping[str, Any],
    warnings: Sequence[str] = (),
    *,
    augmented_only: bool = False,
) -> StageResult:
    """Write the metadata of an augmented corpus; ``stats`` cover source and generated shards.

    Warnings about missing splits are left out of a corpus that holds generated graphs only.
    """
    result = finish_corpus(draft, info, stats, {"quality": quality})
    return StageResult(
        counts=result.counts,
        warnings=(*warnings, *(() if augmented_only else result.warnings)),
        summary=result.summary,
    )
