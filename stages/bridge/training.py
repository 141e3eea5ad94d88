"""Train a bridge model on new random cuts of the training graphs in every epoch."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Mapping
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
from gsx.stages.nn.torch_ranks import (
    all_reduce_gradients,
    broadcast_int,
    broadcast_state,
    local_rows,
    world_size,
)
from gsx.stages.nn.training_loop import epoch_batches, torch_stream
from gsx.table import GraphTable, concat

BATCH_PAIRS = 200_000
"""Approximate number of node pairs per step."""
HELD_OUT_GRAPHS = 1024
"""Held-out graphs whose bridges decide when training stops."""


@dataclass(frozen=True, slots=True, kw_only=True)
class BridgeTrainingOptions:
    """Options of bridge model training."""

    epochs: int
    """Largest number of epochs."""
    epoch_graphs: int
    """Largest number of graphs that are cut in an epoch."""
    patience: int
    """Epochs without a higher likelihood of held-out bridges before training stops; 0: no stop."""
    learning_rate: float
    attribute_weight: float
    """The paper's alpha."""
    kl_weight: float
    """The paper's beta, per node."""
    count_weight: float
    seed: int


@dataclass(frozen=True, slots=True, eq=False)
class CutBatch:
    """Cuts with their node pairs, ready for one step."""

    cuts: CutGraphs
    pairs: NodePairs


@dataclass(frozen=True, slots=True, eq=False)
class CutEpoch:
    """The batches of one epoch."""

    cuts: int
    steps: int
    batches: Iterator[CutBatch]


def train_bridge_model(
    model: BridgeModel,
    dataset: CutDataset,
    held_out: CutDataset,
    options: BridgeTrainingOptions,
    progress: Callable[[int], None],
) -> list[dict[str, Any]]:
    """Train ``model`` in place and return the mean losses of every epoch.

    The model gets the weights of the epoch with the highest likelihood of held-out bridges.
    """
    parameters = [p for network in model.networks().values() for p in network.parameters()]
    optimizer = torch.optim.Adam(parameters, lr=options.learning_rate)
    history: list[dict[str, Any]] = []
    schedule: torch.optim.lr_scheduler.LRScheduler | None = None
    noise = torch_stream(options.seed, "bridge", "latent")
    best = BestEpoch(model, held_out, options)
    steps = 0
    for epoch, drawn in enumerate(_epochs(model, dataset, options)):
        if schedule is None:
            steps = drawn.steps * options.epochs
            schedule = torch.optim.lr_scheduler.CosineAnnealingLR(optimizer, steps)
        for network in model.networks().values():
            network.train()
        losses = []
        for batch in drawn.batches:
            terms = compute_losses(model, batch.cuts, batch.pairs, noise)
            total = weighted_sum(terms, options)
            optimizer.zero_grad()
            total.backward()  # type: ignore[no-untyped-call]
            all_reduce_gradients(parameters)
            optimizer.step()
            if schedule.last_epoch < steps:
                schedule.step()
            losses.append({name: value.item() for name, value in terms.items()})
        means: dict[str, float | None] = {
            name: float(np.mean([row[name] for row in losses])) for name in losses[0]
        }
        if model.shape.bridge_nodes:
            means["node"] = _train_bridge_nodes(
                model, dataset.table, optimizer, options.seed, epoch
            )
        for network in model.networks().values():
            broadcast_state(network)
            network.eval()
        means["held_out"] = best.update(epoch)
        history.append({"epoch": epoch, "cuts": drawn.cuts, **means})
        progress(epoch + 1)
        if best.is_over(epoch):
            break
    best.restore()
    return history


def weighted_sum(terms: Mapping[str, Tensor], options: BridgeTrainingOptions) -> Tensor:
    """Return the loss that training minimizes."""
    return (
        terms["bridge"]
        + options.attribute_weight * terms["attribute"]
        + options.kl_weight * terms["kl"]
        + options.count_weight * terms["count"]
    )


def _epochs(
    model: BridgeModel, dataset: CutDataset, options: BridgeTrainingOptions
) -> Iterator[CutEpoch]:
    """Yield the cuts of every epoch."""
    for epoch in range(options.epochs):
        stream = rng(options.seed, "bridge", "cuts", epoch)
        graphs = dataset.sample_graphs(options.epoch_graphs, stream)
        cuts = graphs.sample_cuts(model.shape.code, stream)
        size = batch_size(cuts)
        order = epoch_batches(len(cuts), size, options.seed, "bridge", "order", epoch)
        yield CutEpoch(len(cuts), max(len(cuts) // size, 1), _batches(cuts, order, stream))


def _batches(
    cuts: CutGraphs, order: Iterable[Ints], stream: np.random.Generator
) -> Iterator[CutBatch]:
    """Yield the batches of an epoch with their node pairs."""
    for rows in order:
        batch = cuts.take(local_rows(rows))
        yield CutBatch(batch, cross_pairs(batch, stream))


class BestEpoch:
    """Keeps the weights of the epoch with the highest likelihood of held-out bridges.

    The likelihood covers the bridges of fixed cuts of held-out graphs, their attributes and their
    numbers. Cuts and latents come from named random streams, the same ones in every epoch.
    """

    def __init__(
        self, model: BridgeModel, held_out: CutDataset, options: BridgeTrainingOptions
    ) -> None:
        stream = rng(options.seed, "bridge", "early-stopping")
        sample = held_out.sample_graphs(HELD_OUT_GRAPHS, stream)
        cuts = sample.sample_cuts(model.shape.code, stream)
        batches = (np.arange(len(cuts))[start : start + 256] for start in range(0, len(cuts), 256))
        self._batches = [
            CutBatch(batch, cross_pairs(batch, stream)) for batch in map(cuts.take, batches)
        ]
        self._model, self._options = model, options
        self._epoch, self._loss = 0, float("inf")
        self._weights: dict[str, dict[str, Tensor]] = {}

    def update(self, epoch: int) -> float | None:
        """Return the log-likelihood per cut after an epoch, and keep the weights if it is highest.

        None without cuts of held-out graphs.
        """
        if not self._batches:
            self._keep(epoch)
            return None
        noise = torch_stream(self._options.seed, "bridge", "early-stopping")
        total, cuts = 0.0, 0
        with torch.no_grad():
            for batch in self._batches:
                terms = compute_losses(self._model, batch.cuts, batch.pairs, noise)
                loss = terms["bridge"] + terms["attribute"] + terms["count"]
                total += float(loss) * len(batch.cuts)
                cuts += len(batch.cuts)
        if total / cuts < self._loss:
            self._loss = total / cuts
            self._keep(epoch)
        return -total / cuts

    def is_over(self, epoch: int) -> bool:
        """Return whether training stops after this epoch; all ranks decide as rank 0 does."""
        patience = self._options.patience
        decision = int(bool(patience) and epoch - self._epoch >= patience)
        return bool(broadcast_int(decision) if world_size() > 1 else decision)

    def restore(self) -> None:
        """Load the kept weights into the model."""
        for name, network in self._model.networks().items():
            network.load_state_dict(self._weights[name])
            broadcast_state(network)
            network.eval()

    def _keep(self, epoch: int) -> None:
        self._epoch = epoch
        self._weights = {
            name: {key: value.clone() for key, value in network.state_dict().items()}
            for name, network in self._model.networks().items()
        }


def _train_bridge_nodes(
    model: BridgeModel,
    table: GraphTable,
    optimizer: torch.optim.Optimizer,
    seed: int,
    epoch: int,
) -> float:
    """Train the decoder for one epoch to predict removed middle nodes; return the mean loss."""
    # Names of random streams are part of the results: they stay as they are.
    removed = remove_middle_nodes(table, model.shape.code, rng(seed, "bridge", "wedges", epoch))
    targets = nearest_rows(removed.middle, model.shape.bridge_nodes)
    losses = []
    for batch in epoch_batches(len(removed.graphs), 256, seed, "bridge", "wedge-order", epoch):
        rows = local_rows(batch)
        logits = node_logits(model, removed, rows)
        loss = functional.cross_entropy(logits, torch.from_numpy(targets[rows]).to(model.device))
        optimizer.zero_grad()
        loss.backward()  # type: ignore[no-untyped-call]
        all_reduce_gradients(
            parameter for group in optimizer.param_groups for parameter in group["params"]
        )
        optimizer.step()
        losses.append(loss.item())
    return float(np.mean(losses)) if losses else 0.0


def node_logits(model: BridgeModel, removed: RemovedNodes, rows: Ints) -> Tensor:
    """Return the logits of the removed nodes of some graphs, over the codebook of bridge nodes."""
    graphs = removed.graphs.take(rows)
    inputs = torch.from_numpy(graphs.dense("node", "inputs")).to(model.device)
    latent, _ = model.encoder(adjacency_matrix(graphs, model.device), inputs)
    left = torch.from_numpy(graphs.node_ptr[:-1] + removed.left[rows]).to(model.device)
    right = torch.from_numpy(graphs.node_ptr[:-1] + removed.right[rows]).to(model.device)
    logits: Tensor = model.decoder.node(model.decoder.pair_features(latent, left, right))
    return logits


def batch_size(cuts: CutGraphs) -> int:
    """Return the number of cuts per step: about ``BATCH_PAIRS`` node pairs, 8 to 256 cuts."""
    pairs = float((cuts.left.num_nodes * cuts.right.num_nodes).mean()) if len(cuts) else 1.0
    return int(np.clip(BATCH_PAIRS / max(pairs, 1.0), 8, max(min(256, len(cuts) // 16), 8)))


def compute_losses(
    model: BridgeModel, cuts: CutGraphs, pairs: NodePairs, noise: torch.Generator
) -> dict[str, Tensor]:
    """Return the terms of the loss, each a mean over cuts."""
    encoded = encode_cuts(model, cuts, noise)
    count = max(len(cuts), 1)
    logits = score_node_pairs(model, encoded.latent, pairs, noise)
    bridged = torch.from_numpy(pairs.bridged).to(model.device)
    weight = torch.from_numpy(pairs.weight).float().to(model.device)
    pair_losses = functional.binary_cross_entropy_with_logits(
        logits, bridged.float(), reduction="none"
    )
    kl = 0.5 * (encoded.mean**2 + encoded.log_variance.exp() - 1 - encoded.log_variance).sum()
    kl = kl if model.shape.model == "vae" else 0 * kl
    attribute_loss = torch.zeros((), device=model.device)
    if model.shape.attributes:
        predicted = attribute_logits(model, encoded.latent, pairs)
        targets = torch.from_numpy(attribute_rows(model, pairs.attr)).to(model.device)
        attribute_loss = functional.cross_entropy(predicted, targets, reduction="sum")
    return {
        "bridge": (pair_losses * weight).sum() / count,
        "attribute": attribute_loss / count,
        "kl": kl / count,
        "count": functional.cross_entropy(encoded.count_logits, count_targets(model, cuts)),
    }


@dataclass(frozen=True, slots=True, eq=False)
class EncodedCuts:
    """Latents of the nodes of both sides, and count logits, of some cuts."""

    mean: Tensor
    log_variance: Tensor
    latent: Tensor
    count_logits: Tensor


def encode_cuts(model: BridgeModel, cuts: CutGraphs, noise: torch.Generator) -> EncodedCuts:
    """Encode both sides of every cut independently and sample latents."""
    both = concat([cuts.left, cuts.right])
    matrix = adjacency_matrix(both, model.device)
    rows = torch.from_numpy(both.dense("node", "inputs")).to(model.device)
    mean, log_variance = model.encoder(matrix, rows)
    latent = mean
    if model.shape.model == "vae":
        drawn = torch.randn(mean.shape, generator=noise).to(model.device)
        latent = mean + drawn * (log_variance / 2).exp()
    if model.shape.largest_count == 1:  # nothing to predict
        count_logits = torch.zeros(len(cuts), 1, device=model.device)
        return EncodedCuts(mean, log_variance, latent, count_logits)
    owner = torch.from_numpy(row_indices(both.node_ptr)).to(model.device)
    features = model.counter.component_features(matrix, rows, owner, len(both))
    count_logits = model.counter(features[: len(cuts)], features[len(cuts) :])
    return EncodedCuts(mean, log_variance, latent, count_logits)


def score_node_pairs(
    model: BridgeModel,
    latent: Tensor,
    pairs: NodePairs,
    noise: torch.Generator,
    *,
    pure_noise: bool = False,
) -> Tensor:
    """Return the bridge logit of every node pair.

    A denoising decoder gets the true bridges with noise of a random level per cut, or with
    ``pure_noise`` of the maximum level.
    """
    left = torch.from_numpy(pairs.left).to(model.device)
    right = torch.from_numpy(pairs.right).to(model.device)
    logits = model.decoder.pair_logits(model.decoder.node_factors(latent), left, right)
    if model.shape.model == "vae":
        return logits
    cut = torch.from_numpy(pairs.cut)
    step = torch.randint(
        DIFFUSION_STEPS if pure_noise else 1,
        DIFFUSION_STEPS + 1,
        (int(cut.max()) + 1,),
        generator=noise,
    )
    level = keep_probability(step.float())[cut].to(model.device)
    rate = torch.from_numpy(base_rate(pairs))[cut].float().to(model.device)
    bits = torch.from_numpy(pairs.bridged).float().to(model.device)
    bits = add_noise(bits, rate, level, noise)
    degree = torch.zeros(len(latent), device=model.device)
    degree.index_add_(0, left, bits).index_add_(0, right, bits)
    return model.decoder.denoise_logits(
        logits, noise_features(bits, level, degree[left], degree[right])
    )


def attribute_logits(model: BridgeModel, latent: Tensor, pairs: NodePairs) -> Tensor:
    """Return the attribute logits of the true bridges, over the codebook of attributes."""
    left = torch.from_numpy(pairs.left[pairs.bridged]).to(model.device)
    right = torch.from_numpy(pairs.right[pairs.bridged]).to(model.device)
    logits: Tensor = model.decoder.attribute(model.decoder.pair_features(latent, left, right))
    return logits


def base_rate(pairs: NodePairs) -> Floats:
    """Return the fraction of bridges among the node pairs of every cut."""
    total = np.bincount(pairs.cut, pairs.weight)
    return np.asarray(np.bincount(pairs.cut, pairs.bridged) / np.maximum(total, 1))


def count_targets(model: BridgeModel, cuts: CutGraphs) -> Tensor:
    """Return the class of every cut's number of bridges: the number minus 1, clipped."""
    counts = np.diff(cuts.bridge_left.ptr)
    return torch.from_numpy(np.clip(counts, 1, model.shape.largest_count) - 1).to(model.device)


def attribute_rows(model: BridgeModel, attr: Array) -> Ints:
    """Return the nearest row of the attribute codebook for every bridge."""
    return nearest_rows(attr, model.shape.attributes)


def nearest_rows(values: Array, codebook: tuple[tuple[float, ...], ...]) -> Ints:
    """Return the index of the nearest codebook row for every row of ``values``; 0 without rows."""
    if not codebook or not len(values):
        return np.zeros(len(values), dtype=np.int64)
    _, nearest = KDTree(np.asarray(codebook, dtype=np.float64)).query(values.astype(np.float64))
    return np.asarray(nearest, dtype=np.int64)
