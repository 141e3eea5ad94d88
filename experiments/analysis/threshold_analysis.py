"""Compare the predicted and the true share of positives on OOD test.

``python -m experiments.analysis.threshold_analysis nci1-size dd-size`` reads the result files of
binary datasets and their models in the store (``GSX_STORE``). Per run it prints the predicted and
the true share of positives, ROC-AUC, MCC, and the MCC of the best threshold. A large ROC-AUC with a
small MCC means that the model ranks graphs well and that its threshold is wrong.
"""

from __future__ import annotations

import sys
from collections.abc import Sequence

import numpy as np

from experiments.analysis.trained_models import corpus_of, predict, result_files
from gsx.ragged import Array, Ints
from gsx.stages.train.data import read_split
from gsx.stages.train.metrics import score
from gsx.storage.artifacts.store import Store
from gsx.table import GraphTable


def main(datasets: Sequence[str]) -> None:
    """Print one line per run."""
    store = Store.at()
    print(f"{'run':28}", *(f"{name:>5}" for name in ("pred.", "true", "auc", "mcc", "best")))
    for name, result in result_files(datasets):
        table = read_split(corpus_of(store, result), "ood_test")
        logits, positive = binary_logits(predict(store, result, table), table)
        figures = [
            float((logits > 0).mean()),
            float(positive.mean()),
            binary_score("roc_auc", logits, positive),
            binary_score("mcc", logits, positive),
            best_mcc(logits, positive),
        ]
        print(f"{name:28}", *(f"{value:5.2f}" for value in figures), flush=True)


def binary_logits(logits: Array, table: GraphTable) -> tuple[Array, Ints]:
    """Return the logit of the positive class and the true class (0 or 1) of every graph."""
    y = table.dense("graph", "y")
    if y.shape[1] == 2:
        return logits[:, 1] - logits[:, 0], y[:, 1].astype(np.int64)
    return logits[:, 0], y[:, 0].astype(np.int64)


def binary_score(metric: str, logits: Array, positive: Ints) -> float:
    """Return ROC-AUC in 0..1, or MCC in -1..1."""
    value = score(metric, "binary", logits[:, None], positive[:, None].astype(np.float64))
    return (value or 0.0) / (100 if metric == "roc_auc" else 1)


def best_mcc(logits: Array, positive: Ints) -> float:
    """Return the largest MCC over thresholds at the percentiles of the logits."""
    thresholds = np.quantile(logits, np.linspace(0.01, 0.99, 99))
    return max(binary_score("mcc", logits - threshold, positive) for threshold in thresholds)


if __name__ == "__main__":
    main(sys.argv[1:])
