"""The posterior extractor: find the smallest connected piece from which the label can be told.

Two networks. The first tells the graph's label, and its environment, from every single *node*; a
node's score is how much it says about the label beyond what it says about the environment. The
second tells the label from a connected *set* of nodes, seen on its own. A piece grows from the
best nodes by score and stops where the label is told best for its size.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from dataclasses import dataclass
from typing import Any

import numpy as np
import torch
from torch import Tensor, nn

from gsx.ragged import Array, Ints, rows_of
from gsx.seeds import rng
from gsx.stages.extractors.lesson import Lesson, Progress, epoch_batches, torch_stream
from gsx.stages.kernels.subgraphs import Bools, Floats, best_nodes, grow, prefixes
from gsx.stages.kernels.walks import STRUCTURE_FEATURES, structure_features
from gsx.stages.nets.gin import GIN, adjacency, aggregate, initialize
from gsx.stages.nets.labels import decided, information, prior_of, row_loss
from gsx.table import GraphTable, concat

SMALLEST_PIECE = 2
READ_GRAPHS = 2048
"""Graphs looked at together when nothing is learned."""


@dataclass(frozen=True, slots=True, kw_only=True)
class PosteriorOptions:
    """How the posterior extractor learns."""

    width: int = 64
    layers: int = 3
    node_epochs: int = 8
    set_epochs: int = 4
    batch_graphs: int = 256
    """Graphs per step; fewer where a corpus is so small that an epoch had under 32 steps."""
    learning_rate: float = 1e-2
    environment_weight: float = 0.5
    """What a node's knowledge of the environment costs, per nat."""
    largest_piece: int = 12
    """Nodes at which growth ends."""
    guided_sets: int = 1
    """Sets of every graph to learn from that grew by score."""
    blind_sets: int = 4
    """Sets of every graph to learn from that grew at random; they keep the shape of a set from
    giving away which label it grew for."""
    seeds: int = 4
    """Nodes of every graph from which pieces grow; the best of them is kept."""


class NodePosterior(nn.Module):
    """Label and environment of a graph, told from single nodes after every layer."""

    def __init__(self, features: int, outputs: int, envs: int, options: PosteriorOptions) -> None:
        super().__init__()
        self.gin = GIN(features, options.width, options.layers)
        heads = range(options.layers + 1)
        self.label = nn.ModuleList(nn.Linear(options.width, outputs) for _ in heads)
        self.env = nn.ModuleList(nn.Linear(options.width, envs) for _ in heads)

    def forward(self, matrix: Tensor, features: Tensor) -> tuple[Tensor, Tensor]:
        """Return logits of labels ``[L, N, C]`` and of environments ``[L, N, E]``."""
        states = self.gin(matrix, features)
        labels = [head(state) for head, state in zip(self.label, states, strict=True)]
        envs = [head(state) for head, state in zip(self.env, states, strict=True)]
        return torch.stack(labels), torch.stack(envs)


class SetPosterior(nn.Module):
    """Label told from a connected set of nodes."""

    def __init__(self, features: int, outputs: int, options: PosteriorOptions) -> None:
        super().__init__()
        self.gin = GIN(features, options.width, options.layers)
        self.head = nn.Sequential(
            nn.Linear(2 * options.width, options.width),
            nn.ReLU(),
            nn.Linear(options.width, outputs),
        )

    def forward(self, matrix: Tensor, features: Tensor, owner: Tensor, sets: int) -> Tensor:
        """Return logits ``[sets, C]``; ``owner`` ``[N]`` names the set of every node."""
        state = self.gin(matrix, features)[-1]
        total = torch.zeros(sets, state.shape[1], device=state.device).index_add_(0, owner, state)
        size = torch.bincount(owner, minlength=sets).clamp_min(1)[:, None]
        logits: Tensor = self.head(torch.cat([total / size, total / 10], dim=1))
        return logits


@dataclass(frozen=True, slots=True, eq=False)
class Posterior:
    """Two trained networks and what they know before looking."""

    options: PosteriorOptions
    nodes: NodePosterior
    sets: SetPosterior
    label_prior: Tensor
    env_prior: Tensor
    task: str
    device: torch.device
    history: list[dict[str, Any]]
    """Loss of every epoch."""


@dataclass(frozen=True, slots=True, eq=False)
class Candidates:
    """Connected sets of every graph, and how well each tells the label the graph is taken for."""

    order: Ints
    """``[G, S, K]`` nodes over the whole table in the order in which they joined a set."""
    size: Ints
    """``[S * (K - 1)]`` nodes of each candidate: prefixes of 2..K nodes, for every seed."""
    told: Floats
    """``[G, S * (K - 1)]`` log-belief in the decided label; -inf where no set grew so far."""


def fit(
    lesson: Lesson,
    options: PosteriorOptions,
    *,
    seed: int,
    device: torch.device,
    progress: Progress,
) -> Posterior:
    """Train both networks on a lesson."""
    outputs, envs = lesson.y.shape[1], int(lesson.env.max(initial=0)) + 1
    width = len(STRUCTURE_FEATURES) + lesson.features.shape[1]
    nodes = NodePosterior(width, outputs, envs, options)
    sets = SetPosterior(width, outputs, options)
    env_share = np.bincount(lesson.env, minlength=envs) / len(lesson.env)
    model = Posterior(
        options=options,
        nodes=initialize(nodes, torch_stream(seed, "extract", "nodes")).to(device),
        sets=initialize(sets, torch_stream(seed, "extract", "sets")).to(device),
        label_prior=prior_of(torch.from_numpy(lesson.y), lesson.task).to(device),
        env_prior=torch.from_numpy(env_share).float().clamp_min(1e-6).to(device),
        task=lesson.task,
        device=device,
        history=[],
    )
    total = options.node_epochs + options.set_epochs
    _fit_nodes(model, lesson, seed, lambda done: progress(done, total))
    score = score_nodes(model, lesson.graphs, lesson.features)
    _fit_sets(model, lesson, score, seed, lambda done: progress(options.node_epochs + done, total))
    return model


def score_nodes(model: Posterior, graphs: GraphTable, features: Array) -> Floats:
    """Return what every node and its neighbors say about the label beyond the environment."""
    model.nodes.eval()
    inputs = node_inputs(graphs, features)
    scores = []
    with torch.no_grad():
        for part, rows in _parts(graphs, inputs):
            matrix = adjacency(part, model.device)
            labels, envs = model.nodes(matrix, rows.to(model.device))
            says = information(labels, model.label_prior, model.task).mean(dim=0)
            places = information(envs, model.env_prior, "classification").mean(dim=0)
            raw = says - model.options.environment_weight * places
            around = torch.stack([raw, torch.ones_like(raw)], dim=1)
            total, count = (around + aggregate(matrix, around)).unbind(dim=1)
            scores.append((total / count).cpu().numpy())
    return np.concatenate(scores).astype(np.float64)


def tell(model: Posterior, graphs: GraphTable, features: Array) -> Array:
    """Return the logits ``[G, C]`` of the label of every graph or set, seen on its own."""
    model.sets.eval()
    told = []
    with torch.no_grad():
        for part, rows in _parts(graphs, node_inputs(graphs, features)):
            owner = torch.from_numpy(rows_of(part.node_ptr)).to(model.device)
            matrix = adjacency(part, model.device)
            told.append(model.sets(matrix, rows.to(model.device), owner, len(part)).cpu())
    return np.asarray(torch.cat(told).numpy())


def find_candidates(model: Posterior, lesson: Lesson) -> tuple[Floats, Candidates]:
    """Grow connected sets in every graph and ask how well each tells the label of its graph.

    The label is the one the network decides for on the whole graph, so label noise does no harm.
    Returns the node scores as well.
    """
    options, graphs = model.options, lesson.graphs
    score = score_nodes(model, graphs, lesson.features)
    label = decided(torch.from_numpy(tell(model, graphs, lesson.features)), model.task)
    seeds = best_nodes(graphs, score, options.seeds)
    sizes = np.arange(SMALLEST_PIECE, options.largest_piece + 1)
    orders, told = [], []
    for column in range(options.seeds):
        growth = grow(graphs, score, seeds[:, column], options.largest_piece)
        orders.append(growth.order)
        for size in sizes:
            part, nodes = prefixes(graphs, growth.order, np.full(len(graphs), size))
            logits = torch.from_numpy(tell(model, part, lesson.features[nodes]))
            belief = -row_loss(logits, label, model.task).numpy().astype(np.float64)
            told.append(np.where(growth.length >= size, belief, -np.inf))
    return score, Candidates(
        np.stack(orders, axis=1), np.tile(sizes, options.seeds), np.stack(told, axis=1)
    )


def choose(graphs: GraphTable, candidates: Candidates, size_cost: float) -> Bools:
    """Return the nodes of the best candidate of every graph, where a node costs ``size_cost``.

    A graph too small for any candidate is its own piece.
    """
    value = candidates.told - size_cost * candidates.size
    best = value.argmax(axis=1)
    seeds, longest = candidates.order.shape[1:]
    chosen = candidates.order[np.arange(len(graphs)), best // (len(candidates.size) // seeds)]
    inside = (np.arange(longest) < candidates.size[best][:, None]) & (chosen >= 0)
    keep = np.zeros(graphs.total_nodes, dtype=bool)
    keep[chosen[inside]] = True
    tiny = ~np.isfinite(value.max(axis=1))
    return np.asarray(keep | tiny[rows_of(graphs.node_ptr)])


def node_inputs(graphs: GraphTable, features: Array) -> Array:
    """Return what the networks see of every node: structure, then features, ``[N, 6 + F]``."""
    return np.column_stack([structure_features(graphs), features]).astype(np.float32)


def _fit_nodes(
    model: Posterior, lesson: Lesson, seed: int, progress: Callable[[int], None]
) -> None:
    inputs = node_inputs(lesson.graphs, lesson.features)
    table = lesson.graphs.with_columns(node={"inputs": inputs})
    options = model.options

    def loss(graphs: Ints) -> Tensor:
        batch = table.take(graphs)
        counts = batch.num_nodes
        weight = torch.from_numpy(np.repeat(1 / counts, counts)).float().to(model.device)
        y = torch.from_numpy(np.repeat(lesson.y[graphs], counts, axis=0)).to(model.device)
        env = torch.from_numpy(np.repeat(lesson.env[graphs], counts)).to(model.device)
        rows = torch.from_numpy(batch.dense("node", "inputs")).to(model.device)
        labels, envs = model.nodes(adjacency(batch, model.device), rows)
        said = row_loss(labels, y, model.task).sum(dim=0)
        placed = -envs.log_softmax(dim=-1).gather(
            -1, env[None, :, None].expand(len(envs), -1, 1)
        ).squeeze(-1).sum(dim=0)  # fmt: skip
        total: Tensor = ((said + placed) * weight).sum() / weight.sum()
        return total

    _descend(model, model.nodes, "nodes", loss, len(lesson), options.node_epochs, seed, progress)


def _fit_sets(
    model: Posterior, lesson: Lesson, score: Floats, seed: int, progress: Callable[[int], None]
) -> None:
    """Learn on whole graphs, on sets that grew by score, and on random connected sets."""
    options, graphs = model.options, lesson.graphs
    stream = rng(seed, "extract", "sets")
    guided, blind = options.guided_sets, options.blind_sets
    seeds = best_nodes(graphs, score, guided)
    chance = stream.random((blind, graphs.total_nodes))
    starts = stream.random((blind, len(graphs))) * graphs.num_nodes
    starts = np.where(graphs.num_nodes > 0, graphs.node_ptr[:-1] + starts.astype(np.int64), -1)
    growths = [grow(graphs, score, seeds[:, s], options.largest_piece) for s in range(guided)]
    growths += [grow(graphs, chance[s], starts[s], options.largest_piece) for s in range(blind)]
    tables, features = [graphs], [lesson.features]
    for growth in growths:
        size = stream.integers(SMALLEST_PIECE, options.largest_piece + 1, len(graphs))
        part, nodes = prefixes(graphs, growth.order, size)
        tables.append(part)
        features.append(lesson.features[nodes])
    everything = concat([GraphTable(t.node_ptr, t.edge_ptr, edge=t.edge) for t in tables])
    inputs = node_inputs(everything, np.concatenate(features))
    everything = everything.with_columns(node={"inputs": inputs})
    labels = np.concatenate([lesson.y] * len(tables))

    def loss(rows: Ints) -> Tensor:
        batch = everything.take(rows)
        owner = torch.from_numpy(rows_of(batch.node_ptr)).to(model.device)
        inputs = torch.from_numpy(batch.dense("node", "inputs")).to(model.device)
        logits = model.sets(adjacency(batch, model.device), inputs, owner, len(batch))
        y = torch.from_numpy(labels[rows]).to(model.device)
        return row_loss(logits, y, model.task).mean()

    _descend(model, model.sets, "sets", loss, len(everything), options.set_epochs, seed, progress)


def _descend(
    model: Posterior,
    net: nn.Module,
    name: str,
    loss: Callable[[Ints], Tensor],
    graphs: int,
    epochs: int,
    seed: int,
    progress: Callable[[int], None],
) -> None:
    """Train one network with Adam and a cosine that ends at zero."""
    options = model.options
    size = max(min(options.batch_graphs, graphs // 32), 16)
    steps = max(graphs // size, 1) * epochs
    optimizer = torch.optim.Adam(net.parameters(), lr=options.learning_rate)
    schedule = torch.optim.lr_scheduler.CosineAnnealingLR(optimizer, steps)
    net.train()
    for epoch in range(epochs):
        losses = []
        batches = epoch_batches(graphs, size, seed, "extract", name, epoch)
        for batch in batches:
            value = loss(batch)
            optimizer.zero_grad()
            value.backward()  # type: ignore[no-untyped-call]
            optimizer.step()
            schedule.step()
            losses.append(float(value.detach()))
        model.history.append({"net": name, "epoch": epoch, "loss": float(np.mean(losses))})
        progress(epoch + 1)


def _parts(graphs: GraphTable, inputs: Array) -> Iterator[tuple[GraphTable, Tensor]]:
    table = graphs.with_columns(node={"inputs": inputs})
    for start in range(0, len(graphs), READ_GRAPHS):
        part = table.slice(start, start + READ_GRAPHS)
        yield part, torch.from_numpy(np.ascontiguousarray(part.dense("node", "inputs")))
