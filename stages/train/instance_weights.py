"""Weights that make training nodes resemble all nodes of a graph."""

from __future__ import annotations

import numpy as np
import torch
from torch import Tensor

from gsx.ragged import Ints
from gsx.seeds import rng
from gsx.stages.graphs.graphsaint import convolution
from gsx.stages.train.kernel_mean_matching import WAVES, match, waves
from gsx.stages.train.node_data import NodeLesson

HOPS = 2
"""Rounds of averaging over neighbors before nodes are compared, as published."""


def resemblance(lesson: NodeLesson, seed: int) -> Tensor:
    """Return weights ``[T]`` of training nodes, sheet after sheet.

    Nodes are compared by their features and those around them; of labels, only those of training
    nodes are read: classes keep their shares.
    """
    links = {id(sheet.links): sheet.links for sheet in lesson.sheets}
    spread = {key: convolution(each).astype(np.float32) for key, each in links.items()}
    found = []
    for number, sheet in enumerate(lesson.sheets):
        stream = rng(seed, "train", "resemblance", number)
        size = (sheet.features.shape[1], WAVES)
        phases = sheet.features @ stream.standard_normal(size, dtype=np.float32)
        for _ in range(HOPS):
            phases = spread[id(sheet.links)] @ phases
        rows = waves(phases, stream)
        group = _classes(lesson, sheet.train)
        found.append(match(rows[sheet.train], rows.mean(axis=0, dtype=np.float64), group))
    return torch.from_numpy(np.concatenate(found).astype(np.float32))


def _classes(lesson: NodeLesson, nodes: Ints) -> Ints:
    """Return the class of nodes, from 0 without a gap; one for all where labels are no classes."""
    if lesson.task != "classification":
        return np.zeros(len(nodes), dtype=np.int64)
    return np.unique(lesson.graphs.y[nodes].argmax(axis=1), return_inverse=True)[1]
