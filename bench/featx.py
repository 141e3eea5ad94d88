"""Measure FeatX beside a per-graph PyG loop and beside copying.

``python bench/featx.py speed in_memory replicas memory`` measures what is named, all of it by
default, and writes bench/results/featx.json; parts that are not named stay as they were.

gsx and the loop both make graphs of fsmotif-size-color, all of whose features are moved, and write
Parquet; gsx also hashes, checks, flushes and publishes. Times of both are processor times: other
programs do not count. What moving costs is said three times. In memory it is compared with NumPy
that copies the finished arrays one by one, and with NumPy that gathers the same graphs from the
source; what drawing and arithmetic alone take is said beside, for they are no copies. This is done
where every graph is moved once, as by default, and where fewer are moved in turns. What a copy
takes depends on its memory: the arrays of blocks are small and get small pages, so they are copied
as whole columns too, and all of it is measured again where the allocator gives none back. As a
user sees it, the whole generation is compared with one that has the finished arrays at hand and
only checks, writes, hashes and publishes them; both ratios are said of every repeat too. Peaks of
memory are those of fresh processes that make 10 k and 1 M graphs. Replicas of Twitch and
Coauthor-CS need their raw files (``GSX_RAW_DATA``).
"""

from __future__ import annotations

import argparse
import gc
import json
import os
import platform
import random
import statistics
import subprocess
import sys
import tempfile
import time
from importlib.metadata import version
from pathlib import Path

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq
import torch
from memory import peak_mib, peaks_afresh
from torch_geometric.data import Data

from gsx.pipeline.plan import Step, make_plan
from gsx.pipeline.recipe import parse_config, parse_recipe
from gsx.pipeline.runner import run_plan
from gsx.pipeline.stages import stage_named
from gsx.ragged import Ragged
from gsx.seeds import rng
from gsx.stages.extrapolating.build import (
    BLOCK_GRAPHS,
    Extrapolation,
    plan_extrapolation,
)
from gsx.stages.extrapolating.graphs import MovedBlock
from gsx.stages.extrapolating.plan import with_environment
from gsx.storage.corpus import Corpus
from gsx.storage.corpus_writer import write_corpus
from gsx.storage.publish import Identity, build
from gsx.storage.store import Store
from gsx.table import GraphTable

RESULT = Path(__file__).parent / "results" / "featx.json"
GRAPHS, REFERENCE, REPEATS, TURNS = 50_000, 2_000, 15, 41
SOURCES = {"once": 83_333, "in_turns": 10_000}
"""Graphs of corpora whose training graphs, three of five, are moved once and in turns."""
KEPT = {"MALLOC_MMAP_THRESHOLD_": str(1 << 30), "MALLOC_TRIM_THRESHOLD_": str(1 << 32)}
PARTS = ("speed", "in_memory", "replicas", "memory")
BARS = {
    "ratio": 20,
    "beside_writing": 2,
    "beside_copying": 2,
    "beside_copying_kept": 3,  # 2 is missed there: see docs/paper-map.md
    "memory": 1.25,
    "replica_seconds": 60,
}
DATASET, REPLICAS = "fsmotif-size-color", 4
NODES = ("twitch-language", "coauthor-cs-word")
PACKAGES = ("numpy", "pyarrow", "torch", "torch-geometric")


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("parts", nargs="*", default=PARTS, metavar="PART")
    parser.add_argument("--peak", nargs=2, metavar=("STORE", "COUNT"))
    parser.add_argument("--in-memory", nargs=2, metavar=("STORE", "HOW"))
    options = parser.parse_args()
    torch.set_num_threads(1)
    if options.peak:
        print(json.dumps(peak(Path(options.peak[0]), int(options.peak[1]))))
        return
    if options.in_memory:
        store, how = options.in_memory
        print(json.dumps(in_memory(source(Path(store), how))))
        return
    result = json.loads(RESULT.read_text()) if RESULT.exists() else {}
    with tempfile.TemporaryDirectory() as folder:
        store = Path(folder) / "store"
        made = source(store)
        for part in options.parts:
            result[part] = {
                "command": " ".join(["python", "bench/featx.py", part]),
                **measure(part, store, made),
                "load": [round(each, 1) for each in os.getloadavg()],
            }
            result["versions"] = {
                "python": platform.python_version(),
                **{package: version(package) for package in PACKAGES},
            }
            RESULT.write_text(json.dumps(result, indent=2) + "\n")
            print(json.dumps({part: result[part]}), flush=True)
    check(result)


def measure(part: str, store: Path, made: dict) -> dict:
    if part == "speed":
        return speeds(store, made)
    if part == "in_memory":
        return {
            how: {**afresh(store, how, {}), "with_kept_memory": afresh(store, how, KEPT)}
            for how in SOURCES
        }
    if part == "replicas":
        return {name: replicas(store, name) for name in NODES}
    return peaks_afresh(__file__, store)


def source(store: Path, how: str = "in_turns") -> dict:
    return prepare(store, DATASET, 'domains = ["0..1"]', f"num_graphs = {SOURCES[how]}")


def prepare(store: Path, dataset: str, mask: str = "", more: str = "") -> dict:
    text = f'[prepare]\ndataset = "{dataset}"\n{more}\n[mask]\nsteps = 20\n{mask}\n'
    raw = os.environ.get("GSX_RAW_DATA")
    plan = make_plan(parse_recipe(text, "bench", raw=raw))
    return {step.name: built.artifact for step, built in run_plan(plan, Store.at(store))}


def generate(store: Path, made: dict, **options: object) -> tuple[float, Corpus]:
    """Make a corpus; return the seconds it takes, from reading the source to publishing."""
    stage = stage_named("generate")
    config = parse_config("generate", {"featx": True, "options": "000", **options}, "bench")
    start = time.process_time()
    plan = (Step(stage, config, stage.inputs_of(config)),)
    ((_, built),) = run_plan(plan, Store.at(store), given=made)
    return time.process_time() - start, Corpus(built.artifact)


def rewrite(store: Path, corpus: Corpus) -> float:
    """Write what is at hand already as a corpus; return the seconds it takes."""
    made = [corpus.table(split="train").slice(s.start, s.stop) for s in corpus.shards]
    identity = Identity(
        kind="corpus",
        stage="bench",
        stage_version=1,
        config={"of": corpus.artifact.key},
        seeds={},
    )
    start = time.process_time()
    build(
        Store.at(store),
        identity,
        lambda draft: write_corpus(
            draft, corpus.info, corpus.shards, lambda shard: made[shard.number]
        ),
    )
    return time.process_time() - start


def speeds(store: Path, made: dict) -> dict:
    graphs = data_of(Corpus(made["prepare"]))
    gc.collect()
    gc.freeze()  # the garbage of one must not be looked for among the graphs of the other
    rates: dict[str, list[float]] = {"gsx": [], "writing": [], "reference": []}
    for repeat in range(REPEATS):
        seconds, corpus = generate(store, made, augmented_only=True, count=GRAPHS, seed=repeat)
        rates["gsx"].append(GRAPHS / seconds)
        rates["writing"].append(GRAPHS / rewrite(store, corpus))
        rates["reference"].append(reference(graphs, store.parent, repeat))
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


def data_of(corpus: Corpus) -> list[Data]:
    """Return the training graphs as PyG objects."""
    return list(corpus.to_pyg(split="train"))


def reference(graphs: list[Data], folder: Path, seed: int) -> float:
    """Move graph after graph as one would with PyG, write Parquet, and return graphs per second."""
    stream = random.Random(seed)
    torch.manual_seed(seed)
    start = time.process_time()
    by_label: dict[int, list[Data]] = {}
    for data in graphs:
        by_label.setdefault(int(data.label), []).append(data)
    gamma = torch.distributions.Gamma(2.0, 2.0)
    made = []
    for number in range(REFERENCE):
        data = graphs[number % len(graphs)]
        partner = stream.choice(by_label[int(data.label)])
        while int(partner.env_id) == int(data.env_id):
            partner = stream.choice(by_label[int(data.label)])
        other = partner.x[stream.randrange(partner.num_nodes)]
        strength = gamma.sample()
        far = (1 + strength) * data.x - strength * other
        inside = (far >= 0) & (far <= 1)
        moved = data.clone()
        moved.x = torch.where(inside, far, torch.remainder(far, 1.0))
        moved.strength, moved.partner = float(strength), int(partner.graph_id)
        made.append(moved)
    table = pa.table(
        {
            "x": [data.x.flatten().tolist() for data in made],
            "src": [data.edge_index[0].tolist() for data in made],
            "dst": [data.edge_index[1].tolist() for data in made],
            "y": [data.y.flatten().tolist() for data in made],
            "strength": [data.strength for data in made],
            "partner": [data.partner for data in made],
        }
    )
    pq.write_table(table, folder / "reference.parquet", compression="zstd", compression_level=1)
    return REFERENCE / (time.process_time() - start)


def in_memory(made: dict) -> dict:
    """Compare moving, in memory, with copying what comes out and with gathering graphs."""
    corpus = Corpus(made["prepare"])
    config = parse_config("generate", {"featx": True, "options": "000", "count": GRAPHS}, "bench")
    moved = plan_extrapolation(
        config,
        {"corpus": made["prepare"], "mask": made["mask"]},
        with_environment(corpus.info, towards=False),
        np.zeros(0, dtype=np.uint64),
        spliced=(),
        before=0,
        first_id=0,
    )
    blocks = [
        (start, min(start + BLOCK_GRAPHS, GRAPHS)) for start in range(0, GRAPHS, BLOCK_GRAPHS)
    ]

    def gather() -> list:
        return [moved.train.take(moved.rows[start:stop]) for start, stop in blocks]

    def move() -> list:
        return [move_block(moved, start, stop) for start, stop in blocks]

    def draw() -> None:
        for start, stop in blocks:
            rows, stream = moved.rows[start:stop], rng(0, "bench")
            moved.mover.partners.draw(label[rows], env[rows], stream)
            moved.mover.rules.strengths(len(rows), stream)

    def compute() -> None:
        for own, node, strength, ptr in given:
            moved.mover.rules.move_runs(own, own, node, strength, ptr)

    label, env = (moved.train.graph[name].astype(np.int64) for name in ("label", "env_id"))
    given = []
    for start, stop in blocks:
        base = moved.bases(start, stop)
        own = base.dense("node", "node_feat")
        strength = moved.mover.rules.strengths(len(base), rng(0, "bench"))
        given.append((own, base.node_ptr[:-1], strength, base.node_ptr))
    tables = [arrays_of(table) for table in move()]
    arrays = [array for table in tables for array in table]
    columns = [np.concatenate(parts) for parts in zip(*tables, strict=True)]
    works = {
        "move": move,
        "gather": gather,
        "copy": lambda: [array.copy() for array in arrays],
        "copy_whole": lambda: [array.copy() for array in columns],
        "drawing": draw,
        "arithmetic": compute,
    }
    seconds = alternately(works)
    return {
        "seconds": {name: round(value, 5) for name, value in seconds.items()},
        "source_graphs": len(moved.train),
        "graphs": GRAPHS,
        "mib": round(sum(array.nbytes for array in arrays) / 2**20, 1),
        "beside_gathering": round(seconds["move"] / seconds["gather"], 2),
        "beside_copying": round(seconds["move"] / seconds["copy"], 2),
        "beside_copying_whole": round(seconds["move"] / seconds["copy_whole"], 2),
        "beside_copying_drawing_and_arithmetic": round(
            seconds["move"] / sum(seconds[name] for name in ("copy", "drawing", "arithmetic")), 2
        ),
    }


def afresh(store: Path, how: str, allocator: dict[str, str]) -> dict:
    """Measure in a process of its own: in one that made shards glibc's allocator keeps memory."""
    source(store, how)
    command = [sys.executable, __file__, "--in-memory", str(store), how]
    said = subprocess.run(
        command, check=True, capture_output=True, text=True, env={**os.environ, **allocator}
    )
    return json.loads(said.stdout)


def move_block(moved: Extrapolation, start: int, stop: int) -> GraphTable:
    """Make the graphs of a block; unlike the stage, look for none that is held out."""
    base = moved.bases(start, stop)
    drawn = moved.mover.draw(base, rng(0, "bench"))
    return moved.mover.table(base, MovedBlock(drawn, "bench", np.zeros(0, np.uint64), 0))


def arrays_of(table) -> list:
    found = []
    for columns in (table.graph, table.node, table.edge):
        for values in columns.values():
            found += [values.ptr, values.values] if isinstance(values, Ragged) else [values]
    return found


def alternately(works: dict) -> dict[str, float]:
    """Return the median processor time of every work, all of them in turn, many times.

    What a copy takes depends on whether its memory was in use before, and differs from turn to
    turn by a factor of two and more.
    """
    times: dict[str, list[float]] = {name: [] for name in works}
    for _ in range(TURNS):
        for name, work in works.items():
            start = time.process_time()
            found = work()
            times[name].append(time.process_time() - start)
            del found
    return {name: statistics.median(each) for name, each in times.items()}


def replicas(store: Path, dataset: str) -> dict[str, float]:
    made = prepare(store, dataset)
    source = made["prepare"].manifest
    seconds, _ = generate(store, made, replicas=REPLICAS)
    return {
        "replicas": REPLICAS,
        "seconds": round(seconds, 2),
        "source_mib": round(source.size / 2**20, 2),
    }


def peak(store: Path, count: int) -> dict[str, float]:
    made = source(store)
    # As many graphs per file as the smaller run has, so that both fill a file.
    options = {"augmented_only": True, "count": count, "seed": 9, "shard_graphs": 10_240}
    seconds, _ = generate(store, made, **options)
    return {"peak_mib": peak_mib(), "graphs_per_s": round(count / seconds)}


def slow_moves(how: str, found: dict) -> list[str]:
    kept = found.get("with_kept_memory", {}).get("beside_copying", 1)
    figures = {name: found.get(name, 1) for name in ("beside_copying", "beside_copying_whole")}
    limits = dict.fromkeys(figures, BARS["beside_copying"])
    return [
        f"moving {how} takes {figure} times as long as copying ({name})"
        for name, figure in {**figures, "beside_copying_kept": kept}.items()
        if figure > {**BARS, **limits}[name]
    ]


def check(result: dict) -> None:
    missed = []
    speed = result.get("speed", {})
    if speed.get("ratio", BARS["ratio"]) < BARS["ratio"]:
        missed.append(f"ratio {speed['ratio']} is under {BARS['ratio']}")
    if speed.get("beside_writing", 1) > BARS["beside_writing"]:
        missed.append(f"generation takes {speed['beside_writing']} times as long as writing")
    for how in SOURCES:
        missed += slow_moves(how, result.get("in_memory", {}).get(how, {}))
    if result.get("memory", {}).get("ratio", 1) > BARS["memory"]:
        missed.append(f"memory grows by {result['memory']['ratio']}")
    for name in NODES:
        seconds = result.get("replicas", {}).get(name, {}).get("seconds", 0)
        if seconds > BARS["replica_seconds"]:
            missed.append(f"{name} takes {seconds} s")
    if missed:
        raise SystemExit("; ".join(missed))


if __name__ == "__main__":
    main()
