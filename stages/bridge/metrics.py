"""Quality of a bridge model on cuts of held-out graphs."""

from __future__ import annotations

from typing import Any

import numpy as np
import torch

from gsx.ragged import Ints
from gsx.seeds import rng
from gsx.stages.bridge.cut_dataset import (
    CutDataset,
    CutGraphs,
    NodePairs,
    cross_pairs,
    remove_middle_nodes,
)
from gsx.stages.bridge.training import (
    attribute_logits,
    attribute_rows,
    count_targets,
    encode_cuts,
    nearest_rows,
    node_logits,
    score_node_pairs,
)
from gsx.stages.graphs.roc_auc import roc_auc
from gsx.stages.graphs.subgraphs import Bools, Floats, global_edges
from gsx.stages.nn.bridge_model import BridgeModel
from gsx.stages.nn.training_loop import torch_stream
from gsx.table import GraphTable, concat

BATCH_CUTS = 512
"""Cuts that are scored at once."""


def held_out_metrics(model: BridgeModel, held_out: CutDataset, seed: int) -> dict[str, Any]:
    """Return metrics of predicted bridges, counts and attributes on cuts of held-out graphs.

    Bridges are compared with all node pairs of their cuts, and with pairs of the same two degrees.
    Counts and attributes are reported next to the accuracy of the most frequent value.
    """
    stream = rng(seed, "bridge", "held-out")
    noise = torch_stream(seed, "bridge", "held-out")
    cuts = held_out.sample_cuts(model.shape.code, stream)
    logits, bridged, degrees, log_probs, counts, expected, attributes = [], [], [], [], [], [], []
    with torch.no_grad():
        for start in range(0, len(cuts), BATCH_CUTS):
            batch = cuts.take(np.arange(start, min(start + BATCH_CUTS, len(cuts))))
            pairs = cross_pairs(batch, stream)
            encoded = encode_cuts(model, batch, noise)
            logit = score_node_pairs(model, encoded.latent, pairs, noise, pure_noise=True)
            probability = logit.sigmoid().cpu().numpy() * pairs.weight
            logits.append(logit.cpu().numpy().astype(np.float64))
            bridged.append(pairs.bridged)
            degrees.append(_degree_pair_codes(batch, pairs))
            expected.append(np.bincount(pairs.cut, probability, minlength=len(batch)))
            counts.append(count_targets(model, batch).cpu().numpy())
            log_probs.append(encoded.count_logits.log_softmax(dim=1).cpu().numpy())
            predicted = attribute_logits(model, encoded.latent, pairs).cpu().numpy()
            attributes.append((predicted.argmax(axis=1), attribute_rows(model, pairs.attr)))
    scores, is_bridge = np.concatenate(logits), np.concatenate(bridged)
    metrics = {
        "cuts": len(cuts),
        "edge_auc": roc_auc(scores, is_bridge),
        "edge_auc_same_degrees": _degree_matched_auc(
            scores, is_bridge, np.concatenate(degrees), stream
        ),
        "count": _count_metrics(
            np.concatenate(log_probs), np.concatenate(counts), np.concatenate(expected)
        ),
    }
    if model.shape.attributes:
        guess, target = (np.concatenate(column) for column in zip(*attributes, strict=True))
        metrics["attribute"] = {
            "accuracy": round(float((guess == target).mean()), 6),
            "most_frequent": round(float((target == 0).mean()), 6),
        }
    if model.shape.bridge_nodes:
        metrics["bridge_node"] = _bridge_node_metrics(model, held_out.table, stream)
    return metrics


def _degree_pair_codes(cuts: CutGraphs, pairs: NodePairs) -> Ints:
    """Return a code of the two degrees of every node pair, independent of their order."""
    both = concat([cuts.left, cuts.right])
    degree = np.bincount(global_edges(both)[0], minlength=both.total_nodes)
    low = np.minimum(degree[pairs.left], degree[pairs.right])
    high = np.maximum(degree[pairs.left], degree[pairs.right])
    return np.asarray(low * 1_000_000 + high)


def _degree_matched_auc(
    logit: Floats, is_bridge: Bools, degrees: Ints, stream: np.random.Generator
) -> float | None:
    """Return the ROC-AUC of bridges against one random pair of the same degrees each."""
    others = np.flatnonzero(~is_bridge)
    others = others[np.argsort(degrees[others], kind="stable")]
    low = np.searchsorted(degrees[others], degrees[is_bridge])
    high = np.searchsorted(degrees[others], degrees[is_bridge], side="right")
    has_match = high > low
    match = others[(low + stream.random(len(low)) * (high - low)).astype(np.int64)[has_match]]
    scores = np.concatenate([logit[is_bridge][has_match], logit[match]])
    return roc_auc(scores, np.arange(len(scores)) < has_match.sum())


def _count_metrics(log_probs: Floats, counts: Ints, expected: Floats) -> dict[str, float]:
    rates = np.bincount(counts, minlength=log_probs.shape[1]) / max(len(counts), 1)
    rows = np.arange(len(counts))
    rounded = np.maximum(np.round(expected), 1) - 1
    return {
        "log_likelihood": round(float(log_probs[rows, counts].mean()), 6),
        "log_likelihood_of_rates": round(float(np.log(rates[counts]).mean()), 6),
        "accuracy": round(float((log_probs.argmax(axis=1) == counts).mean()), 6),
        "accuracy_of_expected": round(float((rounded == counts).mean()), 6),
        "most_frequent": round(float(rates.max()), 6),
    }


def _bridge_node_metrics(
    model: BridgeModel, held_out: GraphTable, stream: np.random.Generator
) -> dict[str, float]:
    removed = remove_middle_nodes(held_out, model.shape.code, stream)
    with torch.no_grad():
        logits = node_logits(model, removed, np.arange(len(removed.graphs)))
    target = nearest_rows(removed.middle, model.shape.bridge_nodes)
    correct = logits.argmax(dim=1).cpu().numpy() == target
    return {
        "accuracy": round(float(correct.mean()), 6),
        "most_frequent": round(float((target == 0).mean()), 6),
    }
