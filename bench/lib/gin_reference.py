"""A GIN classifier as one would write it with PyG's ``GINConv``: the baseline of training."""

from __future__ import annotations

import torch
from torch import Tensor, nn
from torch_geometric.data import Batch
from torch_geometric.nn import GINConv, global_mean_pool

from gsx.stages.nn.backbones import Backbone


class PygGIN(nn.Module):
    """A three-layer GIN with mean pooling, equal to gsx's ``gin`` backbone at equal weights."""

    def __init__(self, width: int, outputs: int) -> None:
        super().__init__()
        sizes = [1, width, width]
        self.convs = nn.ModuleList(
            GINConv(
                nn.Sequential(
                    nn.Linear(size, 2 * width),
                    nn.BatchNorm1d(2 * width),
                    nn.ReLU(),
                    nn.Linear(2 * width, width),
                )
            )
            for size in sizes
        )
        self.norms = nn.ModuleList(nn.BatchNorm1d(width) for _ in sizes)
        self.classify = nn.Linear(width, outputs)

    def forward(self, data: Batch) -> Tensor:
        """Return the logits of a batch."""
        x = data.x
        for number, (conv, norm) in enumerate(zip(self.convs, self.norms, strict=True)):
            x = norm(conv(x, data.edge_index))
            x = x.relu() if number < len(self.convs) - 1 else x
        return self.classify(global_mean_pool(x, data.batch))

    def copy_weights(self, network: Backbone) -> None:
        """Copy the weights of a gsx backbone."""
        with torch.no_grad():
            for conv, norm, layer in zip(self.convs, self.norms, network.layers, strict=True):
                enlarge, inner, _, reduce = conv.nn
                pairs = ((enlarge, layer.enlarge), (inner, layer.inner), (reduce, layer.reduce))
                for target, source in (*pairs, (norm, layer.norm)):
                    target.load_state_dict(source.state_dict())
            self.classify.load_state_dict(network.classify.state_dict())


def cross_entropy(network: PygGIN, data: Batch) -> Tensor:
    """Return the loss of a batch."""
    target = data.y.view(data.num_graphs, -1)
    target = target.argmax(dim=1) if target.shape[1] > 1 else target[:, 0].long()
    return nn.functional.cross_entropy(network(data), target)
