"""Measure augmenters beside per-graph PyG loops: ``python bench/augment.py``.

Graphs of motif-size are made twice over. In memory: a loop calls PyG's ``dropout_node``,
``dropout_edge`` or ``mask_feature`` on one ``Data`` after another, and for G-Mixup samples graph
after graph from the same graphons. As a corpus: the loop also writes what it made to Parquet, and
gsx does all that `gsx augment` does: read, hash, refuse held-out graphs, check, write, flush,
publish. Times are processor times of one thread, in turn: other programs do not count.
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
from gsx.seeds import rng
from gsx.stages.augmenters.block import BLOCK_GRAPHS
from gsx.stages.augmenters.changer import KEPT, Changer
from gsx.stages.augmenters.g_mixup import Mixer
from gsx.storage.corpus import Corpus
from gsx.storage.store import Artifact, Store

COMMAND = "python bench/augment.py"
RESULT = Path(__file__).parent / "results" / "augment.json"
GRAPHS, REFERENCE, REPEATS, RATE, BAR = 100_000, 1_500, 3, 0.1, 20
METHODS = ("drop-node", "drop-edge", "mask-feature", "g-mixup")
PACKAGES = ("numpy", "pyarrow", "torch", "torch-geometric")


def main() -> None:
    torch.set_num_threads(1)
    with tempfile.TemporaryDirectory() as folder:
        store = Path(folder) / "store"
        text = '[prepare]\ndataset = "motif-size"\nnum_graphs = 10000\n'
        plan = make_plan(parse_recipe(text, "bench"))
        source = next(built.artifact for _, built in run_plan(plan, Store.at(store)))
        graphs = list(Corpus(source).to_pyg(split="train"))
        mixer = augmenter_of(Corpus(source), "g-mixup")
        # Both sides once before anything counts: the first call of a library is slow.
        for method in METHODS:
            write(loop(method, graphs, mixer, 99)[:50], store.parent)
        published(store, source, "drop-edge", 100, 99)
        found = {method: beside(store, source, method, graphs, mixer) for method in METHODS}
    result = {
        "command": COMMAND,
        "graphs": GRAPHS,
        "reference_graphs": REFERENCE,
        "mean_nodes": round(float(np.mean([data.num_nodes for data in graphs])), 1),
        "methods": found,
        "versions": {"python": platform.python_version(), **{p: version(p) for p in PACKAGES}},
    }
    print(json.dumps(result, indent=2))
    RESULT.write_text(json.dumps(result, indent=2) + "\n")
    slow = [name for name, each in found.items() if each["in_memory"]["ratio"] < BAR]
    if slow:
        raise SystemExit(f"less than {BAR} times a loop in memory: {', '.join(slow)}")


def beside(store: Path, source: Artifact, method: str, graphs: list[Data], mixer: Mixer) -> dict:
    """Return graphs per second of both sides, in memory and as a corpus."""
    augmenter = mixer if method == "g-mixup" else augmenter_of(Corpus(source), method)
    rates: dict[str, list[float]] = {name: [] for name in ("drawn", "made", "corpus", "written")}
    for repeat in range(REPEATS):
        rates["drawn"].append(drawn(augmenter, len(graphs), repeat))
        rates["corpus"].append(published(store, source, method, GRAPHS, repeat))
        start = time.process_time()
        made = loop(method, graphs, mixer, repeat)
        rates["made"].append(REFERENCE / (time.process_time() - start))
        write(made, store.parent)
        rates["written"].append(REFERENCE / (time.process_time() - start))
    rate = {name: statistics.median(values) for name, values in rates.items()}
    return {
        "in_memory": compare(rate["drawn"], rate["made"]),
        "as_a_corpus": compare(rate["corpus"], rate["written"]),
    }


def compare(ours: float, theirs: float) -> dict:
    rates = {"gsx": round(ours), "loop": round(theirs)}
    return {"graphs_per_s": rates, "ratio": round(ours / theirs, 1)}


def augmenter_of(corpus: Corpus, method: str) -> Changer | Mixer:
    names = [column.name for column in corpus.info.columns if column.axis != "graph"]
    train = corpus.table(split="train", columns=[*names, "graph_id", *KEPT])
    if method == "g-mixup":
        return Mixer.of(corpus.info, train, (0.1, 0.2), 10, 0)
    return Changer.of(method, RATE, "columns", corpus.info, train)


def drawn(augmenter: Changer | Mixer, graphs: int, seed: int) -> float:
    """Return how many graphs per second are made in memory, with where they came from."""
    number = len(augmenter.pairs) if isinstance(augmenter, Mixer) else graphs
    items = np.arange(GRAPHS) % number
    start = time.process_time()
    for at in range(0, GRAPHS, BLOCK_GRAPHS):
        augmenter.draw(items[at : at + BLOCK_GRAPHS], rng(seed, "bench", at))
    return GRAPHS / (time.process_time() - start)


def published(store: Path, source: Artifact, method: str, count: int, seed: int) -> float:
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


def loop(method: str, graphs: list[Data], mixer: Mixer, seed: int) -> list[Data]:
    """Make graph after graph as one would with PyG."""
    torch.manual_seed(seed)
    stream = np.random.default_rng(seed)
    if method == "g-mixup":
        return [mixed(mixer, number % len(mixer.pairs), stream) for number in range(REFERENCE)]
    return [changed(method, graphs[number % len(graphs)]) for number in range(REFERENCE)]


def write(made: list[Data], folder: Path) -> None:
    table = pa.table(
        {
            "x": [data.x.flatten().tolist() for data in made],
            "src": [data.edge_index[0].tolist() for data in made],
            "dst": [data.edge_index[1].tolist() for data in made],
            "y": [data.y.flatten().tolist() for data in made],
        }
    )
    pq.write_table(table, folder / "loop.parquet", compression="zstd", compression_level=1)


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
