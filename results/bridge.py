"""Measure bridge models on cuts of held-out graphs: ``python results/bridge.py``.

What the store already holds is not trained again; name datasets to measure only those. Molecules
are left out where their raw files are not found.
"""

from __future__ import annotations

import json
import os
import subprocess
import sys
from pathlib import Path

FOLDER = Path(__file__).parent / "bridge"
RUNS = [("motif-size", []), ("motif-base", []), ("hiv-size", ["--epochs", "6"])]


def main() -> None:
    """Write one file per dataset that has none yet."""
    FOLDER.mkdir(exist_ok=True)
    for dataset, options in RUNS:
        path = FOLDER / f"{dataset}-vae-0.json"
        if path.exists() or (sys.argv[1:] and dataset not in sys.argv[1:]):
            continue
        if dataset.startswith("hiv") and "GSX_RAW_DATA" not in os.environ:
            continue
        corpus = gsx("prepare", dataset)
        built = gsx("pretrain", "bridge", corpus["key"], *options)
        folder = Path(built["path"])
        manifest = json.loads((folder / "manifest.json").read_text())
        run = json.loads((folder / "run.json").read_text())
        command = " ".join(["gsx pretrain bridge", corpus["key"][:12], *options])
        result = {
            "dataset": dataset,
            "stage": "bridge",
            "stage_version": manifest["stage_version"],
            "config": manifest["config"],
            "key": built["key"],
            "corpus_key": corpus["key"],
            "command": f"gsx prepare {dataset} && {command}",
            "source": run["source"],
            "seconds": run["seconds"],
            "quality": manifest["summary"]["quality"],
        }
        path.write_text(json.dumps(result, indent=2) + "\n")
        print(path.name, result["quality"]["edge_auc"], flush=True)


def gsx(*words: str) -> dict[str, str]:
    """Run a command and return what it prints as JSON."""
    command = [sys.executable, "-m", "gsx", *words, "--json"]
    told = subprocess.run(command, check=True, stdout=subprocess.PIPE)
    return json.loads(told.stdout)


if __name__ == "__main__":
    main()
