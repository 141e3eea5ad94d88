"""Nothing of validation, of test splits, or of the truth about any graph reaches generation."""

import numpy as np

from gsx.schema import SPLITS
from gsx.storage.corpora.corpus import Corpus
from tests.support.run_stages import run_stage, write_small_corpus

SIZES = {"train": 240, "id_val": 60, "id_test": 40, "ood_val": 40, "ood_test": 40}


def as_it_is(table):
    return table


def permuted(table):
    """Turn the truth around, and the labels of all graphs that are not trained on."""
    table = table.with_columns(node={"node_truth": 1 - table.node["node_truth"]})
    if table.graph["split"][0] == SPLITS.index("train"):
        return table
    return table.with_columns(
        graph={"y": table.graph["y"][::-1].copy(), "label": table.graph["label"][::-1].copy()}
    )


def augmented(store, change):
    corpus = write_small_corpus(store, change, sizes=SIZES)
    given = {"prepare": corpus}
    given["extract"] = run_stage(store, "extract", {"node_epochs": 2, "set_epochs": 1}, given)
    given["bridge"] = run_stage(store, "bridge", {"epochs": 1}, given)
    options = {"options": "111", "count": 60, "grow": 2.0, "chords": 0.05, "ports": "own"}
    made = run_stage(store, "generate", {**options, "augmented_only": True}, given)
    table = Corpus(made).table()  # spliced graphs carry the truth of their pieces along
    return corpus, table.with_columns(node={"node_truth": np.zeros(table.total_nodes)})


def test_labels_and_truth_of_unseen_graphs_change_no_spliced_graph(tmp_path):
    plain, one = augmented(tmp_path / "one", as_it_is)
    turned, other = augmented(tmp_path / "other", permuted)
    assert plain.manifest.digest != turned.manifest.digest
    assert len(one) == 180
    assert one.equals(other)
    assert np.isfinite(one.graph["y"]).all()
