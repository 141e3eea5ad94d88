"""Measure how fast HIV molecules are spliced, RDKit's judgement and SMILES included.

Run: ``GSX_RAW_DATA=DIR python bench/hiv_splice.py``. Takes minutes: first the corpus is prepared,
and an extractor and a bridge model are trained for an epoch or two, in the store of GSX_STORE.

The bar is for the marginal molecule: drawn, joined, written as SMILES, read and sanitized by RDKit,
hashed, checked, encoded as Parquet and flushed, by one process on one core.
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
from statistics import median
from unittest import mock

import torch
from rdkit import Chem, rdBase

from gsx.pipeline.plan import Step
from gsx.pipeline.recipe import parse_config
from gsx.pipeline.runner import run_plan
from gsx.pipeline.stages import stage_named
from gsx.ragged import texts_of
from gsx.stages.splicing import workshop
from gsx.storage.corpus import Corpus
from gsx.storage.store import Artifact, Store

COMMAND = "python bench/hiv_splice.py"
RESULT = Path(__file__).parent / "results" / "hiv_splice.json"
MOLECULES, FEW, BAR = 21_000, 1_000, 2_000
ROUNDS = 3
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
        "components_f": [2, 4],
        "options": found,
        "bar": BAR,
        "versions": {"python": platform.python_version(), **{p: version(p) for p in PACKAGES}},
    }
    print(json.dumps(result, indent=2))
    RESULT.write_text(json.dumps(result, indent=2) + "\n")


def measure(made: dict, option: str) -> dict[str, float]:
    """Return the rate of one option, by the clock and by the time the process was running.

    The pool of components is cut, written and encoded once, whatever the number of molecules, and
    so is the report on a sample: the first run makes the pool, then short and long runs compare.
    """
    pool: list = []
    rounds = []
    with tempfile.TemporaryDirectory() as folder:
        (first, _), _ = generate(made, Path(folder) / "first", option, FEW, pool)
        for number in range(ROUNDS):
            few, _ = generate(made, Path(folder) / f"few-{number}", option, FEW, pool)
            many, artifact = generate(
                made, Path(folder) / f"many-{number}", option, MOLECULES, pool
            )
            rounds.append([more - less for more, less in zip(many, few, strict=True)])
        quality = artifact.manifest.summary["quality"][f"option_{option.index('1') + 1}"]
        refused = refused_in_full(artifact)
    wall, running = (median(times) for times in zip(*rounds, strict=True))
    some = wall > 1  # so little for pieces alone that it drowns in the noise
    return {
        "molecules_per_s": round((MOLECULES - FEW) / wall) if some else None,
        "molecules_per_s_of_cpu": round((MOLECULES - FEW) / running) if some else None,
        "seconds_for_the_first_1000": round(first, 1),
        "mean_atoms": quality["mean_nodes"],
        "accepted_at_first": quality["accepted_at_first"],
        "refused_by_a_full_sanitization": refused,
        "distinct": round(quality["distinct"] / quality["graphs"], 4),
        "same_as_training": quality["same_as_training"],
        "scaffold_novelty": quality["molecules"]["scaffold_novelty"],
    }


def generate(
    made: dict, folder: Path, option: str, count: int, pool: list
) -> tuple[tuple[float, float], Artifact]:
    """Return what one generation took, by clock and of CPU, and the corpus.

    ``pool`` keeps the components that the first generation made for those after it.
    """
    stage = stage_named("generate")
    options = {"options": option, "count": count, "augmented_only": True}
    config = parse_config("generate", options, "bench")
    make_splicer = workshop.make_splicer

    def once(*arguments: object) -> object:
        if not pool:
            pool.append(make_splicer(*arguments))  # type: ignore[arg-type]
        return pool[0]

    start = now()
    plan = (Step(stage, config, stage.inputs_of(config)),)
    with mock.patch.object(workshop, "make_splicer", once):
        ((_, built),) = run_plan(plan, Store.at(folder), given=made)
    wall, running = (after - before for after, before in zip(now(), start, strict=True))
    return (wall, running), built.artifact


def now() -> tuple[float, float]:
    """Return the time by the clock, and the time this process has been running on any core."""
    return time.perf_counter(), time.process_time()


def refused_in_full(artifact: Artifact) -> int:
    """Read every SMILES of a corpus with all of RDKit's sanitization; count those it refuses."""
    table = Corpus(artifact).table(split="train", columns=["smiles"])
    with rdBase.BlockLogs():
        return sum(
            Chem.MolFromSmiles(text) is None for text in texts_of(table.lists("graph", "smiles"))
        )


def gsx(*words: str) -> dict[str, str]:
    """Run a command and return what it prints as JSON."""
    command = [sys.executable, "-m", "gsx", *words, "--json"]
    told = subprocess.run(command, check=True, stdout=subprocess.PIPE)
    return json.loads(told.stdout)


if __name__ == "__main__":
    main()
