"""Descent: train a network with Adam and a cosine that ends at zero."""

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
from gsx.stages.nn.torch_ranks import average, settle, share

History = list[dict[str, Any]]
SMALLEST_BATCH = 16
FEWEST_STEPS = 32
"""Steps an epoch should have; batches shrink for it where a corpus is small."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Descent:
    """How a network learns."""

    name: str
    """Name of the network: in the history, and of its random stream."""
    epochs: int
    learning_rate: float = 1e-2
    batch: int = 256
    """Rows per step."""
    share: Floats | None = None
    """``[R]`` how often each row is drawn, in sum 1; None draws each row once per epoch."""


def descend(
    net: nn.Module,
    loss: Callable[[Ints], Tensor],
    rows: int,
    descent: Descent,
    *,
    seed: int,
    progress: Callable[[int], None],
) -> History:
    """Train ``net`` on ``rows`` rows and return the loss of every epoch."""
    size = max(min(descent.batch, rows // FEWEST_STEPS), SMALLEST_BATCH)
    steps = max(rows // size, 1) * descent.epochs
    optimizer = torch.optim.Adam(net.parameters(), lr=descent.learning_rate)
    schedule = torch.optim.lr_scheduler.CosineAnnealingLR(optimizer, steps)
    net.train()
    history: History = []
    for epoch in range(descent.epochs):
        name = ("extract", descent.name, epoch)
        losses = []
        for batch in epoch_batches(rows, size, seed, *name, share=descent.share):
            value = loss(share(batch))
            optimizer.zero_grad()
            value.backward()  # type: ignore[no-untyped-call]
            average(net.parameters())
            optimizer.step()
            schedule.step()
            losses.append(float(value.detach()))
        history.append({"net": descent.name, "epoch": epoch, "loss": float(np.mean(losses))})
        progress(epoch + 1)
    settle(net)
    net.eval()
    return history


def epoch_batches(
    rows: int, size: int, seed: int, *name: str | int, share: Floats | None = None
) -> Iterator[Ints]:
    """Yield the rows of one epoch in random order, in batches; a small last batch is left out."""
    stream = rng(seed, *name)
    order = stream.permutation(rows) if share is None else draw(rows, stream, share)
    last = max(rows // size * size, min(rows, size))
    for start in range(0, last, size):
        yield order[start : start + size]


def draw(count: int, stream: np.random.Generator, share: Floats) -> Ints:
    """Draw ``count`` rows, each as often as its share says, rounded up or down by chance."""
    marks = (np.arange(count) + stream.random()) / count * share.sum()
    drawn = np.searchsorted(np.cumsum(share), marks, side="right")
    return stream.permutation(np.minimum(drawn, len(share) - 1))


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
