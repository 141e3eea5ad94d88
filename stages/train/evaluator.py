"""Scores of held-out graphs: batches are prepared once and evaluated after every epoch."""

from __future__ import annotations

from collections.abc import Iterator

import numpy as np
import torch

from gsx.errors import StageError
from gsx.ragged import Array
from gsx.stages.graphs.wl_dedup import with_wl_colors
from gsx.stages.nn.batches import BackboneShape, GraphBatch, build_graph_batch
from gsx.stages.nn.build_network import GraphNetwork
from gsx.stages.nn.input_encoding import iter_graph_batches
from gsx.stages.train.metrics import score
from gsx.table import GraphTable


class DivergedError(StageError):
    """Training diverged: a loss, an output or a weight is NaN or infinite."""


def can_deduplicate_nodes(shape: BackboneShape, dropout: float) -> bool:
    """Return whether WL-equivalent nodes have equal states in a network."""
    plain = shape.backbone == "gin" and not shape.reads_edges and not shape.select
    return plain and dropout == 0


class Evaluator:
    """Computes the metric of one split."""

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
        self.batches = list(evaluation_batches(table, shape, device))

    def score(self, network: GraphNetwork, epoch: int) -> float:
        """Return the score of a network; raise a ``DivergedError`` if an output is not finite."""
        logits = predict_logits(network, self.batches)
        require_finite_logits(logits, epoch)
        value = score(self.metric, self.task, logits, self.y)
        assert value is not None  # check_metric rejects such splits before training
        return value


def require_finite_logits(logits: Array, epoch: int) -> None:
    """Raise a ``DivergedError`` if a logit is NaN or infinite."""
    if not np.isfinite(logits).all():
        raise DivergedError(f"the network's outputs are NaN or infinite after epoch {epoch}")


def evaluation_batches(
    table: GraphTable, shape: BackboneShape, device: torch.device
) -> Iterator[GraphBatch]:
    """Yield the graphs of a table in batches for inference."""
    if can_deduplicate_nodes(shape, 0.0):
        table = with_wl_colors(table, shape.layers)
    for batch in iter_graph_batches(table):
        yield build_graph_batch(batch, shape, device)


@torch.no_grad()
def predict_logits(network: GraphNetwork, batches: list[GraphBatch]) -> Array:
    """Return the logits ``[G, C]`` of the graphs in all batches."""
    network.eval()
    logits: Array = torch.cat([network(batch)[1] for batch in batches]).cpu().numpy()
    return logits
