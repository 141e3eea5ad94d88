"""A running mean of weights."""

from __future__ import annotations

import torch

from gsx.stages.nn.build_network import Network, empty


class Average:
    """A running mean of weights, and of what norms remember."""

    def __init__(self, net: Network, decay: float) -> None:
        self.net = empty(net.shape).to(next(net.parameters()).device)
        self.net.load_state_dict(net.state_dict())
        self.decay, self.steps = decay, 0

    @torch.no_grad()
    def update(self, net: Network) -> None:
        """Move a little towards the weights of ``net``; more at the start."""
        self.steps += 1
        decay = min(self.decay, self.steps / (self.steps + 9))
        for mean, now in zip(
            self.net.state_dict().values(), net.state_dict().values(), strict=True
        ):
            if mean.is_floating_point():
                mean.lerp_(now, 1 - decay)
            else:
                mean.copy_(now)
