"""Measure an epoch of training, compared with PyG: ``python bench/train.py``.

One epoch of a 300-wide GIN on the training graphs of motif-size, batches of 128, on one thread. The
baseline is PyG's ``DataLoader`` and ``GINConv``, which gathers and scatters messages. Both use the
same batches in the same order and start from the same weights. Losses are compared at equal weights
during a run; two separate runs diverge, because Adam amplifies rounding errors of gradients that
are zero.

Nodes of Motif have no features, so gsx computes WL-equivalent nodes once. ``ratio_unfolded`` is the
ratio without this, as on graphs whose nodes all differ.
"""

from __future__ import annotations

import itertools
import statistics
import tempfile
import time
from pathlib import Path

import numpy as np
import torch
from lib import harness
from lib.gin_reference import PygGIN, cross_entropy
from lib.training import gsx_epoch, initial_network, motif_corpus, trainer, training_data
from torch_geometric.data import Batch
from torch_geometric.loader import DataLoader

from gsx.stages.nn.backbones import Backbone
from gsx.stages.nn.training_loop import epoch_batches
from gsx.stages.train.stage import TrainConfig
from gsx.storage.corpora.corpus import Corpus

NAME = "train"
BARS = {"ratio": 3, "loss_difference": 1e-4}
COMPARED = 20
"""Number of batches whose losses are compared."""


def main(arguments: list[str] | None = None) -> None:
    parser = harness.argument_parser(__doc__)
    parser.add_argument("--graphs", type=int, default=30_000, help="graphs of all splits")
    parser.add_argument("--width", type=int, default=300)
    parser.add_argument("--repeats", type=int, default=3)
    options = parser.parse_args(arguments)
    torch.set_num_threads(1)
    with tempfile.TemporaryDirectory() as folder:
        corpus = motif_corpus(Path(folder), options.graphs)
        gsx, without_dedup, pyg = [], [], []
        for seed in range(options.repeats):
            config = TrainConfig(width=options.width, learning_rate=1e-3, average=0.0, seed=seed)
            gsx.append(gsx_epoch(corpus, config))
            without_dedup.append(gsx_epoch(corpus, config, dedup=False))
            pyg.append(pyg_epoch(corpus, config))
        difference = largest_loss_difference(corpus, config)
    ratio, ratio_unfolded = (
        statistics.median(theirs[0] / ours[0] for ours, theirs in zip(epochs, pyg, strict=True))
        for epochs in (gsx, without_dedup)
    )
    missed = harness.at_least({"ratio": ratio}, BARS)
    missed += harness.at_most({"loss_difference": difference}, BARS)
    result = {
        "command": harness.command_line(NAME),
        "training_graphs": corpus.splits["train"],
        "width": options.width,
        "batch_size": 128,
        "seconds_per_epoch": round(statistics.median(epoch[0] for epoch in gsx), 2),
        "seconds_per_epoch_pyg": round(statistics.median(epoch[0] for epoch in pyg), 2),
        "ratio": round(ratio, 2),
        "ratio_unfolded": round(ratio_unfolded, 2),
        "largest_loss_difference": float(f"{difference:.2g}"),
        "mean_loss": [round(float(np.mean(epochs[0][1])), 4) for epochs in (gsx, pyg)],
        "bars": BARS,
        "met": not missed,
        "machine": f"{harness.machine()}, one thread for each network; "
        "gsx lays out the next batch on another",
        "versions": harness.versions("numpy", "scipy", "torch", "torch-geometric", python=False),
    }
    print(harness.as_json(result))
    harness.write_result(NAME, result, dry_run=options.dry_run)
    harness.require(missed)


def largest_loss_difference(corpus: Corpus, config: TrainConfig) -> float:
    """Return the largest difference between losses of gsx and PyG at equal weights."""
    dataset = corpus.to_pyg(split="train")
    steps = trainer(training_data(corpus), initial_network(corpus, config), config)
    reference = PygGIN(config.width, len(corpus.info.outputs))
    differences = []
    for rows, batch in itertools.islice(steps.batches(0), COMPARED):
        assert isinstance(steps.network, Backbone)
        reference.copy_weights(steps.network)
        loss = steps.loss(rows, batch, 0)
        data = Batch.from_data_list([dataset[int(row)] for row in rows])
        reference_loss = float(cross_entropy(reference, data).detach())
        differences.append(abs(float(loss.detach()) - reference_loss))
        steps.optimizer.zero_grad()
        loss.backward()
        steps.optimizer.step()
    return max(differences)


def pyg_epoch(corpus: Corpus, config: TrainConfig) -> tuple[float, list[float]]:
    """Return the seconds of one epoch and the loss of every batch; the dataset is in memory."""
    dataset = corpus.to_pyg(split="train")
    graphs = [dataset[number] for number in range(len(dataset))]
    for data in graphs:
        data.x = data.x.float()
    network = PygGIN(config.width, len(corpus.info.outputs))
    network.copy_weights(initial_network(corpus, config))
    orders = list(epoch_batches(len(graphs), config.batch_size, config.seed, "train", "epoch", 0))
    steps = len(orders)
    started = time.perf_counter()
    loader = DataLoader(graphs, batch_sampler=[order.tolist() for order in orders])
    optimizer = torch.optim.Adam(network.parameters(), lr=config.learning_rate)
    schedule = torch.optim.lr_scheduler.CosineAnnealingLR(optimizer, steps * config.epochs)
    network.train()
    losses = []
    for data in loader:
        loss = cross_entropy(network, data)
        optimizer.zero_grad()
        loss.backward()
        optimizer.step()
        schedule.step()
        losses.append(float(loss.detach()))
    return time.perf_counter() - started, losses


if __name__ == "__main__":
    main()
