"""Measure the generation of Motif graphs, compared with networkx: ``python bench/motif.py``."""

from __future__ import annotations

import statistics
from functools import partial

import networkx as nx
import numpy as np
from lib import harness
from lib.motif_reference import build_graphs

from gsx.stages.prepare.synthetic.motif import build

NAME = "motif"
NUM_GRAPHS, NUM_REFERENCE, ROUNDS = 18_000, 1_000, 3
BARS = {"ratio": 20}


def main(arguments: list[str] | None = None) -> None:
    options = harness.argument_parser(__doc__).parse_args(arguments)
    build("motif-size", "train", 0, 1, seed=0, first_graph_id=0)  # imports and first allocations
    rates: dict[str, list[float]] = {"gsx": [], "networkx": []}
    for seed in range(ROUNDS):
        gsx = partial(build, "motif-size", "train", 0, NUM_GRAPHS, seed=seed, first_graph_id=0)
        rates["gsx"].append(NUM_GRAPHS / harness.timed(gsx)[0])
        rates["networkx"].append(NUM_REFERENCE / harness.timed(partial(build_reference, seed))[0])
    median = {name: statistics.median(values) for name, values in rates.items()}
    result: harness.Result = {
        "command": harness.command_line(NAME),
        "ratio": round(median["gsx"] / median["networkx"], 1),
        "gsx_graphs_per_s": round(median["gsx"]),
        "networkx_graphs_per_s": round(median["networkx"]),
        **harness.versions("numpy"),
    }
    harness.write_result(NAME, result, dry_run=options.dry_run)
    print(f"{'motif-size, train':<20}{'graphs':>8}{'graphs/s':>12}")
    print(f"{'gsx':<20}{NUM_GRAPHS:>8}{median['gsx']:>12,.0f}")
    print(f"{'networkx':<20}{NUM_REFERENCE:>8}{median['networkx']:>12,.0f}")
    print(f"ratio {result['ratio']} (bar: {BARS['ratio']})")
    harness.require(harness.at_least(result, BARS))


def build_reference(seed: int) -> list[dict[str, np.ndarray]]:
    """Build graphs with networkx and convert each to arrays."""
    return [to_arrays(graph) for graph in build_graphs("motif-size", "train", NUM_REFERENCE, seed)]


def to_arrays(graph: nx.Graph) -> dict[str, np.ndarray]:
    """Return the arrays that gsx stores for a graph."""
    both_directions = [(u, v) for u, neighbors in graph.adjacency() for v in sorted(neighbors)]
    edges = np.array(both_directions, dtype=np.int32)
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
