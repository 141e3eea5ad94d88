"""Measure training with bfloat16, compared with full precision: ``python bench/precision.py``.

One epoch of a 300-wide GIN on motif-size, batches of 128, on one thread, in full precision and with
bfloat16 matrix products, in turn. A ratio above one means that bfloat16 is faster.
"""

from __future__ import annotations

import statistics
import tempfile
from pathlib import Path

import torch
from lib import harness
from lib.training import gsx_epoch, motif_corpus
from msgspec.structs import replace

from gsx.stages.train.stage import TrainConfig

NAME = "precision"


def main(arguments: list[str] | None = None) -> None:
    parser = harness.argument_parser(__doc__)
    parser.add_argument("--graphs", type=int, default=3000, help="graphs of all splits")
    parser.add_argument("--width", type=int, default=300)
    parser.add_argument("--repeats", type=int, default=3)
    options = parser.parse_args(arguments)
    torch.set_num_threads(1)
    with tempfile.TemporaryDirectory() as folder:
        corpus = motif_corpus(Path(folder), options.graphs)
        full, bf16 = [], []
        for seed in range(options.repeats):
            config = TrainConfig(width=options.width, learning_rate=1e-3, average=0.0, seed=seed)
            full.append(gsx_epoch(corpus, config)[0])
            bf16.append(gsx_epoch(corpus, replace(config, precision="bf16"))[0])
    ratios = [slow / fast for slow, fast in zip(full, bf16, strict=True)]
    result = {
        "command": harness.command_line(NAME),
        "training_graphs": corpus.splits["train"],
        "seconds_full": round(statistics.median(full), 2),
        "seconds_bf16": round(statistics.median(bf16), 2),
        "ratio": round(statistics.median(ratios), 2),
        "instructions": torch.backends.cpu.get_cpu_capability(),
        "machine": f"{harness.machine()}, one thread",
        "versions": harness.versions("numpy", "scipy", "torch", "torch-geometric", python=False),
    }
    print(harness.as_json(result))
    harness.write_result(NAME, result, dry_run=options.dry_run)


if __name__ == "__main__":
    main()
