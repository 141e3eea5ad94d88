"""Single training epochs of gsx, for the benchmarks of training."""

from __future__ import annotations

import time
from pathlib import Path

import torch

from gsx.stages.graphs.wl_dedup import with_wl_colors
from gsx.stages.nn.backbones import Backbone
from gsx.stages.nn.training_loop import torch_stream
from gsx.stages.train.data import (
    TrainingData,
    graph_backbone_shape,
    graph_environments,
    read_train,
)
from gsx.stages.train.stage import TrainConfig
from gsx.stages.train.trainer import Trainer, build_algorithm
from gsx.storage.corpora.corpus import Corpus
from lib.stages import run_recipe

CPU = torch.device("cpu")


def motif_corpus(store: Path, graphs: int) -> Corpus:
    """Return motif-size with ``graphs`` graphs in all splits together."""
    recipe = f'[prepare]\ndataset = "motif-size"\nnum_graphs = {graphs}\n'
    return Corpus(run_recipe(store, recipe)["prepare"])


def initial_network(corpus: Corpus, config: TrainConfig) -> Backbone:
    """Return the untrained network of a seed."""
    shape = graph_backbone_shape(corpus.info, "gin", config.width, config.layers)
    weights = torch_stream(config.seed, "train", "weights")
    return Backbone.with_random_weights(shape, 0.0, weights, torch.Generator())


def training_data(corpus: Corpus) -> TrainingData:
    """Return the training graphs, without held-out splits."""
    train = read_train(corpus, None)
    env, count = graph_environments(train, "erm")
    return TrainingData(
        task=corpus.info.task,
        metric=corpus.info.metric,
        train=train,
        env=env,
        num_envs=count,
        held_out={},
    )


def trainer(
    data: TrainingData, network: Backbone, config: TrainConfig, *, dedup: bool = True
) -> Trainer:
    """Return the training loop; with ``dedup`` it computes WL-equivalent nodes once."""
    train = with_wl_colors(data.train, config.layers) if dedup else data.train
    algorithm = build_algorithm(config, network.shape, data, CPU)
    return Trainer(config, network, algorithm, train, data, CPU, None)


def gsx_epoch(
    corpus: Corpus, config: TrainConfig, *, dedup: bool = True
) -> tuple[float, list[float]]:
    """Return the seconds of one epoch and the loss of every batch.

    The seconds include the search for WL-equivalent nodes.
    """
    data, network = training_data(corpus), initial_network(corpus, config)
    losses: list[float] = []
    started = time.perf_counter()
    steps = trainer(data, network, config, dedup=dedup)
    steps.algorithm.register_forward_hook(lambda _, __, loss: losses.append(float(loss.detach())))
    steps.train_epoch(0)
    return time.perf_counter() - started, losses
