"""Accuracy on colored Motif by base graph, with original and with recolored nodes.

``python -m experiments.analysis.accuracy_by_base fsmotif-size-color`` reads the result files of
datasets and their models in the store (``GSX_STORE``). Predictions are compared with the true
motif, not with the noisy label. The second line of every run and split has all nodes in the first
color of the training set, which separates errors due to color from errors due to structure.
"""

from __future__ import annotations

import sys
from collections.abc import Sequence

import numpy as np

from experiments.analysis.trained_models import corpus_of, predict, result_files
from gsx.ragged import Array
from gsx.stages.prepare.colors import PALETTE
from gsx.stages.prepare.synthetic.base_graphs import BASES
from gsx.storage.artifacts.store import Store
from gsx.table import GraphTable


def main(datasets: Sequence[str]) -> None:
    """Print two lines per run and split."""
    store = Store.at()
    print(f"{'run':44}{'split':10}{'color':7}{'all':>6}", *(f"{base:>6}" for base in BASES))
    for name, result in result_files(datasets):
        corpus = corpus_of(store, result)
        for split in ("ood_val", "ood_test"):
            original = corpus.table(split=split)
            for color, table in (("own", original), ("red", recolored(original))):
                accuracies = accuracy_by_base(predict(store, result, table), table)
                line = " ".join(f"{accuracy:6.1%}" for accuracy in accuracies)
                print(f"{name:44}{split:10}{color:7}{line}", flush=True)


def recolored(table: GraphTable) -> GraphTable:
    """Return the graphs with all nodes in the first color of the training set."""
    color = np.asarray(PALETTE[0], dtype=np.float32)
    return table.with_columns(node={"node_feat": np.tile(color, (table.total_nodes, 1))})


def accuracy_by_base(logits: Array, table: GraphTable) -> list[float]:
    """Return the share of correctly predicted motifs, over all graphs and per base graph."""
    correct = logits.argmax(axis=1) == table.dense("graph", "motif_id")
    base = table.dense("graph", "basis_id")
    return [float(correct.mean()), *(float(correct[base == b].mean()) for b in range(len(BASES)))]


if __name__ == "__main__":
    main(sys.argv[1:])
