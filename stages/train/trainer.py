"""Training loop: batches, gradient steps, evaluation after every epoch, and model selection."""

from __future__ import annotations

import math
from collections.abc import Callable, Iterator, Mapping
from concurrent.futures import ThreadPoolExecutor
from contextlib import closing
from dataclasses import dataclass, field
from functools import partial
from typing import TYPE_CHECKING, Any

import numpy as np
import torch
from torch import Tensor, nn

from gsx.errors import StageError
from gsx.ragged import Array, Ints
from gsx.seeds import rng
from gsx.stages.graphs.wl_dedup import with_wl_colors
from gsx.stages.nn.backbones import init_backbone_weights
from gsx.stages.nn.batches import BackboneShape, build_graph_batch
from gsx.stages.nn.build_network import Network, build_network
from gsx.stages.nn.training_loop import epoch_batches, torch_stream
from gsx.stages.train import checkpoint
from gsx.stages.train.algorithms import algorithm_named
from gsx.stages.train.algorithms.base import Algorithm, Setup
from gsx.stages.train.algorithms.options import hyperparameters
from gsx.stages.train.algorithms.training_step import (
    Batch,
    ForwardPass,
    TrainingStep,
    label_counts,
)
from gsx.stages.train.data import AUGMENTED, TrainingData
from gsx.stages.train.ema import EMA
from gsx.stages.train.evaluator import DivergedError, Evaluator, can_deduplicate_nodes
from gsx.stages.train.metrics import is_better
from gsx.stages.train.node_data import NodeEvaluator, NodeSampler, NodeTrainingData
from gsx.stages.train.trackers import Tracker, TrackerSet, tracked_values
from gsx.storage.artifacts.draft import Draft
from gsx.table import GraphTable

if TYPE_CHECKING:
    from gsx.stages.train.config import TrainConfig

Weights = dict[str, Array]
MILESTONE_FACTOR = 0.1


@dataclass(slots=True)
class Selected:
    """The epoch that a selection rule chose, and its weights."""

    epoch: int
    weights: Weights


@dataclass(slots=True)
class TrainingResult:
    """Learning curves and selected weights of a training run."""

    curves: list[dict[str, Any]] = field(default_factory=list)
    """Per epoch: number, loss, learning rate, and the score of every split."""
    selected: dict[str, Selected] = field(default_factory=dict)
    """``last``, and the best epoch by ``ood_val``, ``id_val`` and ``augmented`` if they exist."""


def fit(
    config: TrainConfig,
    shape: BackboneShape,
    data: TrainingData | NodeTrainingData,
    device: torch.device,
    draft: Draft,
    progress: Callable[[int, str], None],
    open_tracker: Callable[[int], Tracker] = lambda _: TrackerSet(()),
) -> TrainingResult:
    """Train a network and evaluate every split after every epoch.

    Resumes from a checkpoint in ``draft``. ``progress`` receives the number of finished epochs
    and a note. ``open_tracker`` gets the first epoch that is trained now.
    """
    network = build_network(
        shape,
        config.dropout,
        torch_stream(config.seed, "train", "weights"),
        torch.Generator(device).manual_seed(
            torch_stream(config.seed, "train", "dropout").initial_seed()
        ),
    ).to(device)
    algorithm = build_algorithm(config, shape, data, device)
    ema = EMA(network, config.average) if config.average else None
    train = batch_source(config, shape, data, device)
    evaluate = _score_function(shape, data, device)
    trainer = Trainer(config, network, algorithm, train, data, device, ema)
    result = TrainingResult()
    first_epoch = checkpoint.restore(draft, trainer, result, config.epochs)
    if first_epoch:
        progress(first_epoch, f"resumed after epoch {first_epoch} of {config.epochs}")
    with closing(open_tracker(first_epoch)) as tracker:
        for epoch in range(first_epoch, config.epochs):
            learning_rate = trainer.learning_rate(epoch * trainer.steps_per_epoch)
            evaluated = network if ema is None else ema.network
            try:
                loss = trainer.train_epoch(epoch)
                scores = evaluate(evaluated, epoch)
                _require_finite_weights(network, epoch)
            except DivergedError as error:
                raise _diverged(error, draft, epoch) from error
            result.curves.append(
                {"epoch": epoch, "loss": loss, "learning_rate": learning_rate, **scores}
            )
            # Before the checkpoint: a resumed run replaces this step, but never misses one.
            tracker.log_scores(epoch, tracked_values(result.curves[-1], data.metric))
            _select(result, evaluated, scores, epoch, data.metric)
            checkpoint.save(draft, trainer, result)
            progress(epoch + 1, _epoch_note(epoch, config.epochs, loss, scores))
    checkpoint.discard(draft, config.epochs)
    return result


def _epoch_note(epoch: int, epochs: int, loss: float, scores: Mapping[str, float]) -> str:
    """Return number, loss and validation scores of an epoch; test scores are not for watching."""
    shown = [f"{split} {scores[split]:.2f}" for split in ("id_val", "ood_val") if split in scores]
    return ", ".join([f"epoch {epoch + 1}/{epochs}", f"loss {loss:.4g}", *shown])


def _diverged(error: DivergedError, draft: Draft, epoch: int) -> StageError:
    """Return the error of a diverged run, which names the last checkpoint."""
    path = checkpoint.checkpoint_path(draft, epoch)
    kept = f"The last good checkpoint is {path}" if path else "There is no checkpoint yet"
    return StageError(
        f"training diverged: {error}. Lower `learning_rate` or `penalty`. No model was published. "
        f"{kept}."
    )


def build_algorithm(
    config: TrainConfig,
    shape: BackboneShape,
    data: TrainingData | NodeTrainingData,
    device: torch.device,
) -> Algorithm:
    """Return the algorithm of a config, with initialized weights."""
    setup = Setup(
        width=shape.width,
        outputs=shape.outputs,
        num_envs=data.num_envs,
        seed=config.seed,
        shape=shape,
        nodes=data if isinstance(data, NodeTrainingData) else None,
    )
    values = hyperparameters(config.learner, config)
    algorithm = algorithm_named(config.learner).create(setup, **values)
    # The name of the stream is older than the term "algorithm".
    stream = torch_stream(config.seed, "train", "learner")
    return init_backbone_weights(algorithm, stream).to(device)


def batch_source(
    config: TrainConfig,
    shape: BackboneShape,
    data: TrainingData | NodeTrainingData,
    device: torch.device,
) -> GraphTable | NodeSampler:
    """Return the training graphs, or a sampler of training nodes."""
    if isinstance(data, NodeTrainingData):
        return NodeSampler(
            data,
            walks=config.batch_size,
            length=shape.layers,
            steps=config.samples,
            coverage=config.coverage,
            seed=config.seed,
            device=device,
        )
    distinguishes_nodes = algorithm_named(config.learner).distinguishes_nodes
    if can_deduplicate_nodes(shape, config.dropout) and not distinguishes_nodes:
        return with_wl_colors(data.train, shape.layers)
    return data.train


def _score_function(
    shape: BackboneShape, data: TrainingData | NodeTrainingData, device: torch.device
) -> Callable[[Any, int], dict[str, float]]:
    """Return a function that scores a network on every held-out split after an epoch."""
    if isinstance(data, NodeTrainingData):
        return NodeEvaluator(data, device).scores
    evaluators = {
        split: Evaluator(table, shape, metric=data.metric, task=data.task, device=device)
        for split, table in data.held_out.items()
    }

    def scores(network: Any, epoch: int) -> dict[str, float]:  # noqa: ANN401
        return {split: evaluator.score(network, epoch) for split, evaluator in evaluators.items()}

    return scores


def _require_finite_weights(network: nn.Module, epoch: int) -> None:
    """Raise a ``DivergedError`` for NaN or infinite weights, before they become a checkpoint."""
    if not all(bool(torch.isfinite(value).all()) for value in network.state_dict().values()):
        raise DivergedError(f"weights are NaN or infinite after epoch {epoch}")


def _select(
    result: TrainingResult,
    network: nn.Module,
    scores: Mapping[str, float],
    epoch: int,
    metric: str,
) -> None:
    """Keep the weights of the last epoch and of the best by every rule; earlier epochs win ties."""
    weights = {k: v.detach().cpu().numpy().copy() for k, v in network.state_dict().items()}
    current = Selected(epoch, weights)
    result.selected["last"] = current
    for rule in ("ood_val", "id_val", AUGMENTED):
        if rule in scores:
            best = result.selected.get(rule)
            if best is None or is_better(metric, scores[rule], result.curves[best.epoch][rule]):
                result.selected[rule] = current


def shared_parameters(algorithm: Algorithm) -> Iterator[nn.Parameter]:
    """Yield the algorithm's parameters that the network's optimizer updates.

    These are all but those of the algorithm's own optimizer.
    """
    groups = [] if algorithm.optimizer is None else algorithm.optimizer.param_groups
    own = {id(value) for group in groups for value in group["params"]}
    return (value for value in algorithm.parameters() if id(value) not in own)


class Trainer:
    """Epochs of gradient steps."""

    def __init__(
        self,
        config: TrainConfig,
        network: Network,
        algorithm: Algorithm,
        train: GraphTable | NodeSampler,
        data: TrainingData | NodeTrainingData,
        device: torch.device,
        ema: EMA | None,
    ) -> None:
        self.config, self.network, self.algorithm, self.ema = config, network, algorithm, ema
        self.train, self.data, self.device = train, data, device
        self.weights: Tensor | None
        if isinstance(train, NodeSampler):
            self.y = torch.from_numpy(train.y).to(device)
            self.weights = torch.from_numpy(train.weight).to(device)
            self.steps_per_epoch = train.steps
        else:
            self.y = torch.from_numpy(np.array(train.dense("graph", "y"))).to(device)
            self.weights = None if data.task == "classification" else label_counts(self.y)
            self.steps_per_epoch = max(len(train) // config.batch_size, 1)
        self.env = torch.from_numpy(data.env).to(device)
        self.probability = None
        """``[G]`` probabilities with which training graphs are drawn; None visits each once."""
        if config.env_balanced:
            inverse_size = 1 / np.bincount(data.env)[data.env]
            self.probability = inverse_size / inverse_size.sum()
        self.optimizer = torch.optim.Adam(
            [*network.parameters(), *shared_parameters(algorithm)],
            lr=config.learning_rate,
            weight_decay=config.weight_decay,
        )

    def learning_rate(self, step: int) -> float:
        """Return the learning rate of a step; steps count from the start of training."""
        config = self.config
        if config.schedule == "cosine":
            fraction = step / (self.steps_per_epoch * config.epochs)
            return config.learning_rate * (1 + math.cos(math.pi * fraction)) / 2
        late = config.schedule == "step" and step >= self.steps_per_epoch * config.milestone
        return config.learning_rate * (MILESTONE_FACTOR if late else 1.0)

    def train_epoch(self, epoch: int) -> float:
        """Run the steps of one epoch and return the mean loss."""
        self.network.train()
        total, count = 0.0, 0
        for number, (rows, batch) in enumerate(self.batches(epoch)):
            step = epoch * self.steps_per_epoch + number
            # Before the loss: an algorithm with several passes may accumulate gradients itself.
            self.optimizer.zero_grad()
            loss = self.loss(rows, batch, step)
            if not torch.isfinite(loss):
                raise DivergedError(
                    f"the loss is {float(loss.detach()):g} in epoch {epoch}, batch {number} "
                    "(from 0)"
                )
            for group in self.optimizer.param_groups:
                group["lr"] = self.learning_rate(step)
            loss.backward()  # type: ignore[no-untyped-call]
            self.optimizer.step()
            if self.ema is not None:
                self.ema.update(self.network)
            total, count = total + float(loss.detach()) * len(rows), count + len(rows)
        return round(total / count, 6)

    def loss(self, rows: Ints, batch: Batch, step: int) -> Tensor:
        """Return the algorithm's loss of a batch; ``rows`` are its rows in the training set."""
        chosen = torch.from_numpy(rows).to(self.device)
        inputs = TrainingStep(
            model=ForwardPass(self.network, self.device, self.config.precision),
            batch=batch,
            rows=chosen,
            env=self.env[chosen],
            y=self.y[chosen],
            task=self.data.task,
            stream=lambda name: rng(self.config.seed, "train", name, step),
            progress=step / (self.steps_per_epoch * self.config.epochs),
            weights=None if self.weights is None else self.weights[chosen],
        )
        loss: Tensor = self.algorithm(inputs)
        return loss

    def batches(self, epoch: int) -> Iterator[tuple[Ints, Batch]]:
        """Yield rows and batches of an epoch; a thread prepares the next batch during a step."""
        tasks = self._batch_tasks(epoch)
        with ThreadPoolExecutor(max_workers=1) as executor:
            upcoming = executor.submit(next(tasks))
            for task in tasks:
                ready = upcoming
                upcoming = executor.submit(task)
                yield ready.result()
            yield upcoming.result()

    def _batch_tasks(self, epoch: int) -> Iterator[Callable[[], tuple[Ints, Batch]]]:
        """Yield functions that prepare the batches of an epoch."""
        train = self.train
        if isinstance(train, NodeSampler):
            for step in range(self.steps_per_epoch):
                yield partial(train.draw, epoch, step)
            return
        needs_edges = self.algorithm.needs_edges

        def prepare(rows: Ints) -> tuple[Ints, Batch]:
            graphs, shape = train.take(rows), self.network.shape
            return rows, build_graph_batch(graphs, shape, self.device, with_edges=needs_edges)

        size, seed = self.config.batch_size, self.config.seed
        name = ("train", "epoch", epoch)
        for rows in epoch_batches(len(train), size, seed, *name, row_weights=self.probability):
            yield partial(prepare, rows)
