"""FLAG (Kong et al. 2022): learn on inputs moved a little, to where the loss is larger."""

from __future__ import annotations

from dataclasses import replace

import numpy as np
import torch
from torch import Tensor, nn

from gsx.stages.train.algorithms.training_step import Told


class FLAG(nn.Module):
    """The mean loss over some steps of ascent on noise that is added to what enters the network.

    As published, noise starts uniform within one step and moves by the sign of its gradient, and
    the gradients of all steps count alike. Noise is added to numbers, and to the embeddings of
    words. Every node has the same step, also those without a label.
    """

    def __init__(self, step: float, ascents: int) -> None:
        super().__init__()
        self.step, self.ascents = step, ascents

    def forward(self, told: Told) -> Tensor:
        """Return the loss of a batch; gradients of all but the last look are left behind."""
        noise, before = self.start(told), 0.0
        for _ in range(self.ascents - 1):
            noise, loss = self.ascend(told, noise)
            before += loss
        return risk(told, noise) / self.ascents + before

    def ascend(self, told: Told, noise: Tensor) -> tuple[Tensor, float]:
        """Return noise one step on, and the share of the loss before; its gradients are left."""
        noise = noise.detach().requires_grad_()
        loss = risk(told, noise) / self.ascents
        loss.backward()  # type: ignore[no-untyped-call]
        assert noise.grad is not None
        return noise.detach() + self.step * noise.grad.sign(), float(loss.detach())

    def start(self, told: Told) -> Tensor:
        """Return noise ``[R, entering]`` within one step."""
        size = told.sight.net.entering(told.batch)
        drawn = torch.from_numpy(told.stream("flag").random(size, dtype=np.float32))
        return self.step * (2 * drawn.to(told.sight.device) - 1)


def risk(told: Told, noise: Tensor) -> Tensor:
    """Return the mean loss of a batch whose inputs are moved."""
    seen = told.sight.look(replace(told.batch, noise=noise))
    return told.mean(told.losses_of(seen.logits))
