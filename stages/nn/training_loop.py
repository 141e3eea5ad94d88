"""Training loop of the pretrained networks: Adam with a cosine schedule that ends at zero."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from typing import Any

import numpy as np
import torch
from torch import Tensor, nn

from gsx.ragged import Ints
from gsx.seeds import rng, stream_key
from gsx.stages.graphs.subgraphs import Floats
from gsx.stages.nn.torch_ranks import all_reduce_gradients, broadcast_state, local_rows

History = list[dict[str, Any]]
MIN_BATCH_SIZE = 16
MIN_STEPS_PER_EPOCH = 32
"""Steps that an epoch should have. Batches of small corpora shrink to reach it."""


@dataclass(frozen=True, slots=True, kw_only=True)
class TrainingOptions:
    """Options of one training run."""

    name: str
    """Name of the network in the history and in the name of its random stream."""
    epochs: int
    learning_rate: float = 1e-2
    batch_size: int = 256
    """Rows per step."""
    row_weights: Floats | None = None
    """``[R]`` sampling probabilities of the rows, which sum to 1. None draws every row once per
    epoch."""


def train_network(
    network: nn.Module,
    loss: Callable[[Ints], Tensor],
    rows: int,
    options: TrainingOptions,
    *,
    seed: int,
    progress: Callable[[int], None],
) -> History:
    """Train ``network`` on ``rows`` rows and return the mean loss of every epoch.

    ``loss`` computes the loss of a batch of row numbers. ``progress`` gets the finished epochs.
    """
    batch_size = max(min(options.batch_size, rows // MIN_STEPS_PER_EPOCH), MIN_BATCH_SIZE)
    steps = max(rows // batch_size, 1) * options.epochs
    optimizer = torch.optim.Adam(network.parameters(), lr=options.learning_rate)
    schedule = torch.optim.lr_scheduler.CosineAnnealingLR(optimizer, steps)
    network.train()
    history: History = []
    for epoch in range(options.epochs):
        # Names of random streams are part of the results: they stay as they are.
        stream_name = ("extract", options.name, epoch)
        losses = []
        for batch in epoch_batches(
            rows, batch_size, seed, *stream_name, row_weights=options.row_weights
        ):
            value = loss(local_rows(batch))
            optimizer.zero_grad()
            value.backward()  # type: ignore[no-untyped-call]
            all_reduce_gradients(network.parameters())
            optimizer.step()
            schedule.step()
            losses.append(float(value.detach()))
        history.append({"net": options.name, "epoch": epoch, "loss": float(np.mean(losses))})
        progress(epoch + 1)
    broadcast_state(network)
    network.eval()
    return history


def epoch_batches(
    rows: int,
    batch_size: int,
    seed: int,
    *stream_name: str | int,
    row_weights: Floats | None = None,
) -> Iterator[Ints]:
    """Yield batches of the row numbers of one epoch, in random order.

    An incomplete last batch is dropped unless it is the only one. With ``row_weights`` ``[R]``,
    rows are sampled in proportion to their weights instead of once each.
    """
    stream = rng(seed, *stream_name)
    order = (
        stream.permutation(rows)
        if row_weights is None
        else systematic_sample(rows, stream, row_weights)
    )
    end = max(rows // batch_size * batch_size, min(rows, batch_size))
    for start in range(0, end, batch_size):
        yield order[start : start + batch_size]


def systematic_sample(count: int, stream: np.random.Generator, weights: Floats) -> Ints:
    """Draw ``count`` rows by systematic sampling, in random order.

    Every row occurs ``count`` times its share of the weights, rounded up or down at random.
    """
    marks = (np.arange(count) + stream.random()) / count * weights.sum()
    drawn = np.searchsorted(np.cumsum(weights), marks, side="right")
    return stream.permutation(np.minimum(drawn, len(weights) - 1))


def torch_stream(seed: int, *name: str | int) -> torch.Generator:
    """Return the torch generator of a named random stream."""
    return torch.Generator().manual_seed(stream_key(seed, *name) % (1 << 63))


@contextmanager
def one_thread() -> Iterator[None]:
    """Run torch on one thread.

    With small batches, synchronization costs more than a second thread gains.
    """
    before = torch.get_num_threads()
    torch.set_num_threads(1)
    try:
        yield
    finally:
        torch.set_num_threads(before)
