"""Measure how fast HIV molecules are spliced, RDKit's judgement and SMILES included.

Run: ``GSX_RAW_DATA=DIR python bench/hiv_splice.py``. Takes minutes: first the corpus is prepared,
and an extractor and a bridge model are trained for an epoch or two, in the store of GSX_STORE.
"""

from __future__ import annotations

import json
import platform
import subprocess
import sys
import tempfile
import time
from importlib.metadata import version
from pathlib import Path

import torch

from gsx.pipeline.plan import Step
from gsx.pipeline.recipe import parse_config
from gsx.pipeline.runner import run_plan
from gsx.pipeline.stages import stage_named
from gsx.storage.store import Store

COMMAND = "python bench/hiv_splice.py"
RESULT = Path(__file__).parent / "results" / "hiv_splice.json"
MOLECULES, FEW, BAR = 21_000, 1_000, 2_000
EXTRACT = ("--node-epochs", "1", "--set-epochs", "1", "--largest-piece", "20")
PACKAGES = ("numpy", "pyarrow", "torch", "rdkit")


def main() -> None:
    """Splice, and write what was measured."""
    torch.set_num_threads(1)
    corpus = gsx("prepare", "hiv-size")
    store = Store.at(None)
    made = {
        "prepare": store.resolve(corpus["key"], kind="corpus"),
        "bridge": store.resolve(gsx("pretrain", "bridge", corpus["key"], "--epochs", "2")["key"]),
        "extract": store.resolve(gsx("pretrain", "extract", corpus["key"], *EXTRACT)["key"]),
    }
    found = {option: measure(made, option) for option in ("100", "010", "001")}
    result = {
        "command": COMMAND,
        "molecules": MOLECULES,
        "options": found,
        "bar": BAR,
        "versions": {"python": platform.python_version(), **{p: version(p) for p in PACKAGES}},
    }
    print(json.dumps(result, indent=2))
    RESULT.write_text(json.dumps(result, indent=2) + "\n")


def measure(made: dict, option: str) -> dict[str, float]:
    """Return the rate of one option.

    Cutting, writing and encoding the pool of components, and the report on a sample, happen once,
    whatever the number of molecules: so two runs are compared.
    """
    with tempfile.TemporaryDirectory() as folder:
        generate(made, Path(folder), option, 2)  # imports and first allocations
        few, _ = generate(made, Path(folder), option, FEW)
        many, quality = generate(made, Path(folder), option, MOLECULES)
    spent = many - few  # so little for pieces alone that it drowns in the noise
    return {
        "molecules_per_s": round((MOLECULES - FEW) / spent) if spent > 1 else None,
        "seconds_for_the_first_1000": round(few, 1),
        "mean_atoms": quality["mean_nodes"],
        "accepted_at_first": quality["accepted_at_first"],
        "distinct": round(quality["distinct"] / quality["graphs"], 4),
        "same_as_training": quality["same_as_training"],
        "scaffold_novelty": quality["molecules"]["scaffold_novelty"],
    }


def generate(made: dict, folder: Path, option: str, count: int) -> tuple[float, dict]:
    """Return the seconds of one generation, and its quality."""
    stage = stage_named("generate")
    options = {"options": option, "count": count, "augmented_only": True}
    config = parse_config("generate", options, "bench")
    start = time.perf_counter()
    plan = (Step(stage, config, stage.inputs_of(config)),)
    ((_, built),) = run_plan(plan, Store.at(folder), given=made)
    quality = built.artifact.manifest.summary["quality"]
    return time.perf_counter() - start, quality[f"option_{option.index('1') + 1}"]


def gsx(*words: str) -> dict[str, str]:
    """Run a command and return what it prints as JSON."""
    command = [sys.executable, "-m", "gsx", *words, "--json"]
    told = subprocess.run(command, check=True, stdout=subprocess.PIPE)
    return json.loads(told.stdout)


if __name__ == "__main__":
    main()
