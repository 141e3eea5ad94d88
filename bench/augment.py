"""Measure augmentation, compared with per-graph PyG loops: ``python bench/augment.py``.

Graphs of motif-size are augmented in two ways. In memory: a loop calls PyG's ``dropout_node``,
``dropout_edge`` or ``mask_feature`` for one ``Data`` after another; for G-Mixup it samples graph
after graph from the same graphons. As a corpus: the loop also writes Parquet, and gsx does
everything that `gsx augment` does: read, hash, reject held-out graphs, validate, write, flush and
publish. Times are CPU times of one thread, so other programs do not count.
"""

from __future__ import annotations

import statistics
import tempfile
import time
from functools import partial
from pathlib import Path

import numpy as np
import torch
from lib import harness
from lib.augment_reference import augment_graphs, write_parquet
from lib.stages import run_recipe, run_step, stage_step
from torch_geometric.data import Data

from gsx.seeds import rng
from gsx.stages.augment.config import Method
from gsx.stages.augment.g_mixup import GMixup
from gsx.stages.augment.perturbation import INHERITED_COLUMNS, Perturbation, PerturbationMethod
from gsx.stages.augment.rejection_sampling import BLOCK_GRAPHS
from gsx.storage.artifacts.store import Artifact
from gsx.storage.corpora.corpus import Corpus
from gsx.table import GraphTable

NAME = "augment"
GRAPHS, REFERENCE, ROUNDS, RATE, BAR = 100_000, 1_500, 3, 0.1, 20
METHODS: tuple[Method, ...] = ("drop-node", "drop-edge", "mask-feature", "g-mixup")
RECIPE = '[prepare]\ndataset = "motif-size"\nnum_graphs = 10000\n'


def main(arguments: list[str] | None = None) -> None:
    options = harness.argument_parser(__doc__).parse_args(arguments)
    torch.set_num_threads(1)
    with tempfile.TemporaryDirectory() as folder:
        store = Path(folder) / "store"
        source = run_recipe(store, RECIPE)["prepare"]
        graphs = list(Corpus(source).to_pyg(split="train"))
        mixer = mixer_of(Corpus(source))
        # Run both sides once before the measurement: the first call of a library is slow.
        for method in METHODS:
            loop = reference_loop(method, graphs, mixer, seed=99)
            write_parquet(loop()[:50], store.parent / "loop.parquet")
        corpus_rate(store, source, "drop-edge", 100, 99)
        methods = {method: measure(store, source, method, graphs, mixer) for method in METHODS}
    result = {
        "command": harness.command_line(NAME),
        "graphs": GRAPHS,
        "reference_graphs": REFERENCE,
        "mean_nodes": round(float(np.mean([data.num_nodes for data in graphs])), 1),
        "methods": methods,
        "versions": harness.versions("numpy", "pyarrow", "torch", "torch-geometric"),
    }
    harness.write_result(NAME, result, dry_run=options.dry_run)
    print(harness.as_json(result))
    ratios: dict[str, float] = {
        method: figures["in_memory"]["ratio"] for method, figures in methods.items()
    }
    harness.require(harness.at_least(ratios, dict.fromkeys(METHODS, BAR)))


def reference_loop(
    method: str, graphs: list[Data], mixer: GMixup, seed: int
) -> partial[list[Data]]:
    """Return the PyG loop of a method."""
    return partial(augment_graphs, method, graphs, mixer, count=REFERENCE, rate=RATE, seed=seed)


def measure(
    store: Path, source: Artifact, method: Method, graphs: list[Data], mixer: GMixup
) -> harness.Result:
    """Return graphs per second of gsx and of the loop, in memory and as a corpus."""
    augmenter = mixer if method == "g-mixup" else perturbation_of(Corpus(source), method)
    runs: dict[str, list[float]] = {"memory": [], "corpus": [], "loop": [], "loop_corpus": []}
    for seed in range(ROUNDS):
        runs["memory"].append(memory_rate(augmenter, len(graphs), seed))
        runs["corpus"].append(corpus_rate(store, source, method, GRAPHS, seed))
        loop = reference_loop(method, graphs, mixer, seed)
        started = time.process_time()
        augmented = loop()
        runs["loop"].append(REFERENCE / (time.process_time() - started))
        write_parquet(augmented, store.parent / "loop.parquet")
        runs["loop_corpus"].append(REFERENCE / (time.process_time() - started))
    rate = {name: statistics.median(values) for name, values in runs.items()}
    return {
        "in_memory": compare(rate["memory"], rate["loop"]),
        "as_a_corpus": compare(rate["corpus"], rate["loop_corpus"]),
    }


def compare(gsx: float, loop: float) -> harness.Result:
    rates = {"gsx": round(gsx), "loop": round(loop)}
    return {"graphs_per_s": rates, "ratio": round(gsx / loop, 1)}


def training_graphs(corpus: Corpus) -> GraphTable:
    """Return the training graphs with the columns that augmenters read."""
    names = [column.name for column in corpus.info.columns if column.axis != "graph"]
    return corpus.table(split="train", columns=[*names, "graph_id", *INHERITED_COLUMNS])


def mixer_of(corpus: Corpus) -> GMixup:
    """Return the augmenter of G-Mixup."""
    return GMixup.estimate(corpus.info, training_graphs(corpus), (0.1, 0.2), 10, 0)


def perturbation_of(corpus: Corpus, method: PerturbationMethod) -> Perturbation:
    """Return the augmenter of a method that perturbs single graphs."""
    return Perturbation.of(method, RATE, "columns", corpus.info, training_graphs(corpus))


def memory_rate(augmenter: Perturbation | GMixup, graphs: int, seed: int) -> float:
    """Return graphs per second in memory, with the record of their origins."""
    number = len(augmenter.pairs) if isinstance(augmenter, GMixup) else graphs
    items = np.arange(GRAPHS) % number
    started = time.process_time()
    for start in range(0, GRAPHS, BLOCK_GRAPHS):
        augmenter.draw(items[start : start + BLOCK_GRAPHS], rng(seed, "bench", start))
    return GRAPHS / (time.process_time() - started)


def corpus_rate(store: Path, source: Artifact, method: str, count: int, seed: int) -> float:
    """Return graphs per second, from reading the source to the published corpus."""
    options = {"method": method, "count": count, "augmented_only": True, "seed": seed}
    if method != "g-mixup":
        options["rate"] = RATE
    step = stage_step("augment", options)
    started = time.process_time()
    run_step(store, step, {"prepare": source})
    return count / (time.process_time() - started)


if __name__ == "__main__":
    main()
