"""Measure the extractors: ``python results/extract.py``.

On Motif against the truth; on molecules, which have none, by held-out labels and scaffolds. Takes a
few minutes per line on one core. What the store or ``results/extract`` already holds is not made
again; name datasets to measure only those. Molecules are left out where their raw files are not
found.
"""

from __future__ import annotations

import os
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
    ("hiv-size", "posterior", 0),
]


def main() -> None:
    wanted = sys.argv[1:]
    for dataset, extractor, seed in RUNS:
        path = FOLDER / f"{dataset}-{extractor}-{seed}.json"
        if path.exists() or (wanted and dataset not in wanted):
            continue
        if dataset.startswith("hiv") and "GSX_RAW_DATA" not in os.environ:
            continue
        options = ["--extractor", extractor, "--seed", str(seed)]
        result = measure(path, dataset, "extract", options)
        quality = result["quality"]
        causal = quality.get("causal", {})
        figures = [causal.get(name) for name in ("node_auc", "iou", "exact")]
        print(path.name, *figures, *quality["label_told_held_out"].values(), flush=True)


if __name__ == "__main__":
    main()
