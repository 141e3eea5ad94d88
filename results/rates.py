"""Say how often runs answer yes, and how well they rank: ``python results/rates.py DATASET …``.

Reads the result files of yes-or-no datasets and their models in the store (``GSX_STORE``). Prints,
on OOD test, the share of graphs a run calls yes beside the true share, the area under its ROC
curve, its MCC, and the best MCC that any threshold would give.
"""

from __future__ import annotations

import json
import sys

import numpy as np
import torch
from runs import FOLDER

from gsx.ragged import Array, Ints
from gsx.stages.learning.evaluate import load
from gsx.stages.learning.lesson import read_split
from gsx.stages.learning.metrics import score
from gsx.stages.learning.scoring import laid_out, logits_of
from gsx.storage.corpus import Corpus
from gsx.storage.store import Store

CPU = torch.device("cpu")


def main() -> None:
    """Print a line per run."""
    print("run                            yes  true   auc   mcc  best")
    for dataset in sys.argv[1:]:
        for path in sorted((FOLDER / dataset).glob("*.json")):
            run = json.loads(path.read_text())
            logits, y = answers(run["model_key"], run["corpus_key"])
            shares = (logits > 0).mean(), y.mean()
            found = [*shares, metric("roc_auc", logits, y), metric("mcc", logits, y)]
            found.append(best(logits, y))
            name = f"{dataset}/{path.stem}"
            print(f"{name:28}", *(f"{value:5.2f}" for value in found), flush=True)


def answers(model: str, corpus: str) -> tuple[Array, Ints]:
    """Return logits of yes, and what is true, of the graphs of OOD test."""
    store = Store.at()
    description, net = load(store.resolve(model[:12]), "weights.safetensors", CPU)
    table = read_split(Corpus(store.resolve(corpus[:12])), "ood_test")
    logits = logits_of(net, list(laid_out(table, description.shape, CPU)))
    y = table.dense("graph", "y")
    if y.shape[1] == 2:
        return logits[:, 1] - logits[:, 0], y[:, 1].astype(np.int64)
    return logits[:, 0], y[:, 0].astype(np.int64)


def metric(name: str, logits: Array, y: Ints) -> float:
    """Return a score of yes-or-no answers between -1 and 1."""
    value = score(name, "binary", logits[:, None], y[:, None].astype(np.float64))
    return (value or 0.0) / (100 if name == "roc_auc" else 1)


def best(logits: Array, y: Ints) -> float:
    """Return the MCC of the best of all thresholds."""
    between = np.quantile(logits, np.linspace(0.01, 0.99, 99))
    return max(metric("mcc", logits - threshold, y) for threshold in between)


if __name__ == "__main__":
    main()
