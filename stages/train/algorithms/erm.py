"""Empirical risk minimization: the mean loss over all graphs or nodes."""

from __future__ import annotations

from typing import TYPE_CHECKING

from gsx.stages.train.algorithms.base import Algorithm

if TYPE_CHECKING:
    from torch import Tensor

    from gsx.stages.train.algorithms.training_step import TrainingStep


class ERM(Algorithm):
    """Mean loss."""

    name = "erm"
    title = "ERM"

    def loss(self, step: TrainingStep) -> Tensor:
        """Return the mean loss of a batch."""
        return step.mean(step.losses)
