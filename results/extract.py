"""Measure the extractors against the truth of Motif: ``python results/extract.py``.

Takes a few minutes per line on one core. What the store or ``results/extract`` already holds is not
made again; name datasets to measure only those.
"""

from __future__ import annotations

import json
import subprocess
import sys
from pathlib import Path

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
        corpus = gsx("prepare", dataset)
        options = ["--extractor", extractor, "--seed", str(seed)]
        built = gsx("pretrain", "extract", corpus["key"], *options)
        folder = Path(built["path"])
        manifest = json.loads((folder / "manifest.json").read_text())
        run = json.loads((folder / "run.json").read_text())
        command = " ".join(["gsx pretrain extract", corpus["key"][:12], *options])
        result = {
            "dataset": dataset,
            "stage": "extract",
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
        causal = result["quality"]["causal"]
        print(path.name, causal["node_auc"], causal["iou"], causal["exact"], flush=True)


def gsx(*words: str) -> dict[str, str]:
    command = [sys.executable, "-m", "gsx", *words, "--json"]
    told = subprocess.run(command, check=True, stdout=subprocess.PIPE)
    return json.loads(told.stdout)


if __name__ == "__main__":
    main()
