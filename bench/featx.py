"""Measure FeatX, compared with a per-graph PyG loop and with copying: ``python bench/featx.py``.

``python bench/featx.py SECTION ...`` measures some sections and keeps the results of the others.

speed: gsx and the loop generate graphs of fsmotif-size-color, extrapolate all features and write
Parquet; gsx also hashes, validates, flushes and publishes. The whole generation is also compared
with a run that has the finished arrays and only validates, writes, hashes and publishes them.
Times are CPU times, so other programs do not count.

in_memory: extrapolation in memory is compared with NumPy copies of the finished arrays, one by one,
and with gathering the same graphs from the source. The seconds of drawing and of arithmetic are
reported separately, because they are not copies. Two sources are used: one whose training graphs
are extrapolated once each, the default, and a smaller one whose graphs are extrapolated several
times in turn. The time of a copy depends on its memory: arrays of blocks are small and get small
pages. Hence whole columns are copied, too, and everything is measured again with an allocator that
returns no memory to the system.

replicas: four replicas of Twitch and of Coauthor CS (raw files in GSX_RAW_DATA).

memory: peak memory of new processes that generate 10,000 and 1,000,000 graphs.
"""

from __future__ import annotations

import gc
import json
import statistics
import tempfile
import time
from pathlib import Path

import numpy as np
import torch
from lib import harness
from lib.feature_extrapolation import (
    GRAPHS,
    ROUNDS,
    SOURCE_GRAPHS,
    blocks,
    generate,
    plan_in_memory,
    prepare,
    prepare_source,
)
from lib.featx_reference import extrapolate_and_write
from lib.memory import peak_mib, peaks_in_new_processes
from lib.stages import Artifacts
from torch_geometric.data import Data

from gsx.ragged import Ragged
from gsx.seeds import rng
from gsx.stages.generate.featx.build import Extrapolation
from gsx.stages.generate.featx.extrapolate_graphs import ExtrapolatedBlock
from gsx.stages.generate.featx.feature_extrapolation import extrapolate_runs
from gsx.storage.artifacts.publish import Identity, build_artifact
from gsx.storage.artifacts.store import Store
from gsx.storage.corpora.corpus import Corpus
from gsx.storage.corpora.corpus_writer import write_corpus
from gsx.table import GraphTable

NAME = "featx"
REFERENCE, GENERATIONS, REPLICAS = 2_000, 15, 4
KEEP_MEMORY = {"MALLOC_MMAP_THRESHOLD_": str(1 << 30), "MALLOC_TRIM_THRESHOLD_": str(1 << 32)}
"""Environment of glibc in which freed memory is not returned to the system."""
SECTIONS = ("speed", "in_memory", "replicas", "memory")
NODE_DATASETS = ("twitch-language", "coauthor-cs-word")
BARS = {
    "ratio": 20,
    "beside_writing": 2,
    "beside_copying": 2,
    "beside_copying_kept": 3,  # 2 is missed there: see docs/paper-map.md
    "memory": 1.25,
    "replica_seconds": 60,
}


def main(arguments: list[str] | None = None) -> None:
    parser = harness.argument_parser(__doc__)
    harness.add_sections(parser, SECTIONS)
    parser.add_argument("--peak", nargs=2, metavar=("STORE", "COUNT"), help="internal")
    parser.add_argument("--in-memory", nargs=2, metavar=("STORE", "SOURCE"), help="internal")
    options = parser.parse_args(arguments)
    torch.set_num_threads(1)
    if options.peak:
        store, count = options.peak
        print(json.dumps(peak(Path(store), int(count))))
        return
    if options.in_memory:
        store, source = options.in_memory
        print(json.dumps(measure_in_memory(prepare_source(Path(store), source))))
        return
    result = harness.read_result(NAME)
    with tempfile.TemporaryDirectory() as folder:
        store = Path(folder) / "store"
        inputs = prepare_source(store)
        for section in options.sections:
            result[section] = {
                "command": harness.command_line(NAME, section),
                **measure(section, store, inputs),
                "load": harness.load_average(),
            }
            result["versions"] = harness.versions("numpy", "pyarrow", "torch", "torch-geometric")
            harness.write_result(NAME, result, dry_run=options.dry_run)
            print(json.dumps({section: result[section]}), flush=True)
    check({section: result[section] for section in options.sections})


def measure(section: str, store: Path, inputs: Artifacts) -> harness.Result:
    if section == "speed":
        return measure_speed(store, inputs)
    if section == "in_memory":
        return {
            source: {
                **in_memory_in_new_process(store, source, {}),
                "with_kept_memory": in_memory_in_new_process(store, source, KEEP_MEMORY),
            }
            for source in SOURCE_GRAPHS
        }
    if section == "replicas":
        harness.raw_data()
        return {dataset: measure_replicas(store, dataset) for dataset in NODE_DATASETS}
    return peaks_in_new_processes(__file__, store)


def measure_speed(store: Path, inputs: Artifacts) -> harness.Result:
    """Return graphs per second of gsx, of writing alone and of the reference, and their ratios."""
    graphs = list(Corpus(inputs["prepare"]).to_pyg(split="train"))
    gc.collect()
    gc.freeze()  # the garbage collector must not scan the graphs of the reference during gsx's run
    rates: dict[str, list[float]] = {"gsx": [], "writing": [], "reference": []}
    for seed in range(GENERATIONS):
        seconds, corpus = generate(store, inputs, augmented_only=True, count=GRAPHS, seed=seed)
        rates["gsx"].append(GRAPHS / seconds)
        rates["writing"].append(GRAPHS / rewrite_seconds(store, corpus))
        rates["reference"].append(reference_rate(graphs, store.parent, seed))
    rate = {name: statistics.median(values) for name, values in rates.items()}
    return {
        "graphs": GRAPHS,
        "reference_graphs": REFERENCE,
        "graphs_per_s": {name: round(value) for name, value in rate.items()},
        "ratio": round(rate["gsx"] / rate["reference"], 1),
        "beside_writing": round(rate["writing"] / rate["gsx"], 2),
        "ratios": [round(a / b, 1) for a, b in zip(rates["gsx"], rates["reference"], strict=True)],
        "beside_writing_each": [
            round(a / b, 2) for a, b in zip(rates["writing"], rates["gsx"], strict=True)
        ],
    }


def rewrite_seconds(store: Path, corpus: Corpus) -> float:
    """Return the CPU seconds to write graphs that are in memory as a corpus."""
    train = corpus.table(split="train")
    tables = [train.slice(shard.start, shard.stop) for shard in corpus.shards]
    identity = Identity(
        kind="corpus",
        stage="bench",
        stage_version=1,
        config={"of": corpus.artifact.key},
        seeds={},
    )
    started = time.process_time()
    build_artifact(
        Store.at(store),
        identity,
        lambda draft: write_corpus(
            draft, corpus.info, corpus.shards, lambda shard: tables[shard.number]
        ),
    )
    return time.process_time() - started


def reference_rate(graphs: list[Data], folder: Path, seed: int) -> float:
    """Return graphs per CPU second of the PyG loop."""
    started = time.process_time()
    extrapolate_and_write(graphs, folder / "reference.parquet", count=REFERENCE, seed=seed)
    return REFERENCE / (time.process_time() - started)


def in_memory_in_new_process(
    store: Path, source: str, environment: dict[str, str]
) -> harness.Result:
    """Measure in a new process: in one that wrote shards, glibc's allocator keeps memory."""
    prepare_source(store, source)
    return harness.rerun(__file__, "--in-memory", store, source, env=environment)


def measure_in_memory(inputs: Artifacts) -> harness.Result:
    """Compare extrapolation in memory with copies of the result and with gathering graphs."""
    plan = plan_in_memory(inputs)
    extrapolator, parameters = plan.extrapolator, plan.extrapolator.parameters
    label, env = (plan.train.dense("graph", name).astype(np.int64) for name in ("label", "env_id"))

    def move() -> list[GraphTable]:
        return [move_block(plan, start, stop) for start, stop in blocks()]

    def gather() -> list[GraphTable]:
        return [plan.train.take(plan.rows[start:stop]) for start, stop in blocks()]

    def draw() -> None:
        for start, stop in blocks():
            rows, generator = plan.rows[start:stop], rng(0, "bench")
            extrapolator.partners.draw(label[rows], env[rows], generator)
            parameters.draw_strengths(len(rows), generator)

    operands = []
    for start, stop in blocks():
        base = plan.bases(start, stop)
        features = base.dense("node", "node_feat")
        strengths = parameters.draw_strengths(len(base), rng(0, "bench"))
        operands.append((features, features, base.node_ptr[:-1], strengths, base.node_ptr))

    def compute() -> None:
        for block in operands:
            extrapolate_runs(*block, parameters.wrap_around)

    arrays_by_block = [arrays_of(table) for table in move()]
    arrays = [array for block in arrays_by_block for array in block]
    columns = [np.concatenate(column) for column in zip(*arrays_by_block, strict=True)]
    works = {
        "move": move,
        "gather": gather,
        "copy": lambda: [array.copy() for array in arrays],
        "copy_whole": lambda: [array.copy() for array in columns],
        "drawing": draw,
        "arithmetic": compute,
    }
    runs = harness.interleave(works, ROUNDS, time.process_time)
    seconds = {name: statistics.median(values) for name, values in runs.items()}
    return {
        "seconds": {name: round(value, 5) for name, value in seconds.items()},
        "source_graphs": len(plan.train),
        "graphs": GRAPHS,
        "mib": round(sum(array.nbytes for array in arrays) / 2**20, 1),
        "beside_gathering": round(seconds["move"] / seconds["gather"], 2),
        "beside_copying": round(seconds["move"] / seconds["copy"], 2),
        "beside_copying_whole": round(seconds["move"] / seconds["copy_whole"], 2),
        "beside_copying_drawing_and_arithmetic": round(
            seconds["move"] / sum(seconds[name] for name in ("copy", "drawing", "arithmetic")), 2
        ),
    }


def move_block(plan: Extrapolation, start: int, stop: int) -> GraphTable:
    """Return the graphs of a block; unlike the stage, without the check for held-out graphs."""
    base = plan.bases(start, stop)
    drawn = plan.extrapolator.draw(base, rng(0, "bench"))
    block = ExtrapolatedBlock(drawn, "bench", np.zeros(0, np.uint64), 0)
    return plan.extrapolator.table(base, block)


def arrays_of(table: GraphTable) -> list[np.ndarray]:
    """Return all arrays of a table, ragged columns as offsets and values."""
    arrays = []
    for columns in (table.graph, table.node, table.edge):
        for values in columns.values():
            arrays += [values.ptr, values.values] if isinstance(values, Ragged) else [values]
    return arrays


def measure_replicas(store: Path, dataset: str) -> dict[str, float]:
    """Return the CPU seconds of four replicas of a node-labelled dataset."""
    inputs = prepare(store, dataset)
    seconds, _ = generate(store, inputs, replicas=REPLICAS)
    return {
        "replicas": REPLICAS,
        "seconds": round(seconds, 2),
        "source_mib": round(inputs["prepare"].manifest.size / 2**20, 2),
    }


def peak(store: Path, count: int) -> dict[str, float]:
    """Generate ``count`` graphs; return the peak memory of this process and graphs per second."""
    inputs = prepare_source(store)
    # About the number of graphs of the smaller run per file, so that both runs fill a file.
    options = {"augmented_only": True, "count": count, "seed": 9, "shard_graphs": 10_240}
    seconds, _ = generate(store, inputs, **options)
    return {"peak_mib": peak_mib(), "graphs_per_s": round(count / seconds)}


def check(result: harness.Result) -> None:
    """Exit if a bar is missed in any of the sections."""
    missed = []
    if "speed" in result:
        missed += harness.at_least({"ratio": result["speed"]["ratio"]}, BARS)
        missed += harness.at_most({"beside_writing": result["speed"]["beside_writing"]}, BARS)
    for source in SOURCE_GRAPHS:
        figures = result.get("in_memory", {}).get(source)
        if figures:
            ratios = {
                "beside_copying": figures["beside_copying"],
                "beside_copying_whole": figures["beside_copying_whole"],
                "beside_copying_kept": figures["with_kept_memory"]["beside_copying"],
            }
            bars = {**BARS, "beside_copying_whole": BARS["beside_copying"]}
            missed += [f"{source}: {message}" for message in harness.at_most(ratios, bars)]
    if "memory" in result:
        missed += harness.at_most({"memory": result["memory"]["ratio"]}, BARS)
    for dataset in NODE_DATASETS:
        replicas = result.get("replicas", {}).get(dataset)
        if replicas:
            missed += harness.at_most(
                {dataset: replicas["seconds"]}, {dataset: BARS["replica_seconds"]}
            )
    harness.require(missed)


if __name__ == "__main__":
    main()
