"""Say on which bases of colored Motif a run tells the motif: ``python results/bases.py DATASET …``.

Reads the result files of a dataset and their models in the store (``GSX_STORE``). Prints, on OOD
validation and OOD test, the share of graphs whose true motif is told, whatever their noisy labels
say: of all graphs, and of those on every base; then the same with every node painted red, a color
that training shows.
"""

from __future__ import annotations

import json
import sys

import numpy as np
import torch
from runs import FOLDER

from gsx.stages.datasets.colors import PALETTE
from gsx.stages.kernels.motif import BASES
from gsx.stages.learning.evaluate import load
from gsx.stages.learning.scoring import laid_out, logits_of
from gsx.storage.corpus import Corpus
from gsx.storage.store import Store
from gsx.table import GraphTable

CPU = torch.device("cpu")


def main() -> None:
    """Print two lines per run and split."""
    print(f"{'run':44}{'split':10}{'color':7}{'all':>6}", *(f"{base:>6}" for base in BASES))
    store = Store.at()
    for dataset in sys.argv[1:]:
        for path in sorted((FOLDER / dataset).glob("*.json")):
            run = json.loads(path.read_text())
            corpus = Corpus(store.resolve(run["corpus_key"][:12]))
            for split in ("ood_val", "ood_test"):
                table = corpus.table(split=split)
                for color, seen in (("own", table), ("red", painted(table))):
                    shares = told(store, run["model_key"], seen)
                    line = " ".join(f"{share:6.1%}" for share in shares)
                    print(f"{dataset}/{path.stem:{43 - len(dataset)}}{split:10}{color:7}{line}")


def painted(table: GraphTable) -> GraphTable:
    """Return graphs whose nodes are all of the first color of training."""
    color = np.asarray(PALETTE[0], dtype=np.float32)
    return table.with_columns(node={"node_feat": np.tile(color, (table.total_nodes, 1))})


def told(store: Store, model: str, table: GraphTable) -> list[float]:
    """Return the share of motifs told, of all graphs and by base."""
    description, net = load(store.resolve(model[:12]), "weights.safetensors", CPU)
    answers = logits_of(net, list(laid_out(table, description.shape, CPU))).argmax(axis=1)
    right = answers == table.dense("graph", "motif_id")
    base = table.dense("graph", "basis_id")
    return [float(right.mean()), *(float(right[base == each].mean()) for each in range(len(BASES)))]


if __name__ == "__main__":
    main()
