"""The training loop: batches, steps, scores of every split after every epoch, and the selection."""

from __future__ import annotations

import math
from collections.abc import Callable, Iterator, Mapping
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass, field
from functools import partial
from typing import TYPE_CHECKING, Any

import numpy as np
import torch
from torch import Tensor, nn

from gsx.errors import StageError
from gsx.ragged import Array, Ints
from gsx.seeds import rng
from gsx.stages.graphs.wl_dedup import with_colors
from gsx.stages.nn.backbones import BackboneShape, batch_of
from gsx.stages.nn.build_network import Network, fresh
from gsx.stages.nn.training_loop import epoch_batches, torch_stream
from gsx.stages.train import checkpoint
from gsx.stages.train.algorithms.catalog import KINDS
from gsx.stages.train.algorithms.training_step import Batch, Sight, Told, label_counts
from gsx.stages.train.build_algorithm import Setting, learner_of
from gsx.stages.train.ema import Average
from gsx.stages.train.evaluator import DivergedError, Scorer, foldable
from gsx.stages.train.metrics import better
from gsx.stages.train.node_data import NodeJudge, NodeLesson, NodeSampler
from gsx.storage.artifacts.draft import Draft
from gsx.table import GraphTable

if TYPE_CHECKING:
    from gsx.stages.train.config import TrainConfig

Weights = dict[str, Array]
MILESTONE_FACTOR = 0.1


@dataclass(frozen=True, slots=True, eq=False, kw_only=True)
class Lesson:
    """What is learned and scored."""

    task: str
    metric: str
    train: GraphTable
    env: Ints
    """``[G]`` environments of training graphs, from 0 without a gap."""
    num_envs: int
    held_out: Mapping[str, GraphTable]


@dataclass(slots=True)
class Kept:
    """The best epoch by a rule, and its weights."""

    epoch: int
    weights: Weights


@dataclass(slots=True)
class Fitted:
    """What training left behind."""

    curves: list[dict[str, Any]] = field(default_factory=list)
    """Per epoch: number, loss, learning rate, scores of the splits."""
    kept: dict[str, Kept] = field(default_factory=dict)
    """Selection by ``ood_val`` and ``id_val``, where those splits are, and the ``last`` epoch."""


def fit(
    config: TrainConfig,
    shape: BackboneShape,
    lesson: Lesson | NodeLesson,
    device: torch.device,
    draft: Draft,
    progress: Callable[[int], None],
) -> Fitted:
    """Train, and score every split after every epoch; ``progress`` counts epochs.

    What an earlier run left in ``draft`` is taken up.
    """
    net = fresh(
        shape,
        config.dropout,
        torch_stream(config.seed, "train", "weights"),
        torch.Generator(device).manual_seed(
            torch_stream(config.seed, "train", "dropout").initial_seed()
        ),
    ).to(device)
    learner = learner_of(Setting(config, shape, lesson), device)
    averaged = Average(net, config.average) if config.average else None
    train, judge = _course(config, shape, lesson, device)
    steps = Steps(config, net, learner, train, lesson, device, averaged)
    fitted = Fitted()
    for epoch in range(checkpoint.restore(draft, steps, fitted, config.epochs), config.epochs):
        rate = steps.rate(epoch * steps.steps)
        judged = net if averaged is None else averaged.net
        try:
            loss = steps.epoch(epoch)
            scores = judge(judged, epoch)
            _require_numbers(net, epoch)
        except DivergedError as error:
            kept = checkpoint.place(draft, epoch)
            last = f"The last good checkpoint is {kept}" if kept else "No epoch had ended"
            hint = "Lower `learning_rate` or `penalty`"
            raise StageError(f"{error}. {hint}; no model was published. {last}.") from error
        fitted.curves.append({"epoch": epoch, "loss": loss, "learning_rate": rate, **scores})
        _keep(fitted, judged, scores, epoch, lesson.metric)
        checkpoint.save(draft, steps, fitted)
        progress(epoch + 1)
    checkpoint.forget(draft, config.epochs)
    return fitted


def _course(
    config: TrainConfig, shape: BackboneShape, lesson: Lesson | NodeLesson, device: torch.device
) -> tuple[GraphTable | NodeSampler, Callable[[Any, int], dict[str, float]]]:
    """Return what batches are drawn from, and what scores a network after an epoch."""
    if isinstance(lesson, NodeLesson):
        sampler = NodeSampler(
            lesson,
            walks=config.batch_size,
            length=shape.layers,
            steps=config.samples,
            coverage=config.coverage,
            seed=config.seed,
            device=device,
        )
        return sampler, NodeJudge(lesson, device).scores
    train = lesson.train
    if foldable(shape, config.dropout) and not KINDS[config.learner].apart:
        train = with_colors(train, shape.layers)
    scorers = {
        split: Scorer(table, shape, metric=lesson.metric, task=lesson.task, device=device)
        for split, table in lesson.held_out.items()
    }
    return train, lambda net, epoch: {k: each.score(net, epoch) for k, each in scorers.items()}


def _require_numbers(net: nn.Module, epoch: int) -> None:
    """Refuse weights that are no numbers, before they become a checkpoint."""
    if not all(bool(torch.isfinite(value).all()) for value in net.state_dict().values()):
        raise DivergedError(f"weights are no numbers after epoch {epoch}")


def _keep(
    fitted: Fitted, net: nn.Module, scores: Mapping[str, float], epoch: int, metric: str
) -> None:
    """Remember the weights of the last epoch, and of the best by every rule, the last of equals."""
    now = Kept(epoch, {k: v.detach().cpu().numpy().copy() for k, v in net.state_dict().items()})
    fitted.kept["last"] = now
    for rule in ("ood_val", "id_val"):
        if rule in scores:
            before = fitted.kept.get(rule)
            if before is None or not better(
                metric, fitted.curves[before.epoch][rule], scores[rule]
            ):
                fitted.kept[rule] = now


def shared(learner: nn.Module, own: torch.optim.Optimizer | None) -> Iterator[nn.Parameter]:
    """Yield what a learner learns together with the network: all that it does not move itself."""
    groups = [] if own is None else own.param_groups
    moved = {id(value) for group in groups for value in group["params"]}
    return (value for value in learner.parameters() if id(value) not in moved)


class Steps:
    """Epochs of gradient steps."""

    def __init__(
        self,
        config: TrainConfig,
        net: Network,
        learner: nn.Module,
        train: GraphTable | NodeSampler,
        lesson: Lesson | NodeLesson,
        device: torch.device,
        averaged: Average | None,
    ) -> None:
        self.config, self.net, self.learner, self.averaged = config, net, learner, averaged
        self.train, self.lesson, self.device = train, lesson, device
        self.labels: Tensor | None
        if isinstance(train, NodeSampler):
            self.y = torch.from_numpy(train.y).to(device)
            self.labels, self.steps = torch.from_numpy(train.weight).to(device), train.steps
        else:
            self.y = torch.from_numpy(np.array(train.dense("graph", "y"))).to(device)
            self.labels = None if lesson.task == "classification" else label_counts(self.y)
            self.steps = max(len(train) // config.batch_size, 1)
        self.env = torch.from_numpy(lesson.env).to(device)
        self.share = None
        if config.env_balanced:
            each = 1 / np.bincount(lesson.env)[lesson.env]
            self.share = each / each.sum()
        self.own: torch.optim.Optimizer | None = getattr(learner, "descent", None)
        """Steps a learner takes by itself, if it does."""
        self.optimizer = torch.optim.Adam(
            [*net.parameters(), *shared(learner, self.own)], lr=config.learning_rate
        )

    def rate(self, step: int) -> float:
        """Return the learning rate of a step."""
        config = self.config
        if config.schedule == "cosine":
            part = step / (self.steps * config.epochs)
            return config.learning_rate * (1 + math.cos(math.pi * part)) / 2
        late = config.schedule == "step" and step >= self.steps * config.milestone
        return config.learning_rate * (MILESTONE_FACTOR if late else 1.0)

    def epoch(self, epoch: int) -> float:
        """Go once over the training graphs and return the mean loss."""
        self.net.train()
        total, seen = 0.0, 0
        for number, (rows, batch) in enumerate(self._batches(epoch)):
            step = epoch * self.steps + number
            # Before the loss: a learner that looks several times may leave gradients behind.
            self.optimizer.zero_grad()
            value = self._loss(rows, batch, step)
            if not torch.isfinite(value):
                told = float(value.detach())
                raise DivergedError(
                    f"the loss is {told:g} in epoch {epoch}, batch {number} (from 0)"
                )
            for group in self.optimizer.param_groups:
                group["lr"] = self.rate(step)
            value.backward()  # type: ignore[no-untyped-call]
            self.optimizer.step()
            if self.averaged is not None:
                self.averaged.update(self.net)
            total, seen = total + float(value.detach()) * len(rows), seen + len(rows)
        return round(total / seen, 6)

    def _loss(self, rows: Ints, batch: Batch, step: int) -> Tensor:
        chosen = torch.from_numpy(rows).to(self.device)
        told = Told(
            sight=Sight(self.net, self.device, self.config.precision),
            batch=batch,
            rows=chosen,
            env=self.env[chosen],
            y=self.y[chosen],
            task=self.lesson.task,
            stream=lambda name: rng(self.config.seed, "train", name, step),
            progress=step / (self.steps * self.config.epochs),
            labels=None if self.labels is None else self.labels[chosen],
        )
        value: Tensor = self.learner(told)
        return value

    def _batches(self, epoch: int) -> Iterator[tuple[Ints, Batch]]:
        """Yield rows and graphs of an epoch; the next batch is laid out during a step."""
        makers = self._makers(epoch)
        with ThreadPoolExecutor(max_workers=1) as worker:
            ahead = worker.submit(next(makers))
            for make in makers:
                ready = ahead
                ahead = worker.submit(make)
                yield ready.result()
            yield ahead.result()

    def _makers(self, epoch: int) -> Iterator[Callable[[], tuple[Ints, Batch]]]:
        """Yield what makes every batch of an epoch."""
        train = self.train
        if isinstance(train, NodeSampler):
            for step in range(self.steps):
                yield partial(train.draw, epoch, step)
            return

        def lay_out(rows: Ints) -> tuple[Ints, Batch]:
            cuts = KINDS[self.config.learner].cuts
            return rows, batch_of(train.take(rows), self.net.shape, self.device, cuts=cuts)

        name = ("train", "epoch", epoch)
        for rows in epoch_batches(
            len(train), self.config.batch_size, self.config.seed, *name, share=self.share
        ):
            yield partial(lay_out, rows)
