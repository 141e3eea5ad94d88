"""Measure splicing, compared with a per-graph PyG implementation: ``python bench/splice.py``.

Both use one trained bridge model on motif-size and write Parquet; gsx also hashes, validates,
flushes and publishes. Its CPU time is also compared with encoding the same graphs as Parquet. Peak
memory is that of new processes that generate 10,000 and 1,000,000 graphs.
"""

from __future__ import annotations

import json
import random
import statistics
import tempfile
import time
from pathlib import Path

import torch
from lib import harness
from lib.memory import peak_mib, peaks_in_new_processes
from lib.splice_reference import PerGraphSplicer, to_data_list, write_parquet
from lib.stages import Artifacts, run_recipe, run_step, stage_step

from gsx.stages.generate.splice.load_inputs import load_inputs
from gsx.stages.generate.stage import GenerateConfig, resolve
from gsx.stages.nn.bridge_model import BridgeModel
from gsx.storage.corpora import parquet
from gsx.storage.corpora.corpus import Corpus

NAME = "splice"
GRAPHS, REFERENCE, ROUNDS = 25_000, 400, 3
MANY = 200_000
BARS = {
    "ratio": 20, "graphs_per_s": 5_000, "slowest_option": 0.5, "memory": 1.25, "beside_encoding": 4
}  # fmt: skip
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


def main(arguments: list[str] | None = None) -> None:
    parser = harness.argument_parser(__doc__)
    parser.add_argument(
        "--no-memory", action="store_true", help="no peak memory, and no result file"
    )
    parser.add_argument("--peak", nargs=2, metavar=("STORE", "COUNT"), help="internal")
    options = parser.parse_args(arguments)
    torch.set_num_threads(1)
    if options.peak:
        store, count = options.peak
        print(json.dumps(peak(Path(store), int(count))))
        return
    with tempfile.TemporaryDirectory() as folder:
        store = Path(folder) / "store"
        inputs = run_recipe(store, RECIPE)
        result = {"command": harness.command_line(NAME), **rates(store, inputs)}
        result["beside_encoding"] = beside_encoding(store, inputs)
        if not options.no_memory:
            result["memory"] = peaks_in_new_processes(__file__, store)
    result["versions"] = harness.versions("numpy", "pyarrow", "torch", "torch-geometric")
    print(harness.as_json(result))
    harness.write_result(NAME, result, dry_run=options.dry_run or options.no_memory)
    check(result)


def generate(store: Path, inputs: Artifacts, **options: object) -> float:
    """Return the seconds of one generation, from reading the source to the published corpus."""
    step = stage_step("generate", {"augmented_only": True, **options})
    started = time.perf_counter()
    run_step(store, step, inputs)
    return time.perf_counter() - started


def rates(store: Path, inputs: Artifacts) -> harness.Result:
    """Return graphs per second of every option and of the reference, and their ratios."""
    config = resolve(GenerateConfig(options="001"))
    source = load_inputs(config, {"corpus": inputs["prepare"], "bridge": inputs["bridge"]})
    model = source.bridge_source
    assert isinstance(model, BridgeModel)
    graphs = to_data_list(Corpus(inputs["prepare"]).table(split="train"), model)
    references = {
        "reference": PerGraphSplicer(graphs, model, cached=False),
        "reference_cached": PerGraphSplicer(graphs, model, cached=True),
    }
    runs: dict[str, list[float]] = {}
    for seed in range(ROUNDS):
        for option in ("100", "010", "001"):
            seconds = generate(store, inputs, options=option, count=GRAPHS, seed=seed)
            runs.setdefault(option, []).append(GRAPHS / seconds)
        for name, splicer in references.items():
            runs.setdefault(name, []).append(reference_rate(splicer, store.parent, seed))
    rate = {name: statistics.median(values) for name, values in runs.items()}
    return {
        "graphs": GRAPHS,
        "reference_graphs": REFERENCE,
        "graphs_per_s": {name: round(value) for name, value in rate.items()},
        "ratio": round(rate["001"] / rate["reference"], 1),
        "ratio_cached_latents": round(rate["001"] / rate["reference_cached"], 1),
        "options_beside_3": {name: round(rate[name] / rate["001"], 2) for name in ("100", "010")},
        "linear": round(
            generate(store, inputs, options="001", count=4 * GRAPHS)
            / generate(store, inputs, options="001", count=2 * GRAPHS)
            / 2,
            3,
        ),
    }


def beside_encoding(store: Path, inputs: Artifacts) -> harness.Result:
    """Return the CPU time of a generation of option 3, relative to encoding its Parquet file."""
    runs = []
    for seed in range(ROUNDS):
        step = stage_step(
            "generate", {"augmented_only": True, "options": "001", "count": MANY, "seed": 70 + seed}
        )
        started = time.process_time()
        artifact = run_step(store, step, inputs)
        generated = time.process_time() - started
        corpus = Corpus(artifact)
        tables = list(corpus.iter_tables())
        started = time.process_time()
        parquet.write_parquet(store.parent / "encoded.parquet", tables, corpus.info)
        runs.append((generated, time.process_time() - started))
    generated, encoded = (statistics.median(times) for times in zip(*runs, strict=True))
    return {
        "graphs": MANY,
        "cpu_seconds": round(generated, 2),
        "encoding_cpu_seconds": round(encoded, 2),
        "ratio": round(statistics.median(one / other for one, other in runs), 2),
    }


def reference_rate(splicer: PerGraphSplicer, folder: Path, seed: int) -> float:
    """Return the graphs per second of the reference."""
    random_stream = random.Random(seed)
    started = time.perf_counter()
    write_parquet(
        [splicer.splice((2, 4), random_stream) for _ in range(REFERENCE)],
        folder / "reference.parquet",
    )
    return REFERENCE / (time.perf_counter() - started)


def peak(store: Path, count: int) -> dict[str, float]:
    """Generate ``count`` graphs; return the peak memory of this process and graphs per second."""
    inputs = run_recipe(store, RECIPE)  # the artifacts exist, so nothing is trained
    # 10,000 graphs per file, as the smaller run has, so that both runs fill a file.
    seconds = generate(store, inputs, options="001", count=count, seed=9, shard_graphs=10_000)
    return {"peak_mib": peak_mib(), "graphs_per_s": round(count / seconds)}


def check(result: harness.Result) -> None:
    rates = {
        "ratio": result["ratio"],
        "graphs_per_s": result["graphs_per_s"]["001"],
        "slowest_option": min(result["options_beside_3"].values()),
    }
    growth = {"beside_encoding": result["beside_encoding"]["ratio"]}
    growth |= {"memory": result["memory"]["ratio"]} if "memory" in result else {}
    harness.require(harness.at_least(rates, BARS) + harness.at_most(growth, BARS))


if __name__ == "__main__":
    main()
