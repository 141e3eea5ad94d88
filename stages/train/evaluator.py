"""Scores of graphs that are held out: laid out once, read by a network again and again."""

from __future__ import annotations

from collections.abc import Iterator

import numpy as np
import torch

from gsx.errors import StageError
from gsx.ragged import Array
from gsx.stages.graphs.wl_dedup import with_colors
from gsx.stages.nn.backbones import BackboneShape, GraphBatch, batch_of
from gsx.stages.nn.build_network import GraphNetwork
from gsx.stages.nn.input_encoding import parts_of
from gsx.stages.train.metrics import score
from gsx.table import GraphTable


class DivergedError(StageError):
    """Training has left the numbers."""


def foldable(shape: BackboneShape, dropout: float) -> bool:
    """Say whether nodes with equal surroundings have equal states in this network."""
    plain = shape.backbone == "gin" and not shape.reads_edges and not shape.select
    return plain and dropout == 0


class Scorer:
    """The graphs of a split, laid out once and scored every epoch."""

    def __init__(
        self,
        table: GraphTable,
        shape: BackboneShape,
        *,
        metric: str,
        task: str,
        device: torch.device,
    ) -> None:
        self.y = table.dense("graph", "y")
        self.metric, self.task = metric, task
        self.batches = list(laid_out(table, shape, device))

    def score(self, net: GraphNetwork, epoch: int) -> float:
        """Return the score of a network."""
        logits = logits_of(net, self.batches)
        if not np.isfinite(logits).all():
            raise DivergedError(f"the network tells no numbers after epoch {epoch}")
        found = score(self.metric, self.task, logits, self.y)
        assert found is not None  # refused before training
        return found


def laid_out(table: GraphTable, shape: BackboneShape, device: torch.device) -> Iterator[GraphBatch]:
    """Yield the graphs of a table as a network reads them where nothing is learned."""
    if foldable(shape, 0.0):
        table = with_colors(table, shape.layers)
    for part in parts_of(table):
        yield batch_of(part, shape, device)


@torch.no_grad()
def logits_of(net: GraphNetwork, batches: list[GraphBatch]) -> Array:
    """Return the logits ``[G, C]`` of graphs."""
    net.eval()
    found: Array = torch.cat([net(batch)[1] for batch in batches]).cpu().numpy()
    return found
