"""Networks of the bridge generator: a conditional VAE over pairs of nodes, and a count predictor.

The encoder sees one component at a time, so the latents of a component serve every splice it takes
part in. The decoder's layers work on single nodes, and a pair costs one inner product.
"""

from __future__ import annotations

from itertools import pairwise

import torch
from torch import Tensor, nn

from gsx.stages.nn.gin import GIN

MAX_LOG_VARIANCE = 8.0
"""Bound of log-variances."""
NUM_NOISE_FEATURES = 4
"""What a denoising decoder sees of the noise: the pair's state, its level, and the two degrees."""


class BridgeEncoder(nn.Module):
    """Mean and log-variance of every node's latent, from its own component."""

    def __init__(self, features: int, width: int, layers: int, latent: int) -> None:
        super().__init__()
        self.gin = GIN(features, width, layers)
        self.mean = nn.Linear(width, latent)
        self.log_variance = nn.Linear(width, latent)

    def forward(self, matrix: Tensor, features: Tensor) -> tuple[Tensor, Tensor]:
        """Return two ``[N, latent]``."""
        state = self.gin(matrix, features)[-1]
        return self.mean(state), self.log_variance(state).clamp(-MAX_LOG_VARIANCE, MAX_LOG_VARIANCE)


class BridgeDecoder(nn.Module):
    """Bridge, attribute and bridge node of a pair of nodes; the order of the two does not matter.

    A network turns every node into terms; a pair's logit is an inner product of the two, half of
    its terms with a minus sign, so that both likeness and unlikeness can speak for a bridge. A
    denoising decoder corrects the logit by the noisy bridges it sees around the pair.
    """

    sign: Tensor

    def __init__(
        self, latent: int, width: int, terms: int, *, attributes: int, nodes: int, noisy: bool
    ) -> None:
        super().__init__()
        self.pair = _mlp(latent, width, terms + 1)
        self.bias = nn.Parameter(torch.tensor(-2.0))
        sign = torch.ones(terms)
        sign[terms // 2 :] = -1
        self.register_buffer("sign", sign, persistent=False)
        self.attribute = _mlp(2 * latent, width, attributes)
        self.node = _mlp(2 * latent, width, max(nodes, 1))
        self.denoise = _mlp(1 + NUM_NOISE_FEATURES, width, 1) if noisy else None

    def node_factors(self, latent: Tensor) -> tuple[Tensor, Tensor]:
        """Return what every node brings to a pair as its left and as its right end, ``[N, K + 2]``.

        Besides the terms that match, each end brings how likely a port it is.
        """
        found = self.pair(latent)
        match, port = found[:, :-1], found[:, -1:] + self.bias / 2
        one = torch.ones_like(port)
        left = torch.cat([match * self.sign, port, one], dim=1)
        return left, torch.cat([match, one, port], dim=1)

    def pair_logits(self, terms: tuple[Tensor, Tensor], left: Tensor, right: Tensor) -> Tensor:
        """Return the logit of a bridge for each pair of nodes, ``[P]``."""
        return (terms[0][left] * terms[1][right]).sum(dim=1)

    def grid_logits(self, terms: tuple[Tensor, Tensor], left: Tensor, right: Tensor) -> Tensor:
        """Return the logits of all pairs of ``left`` ``[B, L]`` and ``right`` ``[B, R]`` nodes.

        The result is ``[B, L, R]``.
        """
        return torch.bmm(terms[0][left], terms[1][right].transpose(1, 2))

    def denoise_logits(self, logits: Tensor, noise: Tensor) -> Tensor:
        """Correct logits ``[P]`` by what is seen of the noise, ``[P, 4]``."""
        if self.denoise is None:
            return logits
        seen = torch.cat([logits[:, None], noise], dim=1)
        better: Tensor = logits + self.denoise(seen).squeeze(1)
        return better

    def pair_features(self, latent: Tensor, left: Tensor, right: Tensor) -> Tensor:
        """Return what the heads of attribute and node see of a pair, ``[P, 2 Z]``."""
        return torch.cat([latent[left] + latent[right], latent[left] * latent[right]], dim=1)


def _mlp(*sizes: int) -> nn.Sequential:
    layers: list[nn.Module] = []
    for inputs, outputs in pairwise(sizes):
        layers += [nn.Linear(inputs, outputs), nn.ReLU()]
    return nn.Sequential(*layers[:-1])


class BridgeCountPredictor(nn.Module):
    """How many bridges join two components: a distribution over 1..largest."""

    def __init__(self, features: int, width: int, layers: int, largest: int) -> None:
        super().__init__()
        self.gin = GIN(features, width, layers)
        self.head = nn.Sequential(
            nn.Linear(2 * (2 * width + 1), width), nn.ReLU(), nn.Linear(width, largest)
        )

    def component_features(
        self, matrix: Tensor, features: Tensor, owner: Tensor, components: int
    ) -> Tensor:
        """Return what is known of every component, ``[components, 2 width + 1]``."""
        state = self.gin(matrix, features)[-1]
        total = torch.zeros(components, state.shape[1], device=state.device)
        total = total.index_add_(0, owner, state)
        size = torch.bincount(owner, minlength=components).clamp_min(1)[:, None]
        return torch.cat([total / size, total / 10, size.log()], dim=1)

    def forward(self, left: Tensor, right: Tensor) -> Tensor:
        """Return logits ``[P, largest]``; entry b stands for b + 1 bridges."""
        logits: Tensor = self.head(torch.cat([left + right, (left - right).abs()], dim=1))
        return logits
