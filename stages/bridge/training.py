"""Train a bridge model on fresh cuts of the training graphs, epoch after epoch."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

import numpy as np
import torch
from scipy.spatial import KDTree
from torch import Tensor
from torch.nn import functional

from gsx.ragged import Array, Ints, row_indices
from gsx.seeds import rng
from gsx.stages.bridge.cut_dataset import (
    CutDataset,
    CutGraphs,
    NodePairs,
    RemovedNodes,
    cross_pairs,
    remove_middle_nodes,
)
from gsx.stages.graphs.subgraphs import Floats
from gsx.stages.nn.bridge_diffusion import (
    DIFFUSION_STEPS,
    add_noise,
    keep_probability,
    noise_features,
)
from gsx.stages.nn.bridge_model import BridgeModel
from gsx.stages.nn.gin import adjacency_matrix
from gsx.stages.nn.torch_ranks import all_reduce_gradients, broadcast_state, local_rows
from gsx.stages.nn.training_loop import epoch_batches, torch_stream
from gsx.table import GraphTable, concat

BATCH_PAIRS = 200_000
"""Pairs of nodes of one step, about."""


@dataclass(frozen=True, slots=True, kw_only=True)
class BridgeTrainingOptions:
    """How a bridge model learns."""

    epochs: int
    learning_rate: float
    attribute_weight: float
    """Alpha of the paper."""
    kl_weight: float
    """Beta of the paper, per node."""
    count_weight: float
    seed: int


def train_bridge_model(
    model: BridgeModel,
    lesson: CutDataset,
    options: BridgeTrainingOptions,
    progress: Callable[[int], None],
) -> list[dict[str, Any]]:
    """Train ``model`` in place and return the mean losses of every epoch."""
    parameters = [p for net in model.networks().values() for p in net.parameters()]
    optimizer = torch.optim.Adam(parameters, lr=options.learning_rate)
    history: list[dict[str, Any]] = []
    schedule: torch.optim.lr_scheduler.LRScheduler | None = None
    noise = torch_stream(options.seed, "bridge", "latent")
    for epoch in range(options.epochs):
        stream = rng(options.seed, "bridge", "cuts", epoch)
        cut = lesson.cut(model.shape.code, stream)
        size = batch_size(cut)
        if schedule is None:
            steps = max(len(cut) // size, 1) * options.epochs
            schedule = torch.optim.lr_scheduler.CosineAnnealingLR(optimizer, steps)
        for net in model.networks().values():
            net.train()
        losses = []
        for rows in epoch_batches(len(cut), size, options.seed, "bridge", "order", epoch):
            batch = cut.take(local_rows(rows))
            parts = compute_losses(model, batch, cross_pairs(batch, stream), noise)
            total = (
                parts["bridge"]
                + options.attribute_weight * parts["attribute"]
                + options.kl_weight * parts["kl"]
                + options.count_weight * parts["count"]
            )
            optimizer.zero_grad()
            total.backward()  # type: ignore[no-untyped-call]
            all_reduce_gradients(parameters)
            optimizer.step()
            if schedule.last_epoch < steps:
                schedule.step()
            losses.append({name: value.item() for name, value in parts.items()})
        means = {name: float(np.mean([row[name] for row in losses])) for name in losses[0]}
        if model.shape.bridge_nodes:
            means["node"] = _train_bridge_nodes(model, lesson.table, optimizer, options.seed, epoch)
        history.append({"epoch": epoch, "cuts": len(cut), **means})
        progress(epoch + 1)
    for net in model.networks().values():
        broadcast_state(net)
        net.eval()
    return history


def _train_bridge_nodes(
    model: BridgeModel,
    table: GraphTable,
    optimizer: torch.optim.Optimizer,
    seed: int,
    epoch: int,
) -> float:
    """Teach the decoder which node stands between two others: one epoch, with nodes taken out."""
    wedge = remove_middle_nodes(table, model.shape.code, rng(seed, "bridge", "wedges", epoch))
    wanted = nearest_rows(wedge.middle, model.shape.bridge_nodes)
    losses = []
    for rows in epoch_batches(len(wedge.graphs), 256, seed, "bridge", "wedge-order", epoch):
        mine = local_rows(rows)
        logits = node_logits(model, wedge, mine)
        loss = functional.cross_entropy(logits, torch.from_numpy(wanted[mine]).to(model.device))
        optimizer.zero_grad()
        loss.backward()  # type: ignore[no-untyped-call]
        all_reduce_gradients(parameter for group in optimizer.param_groups for parameter in group["params"])
        optimizer.step()
        losses.append(loss.item())
    return float(np.mean(losses)) if losses else 0.0


def node_logits(model: BridgeModel, wedge: RemovedNodes, rows: Ints) -> Tensor:
    """Return what the decoder thinks stood between the two ends of some wedges."""
    graphs = wedge.graphs.take(rows)
    inputs = torch.from_numpy(graphs.dense("node", "inputs")).to(model.device)
    latent, _ = model.encoder(adjacency_matrix(graphs, model.device), inputs)
    left = torch.from_numpy(graphs.node_ptr[:-1] + wedge.left[rows]).to(model.device)
    right = torch.from_numpy(graphs.node_ptr[:-1] + wedge.right[rows]).to(model.device)
    logits: Tensor = model.decoder.node(model.decoder.pair_features(latent, left, right))
    return logits


def batch_size(cut: CutGraphs) -> int:
    """Return how many cuts make one step: so many pairs, between 8 and 256 cuts."""
    pairs = float((cut.left.num_nodes * cut.right.num_nodes).mean()) if len(cut) else 1.0
    return int(np.clip(BATCH_PAIRS / max(pairs, 1.0), 8, max(min(256, len(cut) // 16), 8)))


def compute_losses(
    model: BridgeModel, cut: CutGraphs, pairs: NodePairs, noise: torch.Generator
) -> dict[str, Tensor]:
    """Return the parts of the loss, each a mean over cuts."""
    read = encode_cuts(model, cut, noise)
    count = max(len(cut), 1)
    logit = score_node_pairs(model, read.latent, pairs, noise)
    bridged = torch.from_numpy(pairs.bridged).to(model.device)
    weight = torch.from_numpy(pairs.weight).float().to(model.device)
    each = functional.binary_cross_entropy_with_logits(logit, bridged.float(), reduction="none")
    kl = 0.5 * (read.mean**2 + read.log_variance.exp() - 1 - read.log_variance).sum()
    kl = kl if model.shape.model == "vae" else 0 * kl
    told = torch.zeros((), device=model.device)
    if model.shape.attributes:
        logits = attribute_logits(model, read.latent, pairs)
        known = torch.from_numpy(attribute_rows(model, pairs.attr)).to(model.device)
        told = functional.cross_entropy(logits, known, reduction="sum")
    return {
        "bridge": (each * weight).sum() / count,
        "attribute": told / count,
        "kl": kl / count,
        "count": functional.cross_entropy(read.count_logits, count_targets(model, cut)),
    }


@dataclass(frozen=True, slots=True, eq=False)
class EncodedCuts:
    """What the networks make of the two sides of some cuts."""

    mean: Tensor
    log_variance: Tensor
    latent: Tensor
    count_logits: Tensor


def encode_cuts(model: BridgeModel, cut: CutGraphs, noise: torch.Generator) -> EncodedCuts:
    """Encode both sides of every cut, each on its own, and draw latents."""
    both = concat([cut.left, cut.right])
    matrix = adjacency_matrix(both, model.device)
    rows = torch.from_numpy(both.dense("node", "inputs")).to(model.device)
    mean, log_variance = model.encoder(matrix, rows)
    latent = mean
    if model.shape.model == "vae":
        drawn = torch.randn(mean.shape, generator=noise).to(model.device)
        latent = mean + drawn * (log_variance / 2).exp()
    owner = torch.from_numpy(row_indices(both.node_ptr)).to(model.device)
    terms = model.counter.component_features(matrix, rows, owner, len(both))
    logits = model.counter(terms[: len(cut)], terms[len(cut) :])
    return EncodedCuts(mean, log_variance, latent, logits)


def score_node_pairs(
    model: BridgeModel,
    latent: Tensor,
    pairs: NodePairs,
    noise: torch.Generator,
    *,
    blind: bool = False,
) -> Tensor:
    """Return the logit of a bridge of every pair.

    A denoising decoder sees the true bridges through noise of a random level per cut; ``blind``
    shows it nothing but noise.
    """
    left = torch.from_numpy(pairs.left).to(model.device)
    right = torch.from_numpy(pairs.right).to(model.device)
    logits = model.decoder.pair_logits(model.decoder.node_factors(latent), left, right)
    if model.shape.model == "vae":
        return logits
    cut = torch.from_numpy(pairs.cut)
    step = torch.randint(DIFFUSION_STEPS if blind else 1, DIFFUSION_STEPS + 1, (int(cut.max()) + 1,), generator=noise)
    level = keep_probability(step.float())[cut].to(model.device)
    rate = torch.from_numpy(base_rate(pairs))[cut].float().to(model.device)
    bits = torch.from_numpy(pairs.bridged).float().to(model.device)
    bits = add_noise(bits, rate, level, noise)
    degree = torch.zeros(len(latent), device=model.device)
    degree.index_add_(0, left, bits).index_add_(0, right, bits)
    return model.decoder.denoise_logits(logits, noise_features(bits, level, degree[left], degree[right]))


def attribute_logits(model: BridgeModel, latent: Tensor, pairs: NodePairs) -> Tensor:
    """Return what the decoder thinks of the attributes of the true bridges."""
    left = torch.from_numpy(pairs.left[pairs.bridged]).to(model.device)
    right = torch.from_numpy(pairs.right[pairs.bridged]).to(model.device)
    logits: Tensor = model.decoder.attribute(model.decoder.pair_features(latent, left, right))
    return logits


def base_rate(pairs: NodePairs) -> Floats:
    """Return the share of pairs that are bridges, per cut."""
    total = np.bincount(pairs.cut, pairs.weight)
    return np.asarray(np.bincount(pairs.cut, pairs.bridged) / np.maximum(total, 1))


def count_targets(model: BridgeModel, cut: CutGraphs) -> Tensor:
    """Return the class of every cut's number of bridges."""
    counts = np.diff(cut.bridge_left.ptr)
    return torch.from_numpy(np.clip(counts, 1, model.shape.largest_count) - 1).to(model.device)


def attribute_rows(model: BridgeModel, attr: Array) -> Ints:
    """Return which known row of attributes every bridge has, or is nearest to."""
    return nearest_rows(attr, model.shape.attributes)


def nearest_rows(values: Array, known: tuple[tuple[float, ...], ...]) -> Ints:
    """Return the number of the known row nearest to every row of ``values``; 0 without any."""
    if not known or not len(values):
        return np.zeros(len(values), dtype=np.int64)
    _, nearest = KDTree(np.asarray(known, dtype=np.float64)).query(values.astype(np.float64))
    return np.asarray(nearest, dtype=np.int64)
