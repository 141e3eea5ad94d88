"""Measure splicing of HIV molecules: ``GSX_RAW_DATA=DIR python bench/hiv_splice.py``.

Takes minutes: the corpus is prepared, and an extractor and a bridge model are trained for one or
two epochs, in the store of GSX_STORE.

The bar applies to the marginal molecule: drawn, joined, written as SMILES, parsed and sanitized by
RDKit, hashed, validated, encoded as Parquet and flushed, by one process on one core.
"""

from __future__ import annotations

import tempfile
import time
from pathlib import Path
from statistics import median
from unittest import mock

import torch
from lib import harness
from lib.stages import Artifacts, run_step, stage_step
from rdkit import Chem, rdBase

from gsx.ragged import decode_texts
from gsx.stages.generate.splice import sharded
from gsx.storage.artifacts.store import Artifact, Store
from gsx.storage.corpora.corpus import Corpus

NAME = "hiv_splice"
MOLECULES, FEW, BAR = 21_000, 1_000, 2_000
ROUNDS = 3
EXTRACT = ("--node-epochs", 1, "--set-epochs", 1, "--largest-piece", 20)

Times = tuple[float, float]
"""Seconds of wall time and of CPU time."""


def main(arguments: list[str] | None = None) -> None:
    options = harness.argument_parser(__doc__).parse_args(arguments)
    harness.raw_data()
    torch.set_num_threads(1)
    corpus = harness.gsx_command("prepare", "hiv-size")["key"]
    bridge = harness.gsx_command("pretrain", "bridge", corpus, "--epochs", 2)["key"]
    extract = harness.gsx_command("pretrain", "extract", corpus, *EXTRACT)["key"]
    store = Store.at(None)
    inputs = {
        "prepare": store.resolve(corpus, kind="corpus"),
        "bridge": store.resolve(bridge),
        "extract": store.resolve(extract),
    }
    measured = {option: measure(inputs, option) for option in ("100", "010", "001")}
    result = {
        "command": harness.command_line(NAME),
        "molecules": MOLECULES,
        "components_f": [2, 4],
        "options": measured,
        "bar": BAR,
        "versions": harness.versions("numpy", "pyarrow", "torch", "rdkit"),
    }
    print(harness.as_json(result))
    harness.write_result(NAME, result, dry_run=options.dry_run)
    rates = {
        f"molecules per second of option {option}": figures["molecules_per_s"]
        for option, figures in measured.items()
        if figures["molecules_per_s"] is not None
    }
    harness.require(harness.at_least(rates, dict.fromkeys(rates, BAR)))


def measure(inputs: Artifacts, option: str) -> harness.Result:
    """Return molecules per second of one option, by wall time and by CPU time, and quality figures.

    The pool of components is cut, written and encoded once, and the quality report covers a sample,
    both independent of the number of molecules. So the first run builds the pool, and the rate is
    computed from the difference between short and long runs.
    """
    pool: list[object] = []
    rounds = []
    with tempfile.TemporaryDirectory() as folder:
        (first, _), _ = generate(inputs, Path(folder) / "first", option, FEW, pool)
        for number in range(ROUNDS):
            few, _ = generate(inputs, Path(folder) / f"few-{number}", option, FEW, pool)
            many, artifact = generate(
                inputs, Path(folder) / f"many-{number}", option, MOLECULES, pool
            )
            rounds.append([more - less for more, less in zip(many, few, strict=True)])
        quality = artifact.manifest.summary["quality"][f"option_{option.index('1') + 1}"]
        refused = count_invalid(artifact)
    wall, cpu = (median(times) for times in zip(*rounds, strict=True))
    measurable = wall > 1  # components alone may take so little that noise dominates
    return {
        "molecules_per_s": round((MOLECULES - FEW) / wall) if measurable else None,
        "molecules_per_s_of_cpu": round((MOLECULES - FEW) / cpu) if measurable else None,
        "seconds_for_the_first_1000": round(first, 1),
        "mean_atoms": quality["mean_nodes"],
        "accepted_at_first": quality["accepted_at_first"],
        "refused_by_a_full_sanitization": refused,
        "distinct": round(quality["distinct"] / quality["graphs"], 4),
        "same_as_training": quality["same_as_training"],
        "scaffold_novelty": quality["molecules"]["scaffold_novelty"],
    }


def generate(
    inputs: Artifacts, folder: Path, option: str, count: int, pool: list[object]
) -> tuple[Times, Artifact]:
    """Generate a corpus; return wall and CPU seconds, and the corpus.

    ``pool`` keeps the component pool of the first generation for later ones.
    """
    step = stage_step("generate", {"options": option, "count": count, "augmented_only": True})
    build_splicer = sharded.build_splicer

    def build_splicer_once(*arguments: object) -> object:
        if not pool:
            pool.append(build_splicer(*arguments))  # type: ignore[arg-type]
        return pool[0]

    wall, cpu = time.perf_counter(), time.process_time()
    with mock.patch.object(sharded, build_splicer.__name__, build_splicer_once):
        artifact = run_step(folder, step, inputs)
    return (time.perf_counter() - wall, time.process_time() - cpu), artifact


def count_invalid(artifact: Artifact) -> int:
    """Return the number of SMILES that RDKit rejects with its full sanitization."""
    table = Corpus(artifact).table(split="train", columns=["smiles"])
    with rdBase.BlockLogs():
        return sum(
            Chem.MolFromSmiles(text) is None
            for text in decode_texts(table.lists("graph", "smiles"))
        )


if __name__ == "__main__":
    main()
