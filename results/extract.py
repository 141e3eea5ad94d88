"""Measure the extractors against the truth of Motif: ``python results/extract.py``.

Takes a few minutes per line on one core. What the store or ``results/extract`` already holds is not
made again; name datasets to measure only those.
"""

from __future__ import annotations

import sys
from pathlib import Path

from measured import measure

FOLDER = Path(__file__).parent / "extract"
RUNS = [
    *[(name, "posterior", 0) for name in ("motif-size-concept", "motif-size")],
    *[(name, "posterior", 0) for name in ("motif-base-concept", "motif-base")],
    *[(name, "pair", 0) for name in ("motif-base", "motif-size")],
    *[
        (name, "posterior", seed)
        for seed in (1, 2)
        for name in ("motif-base", "motif-size", "motif-base-concept", "motif-size-concept")
    ],
]


def main() -> None:
    wanted = sys.argv[1:]
    for dataset, extractor, seed in RUNS:
        path = FOLDER / f"{dataset}-{extractor}-{seed}.json"
        if path.exists() or (wanted and dataset not in wanted):
            continue
        options = ["--extractor", extractor, "--seed", str(seed)]
        result = measure(path, dataset, "extract", options)
        causal = result["quality"]["causal"]
        print(path.name, causal["node_auc"], causal["iou"], causal["exact"], flush=True)


if __name__ == "__main__":
    main()
