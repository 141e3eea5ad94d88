"""Rejection sampling against held-out graphs: hashes, limits of redrawing, duplicate counts.

A generated graph that equals a held-out graph is rejected and drawn again.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator

import numpy as np
from safetensors.numpy import load

from gsx.stages.graphs.wl_hash import Hashes, contained_in, wl_hashes
from gsx.stages.sharded_build import ReadFile, hashes_path
from gsx.storage.artifacts.draft import Draft
from gsx.storage.corpora.corpus import Corpus
from gsx.storage.corpora.corpus_writer import Shard
from gsx.storage.corpora.count_distinct import count_distinct

LABELLED = "labelled"
"""Name of the hashes of graphs with their labels in a file of hashes."""
DRAWS_BEFORE_REPLACEMENT = 12
"""Rejected draws of a graph after which another graph of the block replaces it."""
DRAWS_FOR_HALF = 24
"""Draws after which at least half of the graphs of a block must be accepted."""
MAX_DRAWS = 256
"""Draws after which all graphs of a block must be accepted."""


def should_give_up(draws: int, rejected: int, count: int) -> bool:
    """Return whether to stop redrawing with ``rejected`` of ``count`` graphs still rejected."""
    return draws >= MAX_DRAWS or (draws >= DRAWS_FOR_HALF and rejected > count // 2)


def held_out_hashes(corpus: Corpus) -> Hashes:
    """Return the sorted, distinct WL hashes of all graphs outside the ``train`` split."""
    splits = [split for split in corpus.splits if split != "train"]
    if not splits:
        return np.zeros(0, dtype=np.uint64)
    column_names = {column.name for column in corpus.info.columns}
    names = ["node_feat", *({"edge_attr"} & column_names)]
    hashes = [wl_hashes(table) for table in corpus.iter_tables(split=splits, columns=names)]
    return np.unique(np.concatenate(hashes))


def duplicate_counts(
    shards: Iterable[Shard],
    read: ReadFile,
    draft: Draft,
    train: Hashes,
    held_out: Hashes,
    train_labelled: Hashes | None = None,
) -> dict[str, int]:
    """Count the distinct graphs of some shards, and those that equal a source graph.

    Label conflicts are the further labels of graphs that occur with more than one label. With
    ``train_labelled``, the hashes of training graphs with their labels, graphs are also counted
    that equal a training graph with another label. Shards are read one at a time, so memory does
    not grow with their number.
    """
    references = [np.unique(train), held_out]
    matches = [0, 0]
    contradictions = 0
    shards = list(shards)

    def shard_hashes() -> Iterator[Hashes]:
        for shard in shards:
            hashes: Hashes = load(read(hashes_path(shard)))["wl"]
            for index, reference in enumerate(references):
                matches[index] += int(contained_in(hashes, reference).sum())
            yield hashes

    def labelled() -> Iterator[Hashes]:
        nonlocal contradictions
        for shard in shards:
            arrays = load(read(hashes_path(shard)))
            if LABELLED not in arrays:
                continue
            if train_labelled is not None:
                in_training = contained_in(arrays["wl"], references[0])
                same_label = contained_in(arrays[LABELLED], np.unique(train_labelled))
                contradictions += int((in_training & ~same_label).sum())
            yield arrays[LABELLED]

    distinct = count_distinct(shard_hashes(), draft.scratch)
    with_labels = count_distinct(labelled(), draft.scratch)
    conflicts = {"label_conflicts": with_labels - distinct} if with_labels else {}
    return {
        "distinct": distinct,
        "same_as_training": matches[0],
        "overlap_with_held_out": matches[1],
        **conflicts,
        **({} if train_labelled is None else {"contradicts_training": contradictions}),
    }
