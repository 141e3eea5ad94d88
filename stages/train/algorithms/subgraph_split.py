"""Causal and environmental subgraphs of a batch, shared by DIR, GIL and CIGA.

The network scores edges and selects a fraction of them in every graph. The selected edges are the
causal subgraph, the remaining ones the environmental subgraph.
"""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import TYPE_CHECKING

from gsx.stages.train.algorithms.base import FRACTION, Option

if TYPE_CHECKING:
    from gsx.stages.nn.edge_selector import EdgeSplit
    from gsx.stages.train.algorithms.training_step import ForwardPass, ModelOutput, TrainingStep


def causal_ratio_option(default: float, search: tuple[float, ...] = ()) -> Option[float]:
    """Return the option that sets the size of the causal subgraph."""
    return Option(
        default,
        bounds=FRACTION,
        nullable=True,
        search=search,
        help="fraction of a graph's edges in the causal subgraph",
    )


@dataclass(frozen=True, slots=True, eq=False)
class SubgraphSplit:
    """A batch whose graphs the network has split into two subgraphs."""

    split: EdgeSplit
    model: ForwardPass
    """Forward passes of the backbone, for both subgraphs."""

    def causal_output(self) -> ModelOutput:
        """Return the output for the causal subgraphs, as at inference."""
        return self.model(self.split.selected())

    def environmental_output(self) -> ModelOutput:
        """Return the output for the environmental subgraphs.

        Batch norms do not update their running statistics.
        """
        from gsx.stages.nn.edge_selector import freeze_batch_norm_statistics

        with freeze_batch_norm_statistics(self.model.network):
            return self.model(self.split.complement())

    def detached_environmental_output(self) -> ModelOutput:
        """Return the output for the environmental subgraphs, without gradients."""
        import torch

        with torch.no_grad():
            return self.environmental_output()


def split_subgraphs(step: TrainingStep) -> SubgraphSplit:
    """Split the graphs of a batch into causal and environmental subgraphs."""
    from gsx.stages.nn.batches import GraphBatch
    from gsx.stages.nn.device import autocast
    from gsx.stages.nn.edge_selector import SelectorNetwork

    network, batch = step.model.network, step.batch
    assert isinstance(network, SelectorNetwork)
    assert isinstance(batch, GraphBatch)
    with autocast(step.model.device, step.model.precision):
        split = network.split(batch)
    return SubgraphSplit(split, replace(step.model, network=network.backbone))
