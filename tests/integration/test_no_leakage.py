"""Held-out labels and ground-truth subgraphs do not influence generation."""

import numpy as np

from gsx.schema import SPLITS
from gsx.storage.corpora.corpus import Corpus
from tests.support.run_stages import run_stage, unchanged, write_small_corpus

SIZES = {"train": 240, "id_val": 60, "id_test": 40, "ood_val": 40, "ood_test": 40}


def permuted(table):
    """Invert the ground truth of all graphs, and reverse the labels of held-out graphs."""
    table = table.with_columns(node={"node_truth": 1 - table.node["node_truth"]})
    if table.graph["split"][0] == SPLITS.index("train"):
        return table
    return table.with_columns(
        graph={"y": table.graph["y"][::-1].copy(), "label": table.graph["label"][::-1].copy()}
    )


def generate(store, change):
    """Return a source corpus and its spliced graphs."""
    corpus = write_small_corpus(store, change, sizes=SIZES)
    inputs = {"prepare": corpus}
    inputs["extract"] = run_stage(store, "extract", {"node_epochs": 2, "set_epochs": 1}, inputs)
    inputs["bridge"] = run_stage(store, "bridge", {"epochs": 1}, inputs)
    options = {"options": "111", "count": 60, "grow": 2.0, "chords": 0.05, "ports": "own"}
    spliced = run_stage(store, "generate", {**options, "augmented_only": True}, inputs)
    table = Corpus(spliced).table()
    # Spliced graphs inherit the ground truth of their components, which differs.
    return corpus, table.with_columns(node={"node_truth": np.zeros(table.total_nodes)})


def test_held_out_labels_and_ground_truth_change_no_spliced_graph(tmp_path):
    corpus, spliced = generate(tmp_path / "unchanged", unchanged)
    permuted_corpus, permuted_spliced = generate(tmp_path / "permuted", permuted)
    assert corpus.manifest.digest != permuted_corpus.manifest.digest
    assert len(spliced) == 180
    assert spliced.equals(permuted_spliced)
    assert np.isfinite(spliced.graph["y"]).all()
