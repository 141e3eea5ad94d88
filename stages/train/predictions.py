"""Predictions of a model for whole splits, without their labels."""

from __future__ import annotations

from collections.abc import Callable, Sequence

import numpy as np
import torch

from gsx.errors import StageError
from gsx.ragged import Array
from gsx.schema import ORIGINS, SPLITS
from gsx.stages.nn.build_network import GraphNetwork, Network
from gsx.stages.nn.gcn import GCN
from gsx.stages.train.classical import ClassicalModel, read_node_table
from gsx.stages.train.data import read_split
from gsx.stages.train.evaluator import evaluation_batches, predict_logits
from gsx.stages.train.node_data import node_logits, read_node_graphs, whole_graph_batch
from gsx.storage.corpora.corpus import Corpus
from gsx.table import GraphTable

PREDICTIONS = "predictions.safetensors"
"""File with the logits of sealed test splits."""


def predict_splits(
    model: Network | ClassicalModel, corpus: Corpus, splits: Sequence[str], device: torch.device
) -> dict[str, Array]:
    """Return the logits ``[G, C]`` of every graph, or source node, of the splits that exist."""
    if corpus.info.level == "node":
        logits = all_node_logits(model, corpus, device)
        split_of_node = read_node_graphs(corpus).split
        rows = {split: split_of_node == SPLITS.index(split) for split in splits}
        return {split: logits[inside] for split, inside in rows.items() if inside.any()}
    predict = graph_predictor(model, device)
    extra = (
        ("smiles",) if isinstance(model, ClassicalModel) and model.shape.kind == "morgan" else ()
    )
    return {
        split: predict(read_split(corpus, split, extra, labels=False))
        for split in splits
        if split in corpus.splits
    }


def require_finite(logits: Array) -> Array:
    """Return logits; raise StageError unless all are finite numbers of 32 bits."""
    with np.errstate(over="ignore"):
        finite = bool(np.isfinite(logits.astype(np.float32)).all())
    if not finite:
        raise StageError(
            "a model predicts NaN or infinity. Its weights are too large, or its training diverged."
        )
    return logits


def graph_predictor(
    model: Network | ClassicalModel, device: torch.device
) -> Callable[[GraphTable], Array]:
    """Return a function from graphs to logits ``[G, C]``."""
    if isinstance(model, ClassicalModel):
        return model.predict
    assert not isinstance(model, GCN)  # check_corpus requires a network of graphs
    network: GraphNetwork = model
    return lambda table: predict_logits(
        network, list(evaluation_batches(table, network.shape, device))
    )


def all_node_logits(model: Network | ClassicalModel, corpus: Corpus, device: torch.device) -> Array:
    """Return the logits ``[N, C]`` of all source nodes."""
    if isinstance(model, ClassicalModel):
        table = read_node_table(corpus)
        source = table.dense("graph", "origin") == ORIGINS.index("source")
        return model.predict(table.filter(source))
    assert isinstance(model, GCN)  # check_corpus requires a network of nodes
    graphs = read_node_graphs(corpus)
    nodes = np.arange(graphs.adjacency.num_nodes)
    return node_logits(model, whole_graph_batch(graphs, nodes, device))


def read_labels(corpus: Corpus, split: str) -> Array:
    """Return the labels of the graphs, or source nodes, of a split."""
    if corpus.info.level == "graph":
        return corpus.table(split=split, columns=["y"]).dense("graph", "y")
    table = corpus.table(columns=["origin", "node_split", "node_y"])
    source = table.filter(table.dense("graph", "origin") == ORIGINS.index("source"))
    inside = source.dense("node", "node_split") == SPLITS.index(split)
    return np.asarray(source.dense("node", "node_y")[inside])
