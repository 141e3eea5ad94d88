"""Build the network of a shape."""

from __future__ import annotations

import torch

from gsx.stages.nn.backbones import Backbone
from gsx.stages.nn.batches import BackboneShape
from gsx.stages.nn.edge_selector import SelectorNetwork
from gsx.stages.nn.gcn import GCN

GraphNetwork = Backbone | SelectorNetwork
Network = GraphNetwork | GCN


def build_network(
    shape: BackboneShape, dropout: float, weights: torch.Generator, stream: torch.Generator
) -> Network:
    """Return a network with weights drawn from ``weights``; dropout draws from ``stream``."""
    return _network_class(shape).with_random_weights(shape, dropout, weights, stream)


def build_empty_network(shape: BackboneShape) -> Network:
    """Return a network without dropout, whose weights are loaded later."""
    return _network_class(shape)(shape, 0.0, torch.Generator())


def _network_class(shape: BackboneShape) -> type[Backbone | SelectorNetwork | GCN]:
    if shape.backbone == "gcn":
        return GCN
    return SelectorNetwork if shape.select else Backbone
