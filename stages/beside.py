"""What new graphs must know of the corpus they will lie beside: free ids, and held-out graphs."""

from __future__ import annotations

import numpy as np

from gsx.stages.kernels.wl import Hashes, wl_hashes
from gsx.storage.corpus import Corpus


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
    parts = corpus.iter_tables(columns=["graph_id"])
    return 1 + max(int(part.dense("graph", "graph_id").max(initial=-1)) for part in parts)
