"""Pretrain on a dataset and write down how good the result is, with the command that made it."""

from __future__ import annotations

import io
import json
import sys
from contextlib import chdir, redirect_stdout
from pathlib import Path

from gsx.cli.main import cli

ROOT = Path(__file__).parent.parent


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
    told = io.TextIOWrapper(io.BytesIO(), write_through=True)
    with redirect_stdout(told):
        run(*words, "--json")
    return json.loads(told.buffer.getvalue())


def run(*words: str) -> None:
    """Run a command at the root, in this process: to start one takes longer than to train little.

    The line is what a result file names as its command.
    """
    typed = sys.argv
    sys.argv = ["gsx", *words]
    try:
        with chdir(ROOT):
            cli(list(words), standalone_mode=False)
    finally:
        sys.argv = typed
