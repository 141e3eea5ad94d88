"""Measure splicing beside a per-graph PyG implementation of the same: ``python bench/splice.py``.

Both use one trained bridge model on motif-size and write Parquet; gsx also hashes, checks, flushes
and publishes. Peaks of memory are those of fresh processes that generate 10 k and 1 M graphs.
"""

from __future__ import annotations

import argparse
import json
import platform
import random
import statistics
import tempfile
import time
from importlib.metadata import version
from pathlib import Path

import torch
from memory import peak_mib, peaks_afresh
from splice_reference import PerGraph, data_of, write

from gsx.pipeline.plan import Step, make_plan
from gsx.pipeline.recipe import parse_config, parse_recipe
from gsx.pipeline.runner import run_plan
from gsx.pipeline.stages import stage_named
from gsx.stages.generate import GenerateConfig, resolve
from gsx.stages.splicing.inputs import read
from gsx.storage.corpus import Corpus
from gsx.storage.store import Store

COMMAND = "python bench/splice.py"
RESULT = Path(__file__).parent / "results" / "splice.json"
GRAPHS, REFERENCE, REPEATS = 25_000, 400, 3
BARS = {"ratio": 20, "graphs_per_s": 5_000, "slowest_option": 0.5, "memory": 1.25}
RECIPE = """
[prepare]
dataset = "motif-size"
num_graphs = 10000
[extract]
node_epochs = 4
set_epochs = 2
[bridge]
epochs = 4
"""
PACKAGES = ("numpy", "pyarrow", "torch", "torch-geometric")


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--no-memory", action="store_true", help="leave out the million graphs")
    parser.add_argument("--peak", nargs=2, metavar=("STORE", "COUNT"))
    options = parser.parse_args()
    torch.set_num_threads(1)
    if options.peak:
        print(json.dumps(peak(Path(options.peak[0]), int(options.peak[1]))))
        return
    with tempfile.TemporaryDirectory() as folder:
        store = Path(folder) / "store"
        made = prepare(store)
        result = {"command": COMMAND, **speeds(store, made)}
        if not options.no_memory:
            result["memory"] = peaks_afresh(__file__, store)
    result["versions"] = {"python": platform.python_version(), **{p: version(p) for p in PACKAGES}}
    print(json.dumps(result, indent=2))
    if not options.no_memory:
        RESULT.write_text(json.dumps(result, indent=2) + "\n")
    check(result)


def prepare(store: Path) -> dict:
    plan = make_plan(parse_recipe(RECIPE, "bench"))
    return {step.name: built.artifact for step, built in run_plan(plan, Store.at(store))}


def generate(store: Path, made: dict, **options: object) -> float:
    """Return the seconds one generation takes, from reading the source to the published corpus."""
    stage = stage_named("generate")
    config = parse_config("generate", {"augmented_only": True, **options}, "bench")
    start = time.perf_counter()
    list(run_plan((Step(stage, config, stage.inputs_of(config)),), Store.at(store), given=made))
    return time.perf_counter() - start


def speeds(store: Path, made: dict) -> dict:
    config = resolve(GenerateConfig(options="001"))
    source = read(config, {"corpus": made["prepare"], "bridge": made["bridge"]})
    train = Corpus(made["prepare"]).table(split="train")
    graphs = data_of(train, source.model)
    plain = PerGraph(graphs, source.model, cached=False)
    cached = PerGraph(graphs, source.model, cached=True)
    rates: dict[str, list[float]] = {}
    for repeat in range(REPEATS):
        for option in ("100", "010", "001"):
            seconds = generate(store, made, options=option, count=GRAPHS, seed=repeat)
            rates.setdefault(option, []).append(GRAPHS / seconds)
        for name, splicer in (("reference", plain), ("reference_cached", cached)):
            rates.setdefault(name, []).append(reference(splicer, store.parent, repeat))
    rate = {name: statistics.median(values) for name, values in rates.items()}
    return {
        "graphs": GRAPHS,
        "reference_graphs": REFERENCE,
        "graphs_per_s": {name: round(value) for name, value in rate.items()},
        "ratio": round(rate["001"] / rate["reference"], 1),
        "ratio_cached_latents": round(rate["001"] / rate["reference_cached"], 1),
        "options_beside_3": {name: round(rate[name] / rate["001"], 2) for name in ("100", "010")},
        "linear": round(
            generate(store, made, options="001", count=4 * GRAPHS)
            / generate(store, made, options="001", count=2 * GRAPHS)
            / 2,
            3,
        ),
    }


def reference(splicer: PerGraph, folder: Path, seed: int) -> float:
    stream = random.Random(seed)
    start = time.perf_counter()
    write([splicer.splice((2, 4), stream) for _ in range(REFERENCE)], folder / "reference.parquet")
    return REFERENCE / (time.perf_counter() - start)


def peak(store: Path, count: int) -> dict[str, float]:
    made = prepare(store)  # there already, so nothing is trained
    # As many graphs per file as the smaller run has, so that both fill a file.
    seconds = generate(store, made, options="001", count=count, seed=9, shard_graphs=10_000)
    return {"peak_mib": peak_mib(), "graphs_per_s": round(count / seconds)}


def check(result: dict) -> None:
    missed = []
    if result["ratio"] < BARS["ratio"]:
        missed.append(f"ratio {result['ratio']} is under {BARS['ratio']}")
    if result["graphs_per_s"]["001"] < BARS["graphs_per_s"]:
        missed.append(f"{result['graphs_per_s']['001']} graphs/s are under {BARS['graphs_per_s']}")
    if min(result["options_beside_3"].values()) < BARS["slowest_option"]:
        missed.append("an option is more than twice as slow as option 3")
    if result.get("memory", {}).get("ratio", 1) > BARS["memory"]:
        missed.append(f"memory grows by {result['memory']['ratio']}")
    if missed:
        raise SystemExit("; ".join(missed))


if __name__ == "__main__":
    main()
