"""New graphs and the corpus they will lie beside: free ids, held-out graphs, what is repeated.

A graph that may not be made is drawn anew.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator

import numpy as np
from safetensors.numpy import load

from gsx.stages.graphs.wl_hash import Hashes, are_among, wl_hashes
from gsx.stages.sharded_build import Read, hashes_path
from gsx.storage.artifacts.draft import Draft
from gsx.storage.corpora.corpus import Corpus
from gsx.storage.corpora.corpus_writer import Shard
from gsx.storage.corpora.count_distinct import count_distinct

OWN_DRAWS = 12
"""Times a graph is drawn anew before another takes its place."""
FEW_DRAWS = 24
"""Draws after which most graphs of a block must have come."""
MOST_DRAWS = 256
"""Draws after which all of them must have come."""


def hopeless(draws: int, left: int, count: int) -> bool:
    """Say whether to give up when ``left`` of ``count`` graphs never came in so many draws."""
    return draws >= MOST_DRAWS or (draws >= FEW_DRAWS and left > count // 2)


def held_out_hashes(corpus: Corpus) -> Hashes:
    """Return the sorted hashes of all graphs that are not for training."""
    splits = [split for split in corpus.splits if split != "train"]
    if not splits:
        return np.zeros(0, dtype=np.uint64)
    known = {column.name for column in corpus.info.columns}
    names = ["node_feat", *({"edge_attr"} & known)]
    parts = [wl_hashes(part) for part in corpus.iter_tables(split=splits, columns=names)]
    return np.unique(np.concatenate(parts))


def next_id(corpus: Corpus) -> int:
    """Return the id that follows the largest of a corpus."""
    shards = range(len(corpus.shards))
    ids = (corpus.graph_columns(number, ["graph_id"])["graph_id"] for number in shards)
    return 1 + max(int(np.asarray(each).max(initial=-1)) for each in ids)


def repeated(
    shards: Iterable[Shard], read: Read, draft: Draft, train: Hashes, held_out: Hashes
) -> dict[str, int]:
    """Count the distinct graphs of some shards, and those that equal one of the source.

    One shard is read at a time, so memory does not grow with their number.
    """
    known = [np.unique(train), held_out]
    among = [0, 0]

    def parts() -> Iterator[Hashes]:
        for shard in shards:
            hashes: Hashes = load(read(hashes_path(shard)))["wl"]
            for place, others in enumerate(known):
                among[place] += int(are_among(hashes, others).sum())
            yield hashes

    distinct = count_distinct(parts(), draft.scratch)
    return {
        "distinct": distinct,
        "same_as_training": among[0],
        "overlap_with_held_out": among[1],
    }
