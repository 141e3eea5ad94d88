"""Build the network of a shape."""

from __future__ import annotations

from collections.abc import Mapping

import torch

from gsx.ragged import Array
from gsx.stages.nn.backbones import Backbone
from gsx.stages.nn.batches import BackboneShape
from gsx.stages.nn.check_weights import check_weights
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


def load_network(shape: BackboneShape, arrays: Mapping[str, Array], where: str) -> Network:
    """Return a network without dropout, with the weights of a file."""
    check_weights(lambda: build_empty_network(shape), arrays, where)
    network = build_empty_network(shape)
    network.load_state_dict({name: torch.from_numpy(values) for name, values in arrays.items()})
    return network


def _network_class(shape: BackboneShape) -> type[Backbone | SelectorNetwork | GCN]:
    if shape.backbone == "gcn":
        return GCN
    return SelectorNetwork if shape.select else Backbone
