"""Exponential moving average (EMA) of the weights."""

from __future__ import annotations

import torch

from gsx.stages.nn.build_network import Network, build_empty_network


class EMA:
    """Exponential moving average of a network's weights and batch norm statistics."""

    def __init__(self, network: Network, decay: float) -> None:
        self.network = build_empty_network(network.shape).to(next(network.parameters()).device)
        """Network with the averaged weights."""
        self.network.load_state_dict(network.state_dict())
        self.decay, self.steps = decay, 0

    @torch.no_grad()
    def update(self, network: Network) -> None:
        """Add the current weights to the average; the decay is lower in the first steps."""
        self.steps += 1
        decay = min(self.decay, self.steps / (self.steps + 9))
        for average, current in zip(
            self.network.state_dict().values(), network.state_dict().values(), strict=True
        ):
            if average.is_floating_point():
                average.lerp_(current, 1 - decay)
            else:
                average.copy_(current)
