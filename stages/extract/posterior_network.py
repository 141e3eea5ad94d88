"""Networks that tell the label: from every single node, and from a graph or set as a whole."""

from __future__ import annotations

import torch
from torch import Tensor, nn

from gsx.stages.nn.gin import GIN


class NodePosterior(nn.Module):
    """Label and environment of a graph, told from single nodes after every layer."""

    def __init__(
        self, features: int, outputs: int, envs: int, width: int, layers: int, kinds: int = 0
    ) -> None:
        super().__init__()
        self.gin = GIN(features, width, layers, kinds)
        self.label = nn.ModuleList(nn.Linear(width, outputs) for _ in range(layers + 1))
        self.env = nn.ModuleList(nn.Linear(width, envs) for _ in range(layers + 1))

    def forward(self, matrix: Tensor, features: Tensor) -> tuple[Tensor, Tensor]:
        """Return logits of labels ``[L, N, C]`` and of environments ``[L, N, E]``."""
        states = self.gin(matrix, features)
        labels = [head(state) for head, state in zip(self.label, states, strict=True)]
        envs = [head(state) for head, state in zip(self.env, states, strict=True)]
        return torch.stack(labels), torch.stack(envs)


class SetPosterior(nn.Module):
    """Label told from a graph, or from a connected set of nodes seen on its own."""

    def __init__(
        self, features: int, outputs: int, width: int, layers: int, kinds: int = 0
    ) -> None:
        super().__init__()
        self.gin = GIN(features, width, layers, kinds)
        self.head = nn.Sequential(
            nn.Linear(2 * width, width),
            nn.ReLU(),
            nn.Linear(width, outputs),
        )

    def forward(self, matrix: Tensor, features: Tensor, owner: Tensor, sets: int) -> Tensor:
        """Return logits ``[sets, C]``; ``owner`` ``[N]`` names the set of every node."""
        state = self.gin(matrix, features)[-1]
        total = torch.zeros(sets, state.shape[1], device=state.device).index_add_(0, owner, state)
        size = torch.bincount(owner, minlength=sets).clamp_min(1)[:, None]
        logits: Tensor = self.head(torch.cat([total / size, total / 10], dim=1))
        return logits
