"""Pretrain on a dataset and write down how good the result is, with the command that made it."""

from __future__ import annotations

import json
import subprocess
import sys
from pathlib import Path


def measure(
    path: Path, dataset: str, stage: str, options: list[str], prepare: list[str] | None = None
) -> dict:
    """Run ``gsx pretrain`` unless the store holds the result, and write its quality to ``path``."""
    given = [dataset, *(prepare or [])]
    corpus = gsx("prepare", *given)
    built = gsx("pretrain", stage, corpus["key"], *options)
    folder = Path(built["path"])
    manifest = json.loads((folder / "manifest.json").read_text())
    run = json.loads((folder / "run.json").read_text())
    command = " ".join([f"gsx pretrain {stage}", corpus["key"][:12], *options])
    result = {
        "dataset": dataset,
        "stage": stage,
        "stage_version": manifest["stage_version"],
        "config": manifest["config"],
        "key": built["key"],
        "corpus_key": corpus["key"],
        "command": f"gsx prepare {' '.join(given)} && {command}",
        "source": run["source"],
        "seconds": run["seconds"],
        "quality": manifest["summary"]["quality"],
    }
    path.parent.mkdir(exist_ok=True)
    path.write_text(json.dumps(result, indent=2) + "\n")
    return result


def gsx(*words: str) -> dict[str, str]:
    """Run a command and return what it prints as JSON."""
    command = [sys.executable, "-m", "gsx", *words, "--json"]
    told = subprocess.run(command, check=True, stdout=subprocess.PIPE)
    return json.loads(told.stdout)
