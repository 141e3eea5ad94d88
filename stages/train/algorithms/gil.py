"""GIL (Li et al. 2022): one classifier of selected parts is best in every inferred environment.

Environments are inferred in every batch, by what the rest of each graph looks like. Those a corpus
knows are not read.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence

import torch
from torch import Tensor, nn

from gsx.stages.train.algorithms.subgraph_split import halves
from gsx.stages.train.algorithms.training_step import Told

ROUNDS = 10
"""Rounds of k-means."""


class GIL(nn.Module):
    """The mean loss, and how far the gradients of inferred environments are apart (IGA)."""

    def __init__(self, penalty: float, envs: int) -> None:
        super().__init__()
        self.penalty, self.envs = penalty, envs

    def forward(self, told: Told) -> Tensor:
        """Return the loss of a batch; gradients are those of the classifier on top."""
        both = halves(told)
        logits = both.selected().logits
        env = infer(both.rest_untaught().features, self.envs)
        losses = told.losses_of(logits)
        risks = [told.mean(losses, env == which) for which in torch.unique(env)]
        top: nn.Module = both.sight.net.classify
        return told.mean(losses) + self.penalty * disagreement(risks, top.parameters())


def infer(rows: Tensor, envs: int) -> Tensor:
    """Part rows ``[G, F]`` into at most ``envs`` groups by k-means; return numbers ``[G]``.

    It starts from the row farthest from the mean, and goes on with the row farthest from those it
    has, so that nothing is drawn.
    """
    rows = rows.detach()
    centers = rows[_farthest(rows, rows.mean(dim=0, keepdim=True))][None]
    while len(centers) < min(envs, len(rows)):
        centers = torch.cat([centers, rows[_farthest(rows, centers)][None]])
    found = _nearest(rows, centers)
    for _ in range(ROUNDS):
        sums = torch.zeros_like(centers).index_add_(0, found, rows)
        count = torch.bincount(found, minlength=len(centers))[:, None]
        centers = torch.where(count > 0, sums / count.clamp_min(1), centers)
        before, found = found, _nearest(rows, centers)
        if torch.equal(before, found):
            break
    return found


def disagreement(risks: Sequence[Tensor], parameters: Iterable[Tensor]) -> Tensor:
    """Return the mean squared distance of the gradients of ``risks`` from their mean."""
    among = list(parameters)
    if len(risks) < 2:
        return risks[0].new_zeros(())
    rows = []
    for risk in risks:
        slopes = torch.autograd.grad(risk, among, create_graph=True)
        rows.append(torch.cat([slope.flatten() for slope in slopes]))
    slopes_of = torch.stack(rows)
    return (slopes_of - slopes_of.mean(dim=0)).square().sum(dim=1).mean()


def _farthest(rows: Tensor, centers: Tensor) -> Tensor:
    return torch.cdist(rows, centers).min(dim=1).values.argmax()


def _nearest(rows: Tensor, centers: Tensor) -> Tensor:
    return torch.cdist(rows, centers).argmin(dim=1)
