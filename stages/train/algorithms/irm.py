"""Invariant risk minimization (Arjovsky et al. 2019): one classifier is optimal everywhere."""

from __future__ import annotations

from typing import TYPE_CHECKING

from gsx.stages.train.algorithms.base import NON_NEGATIVE, Algorithm, Option

if TYPE_CHECKING:
    from torch import Tensor

    from gsx.stages.train.algorithms.training_step import TrainingStep


class IRM(Algorithm):
    """Mean loss plus the IRMv1 penalty."""

    name = "irm"
    title = "IRM"
    compares_environments = True

    penalty = Option(
        1.0,
        bounds=NON_NEGATIVE,
        nullable=True,
        search=(0.1, 1.0, 10.0, 100.0),
        help="weight of the squared gradient norm",
    )

    def loss(self, step: TrainingStep) -> Tensor:
        """Return the loss of a batch."""
        return step.mean(step.losses) + self.penalty * irmv1_penalty(step)


def irmv1_penalty(step: TrainingStep) -> Tensor:
    """Return the mean over environments of the squared gradient of the loss.

    The gradient is taken with respect to a factor of the logits, at 1.
    """
    import torch

    scale = torch.ones((), requires_grad=True, device=step.logits.device)
    squares = []
    for env_loss in step.environment_means(step.losses_of(step.logits * scale)):
        (gradient,) = torch.autograd.grad(env_loss, scale, create_graph=True)
        squares.append(gradient.square())
    return torch.stack(squares).mean()
