"""Measure an epoch of every training algorithm, compared with ERM: ``python bench/algorithms.py``.

The training graphs of motif-size with GIN and with a virtual node, and the nodes of cbas-color with
GCN, on one thread. Algorithms run in turn, so a busy machine slows all of them. Times are medians
of CPU seconds. Motif has no features, so GIN computes WL-equivalent nodes once under ERM. FLAG
perturbs every node, and algorithms that extract subgraphs separate equivalent nodes; compared with
ERM on GIN they also pay for this.
"""

from __future__ import annotations

import statistics
import tempfile
import time
from functools import partial
from pathlib import Path

import torch
from lib import harness
from lib.stages import run_recipe
from lib.training import CPU, motif_corpus

from gsx.pipeline.recipe import parse_config
from gsx.stages.nn.build_network import build_network
from gsx.stages.nn.training_loop import torch_stream
from gsx.stages.train.algorithms import ALGORITHMS
from gsx.stages.train.presets import train_options
from gsx.stages.train.stage import read_data
from gsx.stages.train.trainer import Trainer, batch_source, build_algorithm
from gsx.storage.corpora.corpus import Corpus

NAME = "algorithms"
BARS = {
    "flag": 4.0,
    "gin flag": 8.0,
    "eerm": 10.0,
    "dir": 4.0,
    "gil": 4.0,
    "ciga": 4.0,
    "lisa-subgraph": 6.0,
    "gin dir": 8.0,
    "gin gil": 8.0,
    "gin ciga": 8.0,
    "gin lisa-subgraph": 12.0,
}
"""Largest allowed ratio to ERM's epoch, for one backbone or for all."""
OTHERS = 2.0
"""Largest allowed ratio of all other algorithms."""


def main(arguments: list[str] | None = None) -> None:
    parser = harness.argument_parser(__doc__)
    parser.add_argument("--graphs", type=int, default=1500, help="graphs of all splits")
    parser.add_argument("--rounds", type=int, default=3)
    options = parser.parse_args(arguments)
    torch.set_num_threads(1)
    with tempfile.TemporaryDirectory() as folder:
        motif = motif_corpus(Path(folder), options.graphs)
        nodes = Corpus(run_recipe(Path(folder), '[prepare]\ndataset = "cbas-color"\n')["prepare"])
        seconds = {
            "gin": epoch_seconds(motif, "gin", options.rounds),
            "vgin": epoch_seconds(motif, "vgin", options.rounds),
            "gcn": epoch_seconds(nodes, "gcn", options.rounds),
        }
    ratios = {
        backbone: {name: round(value / epochs["erm"], 2) for name, value in epochs.items()}
        for backbone, epochs in seconds.items()
    }
    missed = [
        message
        for backbone, figures in ratios.items()
        for message in harness.at_most(
            {f"{backbone} {name}": ratio for name, ratio in figures.items()},
            {
                f"{backbone} {name}": BARS.get(f"{backbone} {name}", BARS.get(name, OTHERS))
                for name in figures
            },
        )
    ]
    result = {
        "command": harness.command_line(NAME),
        "training_graphs": motif.splits["train"],
        "width": 64,
        "erm_seconds": {backbone: round(epochs["erm"], 3) for backbone, epochs in seconds.items()},
        "times_erm": ratios,
        "bars": {**BARS, "others": OTHERS},
        "met": not missed,
        "machine": f"{harness.machine()}, CPU seconds of one process",
        "versions": harness.versions("numpy", "scipy", "torch", python=False),
    }
    print(harness.as_json(result))
    harness.write_result(NAME, result, dry_run=options.dry_run)
    harness.require(missed)


def epoch_seconds(corpus: Corpus, backbone: str, rounds: int) -> dict[str, float]:
    """Return the median CPU seconds of an epoch of every algorithm, after one warm-up epoch."""
    trainers = {
        algorithm.name: trainer_of(corpus, backbone, algorithm.name)
        for algorithm in ALGORITHMS
        if corpus.info.level in algorithm.levels
    }
    seconds: dict[str, list[float]] = {name: [] for name in trainers}
    for epoch in range(rounds + 1):
        for name, trainer in trainers.items():
            elapsed, _ = harness.timed(partial(trainer.train_epoch, epoch), time.process_time)
            seconds[name].append(elapsed)
    return {name: statistics.median(values[1:]) for name, values in seconds.items()}


def trainer_of(corpus: Corpus, backbone: str, name: str) -> Trainer:
    """Return the training loop of an algorithm, as ``gsx train`` sets it up."""
    nodes = corpus.info.level == "node"
    given = {"learner": name, "backbone": backbone, "precision": "full", "device": "cpu"}
    options = train_options("default", given, molecules=False, nodes=nodes)
    config = parse_config("train", {**options, "source": "prepare"}, "bench")
    data, shape = read_data(config, corpus)
    network = build_network(
        shape, config.dropout, torch_stream(0, "train", "weights"), torch.Generator()
    )
    train = batch_source(config, shape, data, CPU)
    algorithm = build_algorithm(config, shape, data, CPU)
    return Trainer(config, network, algorithm, train, data, CPU, None)


if __name__ == "__main__":
    main()
