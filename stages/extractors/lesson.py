"""What an extractor may learn from, and what it gives back."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass

import numpy as np
import torch

from gsx.columns import CorpusInfo
from gsx.ragged import Array, Ints
from gsx.seeds import rng, stream_key
from gsx.stages.kernels.subgraphs import Bools, Floats
from gsx.table import GraphTable

Progress = Callable[[int, int], None]


@dataclass(frozen=True, slots=True, eq=False)
class Lesson:
    """Structure, features, labels and environments of some graphs; never their truth."""

    graphs: GraphTable
    """Structure only, edges sorted by source."""
    features: Array
    """``[N, F]`` float32 features of nodes beyond structure; F may be 0."""
    y: Array
    """``[G, C]`` labels, NaN where missing."""
    env: Ints
    """``[G]`` environments, from 0."""
    task: str

    def __len__(self) -> int:
        return len(self.graphs)


@dataclass(frozen=True, slots=True, eq=False)
class Pieces:
    """What was cut out of every graph."""

    score: Floats
    """``[N]`` how much a node speaks for the label."""
    causal: Bools
    """``[N]`` nodes of the causal piece: connected, and not empty where a graph has nodes."""
    environmental: Bools
    """``[N]`` nodes of the environmental piece, the largest connected part of the rest."""


def lesson_of(table: GraphTable, info: CorpusInfo) -> Lesson:
    """Take from a corpus' table what an extractor may see; constant features are left out."""
    structure = GraphTable(
        table.node_ptr,
        table.edge_ptr,
        edge={name: table.dense("edge", name) for name in ("edge_src", "edge_dst")},
    )
    features = table.dense("node", "node_feat").astype(np.float32)
    varies = features.min(axis=0, initial=np.inf) < features.max(axis=0, initial=-np.inf)
    return Lesson(
        graphs=structure,
        features=features[:, varies],
        y=table.dense("graph", "y"),
        env=table.dense("graph", "env_id").astype(np.int64),
        task=info.task,
    )


def epoch_batches(graphs: int, size: int, seed: int, *name: str | int) -> Iterator[Ints]:
    """Yield the graphs of one epoch in random order, in batches; a small last batch is left out."""
    order = rng(seed, *name).permutation(graphs)
    last = max(graphs // size * size, min(graphs, size))
    for start in range(0, last, size):
        yield order[start : start + size]


def torch_stream(seed: int, *name: str | int) -> torch.Generator:
    """Return torch's stream of a name."""
    return torch.Generator().manual_seed(stream_key(seed, *name) % (1 << 63))


@contextmanager
def one_thread() -> Iterator[None]:
    """Compute on one thread: small batches lose more to waiting than two threads win."""
    before = torch.get_num_threads()
    torch.set_num_threads(1)
    try:
        yield
    finally:
        torch.set_num_threads(before)
