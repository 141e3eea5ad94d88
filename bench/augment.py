"""Measure augmenters beside per-graph PyG loops: ``python bench/augment.py``.

gsx and a loop both make graphs of motif-size and write Parquet; gsx also looks for held-out graphs,
hashes, checks, flushes and publishes. The loops call PyG's ``dropout_node``, ``dropout_edge`` and
``mask_feature``; for G-Mixup the loop samples graph after graph from the same mixed graphons. Times
of both are processor times of one thread, in turn: other programs do not count.
"""

from __future__ import annotations

import json
import platform
import statistics
import tempfile
import time
from importlib.metadata import version
from pathlib import Path

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq
import torch
from torch_geometric.data import Data
from torch_geometric.utils import dense_to_sparse, dropout_edge, dropout_node, mask_feature

from gsx.pipeline.plan import Step, make_plan
from gsx.pipeline.recipe import parse_config, parse_recipe
from gsx.pipeline.runner import run_plan
from gsx.pipeline.stages import stage_named
from gsx.stages.augmenters.g_mixup import Mixer
from gsx.storage.corpus import Corpus
from gsx.storage.store import Artifact, Store

COMMAND = "python bench/augment.py"
RESULT = Path(__file__).parent / "results" / "augment.json"
GRAPHS, REFERENCE, REPEATS, RATE, BAR = 50_000, 1_500, 3, 0.1, 20
METHODS = ("drop-node", "drop-edge", "mask-feature", "g-mixup")
PACKAGES = ("numpy", "pyarrow", "torch", "torch-geometric")


def main() -> None:
    torch.set_num_threads(1)
    with tempfile.TemporaryDirectory() as folder:
        store = Path(folder) / "store"
        text = '[prepare]\ndataset = "motif-size"\nnum_graphs = 10000\n'
        plan = make_plan(parse_recipe(text, "bench"))
        source = next(built.artifact for _, built in run_plan(plan, Store.at(store)))
        corpus = Corpus(source)
        graphs = list(corpus.to_pyg(split="train"))
        mixer = Mixer.of(corpus.info, corpus.table(split="train"), (0.1, 0.2), 10, 0)
        # Both sides once before anything counts: the first call of a library is slow.
        ours(store, source, "drop-edge", 100, 99)
        result = {
            "command": COMMAND,
            "graphs": GRAPHS,
            "reference_graphs": REFERENCE,
            "mean_nodes": round(float(np.mean([data.num_nodes for data in graphs])), 1),
            "methods": {method: beside(store, source, method, graphs, mixer) for method in METHODS},
        }
    result["versions"] = {"python": platform.python_version(), **{p: version(p) for p in PACKAGES}}
    print(json.dumps(result, indent=2))
    RESULT.write_text(json.dumps(result, indent=2) + "\n")
    slow = [name for name, found in result["methods"].items() if found["ratio"] < BAR]
    if slow:
        raise SystemExit(f"less than {BAR} times a loop: {', '.join(slow)}")


def beside(store: Path, source: Artifact, method: str, graphs: list[Data], mixer: Mixer) -> dict:
    rates: dict[str, list[float]] = {"gsx": [], "loop": []}
    for repeat in range(REPEATS):
        rates["gsx"].append(ours(store, source, method, GRAPHS, repeat))
        rates["loop"].append(loop(method, graphs, mixer, store.parent, repeat))
    rate = {name: statistics.median(values) for name, values in rates.items()}
    return {
        "graphs_per_s": {name: round(value) for name, value in rate.items()},
        "ratio": round(rate["gsx"] / rate["loop"], 1),
    }


def ours(store: Path, source: Artifact, method: str, count: int, seed: int) -> float:
    """Return graphs per second, from reading the source to the published corpus."""
    stage = stage_named("augment")
    options = {"method": method, "count": count, "augmented_only": True, "seed": seed}
    if method != "g-mixup":
        options["rate"] = RATE
    config = parse_config("augment", options, "bench")
    step = Step(stage, config, stage.inputs_of(config))
    start = time.process_time()
    list(run_plan((step,), Store.at(store), given={"prepare": source}))
    return count / (time.process_time() - start)


def loop(method: str, graphs: list[Data], mixer: Mixer, folder: Path, seed: int) -> float:
    """Make graph after graph as one would with PyG, write Parquet; return graphs per second."""
    torch.manual_seed(seed)
    stream = np.random.default_rng(seed)
    start = time.process_time()
    if method == "g-mixup":
        made = [mixed(mixer, number % len(mixer.pairs), stream) for number in range(REFERENCE)]
    else:
        made = [changed(method, graphs[number % len(graphs)]) for number in range(REFERENCE)]
    table = pa.table(
        {
            "x": [data.x.flatten().tolist() for data in made],
            "src": [data.edge_index[0].tolist() for data in made],
            "dst": [data.edge_index[1].tolist() for data in made],
            "y": [data.y.flatten().tolist() for data in made],
        }
    )
    pq.write_table(table, folder / "loop.parquet", compression="zstd", compression_level=1)
    return REFERENCE / (time.process_time() - start)


def changed(method: str, data: Data) -> Data:
    if method == "drop-node":
        edges, _, keep = dropout_node(
            data.edge_index, p=RATE, num_nodes=data.num_nodes, relabel_nodes=True
        )
        return Data(x=data.x[keep], edge_index=edges, y=data.y)
    if method == "drop-edge":
        edges, _ = dropout_edge(data.edge_index, p=RATE, force_undirected=True)
        return Data(x=data.x, edge_index=edges, y=data.y)
    x, _ = mask_feature(data.x, p=RATE, mode="col")
    return Data(x=x, edge_index=data.edge_index, y=data.y)


def mixed(mixer: Mixer, pair: int, stream: np.random.Generator) -> Data:
    graphon, weight = mixer.graphons[pair], float(mixer.weight[pair])
    first, second = mixer.pairs[pair]
    matrix = np.triu(stream.random(graphon.shape) < graphon, 1)
    matrix = matrix | matrix.T
    kept = np.flatnonzero(matrix.any(axis=1))
    edges, _ = dense_to_sparse(torch.from_numpy(matrix[np.ix_(kept, kept)].astype(np.float32)))
    means = mixer.classes.means
    features = weight * means[first][kept] + (1 - weight) * means[second][kept]
    y = torch.zeros(1, len(mixer.info.outputs))
    y[0, first], y[0, second] = weight, 1 - weight
    return Data(x=torch.from_numpy(features).float(), edge_index=edges, y=y)


if __name__ == "__main__":
    main()
