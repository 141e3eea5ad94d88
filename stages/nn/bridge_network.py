"""Networks of the bridge model: a conditional VAE over node pairs, and a predictor of counts.

The encoder processes one component at a time, so the latents of a component are valid for every
splice that uses it. The decoder's layers process single nodes; a pair costs one inner product.

Names of attributes that hold parameters or submodules are keys of the weight files.
"""

from __future__ import annotations

from itertools import pairwise

import torch
from torch import Tensor, nn

from gsx.stages.nn.gin import GIN

MAX_LOG_VARIANCE = 8.0
"""Bound of the absolute log-variance."""
NUM_NOISE_FEATURES = 4
"""Noise features of a denoising decoder: the pair's bit, the noise level and two degrees."""


class BridgeEncoder(nn.Module):
    """Mean and log-variance of every node's latent, from its component alone."""

    def __init__(self, features: int, width: int, layers: int, latent: int) -> None:
        super().__init__()
        self.gin = GIN(features, width, layers)
        self.mean = nn.Linear(width, latent)
        self.log_variance = nn.Linear(width, latent)

    def forward(self, matrix: Tensor, features: Tensor) -> tuple[Tensor, Tensor]:
        """Return mean and log-variance, both ``[N, latent]``."""
        state = self.gin(matrix, features)[-1]
        return self.mean(state), self.log_variance(state).clamp(-MAX_LOG_VARIANCE, MAX_LOG_VARIANCE)


class BridgeDecoder(nn.Module):
    """Bridge, attribute and bridge node of a node pair, independent of the order of the pair.

    A network maps every node to factors. The logit of a pair is the inner product of the factors of
    both nodes, half of the terms with a minus sign, so that both similarity and dissimilarity can
    increase it. A denoising decoder corrects the logit with the noisy bridges around the pair.
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
        """Return the factors of every node as left and as right end of a pair, ``[N, K + 2]``.

        Besides the ``K`` matching factors, each end contributes a logit for being a port.
        """
        terms = self.node_terms(latent)
        match, port = terms[:, :-1], terms[:, -1:]
        one = torch.ones_like(port)
        left = torch.cat([match * self.sign, port, one], dim=1)
        return left, torch.cat([match, one, port], dim=1)

    def node_terms(self, latent: Tensor) -> Tensor:
        """Return the ``K`` matching factors of every node, then its port logit, ``[N, K + 1]``."""
        output = self.pair(latent)
        return torch.cat([output[:, :-1], output[:, -1:] + self.bias / 2], dim=1)

    def pair_logits(self, factors: tuple[Tensor, Tensor], left: Tensor, right: Tensor) -> Tensor:
        """Return the bridge logit of each node pair, ``[P]``."""
        return (factors[0].index_select(0, left) * factors[1].index_select(0, right)).sum(dim=1)

    def grid_logits(self, factors: tuple[Tensor, Tensor], left: Tensor, right: Tensor) -> Tensor:
        """Return the logits of all pairs of ``left`` ``[B, L]`` and ``right`` ``[B, R]`` nodes.

        The result is ``[B, L, R]``.
        """
        return torch.bmm(factors[0][left], factors[1][right].transpose(1, 2))

    def denoise_logits(self, logits: Tensor, noise: Tensor) -> Tensor:
        """Return logits ``[P]`` corrected with noise features ``[P, 4]``.

        Without a denoising network, return them unchanged.
        """
        if self.denoise is None:
            return logits
        inputs = torch.cat([logits[:, None], noise], dim=1)
        corrected: Tensor = logits + self.denoise(inputs).squeeze(1)
        return corrected

    def pair_features(self, latent: Tensor, left: Tensor, right: Tensor) -> Tensor:
        """Return the inputs of the attribute and node heads for each pair, ``[P, 2 Z]``."""
        return self.features_of_ends(latent[left], latent[right])

    def features_of_ends(self, left: Tensor, right: Tensor) -> Tensor:
        """Return the same, given the latents of both ends of each pair, ``[P, Z]``."""
        return torch.cat([left + right, left * right], dim=1)


def _mlp(*sizes: int) -> nn.Sequential:
    layers: list[nn.Module] = []
    for inputs, outputs in pairwise(sizes):
        layers += [nn.Linear(inputs, outputs), nn.ReLU()]
    return nn.Sequential(*layers[:-1])


class BridgeCountPredictor(nn.Module):
    """Distribution of the number of bridges between two components, over 1..``max_count``."""

    def __init__(self, features: int, width: int, layers: int, max_count: int) -> None:
        super().__init__()
        self.gin = GIN(features, width, layers)
        self.head = nn.Sequential(
            nn.Linear(2 * (2 * width + 1), width), nn.ReLU(), nn.Linear(width, max_count)
        )

    def component_features(
        self, matrix: Tensor, features: Tensor, owner: Tensor, components: int
    ) -> Tensor:
        """Return the features of every component, ``[components, 2 width + 1]``."""
        state = self.gin(matrix, features)[-1]
        total = torch.zeros(components, state.shape[1], device=state.device)
        total = total.index_add_(0, owner, state)
        size = torch.bincount(owner, minlength=components).clamp_min(1)[:, None]
        return torch.cat([total / size, total / 10, size.log()], dim=1)

    def forward(self, left: Tensor, right: Tensor) -> Tensor:
        """Return logits ``[P, max_count]``; entry ``b`` is the logit of ``b + 1`` bridges."""
        logits: Tensor = self.head(torch.cat([left + right, (left - right).abs()], dim=1))
        return logits
