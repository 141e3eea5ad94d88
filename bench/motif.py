"""Measure how fast Motif graphs are made, beside networkx: ``python bench/motif.py``."""

from __future__ import annotations

import json
import platform
import statistics
import time
from pathlib import Path

import networkx as nx
import numpy as np
from motif_reference import build_graphs

from gsx.stages.datasets.motif import build

COMMAND = "python bench/motif.py"
RESULT = Path(__file__).parent / "results" / "motif.json"
NUM_GRAPHS, NUM_REFERENCE, REPEATS, BAR = 18_000, 1_000, 3, 20


def main() -> None:
    build("motif-size", "train", 0, 1, seed=0, first_graph_id=0)  # imports and first allocations
    fast, slow = [], []
    for repeat in range(REPEATS):
        start = time.perf_counter()
        table = build("motif-size", "train", 0, NUM_GRAPHS, seed=repeat, first_graph_id=0)
        fast.append(len(table) / (time.perf_counter() - start))
        start = time.perf_counter()
        arrays = [
            to_arrays(graph) for graph in build_graphs("motif-size", "train", NUM_REFERENCE, repeat)
        ]
        slow.append(len(arrays) / (time.perf_counter() - start))
    ours, theirs = statistics.median(fast), statistics.median(slow)
    result = {
        "command": COMMAND,
        "ratio": round(ours / theirs, 1),
        "gsx_graphs_per_s": round(ours),
        "networkx_graphs_per_s": round(theirs),
        "python": platform.python_version(),
        "numpy": np.__version__,
    }
    RESULT.parent.mkdir(parents=True, exist_ok=True)
    RESULT.write_text(json.dumps(result, indent=2) + "\n")
    print(f"{'motif-size, train':<20}{'graphs':>8}{'graphs/s':>12}")
    print(f"{'gsx':<20}{NUM_GRAPHS:>8}{ours:>12,.0f}")
    print(f"{'networkx':<20}{NUM_REFERENCE:>8}{theirs:>12,.0f}")
    print(f"ratio {ours / theirs:.1f} (bar: {BAR})")
    if ours < BAR * theirs:
        raise SystemExit(f"below the bar of {BAR}")


def to_arrays(graph: nx.Graph) -> dict[str, np.ndarray]:
    """Return what gsx holds of a graph, as arrays of its own."""
    both = [(u, v) for u, neighbors in graph.adjacency() for v in sorted(neighbors)]
    edges = np.array(both, dtype=np.int32)
    truth = np.zeros(len(graph), dtype=np.int8)
    truth[-5:] = 1
    return {
        "edge_src": edges[:, 0],
        "edge_dst": edges[:, 1],
        "node_feat": np.ones((len(graph), 1), dtype=np.float32),
        "node_truth": truth,
        "y": np.eye(3, dtype=np.float32)[graph.graph["label"]],
    }


if __name__ == "__main__":
    main()
