"""Measure whether bfloat16 trains faster: ``python bench/precision.py``.

One epoch of a 300-wide GIN on part of motif-size, batches of 128, in full precision and with
bfloat16 products, in turns, on one thread. A ratio above one means that bfloat16 is faster.
"""

from __future__ import annotations

import argparse
import json
import platform
import statistics
import tempfile
from importlib.metadata import version
from pathlib import Path

import torch
from msgspec.structs import replace
from train import PACKAGES, epoch_of_ours

from gsx.pipeline.plan import make_plan
from gsx.pipeline.recipe import parse_recipe
from gsx.pipeline.runner import run_plan
from gsx.stages.train import TrainConfig
from gsx.storage.corpus import Corpus
from gsx.storage.store import Store

COMMAND = "python bench/precision.py"
RESULT = Path(__file__).parent / "results" / "precision.json"


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--graphs", type=int, default=3000, help="graphs of all splits")
    parser.add_argument("--width", type=int, default=300)
    parser.add_argument("--repeats", type=int, default=3)
    parser.add_argument("--dry", action="store_true", help="write no result file")
    options = parser.parse_args()
    torch.set_num_threads(1)
    with tempfile.TemporaryDirectory() as folder:
        recipe = f'[prepare]\ndataset = "motif-size"\nnum_graphs = {options.graphs}\n'
        plan = make_plan(parse_recipe(recipe, "bench"))
        corpus = Corpus(next(iter(run_plan(plan, Store.at(folder))))[1].artifact)
        full, short = [], []
        for repeat in range(options.repeats):
            config = TrainConfig(width=options.width, learning_rate=1e-3, seed=repeat)
            full.append(epoch_of_ours(corpus, config)[0])
            short.append(epoch_of_ours(corpus, replace(config, precision="bf16"))[0])
    ratios = [before / after for before, after in zip(full, short, strict=True)]
    result = {
        "command": COMMAND,
        "training_graphs": corpus.splits["train"],
        "seconds_full": round(statistics.median(full), 2),
        "seconds_bf16": round(statistics.median(short), 2),
        "ratio": round(statistics.median(ratios), 2),
        "instructions": torch.backends.cpu.get_cpu_capability(),
        "machine": f"{platform.system()} {platform.machine()}, one thread",
        "versions": {name: version(name) for name in PACKAGES},
    }
    print(json.dumps(result, indent=2))
    if not options.dry:
        RESULT.write_text(json.dumps(result, indent=2) + "\n")


if __name__ == "__main__":
    main()
