"""The network that a shape describes."""

from __future__ import annotations

import torch

from gsx.stages.nets.backbones import Backbone, BackboneShape
from gsx.stages.nets.gcn import GCN

Network = Backbone | GCN


def fresh(
    shape: BackboneShape, dropout: float, weights: torch.Generator, stream: torch.Generator
) -> Network:
    """Return a network with weights drawn from ``weights``; dropout draws from ``stream``."""
    kind = GCN if shape.backbone == "gcn" else Backbone
    return kind.fresh(shape, dropout, weights, stream)


def empty(shape: BackboneShape) -> Network:
    """Return a network whose weights are to be loaded."""
    kind = GCN if shape.backbone == "gcn" else Backbone
    return kind(shape, 0.0, torch.Generator())
