"""Networks of the posterior extractor: label posteriors of single nodes and of node sets.

Names of attributes that hold submodules are keys of the weight files.
"""

from __future__ import annotations

import torch
from torch import Tensor, nn

from gsx.stages.nn.gin import GIN


class NodePosterior(nn.Module):
    """Predict label and environment of a graph from every single node, after every layer."""

    def __init__(
        self,
        features: int,
        outputs: int,
        envs: int,
        width: int,
        layers: int,
        num_categories: int = 0,
    ) -> None:
        super().__init__()
        self.gin = GIN(features, width, layers, num_categories)
        self.label = nn.ModuleList(nn.Linear(width, outputs) for _ in range(layers + 1))
        self.env = nn.ModuleList(nn.Linear(width, envs) for _ in range(layers + 1))

    def forward(self, matrix: Tensor, features: Tensor) -> tuple[Tensor, Tensor]:
        """Return label logits ``[L, N, C]`` and environment logits ``[L, N, E]``."""
        states = self.gin(matrix, features)
        labels = [head(state) for head, state in zip(self.label, states, strict=True)]
        envs = [head(state) for head, state in zip(self.env, states, strict=True)]
        return torch.stack(labels), torch.stack(envs)


class SetPosterior(nn.Module):
    """Predict the label from a graph, or from a connected set of nodes as an isolated graph."""

    def __init__(
        self, features: int, outputs: int, width: int, layers: int, num_categories: int = 0
    ) -> None:
        super().__init__()
        self.gin = GIN(features, width, layers, num_categories)
        self.head = nn.Sequential(
            nn.Linear(2 * width, width),
            nn.ReLU(),
            nn.Linear(width, outputs),
        )

    def forward(self, matrix: Tensor, features: Tensor, owner: Tensor, num_sets: int) -> Tensor:
        """Return logits ``[num_sets, C]``; ``owner`` ``[N]`` is the set of every node."""
        state = self.gin(matrix, features)[-1]
        total = torch.zeros(num_sets, state.shape[1], device=state.device)
        total = total.index_add_(0, owner, state)
        size = torch.bincount(owner, minlength=num_sets).clamp_min(1)[:, None]
        logits: Tensor = self.head(torch.cat([total / size, total / 10], dim=1))
        return logits
