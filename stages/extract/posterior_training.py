"""Train the networks of the posterior extractor and predict with them.

One network predicts the label from whole graphs, one predicts label and environment from every
single node, one predicts the label from connected node sets. Graphs are drawn with sampling weights
(see ``reweighting``).
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass

import numpy as np
import torch
from torch import Tensor, nn

from gsx.ragged import Array, Ints, row_indices
from gsx.seeds import rng
from gsx.stages.extract.data import ExtractorData, Progress, node_units
from gsx.stages.extract.posterior_network import NodePosterior, SetPosterior
from gsx.stages.extract.reweighting import SamplingWeights, reweight, uniform_weights
from gsx.stages.graphs.subgraphs import Floats, grow_subgraphs, prefix_subgraphs, top_nodes
from gsx.stages.nn.gin import adjacency_matrix, init_weights, sum_neighbors
from gsx.stages.nn.input_encoding import add_numeric_inputs, iter_graph_batches, node_inputs
from gsx.stages.nn.losses import estimate_prior, kl_from_prior, row_loss
from gsx.stages.nn.training_loop import (
    History,
    TrainingOptions,
    systematic_sample,
    torch_stream,
    train_network,
)
from gsx.table import GraphTable, concat

MIN_SUBGRAPH_NODES = 2


@dataclass(frozen=True, slots=True, kw_only=True)
class PosteriorOptions:
    """Options of the posterior extractor."""

    width: int = 64
    layers: int = 3
    whole_epochs: int = 8
    node_epochs: int = 8
    set_epochs: int = 4
    batch_graphs: int = 256
    """Graphs per step; fewer if an epoch of a small corpus would have under 32 steps."""
    environment_weight: float = 0.5
    """Penalty of a node's information about the environment, per nat."""
    max_subgraph_nodes: int = 12
    """Nodes at which growth ends."""
    max_weight: float = 50.0
    """Bound of the sampling weight of a graph; 1 draws all graphs equally often."""
    scored_sets: int = 1
    """Training sets per graph that grow by score."""
    random_sets: int = 4
    """Training sets per graph that grow at random. Without them, the shape of a set would reveal
    the label it grew for."""
    num_seeds: int = 4
    """Nodes of every graph from which candidates grow; the best candidate is kept."""


@dataclass(frozen=True, slots=True, eq=False)
class PosteriorModel:
    """The three networks, with the priors of labels and environments."""

    options: PosteriorOptions
    whole: SetPosterior
    nodes: NodePosterior
    sets: SetPosterior
    label_prior: Tensor
    env_prior: Tensor
    task: str
    num_categories: int
    device: torch.device
    history: History
    """Loss of every epoch."""


def train_posterior(
    data: ExtractorData,
    held_out: ExtractorData,
    options: PosteriorOptions,
    *,
    seed: int,
    device: torch.device,
    progress: Progress,
) -> tuple[PosteriorModel, SamplingWeights]:
    """Train the three networks on ``data``; also return the sampling weights of graphs."""
    outputs, envs = data.y.shape[1], int(data.env.max(initial=0)) + 1
    width, layers, num_categories = options.width, options.layers, data.num_categories
    networks: dict[str, nn.Module] = {
        "whole": SetPosterior(data.input_width, outputs, width, layers, num_categories),
        "nodes": NodePosterior(data.input_width, outputs, envs, width, layers, num_categories),
        "sets": SetPosterior(data.input_width, outputs, width, layers, num_categories),
    }
    for name, network in networks.items():
        init_weights(network, torch_stream(seed, "extract", name)).to(device)
    env_share = np.bincount(data.env, minlength=envs) / len(data.env)
    model = PosteriorModel(
        options=options,
        **networks,  # type: ignore[arg-type]
        label_prior=estimate_prior(torch.from_numpy(data.y), data.task).to(device),
        env_prior=torch.from_numpy(env_share).float().clamp_min(1e-6).to(device),
        task=data.task,
        num_categories=data.num_categories,
        device=device,
        history=[],
    )
    total = options.whole_epochs + options.node_epochs + options.set_epochs
    finished = options.whole_epochs
    _train_whole(model, data, seed, lambda done: progress(done, total))
    weights = _reweight(model, data, held_out)
    _train_nodes(model, data, weights.train, seed, lambda done: progress(finished + done, total))
    score = score_nodes(model, data.graphs)
    finished += options.node_epochs
    _train_sets(
        model, data, score, weights.train, seed, lambda done: progress(finished + done, total)
    )
    return model, weights


def score_nodes(model: PosteriorModel, graphs: GraphTable) -> Floats:
    """Return the score of every node ``[N]``, averaged over the node and its neighbors.

    The score is the information about the label minus the weighted information about the
    environment, both in nats and averaged over layers.
    """
    model.nodes.eval()
    scores = [np.zeros(0)]
    with torch.no_grad():
        for batch in iter_graph_batches(add_numeric_inputs(graphs)):
            matrix = adjacency_matrix(batch, model.device)
            labels, envs = model.nodes(
                matrix, node_inputs(batch, model.num_categories, model.device)
            )
            label_information = kl_from_prior(labels, model.label_prior, model.task).mean(dim=0)
            env_information = kl_from_prior(envs, model.env_prior, "classification").mean(dim=0)
            score = label_information - model.options.environment_weight * env_information
            stacked = torch.stack([score, torch.ones_like(score)], dim=1)
            total, count = (stacked + sum_neighbors(matrix, stacked)).unbind(dim=1)
            scores.append((total / count).cpu().numpy())
    return np.concatenate(scores).astype(np.float64)


def predict(model: PosteriorModel, network: SetPosterior, graphs: GraphTable) -> Array:
    """Return the label logits ``[G, C]`` of every graph or node set."""
    network.eval()
    logits = [torch.zeros(0, len(model.label_prior))]
    with torch.no_grad():
        logits += [
            _logits(model, network, batch).cpu()
            for batch in iter_graph_batches(add_numeric_inputs(graphs))
        ]
    return np.asarray(torch.cat(logits).numpy())


def _logits(model: PosteriorModel, network: SetPosterior, batch: GraphTable) -> Tensor:
    owner = torch.from_numpy(row_indices(batch.node_ptr)).to(model.device)
    rows = node_inputs(batch, model.num_categories, model.device)
    logits: Tensor = network(adjacency_matrix(batch, model.device), rows, owner, len(batch))
    return logits


def _reweight(
    model: PosteriorModel, data: ExtractorData, held_out: ExtractorData
) -> SamplingWeights:
    """Return sampling weights; uniform unless the label is one class."""
    has_classes = data.task == "classification" or (data.task, data.y.shape[1]) == ("binary", 1)
    if model.options.max_weight <= 1 or not has_classes:
        return SamplingWeights(uniform_weights(len(data)), uniform_weights(len(held_out)), None)
    logits, held_out_logits = (
        torch.from_numpy(predict(model, model.whole, some.graphs)) for some in (data, held_out)
    )
    return reweight(data, held_out, logits, held_out_logits, max_weight=model.options.max_weight)


def _train_whole(
    model: PosteriorModel, data: ExtractorData, seed: int, progress: Callable[[int], None]
) -> None:
    table = add_numeric_inputs(data.graphs)

    def loss(graphs: Ints) -> Tensor:
        y = torch.from_numpy(data.y[graphs]).to(model.device)
        return row_loss(_logits(model, model.whole, table.take(graphs)), y, model.task).mean()

    options = model.options
    training = TrainingOptions(
        name="whole", epochs=options.whole_epochs, batch_size=options.batch_graphs
    )
    model.history.extend(
        train_network(model.whole, loss, len(data), training, seed=seed, progress=progress)
    )


def _train_nodes(
    model: PosteriorModel,
    data: ExtractorData,
    weights: Floats,
    seed: int,
    progress: Callable[[int], None],
) -> None:
    table = add_numeric_inputs(data.graphs)
    options = model.options

    def loss(graphs: Ints) -> Tensor:
        batch = table.take(graphs)
        counts = batch.num_nodes
        weight = (
            torch.from_numpy(np.repeat(1 / np.maximum(counts, 1), counts)).float().to(model.device)
        )
        y = torch.from_numpy(np.repeat(data.y[graphs], counts, axis=0)).to(model.device)
        env = torch.from_numpy(np.repeat(data.env[graphs], counts)).to(model.device)
        rows = node_inputs(batch, model.num_categories, model.device)
        labels, envs = model.nodes(adjacency_matrix(batch, model.device), rows)
        label_loss = row_loss(labels, y, model.task).sum(dim=0)
        env_loss = -envs.log_softmax(dim=-1).gather(
            -1, env[None, :, None].expand(len(envs), -1, 1)
        ).squeeze(-1).sum(dim=0)  # fmt: skip
        total: Tensor = ((label_loss + env_loss) * weight).sum() / weight.sum()
        return total

    training = TrainingOptions(
        name="nodes",
        epochs=options.node_epochs,
        batch_size=options.batch_graphs,
        row_weights=weights,
    )
    model.history.extend(
        train_network(model.nodes, loss, len(data), training, seed=seed, progress=progress)
    )


def _sample_node_sets(
    data: ExtractorData, score: Floats, weights: Floats, options: PosteriorOptions, seed: int
) -> tuple[GraphTable, Ints]:
    """Return node sets that grew by score or at random, and the graph of each set.

    A graph that is drawn often contributes many different sets, not copies of one set.
    """
    stream = rng(seed, "extract", "sets")
    table = data.graphs.with_columns(node={"score": score})
    sets, owners = [], []
    for number in range(options.scored_sets + options.random_sets):
        drawn = systematic_sample(len(data), stream, weights)
        graphs = table.take(drawn)
        if number < options.scored_sets:
            value = graphs.dense("node", "score")
            start = top_nodes(graphs, value, 1)[:, 0]
        else:
            value = stream.random(graphs.total_nodes)
            offset = (stream.random(len(graphs)) * graphs.num_nodes).astype(np.int64)
            start = np.where(graphs.num_nodes > 0, graphs.node_ptr[:-1] + offset, -1)
        growth = grow_subgraphs(
            graphs, value, start, options.max_subgraph_nodes, node_units(graphs)
        )
        size = stream.integers(MIN_SUBGRAPH_NODES, options.max_subgraph_nodes + 1, len(graphs))
        sets.append(prefix_subgraphs(graphs, growth.order, growth.rounded_to_units(size))[0])
        owners.append(drawn)
    return concat(sets), np.concatenate(owners)


def _train_sets(
    model: PosteriorModel,
    data: ExtractorData,
    score: Floats,
    weights: Floats,
    seed: int,
    progress: Callable[[int], None],
) -> None:
    options = model.options
    sets, owner = _sample_node_sets(data, score, weights, options, seed)
    table = add_numeric_inputs(sets)

    def loss(rows: Ints) -> Tensor:
        y = torch.from_numpy(data.y[owner[rows]]).to(model.device)
        return row_loss(_logits(model, model.sets, table.take(rows)), y, model.task).mean()

    training = TrainingOptions(
        name="sets", epochs=options.set_epochs, batch_size=options.batch_graphs
    )
    model.history.extend(
        train_network(model.sets, loss, len(sets), training, seed=seed, progress=progress)
    )
