"""Measure an epoch of training beside PyG's usual way: ``python bench/train.py``.

One epoch of a 300-wide GIN on the training graphs of motif-size, batches of 128, on one thread. The
peer is PyG's ``DataLoader`` and ``GINConv`` with messages gathered and scattered. Both see the same
batches in the same order, from the same weights. Losses are compared at equal weights along a run:
two runs drift apart, because Adam enlarges the rounding errors of gradients that are zero.

Nodes of Motif have no features, so gsx computes those once that the network cannot tell apart;
``ratio_unfolded`` is without that, as it would be where all nodes differ.
"""

from __future__ import annotations

import argparse
import itertools
import json
import platform
import statistics
import tempfile
import time
from importlib.metadata import version
from pathlib import Path

import numpy as np
import torch
from torch import nn
from torch_geometric.data import Batch
from torch_geometric.loader import DataLoader
from torch_geometric.nn import GINConv, global_mean_pool

from gsx.pipeline.plan import make_plan
from gsx.pipeline.recipe import parse_recipe
from gsx.pipeline.runner import run_plan
from gsx.stages.kernels.folding import with_colors
from gsx.stages.learning.choice import Setting, learner_of
from gsx.stages.learning.fit import Lesson, Steps
from gsx.stages.learning.lesson import environments, read_train, shape_of
from gsx.stages.nets.backbones import Backbone
from gsx.stages.nets.descent import epoch_batches, torch_stream
from gsx.stages.train import TrainConfig
from gsx.storage.corpus import Corpus
from gsx.storage.store import Store

COMMAND = "python bench/train.py"
RESULT = Path(__file__).parent / "results" / "train.json"
BARS = {"ratio": 3, "loss_difference": 1e-4}
COMPARED = 20
"""Batches whose losses are compared."""
CPU = torch.device("cpu")
PACKAGES = ("numpy", "scipy", "torch", "torch-geometric")


class Usual(nn.Module):
    """The same network, written the usual way."""

    def __init__(self, width, outputs):
        super().__init__()
        sizes = [1, width, width]
        self.convs = nn.ModuleList(
            GINConv(
                nn.Sequential(
                    nn.Linear(entering, 2 * width),
                    nn.BatchNorm1d(2 * width),
                    nn.ReLU(),
                    nn.Linear(2 * width, width),
                )
            )
            for entering in sizes
        )
        self.norms = nn.ModuleList(nn.BatchNorm1d(width) for _ in sizes)
        self.classify = nn.Linear(width, outputs)

    def forward(self, data):
        """Return logits."""
        x = data.x
        for number, (conv, norm) in enumerate(zip(self.convs, self.norms, strict=True)):
            x = norm(conv(x, data.edge_index))
            x = x.relu() if number < len(self.convs) - 1 else x
        return self.classify(global_mean_pool(x, data.batch))

    def take_weights(self, net):
        """Copy the weights of a backbone of gsx."""
        with torch.no_grad():
            for conv, norm, layer in zip(self.convs, self.norms, net.layers, strict=True):
                enlarge, inner, _, reduce = conv.nn
                pairs = ((enlarge, layer.enlarge), (inner, layer.inner), (reduce, layer.reduce))
                for mine, theirs in (*pairs, (norm, layer.norm)):
                    mine.load_state_dict(theirs.state_dict())
            self.classify.load_state_dict(net.classify.state_dict())


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--graphs", type=int, default=30_000, help="graphs of all splits")
    parser.add_argument("--width", type=int, default=300)
    parser.add_argument("--repeats", type=int, default=3)
    parser.add_argument("--dry", action="store_true", help="write no result file")
    options = parser.parse_args()
    torch.set_num_threads(1)
    with tempfile.TemporaryDirectory() as folder:
        recipe = f'[prepare]\ndataset = "motif-size"\nnum_graphs = {options.graphs}\n'
        plan = make_plan(parse_recipe(recipe, "bench"))
        corpus = Corpus(next(iter(run_plan(plan, Store.at(folder))))[1].artifact)
        ours, unfolded, usual = [], [], []
        for repeat in range(options.repeats):
            config = TrainConfig(width=options.width, learning_rate=1e-3, seed=repeat)
            ours.append(epoch_of_ours(corpus, config))
            unfolded.append(epoch_of_ours(corpus, config, folded=False))
            usual.append(epoch_of_pyg(corpus, config))
        apart = largest_difference(corpus, config)
    ratios, plain = (
        [theirs[0] / mine[0] for mine, theirs in zip(side, usual, strict=True)]
        for side in (ours, unfolded)
    )
    result = {
        "command": COMMAND,
        "training_graphs": corpus.splits["train"],
        "width": options.width,
        "batch_size": 128,
        "seconds_per_epoch": round(statistics.median(mine[0] for mine in ours), 2),
        "seconds_per_epoch_pyg": round(statistics.median(theirs[0] for theirs in usual), 2),
        "ratio": round(statistics.median(ratios), 2),
        "ratio_unfolded": round(statistics.median(plain), 2),
        "largest_loss_difference": float(f"{apart:.2g}"),
        "mean_loss": [round(float(np.mean(side[0][1])), 4) for side in (ours, usual)],
        "bars": BARS,
        "met": statistics.median(ratios) >= BARS["ratio"] and apart <= BARS["loss_difference"],
        "machine": f"{platform.system()} {platform.machine()}, one thread for each network; "
        "gsx lays out the next batch on another",
        "versions": {name: version(name) for name in PACKAGES},
    }
    print(json.dumps(result, indent=2))
    if not options.dry:
        RESULT.write_text(json.dumps(result, indent=2) + "\n")


def start(corpus, config):
    """Return the network both sides start from."""
    shape = shape_of(corpus.info, "gin", config.width, config.layers)
    weights = torch_stream(config.seed, "train", "weights")
    return Backbone.fresh(shape, 0.0, weights, torch.Generator())


def lesson_of(corpus):
    train = read_train(corpus, None)
    env, count = environments(train, "erm")
    return Lesson(
        task=corpus.info.task,
        metric=corpus.info.metric,
        train=train,
        env=env,
        num_envs=count,
        held_out={},
    )


def steps_of(lesson, net, config, *, folded=True):
    """Return our way of making steps; nodes are colored where they are to be folded."""
    colored = with_colors(lesson.train, config.layers) if folded else lesson.train
    learner = learner_of(Setting(config, net.shape, lesson), CPU)
    return Steps(config, net, learner, colored, lesson, CPU, None)


def largest_difference(corpus, config):
    """Return how far losses of the two networks are apart where their weights are equal."""
    dataset = corpus.to_pyg(split="train")
    steps = steps_of(lesson_of(corpus), start(corpus, config), config)
    usual = Usual(config.width, len(corpus.info.outputs))
    apart = []
    for rows, batch in itertools.islice(steps._batches(0), COMPARED):
        usual.take_weights(steps.net)
        loss = steps._loss(rows, batch, 0)
        data = Batch.from_data_list([dataset[int(row)] for row in rows])
        apart.append(abs(float(loss.detach()) - float(loss_of(usual, data).detach())))
        steps.optimizer.zero_grad()
        loss.backward()
        steps.optimizer.step()
    return max(apart)


def loss_of(net, data):
    target = data.y.view(data.num_graphs, -1)
    target = target.argmax(dim=1) if target.shape[1] > 1 else target[:, 0].long()
    return nn.functional.cross_entropy(net(data), target)


def epoch_of_ours(corpus, config, *, folded=True):
    """Return seconds and the loss of every batch; colors are made inside the clock."""
    lesson, net = lesson_of(corpus), start(corpus, config)
    began = time.perf_counter()
    steps = steps_of(lesson, net, config, folded=folded)
    losses = []
    steps.learner.register_forward_hook(lambda _, __, value: losses.append(float(value.detach())))
    steps.epoch(0)
    return time.perf_counter() - began, losses


def epoch_of_pyg(corpus, config):
    """Return the same of PyG; its dataset is in memory before the clock starts."""
    dataset = corpus.to_pyg(split="train")
    graphs = [dataset[number] for number in range(len(dataset))]
    for data in graphs:
        data.x = data.x.float()
    net = Usual(config.width, len(corpus.info.outputs))
    net.take_weights(start(corpus, config))
    orders = list(epoch_batches(len(graphs), config.batch_size, config.seed, "train", "epoch", 0))
    steps = len(orders)
    began = time.perf_counter()
    loader = DataLoader(graphs, batch_sampler=[order.tolist() for order in orders])
    optimizer = torch.optim.Adam(net.parameters(), lr=config.learning_rate)
    schedule = torch.optim.lr_scheduler.CosineAnnealingLR(optimizer, steps * config.epochs)
    net.train()
    losses = []
    for data in loader:
        loss = loss_of(net, data)
        optimizer.zero_grad()
        loss.backward()
        optimizer.step()
        schedule.step()
        losses.append(float(loss.detach()))
    return time.perf_counter() - began, losses


if __name__ == "__main__":
    main()
