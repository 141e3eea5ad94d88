"""Area under the ROC curve."""

from __future__ import annotations

import numpy as np

from gsx.stages.graphs.subgraphs import Bools, Floats


def roc_auc(score: Floats, truth: Bools) -> float | None:
    """Return the area under the ROC curve of scores ``[N]``; None if all classes are equal.

    Ties count half.
    """
    positives = int(truth.sum())
    negatives = len(truth) - positives
    if not positives or not negatives:
        return None
    _, rank_of, ties = np.unique(score, return_inverse=True, return_counts=True)
    ranks = (ties.cumsum() - (ties - 1) / 2)[rank_of][truth].sum()
    return round(float((ranks - positives * (positives + 1) / 2) / (positives * negatives)), 6)
