"""Measure an epoch of every learner beside ERM's: ``python bench/learners.py``.

The training graphs of motif-size with GIN and with a virtual node, and the nodes of cbas-color with
GCN, on one thread. Learners take turns, so that a busy machine is busy for all of them; what counts
is CPU time, and the median over turns. Without features, GIN computes equal nodes of Motif once;
FLAG moves every node apart, and learners of subgraphs cut between equal nodes, so beside GIN's ERM
they also pay for what they cannot fold.
"""

from __future__ import annotations

import argparse
import json
import platform
import statistics
import tempfile
import time
from importlib.metadata import version
from pathlib import Path

import torch

from gsx.cli.learn import train_options
from gsx.pipeline.plan import make_plan
from gsx.pipeline.recipe import parse_config, parse_recipe
from gsx.pipeline.runner import run_plan
from gsx.stages.learners.kinds import KINDS
from gsx.stages.learning.choice import Setting, learner_of
from gsx.stages.learning.fit import Steps, _course
from gsx.stages.nets.descent import torch_stream
from gsx.stages.nets.networks import fresh
from gsx.stages.train import _lesson
from gsx.storage.corpus import Corpus
from gsx.storage.store import Store

COMMAND = "python bench/learners.py"
RESULT = Path(__file__).parent / "results" / "learners.json"
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
"""Times ERM's epoch that a learner may take, for one backbone or for all; the others may take 2."""
OTHERS = 2.0
CPU = torch.device("cpu")
PACKAGES = ("numpy", "scipy", "torch")


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--graphs", type=int, default=1500, help="graphs of all splits")
    parser.add_argument("--turns", type=int, default=3)
    parser.add_argument("--dry", action="store_true", help="write no result file")
    options = parser.parse_args()
    torch.set_num_threads(1)
    with tempfile.TemporaryDirectory() as folder:
        motif = prepared(folder, f'dataset = "motif-size"\nnum_graphs = {options.graphs}')
        nodes = prepared(folder, 'dataset = "cbas-color"')
        found = {
            "gin": epochs(motif, "gin", options.turns),
            "vgin": epochs(motif, "vgin", options.turns),
            "gcn": epochs(nodes, "gcn", options.turns),
        }
    times = {
        backbone: {learner: round(seconds / each["erm"], 2) for learner, seconds in each.items()}
        for backbone, each in found.items()
    }
    result = {
        "command": COMMAND,
        "training_graphs": motif.splits["train"],
        "width": 64,
        "erm_seconds": {backbone: round(each["erm"], 3) for backbone, each in found.items()},
        "times_erm": times,
        "bars": {**BARS, "others": OTHERS},
        "met": all(
            factor <= BARS.get(f"{backbone} {learner}", BARS.get(learner, OTHERS))
            for backbone, each in times.items()
            for learner, factor in each.items()
        ),
        "machine": f"{platform.system()} {platform.machine()}, CPU seconds of one process",
        "versions": {name: version(name) for name in PACKAGES},
    }
    print(json.dumps(result, indent=2))
    if not options.dry:
        RESULT.write_text(json.dumps(result, indent=2) + "\n")


def prepared(folder, options):
    plan = make_plan(parse_recipe(f"[prepare]\n{options}\n", "bench"))
    return Corpus(next(iter(run_plan(plan, Store.at(folder))))[1].artifact)


def epochs(corpus, backbone, turns):
    """Return the median CPU seconds of an epoch of every learner, after one to warm up."""
    level = corpus.info.level
    steps = {
        learner: steps_of(corpus, backbone, learner)
        for learner, kind in KINDS.items()
        if level in kind.levels
    }
    taken = {learner: [] for learner in steps}
    for turn in range(turns + 1):
        for learner, each in steps.items():
            began = time.process_time()
            each.epoch(turn)
            taken[learner].append(time.process_time() - began)
    return {learner: statistics.median(seconds[1:]) for learner, seconds in taken.items()}


def steps_of(corpus, backbone, learner):
    """Return what takes the steps of a learner, as ``gsx train`` makes it."""
    nodes = corpus.info.level == "node"
    given = {"learner": learner, "backbone": backbone, "precision": "full", "device": "cpu"}
    options = train_options("default", given, molecules=False, nodes=nodes)
    config = parse_config("train", {**options, "source": "prepare"}, "bench")
    lesson, shape = _lesson(config, corpus)
    net = fresh(shape, config.dropout, torch_stream(0, "train", "weights"), torch.Generator())
    train, _ = _course(config, shape, lesson, CPU)
    made = learner_of(Setting(config, shape, lesson), CPU)
    return Steps(config, net, made, train, lesson, CPU, None)


if __name__ == "__main__":
    main()
