"""GIL (Li et al. 2022): one classifier of causal subgraphs is optimal in all inferred environments.

Environments are clusters of the environmental subgraphs of a batch. Environments of the corpus are
not used.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from typing import TYPE_CHECKING

from gsx.stages.train.algorithms.base import AT_LEAST_2, NON_NEGATIVE, Algorithm, Option
from gsx.stages.train.algorithms.subgraph_split import causal_ratio_option, split_subgraphs

if TYPE_CHECKING:
    from torch import Tensor, nn

    from gsx.stages.train.algorithms.training_step import TrainingStep

KMEANS_ITERATIONS = 10


class GIL(Algorithm):
    """Mean loss plus the variance of gradients over inferred environments (IGA)."""

    name = "gil"
    title = "GIL"
    levels = ("graph",)

    penalty = Option(
        0.01,
        bounds=NON_NEGATIVE,
        nullable=True,
        search=(0.01, 0.001, 0.0001),
        help="weight of the gradient variance over inferred environments",
    )
    causal_ratio = causal_ratio_option(0.6)
    inferred_envs = Option(
        3, bounds=AT_LEAST_2, nullable=True, help="number of inferred environments per batch"
    )

    def loss(self, step: TrainingStep) -> Tensor:
        """Return the loss of a batch; gradients are those of the last linear layer."""
        import torch

        split = split_subgraphs(step)
        logits = split.causal_output().logits
        env = kmeans(split.detached_environmental_output().features, self.inferred_envs)
        losses = step.losses_of(logits)
        env_losses = [step.mean(losses, env == which) for which in torch.unique(env)]
        classifier: nn.Module = split.model.network.classify
        variance = gradient_variance(env_losses, classifier.parameters())
        return step.mean(losses) + self.penalty * variance


def kmeans(rows: Tensor, clusters: int) -> Tensor:
    """Return the cluster ``[G]`` of each row ``[G, F]``, at most ``clusters`` of them.

    Initialization is deterministic: the row farthest from the mean, then repeatedly the row
    farthest from all centers (farthest-first traversal).
    """
    import torch

    rows = rows.detach()
    centers = rows[_farthest(rows, rows.mean(dim=0, keepdim=True))][None]
    while len(centers) < min(clusters, len(rows)):
        centers = torch.cat([centers, rows[_farthest(rows, centers)][None]])
    assignment = _nearest(rows, centers)
    for _ in range(KMEANS_ITERATIONS):
        sums = torch.zeros_like(centers).index_add_(0, assignment, rows)
        count = torch.bincount(assignment, minlength=len(centers))[:, None]
        centers = torch.where(count > 0, sums / count.clamp_min(1), centers)
        previous, assignment = assignment, _nearest(rows, centers)
        if torch.equal(previous, assignment):
            break
    return assignment


def gradient_variance(losses: Sequence[Tensor], parameters: Iterable[Tensor]) -> Tensor:
    """Return the mean squared distance of the gradients of ``losses`` from their mean."""
    import torch

    inputs = list(parameters)
    if len(losses) < 2:
        return losses[0].new_zeros(())
    rows = []
    for loss in losses:
        gradients = torch.autograd.grad(loss, inputs, create_graph=True)
        rows.append(torch.cat([gradient.flatten() for gradient in gradients]))
    stacked = torch.stack(rows)
    return (stacked - stacked.mean(dim=0)).square().sum(dim=1).mean()


def _farthest(rows: Tensor, centers: Tensor) -> Tensor:
    import torch

    return torch.cdist(rows, centers).min(dim=1).values.argmax()


def _nearest(rows: Tensor, centers: Tensor) -> Tensor:
    import torch

    return torch.cdist(rows, centers).argmin(dim=1)
