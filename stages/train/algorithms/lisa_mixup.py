"""LISA (Yao et al. 2022): mix within a label across environments, or the other way round."""

from __future__ import annotations

import numpy as np
from torch import Tensor, nn

from gsx.ragged import Array, Ints
from gsx.stages.train.algorithms.mixup import mixed
from gsx.stages.train.algorithms.training_step import Told

ACROSS = 0.5
"""How often partners share the label and not the environment, as published."""


class LISA(nn.Module):
    """The loss of features mixed with those of a partner that agrees in one thing only.

    For a batch, either all partners have the same label and another environment, or all have the
    same environment and another label. A graph without a partner stays as it is.
    """

    def __init__(self, alpha: float) -> None:
        super().__init__()
        self.alpha = alpha

    def forward(self, told: Told) -> Tensor:
        """Return the loss of a batch."""
        stream = told.stream("lisa")
        label, env = label_codes(told.y.cpu().numpy(), told.task), told.env.cpu().numpy()
        across = stream.random() < ACROSS
        partner = partners(label, env, stream) if across else partners(env, label, stream)
        return mixed(told, partner, float(stream.beta(self.alpha, self.alpha)))


def label_codes(y: Array, task: str) -> Ints:
    """Return a number for the label of every row, equal for equal labels; soft ones by the most."""
    if task == "classification":
        y = y.argmax(axis=1)[:, None]
    known = np.where(np.isnan(y), -1, y)
    return np.unique(known, axis=0, return_inverse=True)[1].reshape(-1)


def partners(same: Ints, other: Ints, stream: np.random.Generator) -> Ints:
    """Draw for every row one that is equal in ``same`` and not in ``other``; itself without any."""
    order = np.lexsort((other, same))
    group, size = _runs(same[order])
    block, within = _runs(same[order], other[order])
    free = size - within
    place = group + (stream.random(len(order)) * free).astype(np.int64)
    place += np.where(place >= block, within, 0)
    partner = np.empty_like(order)
    partner[order] = order[np.where(free > 0, place, np.arange(len(order)))]
    return partner


def _runs(*keys: Ints) -> tuple[Ints, Ints]:
    """Return where the run of equal keys that holds each row begins, and how long it is."""
    new = np.ones(len(keys[0]), dtype=bool)
    new[1:] = np.any([key[1:] != key[:-1] for key in keys], axis=0)
    start = np.flatnonzero(new)
    number = np.cumsum(new) - 1
    return start[number], np.diff(np.append(start, len(new)))[number]
