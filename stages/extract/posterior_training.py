"""Teach the networks of the posterior extractor, and ask them.

One tells the label from whole graphs, one tells label and environment from every single node, one
tells the label from connected sets of nodes. Graphs are drawn in balance (see ``balance``).
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass

import numpy as np
import torch
from torch import Tensor, nn

from gsx.ragged import Array, Ints, rows_of
from gsx.seeds import rng
from gsx.stages.extract.data import Lesson, Progress, units_of
from gsx.stages.extract.posterior_network import NodePosterior, SetPosterior
from gsx.stages.extract.reweighting import Balance, balance, even
from gsx.stages.graphs.subgraphs import Floats, best_nodes, grow, prefixes
from gsx.stages.nn.gin import adjacency, aggregate, initialize
from gsx.stages.nn.input_encoding import parts_of, rows_for, with_structure
from gsx.stages.nn.losses import information, prior_of, row_loss
from gsx.stages.nn.training_loop import Descent, History, descend, draw, torch_stream
from gsx.table import GraphTable, concat

SMALLEST_PIECE = 2


@dataclass(frozen=True, slots=True, kw_only=True)
class PosteriorOptions:
    """How the posterior extractor learns."""

    width: int = 64
    layers: int = 3
    whole_epochs: int = 8
    node_epochs: int = 8
    set_epochs: int = 4
    batch_graphs: int = 256
    """Graphs per step; fewer where a corpus is so small that an epoch had under 32 steps."""
    environment_weight: float = 0.5
    """What a node's knowledge of the environment costs, per nat."""
    largest_piece: int = 12
    """Nodes at which growth ends."""
    largest_weight: float = 50.0
    """How much more often than others a graph may be drawn whose label surprises; 1 = all alike."""
    guided_sets: int = 1
    """Sets of every graph to learn from that grew by score."""
    blind_sets: int = 4
    """Sets of every graph to learn from that grew at random; they keep the shape of a set from
    giving away which label it grew for."""
    seeds: int = 4
    """Nodes of every graph from which pieces grow; the best of them is kept."""


@dataclass(frozen=True, slots=True, eq=False)
class Posterior:
    """Three networks and what they know before looking."""

    options: PosteriorOptions
    whole: SetPosterior
    nodes: NodePosterior
    sets: SetPosterior
    label_prior: Tensor
    env_prior: Tensor
    task: str
    kinds: int
    device: torch.device
    history: History
    """Loss of every epoch."""


def fit(
    lesson: Lesson,
    held: Lesson,
    options: PosteriorOptions,
    *,
    seed: int,
    device: torch.device,
    progress: Progress,
) -> tuple[Posterior, Balance]:
    """Train the networks on a lesson; also return how often each graph was drawn."""
    outputs, envs = lesson.y.shape[1], int(lesson.env.max(initial=0)) + 1
    width, layers, kinds = options.width, options.layers, lesson.kinds
    nets: dict[str, nn.Module] = {
        "whole": SetPosterior(lesson.width, outputs, width, layers, kinds),
        "nodes": NodePosterior(lesson.width, outputs, envs, width, layers, kinds),
        "sets": SetPosterior(lesson.width, outputs, width, layers, kinds),
    }
    for name, net in nets.items():
        initialize(net, torch_stream(seed, "extract", name)).to(device)
    env_share = np.bincount(lesson.env, minlength=envs) / len(lesson.env)
    model = Posterior(
        options=options,
        **nets,  # type: ignore[arg-type]
        label_prior=prior_of(torch.from_numpy(lesson.y), lesson.task).to(device),
        env_prior=torch.from_numpy(env_share).float().clamp_min(1e-6).to(device),
        task=lesson.task,
        kinds=lesson.kinds,
        device=device,
        history=[],
    )
    total = options.whole_epochs + options.node_epochs + options.set_epochs
    before = options.whole_epochs
    _fit_whole(model, lesson, seed, lambda done: progress(done, total))
    shares = _balance(model, lesson, held)
    _fit_nodes(model, lesson, shares.train, seed, lambda done: progress(before + done, total))
    score = score_nodes(model, lesson.graphs)
    before += options.node_epochs
    _fit_sets(model, lesson, score, shares.train, seed, lambda done: progress(before + done, total))
    return model, shares


def score_nodes(model: Posterior, graphs: GraphTable) -> Floats:
    """Return what every node and its neighbors say about the label beyond the environment."""
    model.nodes.eval()
    scores = [np.zeros(0)]
    with torch.no_grad():
        for part in parts_of(with_structure(graphs)):
            matrix = adjacency(part, model.device)
            labels, envs = model.nodes(matrix, rows_for(part, model.kinds, model.device))
            says = information(labels, model.label_prior, model.task).mean(dim=0)
            places = information(envs, model.env_prior, "classification").mean(dim=0)
            raw = says - model.options.environment_weight * places
            around = torch.stack([raw, torch.ones_like(raw)], dim=1)
            total, count = (around + aggregate(matrix, around)).unbind(dim=1)
            scores.append((total / count).cpu().numpy())
    return np.concatenate(scores).astype(np.float64)


def tell(model: Posterior, net: SetPosterior, graphs: GraphTable) -> Array:
    """Return the logits ``[G, C]`` of the label of every graph or set, seen on its own."""
    net.eval()
    told = [torch.zeros(0, len(model.label_prior))]
    with torch.no_grad():
        told += [_told(model, net, part).cpu() for part in parts_of(with_structure(graphs))]
    return np.asarray(torch.cat(told).numpy())


def _told(model: Posterior, net: SetPosterior, batch: GraphTable) -> Tensor:
    owner = torch.from_numpy(rows_of(batch.node_ptr)).to(model.device)
    rows = rows_for(batch, model.kinds, model.device)
    logits: Tensor = net(adjacency(batch, model.device), rows, owner, len(batch))
    return logits


def _balance(model: Posterior, lesson: Lesson, held: Lesson) -> Balance:
    """Balance where labels are classes; values and many tasks are drawn evenly."""
    classes = lesson.task == "classification" or (lesson.task, lesson.y.shape[1]) == ("binary", 1)
    if model.options.largest_weight <= 1 or not classes:
        return Balance(even(len(lesson)), even(len(held)), None)
    told, held_told = (
        torch.from_numpy(tell(model, model.whole, some.graphs)) for some in (lesson, held)
    )
    return balance(lesson, held, told, held_told, largest_weight=model.options.largest_weight)


def _fit_whole(
    model: Posterior, lesson: Lesson, seed: int, progress: Callable[[int], None]
) -> None:
    table = with_structure(lesson.graphs)

    def loss(graphs: Ints) -> Tensor:
        y = torch.from_numpy(lesson.y[graphs]).to(model.device)
        return row_loss(_told(model, model.whole, table.take(graphs)), y, model.task).mean()

    options = model.options
    descent = Descent(name="whole", epochs=options.whole_epochs, batch=options.batch_graphs)
    model.history.extend(
        descend(model.whole, loss, len(lesson), descent, seed=seed, progress=progress)
    )


def _fit_nodes(
    model: Posterior,
    lesson: Lesson,
    share: Floats,
    seed: int,
    progress: Callable[[int], None],
) -> None:
    table = with_structure(lesson.graphs)
    options = model.options

    def loss(graphs: Ints) -> Tensor:
        batch = table.take(graphs)
        counts = batch.num_nodes
        weight = (
            torch.from_numpy(np.repeat(1 / np.maximum(counts, 1), counts)).float().to(model.device)
        )
        y = torch.from_numpy(np.repeat(lesson.y[graphs], counts, axis=0)).to(model.device)
        env = torch.from_numpy(np.repeat(lesson.env[graphs], counts)).to(model.device)
        rows = rows_for(batch, model.kinds, model.device)
        labels, envs = model.nodes(adjacency(batch, model.device), rows)
        said = row_loss(labels, y, model.task).sum(dim=0)
        placed = -envs.log_softmax(dim=-1).gather(
            -1, env[None, :, None].expand(len(envs), -1, 1)
        ).squeeze(-1).sum(dim=0)  # fmt: skip
        total: Tensor = ((said + placed) * weight).sum() / weight.sum()
        return total

    descent = Descent(
        name="nodes", epochs=options.node_epochs, batch=options.batch_graphs, share=share
    )
    model.history.extend(
        descend(model.nodes, loss, len(lesson), descent, seed=seed, progress=progress)
    )


def _sets_to_learn_from(
    lesson: Lesson, score: Floats, share: Floats, options: PosteriorOptions, seed: int
) -> tuple[GraphTable, Ints]:
    """Return sets that grew by score or at random, and the graph of each.

    A graph that is drawn often gives many different sets, not one set many times.
    """
    stream = rng(seed, "extract", "sets")
    table = lesson.graphs.with_columns(node={"score": score})
    sets, owners = [], []
    for way in range(options.guided_sets + options.blind_sets):
        drawn = draw(len(lesson), stream, share)
        graphs = table.take(drawn)
        if way < options.guided_sets:
            value = graphs.dense("node", "score")
            start = best_nodes(graphs, value, 1)[:, 0]
        else:
            value = stream.random(graphs.total_nodes)
            place = (stream.random(len(graphs)) * graphs.num_nodes).astype(np.int64)
            start = np.where(graphs.num_nodes > 0, graphs.node_ptr[:-1] + place, -1)
        growth = grow(graphs, value, start, options.largest_piece, units_of(graphs))
        size = stream.integers(SMALLEST_PIECE, options.largest_piece + 1, len(graphs))
        sets.append(prefixes(graphs, growth.order, growth.rounded(size))[0])
        owners.append(drawn)
    return concat(sets), np.concatenate(owners)


def _fit_sets(
    model: Posterior,
    lesson: Lesson,
    score: Floats,
    share: Floats,
    seed: int,
    progress: Callable[[int], None],
) -> None:
    options = model.options
    sets, owner = _sets_to_learn_from(lesson, score, share, options, seed)
    table = with_structure(sets)

    def loss(rows: Ints) -> Tensor:
        y = torch.from_numpy(lesson.y[owner[rows]]).to(model.device)
        return row_loss(_told(model, model.sets, table.take(rows)), y, model.task).mean()

    descent = Descent(name="sets", epochs=options.set_epochs, batch=options.batch_graphs)
    model.history.extend(
        descend(model.sets, loss, len(sets), descent, seed=seed, progress=progress)
    )
