"""Pair extractor: the paper's label-environment-aware pair learning.

Nodes of two graphs are compared by a weighted cosine, ``S_ij = w cos(z_i, z_j)``. Nodes that match
graphs of the same label, but not graphs of the same environment, are causal. Nodes that match
graphs of the same environment, but not graphs of the same label, are environmental. Each of the two
extractors is trained through the subgraph that it samples, which must predict the label, or the
environment, alone.

The paper does not specify how pair scores become node probabilities. Here, the score of a node is
its best match in a partner that shares the target, minus its best match in a partner that shares
only the other variable, averaged over the node and its neighbors.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

import numpy as np
import torch
from torch import Tensor

from gsx.ragged import Array, Ints, pointers, ranges, row_indices
from gsx.seeds import rng
from gsx.stages.extract.data import (
    ExtractedSubgraphs,
    Extraction,
    ExtractorData,
    Progress,
    split_held_out,
    state_arrays,
)
from gsx.stages.extract.metrics import compare_predictions, score_predictions
from gsx.stages.extract.pair_matching import PairNetwork, best_match, draw_partners
from gsx.stages.graphs.subgraphs import Bools, Floats, largest_component, top_nodes
from gsx.stages.nn.gin import adjacency_matrix, init_weights
from gsx.stages.nn.input_encoding import add_numeric_inputs, iter_graph_batches, node_inputs
from gsx.stages.nn.losses import row_loss
from gsx.stages.nn.training_loop import History, TrainingOptions, torch_stream, train_network
from gsx.table import GraphTable, concat

RANDOM_BOUND = 1 << 40
"""Exclusive upper bound of the random integers that choose partners."""


@dataclass(frozen=True, slots=True, kw_only=True)
class PairOptions:
    """Options of the pair extractor."""

    width: int = 64
    layers: int = 3
    epochs: int = 8
    batch_graphs: int = 256
    learning_rate: float = 3e-3
    size_penalty: float = 0.5
    """Penalty in nats for keeping a whole graph."""
    partners: int = 8
    """Pairs of partners over which node scores are averaged."""
    subgraph_samples: int = 0
    """Subgraphs that are sampled from every graph; 0 samples none."""


@dataclass(frozen=True, slots=True, eq=False)
class ExtractionTarget:
    """Target of one of the two extractors, and the variables that define partners."""

    name: str
    task: str
    y: Array
    """``[G, C]`` target that kept nodes must predict."""
    same: Ints
    """``[G]`` variable that a graph shares with its positive partner."""
    other: Ints
    """``[G]`` variable that a graph shares with its negative partner."""


@dataclass(frozen=True, slots=True, eq=False)
class PairExtractor:
    """The network of one target, and the training graphs that partners are drawn from."""

    network: PairNetwork
    target: ExtractionTarget
    table: GraphTable
    num_categories: int
    device: torch.device

    def predict(self, table: GraphTable, keep: Bools | None = None) -> Array:
        """Return target logits ``[G, C]``, from nodes in ``keep`` ``[N]`` alone."""
        logits = [np.zeros((0, self.target.y.shape[1]), dtype=np.float32)]
        mask = np.ones(table.total_nodes, dtype=bool) if keep is None else keep
        with torch.no_grad():
            for batch in iter_graph_batches(
                table.with_columns(node={"keep": mask.astype(np.float32)})
            ):
                matrix = adjacency_matrix(batch, self.device)
                rows = node_inputs(batch, self.num_categories, self.device)
                kept = torch.from_numpy(batch.dense("node", "keep")).to(self.device)
                owner = torch.from_numpy(row_indices(batch.node_ptr)).to(self.device)
                logits.append(
                    self.network.classify(matrix, rows, kept, owner, len(batch)).cpu().numpy()
                )
        return np.concatenate(logits)

    def embed(self, table: GraphTable) -> Tensor:
        """Return embeddings of all nodes, ``[N, MATCH_WIDTH]``."""
        rows = [torch.zeros(0, self.network.project.out_features)]
        with torch.no_grad():
            for batch in iter_graph_batches(table):
                inputs = node_inputs(batch, self.num_categories, self.device)
                rows.append(self.network.embed(adjacency_matrix(batch, self.device), inputs).cpu())
        return torch.cat(rows)

    def keep_probabilities(
        self, table: GraphTable, other: Ints, num_pairs: int, seed: int
    ) -> Floats:
        """Return the keep probability of every node, averaged over ``num_pairs`` partner pairs.

        Positive partners share the target that the network predicts from the whole graph. So
        neither label noise nor labels of held-out graphs have an influence.
        """
        target, stream = self.target, rng(seed, "extract", "pair", self.target.name, "score")
        same = target_groups(self.predict(table), target.task, logits=True)
        rows, pool = self.embed(table), self.embed(self.table)
        batch_nodes = np.concatenate([batch.node_ptr[-1:] for batch in iter_graph_batches(table)])
        total = torch.zeros(len(rows))
        for _ in range(num_pairs):
            random = stream.integers(RANDOM_BOUND, size=(2, len(table)))
            positive = draw_partners(same, other, target.same, target.other, random[0])
            negative = draw_partners(other, same, target.other, target.same, random[1])
            contrast = self._match(rows, table, pool, positive)
            contrast -= self._match(rows, table, pool, negative)
            start = 0
            for batch, num_nodes in zip(
                iter_graph_batches(table), batch_nodes.tolist(), strict=True
            ):
                nodes = slice(start, start + num_nodes)
                matrix = adjacency_matrix(batch, self.device)
                with torch.no_grad():
                    probability = self.network.keep_probability(
                        matrix, contrast[nodes].to(self.device)
                    )
                total[nodes] += probability.cpu() / num_pairs
                start += num_nodes
        return total.numpy().astype(np.float64)

    def _match(self, rows: Tensor, table: GraphTable, pool: Tensor, partners: Ints) -> Tensor:
        """Return the best match of every node in the training graph ``partners`` of its graph."""
        starts, counts = self.table.node_ptr[partners], self.table.num_nodes[partners]
        matches, start = [torch.zeros(0)], 0
        for batch in iter_graph_batches(table):
            graphs = slice(start, start + len(batch))
            partner_nodes = torch.from_numpy(ranges(starts[graphs], counts[graphs]))
            first = int(table.node_ptr[start])
            left = rows[first : first + batch.total_nodes]
            right_ptr = pointers(counts[graphs])
            matches.append(best_match(left, batch.node_ptr, pool[partner_nodes], right_ptr))
            start += len(batch)
        return torch.cat(matches)


def extract(
    data: ExtractorData,
    options: PairOptions,
    *,
    seed: int,
    device: torch.device,
    progress: Progress,
) -> Extraction:
    """Train both extractors on most graphs and return the subgraphs of all graphs."""
    split = split_held_out(data, seed)
    train, held_out = split.train, split.held_out
    envs = np.eye(int(data.env.max(initial=0)) + 1, dtype=np.float32)
    train_labels = target_groups(train.y, train.task)
    all_labels = target_groups(data.y, data.task)
    table, held_out_table = add_numeric_inputs(data.graphs), add_numeric_inputs(held_out.graphs)
    # For each target: its held-out labels, and the other variable of all graphs.
    plans = (
        (
            ExtractionTarget("causal", train.task, train.y, train_labels, train.env),
            held_out.y,
            data.env,
        ),
        (
            ExtractionTarget(
                "environmental", "classification", envs[train.env], train.env, train_labels
            ),
            envs[held_out.env],
            all_labels,
        ),
    )
    history: History = []
    scores, masks, weights, quality = [], [], {}, {}
    comparisons: list[dict[str, Any]] = []
    for number, (target, held_out_y, other) in enumerate(plans):
        width, layers = options.width, options.layers
        network = PairNetwork(
            data.input_width, target.y.shape[1], width, layers, data.num_categories
        )
        init_weights(network, torch_stream(seed, "extract", "pair", target.name)).to(device)
        extractor = PairExtractor(
            network, target, add_numeric_inputs(train.graphs), data.num_categories, device
        )

        def report_epoch(epoch: int, before: int = number * options.epochs) -> None:
            progress(before + epoch, 2 * options.epochs)

        history += _train(extractor, options, seed, report_epoch)
        scores.append(extractor.keep_probabilities(table, other, options.partners, seed))
        threshold = otsu_threshold(scores[-1])
        subgraph, exceptions = connected_subgraphs(table, scores[-1], threshold)
        masks.append(subgraph)
        keep = split.held_out_nodes(subgraph)
        weights[target.name] = state_arrays(network)
        logits = {
            "subgraph": extractor.predict(held_out_table, keep),
            "rest": extractor.predict(held_out_table, ~keep),
            "whole": extractor.predict(held_out_table),
        }
        quality[target.name] = {
            "threshold": round(threshold, 6),
            "exceptions": exceptions,
            "held_out_scores": {
                name: score_predictions(predicted, held_out_y, target.task)
                for name, predicted in logits.items()
            },
        }
        comparisons.append(compare_predictions(held_out_y, logits, target.task))
    causal = masks[0]
    remainder = largest_component(data.graphs, ~causal)
    environmental = largest_component(data.graphs, masks[1] & ~causal)
    owner = row_indices(data.graphs.node_ptr)
    has_environmental = np.bincount(owner, environmental, minlength=len(data)) > 0
    subgraphs = ExtractedSubgraphs(
        scores[0],
        causal,
        np.where(has_environmental[owner], environmental, remainder),
        scores[1],
        *(sample_subgraphs(data.graphs, scores, options.subgraph_samples, seed) or (None, None)),
    )
    held_out_scores = quality["causal"]["held_out_scores"]
    return Extraction(
        subgraphs,
        weights,
        history,
        {
            "held_out_scores": held_out_scores,
            "held_out_comparison": comparisons[0],
            "pair": quality,
        },
    )


def target_groups(y: Array, task: str, *, logits: bool = False) -> Ints:
    """Return the class of every graph, or the bit pattern of its positive tasks, ``[G]``.

    Real values are split at their median. Missing labels count as negative.
    """
    if task == "classification":
        return np.asarray(np.nan_to_num(y).argmax(axis=1))
    threshold = np.nanmedian(y, axis=0) if task == "regression" else 0 if logits else 0.5
    positive = np.nan_to_num(y, nan=-np.inf) > threshold
    return np.asarray((positive << np.arange(y.shape[1]).clip(max=40)).sum(axis=1), dtype=np.int64)


def connected_subgraphs(
    table: GraphTable, score: Floats, threshold: float
) -> tuple[Bools, dict[str, int]]:
    """Return the largest connected component of nodes above the threshold, ``[N]``.

    If no node of a graph is above, its best node is kept. If all are above, nodes above the mean of
    the graph are kept. The second result counts the graphs of both exceptions.
    """
    owner, counts = row_indices(table.node_ptr), table.num_nodes
    keep = score > threshold
    num_kept = np.bincount(owner, keep, minlength=len(table))
    mean = np.bincount(owner, score, minlength=len(table)) / np.maximum(counts, 1)
    all_kept = (num_kept == counts) & (counts > 1)
    keep = np.where(all_kept[owner], score > mean[owner], keep)
    none_kept = (np.bincount(owner, keep, minlength=len(table)) == 0) & (counts > 0)
    keep[top_nodes(table, score, 1)[none_kept, 0]] = True
    exceptions = {"nothing": int(none_kept.sum()), "everything": int(all_kept.sum())}
    return largest_component(table, keep), exceptions


def sample_subgraphs(
    table: GraphTable, scores: list[Floats], count: int, seed: int
) -> tuple[Bools, Bools] | None:
    """Sample causal and environmental subgraphs, ``[count, N]`` each; None if ``count`` is 0.

    As in the paper, a node is kept with the probability of its score. Components must be connected,
    so the largest connected part of a sample is taken; if no node was kept, it is the best node. An
    environmental sample excludes the nodes of the causal one, and may be empty.
    """
    if not count:
        return None
    stream = rng(seed, "extract", "pair", "subgraph samples")
    owner, counts = row_indices(table.node_ptr), table.num_nodes
    best = top_nodes(table, scores[0], 1)[:, 0]
    causal_samples, environmental_samples = [], []
    for _ in range(count):
        uniform = stream.random((2, table.total_nodes))
        causal = uniform[0] < scores[0]
        empty = (np.bincount(owner, causal, minlength=len(table)) == 0) & (counts > 0)
        causal[best[empty]] = True
        causal = largest_component(table, causal)
        causal_samples.append(causal)
        environmental = (uniform[1] < scores[1]) & ~causal
        environmental_samples.append(largest_component(table, environmental))
    return np.stack(causal_samples), np.stack(environmental_samples)


def _train(
    extractor: PairExtractor, options: PairOptions, seed: int, progress: Callable[[int], None]
) -> History:
    """Train through sampled subgraphs, which must predict the target alone and be small."""
    network, target = extractor.network, extractor.target
    table, device, num_categories = extractor.table, extractor.device, extractor.num_categories
    stream = rng(seed, "extract", "pair", target.name, "partners")
    sampler = torch_stream(seed, "extract", "pair", target.name, "sample")

    def loss(graphs: Ints) -> Tensor:
        random = stream.integers(RANDOM_BOUND, size=(2, len(graphs)))
        same, other = target.same[graphs], target.other[graphs]
        positive = draw_partners(same, other, target.same, target.other, random[0])
        negative = draw_partners(other, same, target.other, target.same, random[1])
        tables = [table.take(rows) for rows in (graphs, positive, negative)]
        combined = concat(tables)
        rows = network.embed(
            adjacency_matrix(combined, device), node_inputs(combined, num_categories, device)
        )
        anchor_rows, positive_rows, negative_rows = torch.split(
            rows, [part.total_nodes for part in tables]
        )
        batch = tables[0]
        contrast = best_match(anchor_rows, batch.node_ptr, positive_rows, tables[1].node_ptr)
        contrast = contrast - best_match(
            anchor_rows, batch.node_ptr, negative_rows, tables[2].node_ptr
        )
        probability = network.keep_probability(adjacency_matrix(batch, device), contrast)
        sample = (torch.rand(len(probability), generator=sampler).to(device) < probability).float()
        keep = sample + probability - probability.detach()  # straight-through estimator
        doubled = concat([batch, batch])
        owner = torch.from_numpy(row_indices(doubled.node_ptr)).to(device)
        logits = network.classify(
            adjacency_matrix(doubled, device),
            node_inputs(doubled, num_categories, device),
            torch.cat([keep, torch.ones_like(keep)]),
            owner,
            len(doubled),
        )
        y = torch.from_numpy(target.y[graphs]).to(device)
        target_loss = row_loss(logits, torch.cat([y, y]), target.task).sum() / len(graphs)
        node_share = torch.from_numpy(1 / np.maximum(batch.num_nodes, 1)).float().to(device)
        kept_share = (probability * node_share[owner[: len(probability)]]).sum() / len(graphs)
        total: Tensor = target_loss + options.size_penalty * kept_share
        return total

    training = TrainingOptions(
        name=target.name,
        epochs=options.epochs,
        batch_size=options.batch_graphs,
        learning_rate=options.learning_rate,
    )
    return train_network(network, loss, len(table), training, seed=seed, progress=progress)


def otsu_threshold(score: Floats) -> float:
    """Return Otsu's threshold of scores in 0..1: it maximizes the variance between the classes."""
    count, edges = np.histogram(score, bins=256, range=(0, 1))
    centers = (edges[:-1] + edges[1:]) / 2
    below, above = np.cumsum(count)[:-1], np.cumsum(count[::-1])[::-1][1:]
    low = np.cumsum(count * centers)[:-1] / np.maximum(below, 1)
    high = np.cumsum((count * centers)[::-1])[::-1][1:] / np.maximum(above, 1)
    return float(edges[1:-1][(below * above * (high - low) ** 2).argmax()])
