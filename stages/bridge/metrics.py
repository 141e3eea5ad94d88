"""How good a bridge model is, on cuts of graphs it did not learn from."""

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
"""Cuts scored together."""


def held_out_metrics(model: BridgeModel, held: CutDataset, seed: int) -> dict[str, Any]:
    """Score the pairs of nodes across cuts of held-out graphs.

    A true bridge is compared with all pairs of its cuts, and with pairs whose ends have the same
    two degrees; counts and attributes are told beside the best guess that looks at nothing.
    """
    stream = rng(seed, "bridge", "held-out")
    noise = torch_stream(seed, "bridge", "held-out")
    cut = held.cut(model.shape.code, stream)
    logits, bridged, degrees, said, counts, expected, attributes = [], [], [], [], [], [], []
    with torch.no_grad():
        for start in range(0, len(cut), BATCH_CUTS):
            part = cut.take(np.arange(start, min(start + BATCH_CUTS, len(cut))))
            pairs = cross_pairs(part, stream)
            read = encode_cuts(model, part, noise)
            logit = score_node_pairs(model, read.latent, pairs, noise, blind=True)
            chance = logit.sigmoid().cpu().numpy() * pairs.weight
            logits.append(logit.cpu().numpy().astype(np.float64))
            bridged.append(pairs.bridged)
            degrees.append(_degree_pair_codes(part, pairs))
            expected.append(np.bincount(pairs.cut, chance, minlength=len(part)))
            counts.append(count_targets(model, part).cpu().numpy())
            said.append(read.count_logits.log_softmax(dim=1).cpu().numpy())
            told = attribute_logits(model, read.latent, pairs).cpu().numpy()
            attributes.append((told.argmax(axis=1), attribute_rows(model, pairs.attr)))
    scores, true = np.concatenate(logits), np.concatenate(bridged)
    found = {
        "cuts": len(cut),
        "edge_auc": roc_auc(scores, true),
        "edge_auc_same_degrees": _degree_matched_auc(scores, true, np.concatenate(degrees), stream),
        "count": _count_metrics(np.concatenate(said), np.concatenate(counts), np.concatenate(expected)),
    }
    if model.shape.attributes:
        guess, fact = (np.concatenate(column) for column in zip(*attributes, strict=True))
        found["attribute"] = {
            "accuracy": round(float((guess == fact).mean()), 6),
            "most_frequent": round(float((fact == 0).mean()), 6),
        }
    if model.shape.bridge_nodes:
        found["bridge_node"] = _bridge_node_metrics(model, held.table, stream)
    return found


def _degree_pair_codes(cut: CutGraphs, pairs: NodePairs) -> Ints:
    both = concat([cut.left, cut.right])
    degree = np.bincount(global_edges(both)[0], minlength=both.total_nodes)
    low = np.minimum(degree[pairs.left], degree[pairs.right])
    high = np.maximum(degree[pairs.left], degree[pairs.right])
    return np.asarray(low * 1_000_000 + high)


def _degree_matched_auc(
    logit: Floats, true: Bools, degrees: Ints, stream: np.random.Generator
) -> float | None:
    """Compare every bridge with one random pair whose ends have the same degrees."""
    other = np.flatnonzero(~true)
    other = other[np.argsort(degrees[other], kind="stable")]
    low = np.searchsorted(degrees[other], degrees[true])
    high = np.searchsorted(degrees[other], degrees[true], side="right")
    has = high > low
    pick = other[(low + stream.random(len(low)) * (high - low)).astype(np.int64)[has]]
    scores = np.concatenate([logit[true][has], logit[pick]])
    return roc_auc(scores, np.arange(len(scores)) < has.sum())


def _count_metrics(said: Floats, counts: Ints, expected: Floats) -> dict[str, float]:
    rates = np.bincount(counts, minlength=said.shape[1]) / max(len(counts), 1)
    rows = np.arange(len(counts))
    rounded = np.maximum(np.round(expected), 1) - 1
    return {
        "log_likelihood": round(float(said[rows, counts].mean()), 6),
        "log_likelihood_of_rates": round(float(np.log(rates[counts]).mean()), 6),
        "accuracy": round(float((said.argmax(axis=1) == counts).mean()), 6),
        "accuracy_of_expected": round(float((rounded == counts).mean()), 6),
        "most_frequent": round(float(rates.max()), 6),
    }


def _bridge_node_metrics(model: BridgeModel, held: GraphTable, stream: np.random.Generator) -> dict[str, float]:
    wedge = remove_middle_nodes(held, model.shape.code, stream)
    with torch.no_grad():
        logits = node_logits(model, wedge, np.arange(len(wedge.graphs)))
    fact = nearest_rows(wedge.middle, model.shape.bridge_nodes)
    right = logits.argmax(dim=1).cpu().numpy() == fact
    return {
        "accuracy": round(float(right.mean()), 6),
        "most_frequent": round(float((fact == 0).mean()), 6),
    }
