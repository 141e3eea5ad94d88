"""The network that a shape describes."""

from __future__ import annotations

import torch

from gsx.stages.nn.backbones import Backbone, BackboneShape
from gsx.stages.nn.edge_selector import Selecting
from gsx.stages.nn.gcn import GCN

GraphNetwork = Backbone | Selecting
Network = GraphNetwork | GCN


def fresh(
    shape: BackboneShape, dropout: float, weights: torch.Generator, stream: torch.Generator
) -> Network:
    """Return a network with weights drawn from ``weights``; dropout draws from ``stream``."""
    return _kind(shape).fresh(shape, dropout, weights, stream)


def empty(shape: BackboneShape) -> Network:
    """Return a network whose weights are to be loaded."""
    return _kind(shape)(shape, 0.0, torch.Generator())


def _kind(shape: BackboneShape) -> type[Backbone | Selecting | GCN]:
    if shape.backbone == "gcn":
        return GCN
    return Selecting if shape.select else Backbone
