"""Colors of FSMotif and CMNIST: five for training, one for validation, one for test."""

from __future__ import annotations

import numpy as np

COLORS = ("red", "green", "blue", "yellow", "cyan", "pink", "magenta")
PALETTE = np.array(
    [(1, 0, 0), (0, 1, 0), (0, 0, 1), (1, 1, 0), (0, 1, 1), (1, 0.5, 0.5), (1, 0, 1)],
    dtype=np.float32,
)
"""``[7, 3]`` RGB values."""
TRAINING_COLORS = 5
"""The first colors are for training, the next for ``ood_val``, the last for ``ood_test``."""
