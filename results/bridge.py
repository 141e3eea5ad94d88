"""Measure bridge models on cuts of held-out graphs: ``python results/bridge.py``.

What the store already holds is not trained again; name datasets to measure only those. Molecules
are left out where their raw files are not found.
"""

from __future__ import annotations

import os
import sys
from pathlib import Path

from measured import measure

FOLDER = Path(__file__).parent / "bridge"
RUNS = [
    ("motif-size", []),
    ("motif-base", []),
    ("hiv-size", ["--epochs", "6"]),
    ("fsmotif-size-color", ["--epochs", "100"]),
]


def main() -> None:
    """Write one file per dataset that has none yet."""
    for dataset, options in RUNS:
        path = FOLDER / f"{dataset}-vae-0.json"
        if path.exists() or (sys.argv[1:] and dataset not in sys.argv[1:]):
            continue
        if dataset.startswith("hiv") and "GSX_RAW_DATA" not in os.environ:
            continue
        result = measure(path, dataset, "bridge", options)
        print(path.name, result["quality"]["edge_auc"], flush=True)


if __name__ == "__main__":
    main()
