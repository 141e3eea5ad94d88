"""LISA (Yao et al. 2022): mix graphs of one label across environments, or the other way round."""

from __future__ import annotations

from typing import TYPE_CHECKING

from gsx.stages.train.algorithms.base import Algorithm
from gsx.stages.train.algorithms.mixup import Mixup, mixed_loss

if TYPE_CHECKING:
    import numpy as np
    from torch import Tensor

    from gsx.ragged import Array, Ints
    from gsx.stages.train.algorithms.training_step import TrainingStep

SAME_LABEL = 0.5
"""Probability that partners share the label and not the environment, as published."""


class LISA(Algorithm):
    """Loss of features that are mixed with those of a partner.

    Per batch, either all partners have the same label and another environment, or all have the
    same environment and another label. Graphs without such a partner are not mixed.
    """

    name = "lisa"
    title = "LISA"
    compares_environments = True
    regression = False

    mix_alpha = Mixup.mix_alpha

    def loss(self, step: TrainingStep) -> Tensor:
        """Return the loss of a batch."""
        stream = step.stream("lisa")
        label, env = label_codes(step.y.cpu().numpy(), step.task), step.env.cpu().numpy()
        same_label = stream.random() < SAME_LABEL
        partner = (
            draw_partners(label, env, stream) if same_label else draw_partners(env, label, stream)
        )
        return mixed_loss(step, partner, float(stream.beta(self.mix_alpha, self.mix_alpha)))


def label_codes(y: Array, task: str) -> Ints:
    """Return a code per row of ``y`` ``[G, C]``, equal for equal labels.

    Soft labels count as their most probable class. Missing labels equal missing labels.
    """
    import numpy as np

    if task == "classification":
        y = y.argmax(axis=1)[:, None]
    filled = np.where(np.isnan(y), -1, y)
    return np.unique(filled, axis=0, return_inverse=True)[1].reshape(-1)


def draw_partners(same: Ints, other: Ints, stream: np.random.Generator) -> Ints:
    """Draw for every row a row that is equal in ``same`` and different in ``other``.

    All such rows are equally likely. A row without any is its own partner.
    """
    import numpy as np

    order = np.lexsort((other, same))
    group_start, group_size = _runs(same[order])
    block_start, block_size = _runs(same[order], other[order])
    candidates = group_size - block_size
    position = group_start + (stream.random(len(order)) * candidates).astype(np.int64)
    position += np.where(position >= block_start, block_size, 0)
    partner = np.empty_like(order)
    partner[order] = order[np.where(candidates > 0, position, np.arange(len(order)))]
    return partner


def _runs(*keys: Ints) -> tuple[Ints, Ints]:
    """Return for every row the start and the length of the run of equal keys around it."""
    import numpy as np

    first = np.ones(len(keys[0]), dtype=bool)
    first[1:] = np.any([key[1:] != key[:-1] for key in keys], axis=0)
    start = np.flatnonzero(first)
    run = np.cumsum(first) - 1
    return start[run], np.diff(np.append(start, len(first)))[run]
