"""Inputs of the FeatX benchmarks: graphs of fsmotif-size-color; all features are extrapolated."""

from __future__ import annotations

import os
import time
from pathlib import Path

import numpy as np

from gsx.pipeline.recipe import parse_config
from gsx.stages.generate.featx.build import BLOCK_GRAPHS, Extrapolation, plan_extrapolation
from gsx.stages.generate.featx.plan import extrapolated_info
from gsx.storage.corpora.corpus import Corpus
from lib.harness import RAW_DATA
from lib.stages import Artifacts, run_recipe, run_step, stage_step

DATASET = "fsmotif-size-color"
GRAPHS = 50_000
"""Graphs that one run extrapolates."""
SOURCE_GRAPHS = {"once": 83_333, "in_turns": 10_000}
"""Size of the source corpus, of which three fifths are training graphs. GRAPHS graphs then use
every training graph ``once``, or several times (``in_turns``)."""
OPTIONS = {"featx": True, "options": "000"}
ROUNDS = 41
"""Runs of a measurement in memory. The time of a copy depends on whether its memory was in use
before, and differs between runs by a factor of two and more."""


def prepare_source(store: Path, source: str = "in_turns") -> Artifacts:
    """Return the source corpus and the feature mask; ``source`` is a key of SOURCE_GRAPHS."""
    return prepare(
        store, DATASET, 'feature_ranges = ["0..1"]', f"num_graphs = {SOURCE_GRAPHS[source]}"
    )


def prepare(
    store: Path, dataset: str, mask_options: str = "", prepare_options: str = ""
) -> Artifacts:
    """Return a source corpus and a feature mask that was trained for 20 steps."""
    recipe = (
        f'[prepare]\ndataset = "{dataset}"\n{prepare_options}\n[mask]\nsteps = 20\n{mask_options}\n'
    )
    return run_recipe(store, recipe, raw=os.environ.get(RAW_DATA))


def generate(store: Path, inputs: Artifacts, **options: object) -> tuple[float, Corpus]:
    """Generate a corpus; return the CPU seconds, from reading the source to publishing."""
    step = stage_step("generate", {**OPTIONS, **options})
    started = time.process_time()
    artifact = run_step(store, step, inputs)
    return time.process_time() - started, Corpus(artifact)


def plan_in_memory(inputs: Artifacts) -> Extrapolation:
    """Return the extrapolation of GRAPHS graphs with everything read, and no held-out graphs."""
    info = Corpus(inputs["prepare"]).info
    return plan_extrapolation(
        parse_config("generate", {**OPTIONS, "count": GRAPHS}, "bench"),
        {"corpus": inputs["prepare"], "mask": inputs["mask"]},
        extrapolated_info(info, interpolate=False),
        np.zeros(0, dtype=np.uint64),
        spliced=(),
        before=0,
        first_id=0,
    )


def blocks() -> list[tuple[int, int]]:
    """Return the bounds of the blocks of graphs that a generation extrapolates at a time."""
    return [(start, min(start + BLOCK_GRAPHS, GRAPHS)) for start in range(0, GRAPHS, BLOCK_GRAPHS)]
