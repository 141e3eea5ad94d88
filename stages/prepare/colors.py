"""The colors of FSMotif and of colored MNIST: five to train on, one to validate, one to test."""

from __future__ import annotations

import numpy as np

COLORS = ("red", "green", "blue", "yellow", "cyan", "pink", "magenta")
PALETTE = np.array(
    [(1, 0, 0), (0, 1, 0), (0, 0, 1), (1, 1, 0), (0, 1, 1), (1, 0.5, 0.5), (1, 0, 1)],
    dtype=np.float32,
)
"""``[7, 3]`` red, green and blue of every color."""
SHOWN_COLORS = 5
"""Training shows the first ones; the next is that of ``ood_val``, and the last of ``ood_test``."""
