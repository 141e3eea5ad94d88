"""Motif graphs built one at a time with networkx: the reference for speed and for correctness."""

from __future__ import annotations

import math
import random

import networkx as nx

BASES = ("wheel", "tree", "ladder", "star", "path")
CENTERS = {"motif-size": (6, 10, 15, 30, 70), "motif-base": (10,)}
UNSEEN = {"ood_val": 3, "ood_test": 4}


def build_base(kind: int, width: int) -> nx.Graph:
    """Return a base graph; the node attribute ``receptive`` marks nodes that may gain edges."""
    if kind == 0:
        graph = nx.wheel_graph(width)
    elif kind == 1:
        graph = nx.balanced_tree(2, max(1, int(math.log2(width)) - 1))
    elif kind == 2:
        graph = nx.ladder_graph(width)
    elif kind == 3:
        graph = nx.star_graph(width)
    else:
        graph = nx.path_graph(width)
    for node in graph:
        inner = 0 < node < width - 1
        graph.nodes[node]["receptive"] = kind < 3 or (node == 0 if kind == 3 else inner)
    return graph


def build_motif(motif: int) -> nx.Graph:
    """Return a motif on nodes 0 to 4: house (0), cycle (1) or crane (2)."""
    if motif == 1:
        return nx.cycle_graph(5)
    graph = nx.Graph()
    graph.add_nodes_from(range(5))
    nx.add_cycle(graph, (1, 2, 3, 4))
    graph.add_edges_from([(0, 1), (0, 4 if motif == 0 else 3)])
    return graph


def build_graph(kind: int, width: int, motif: int, rng: random.Random) -> nx.Graph:
    """Join a motif to a base and add random edges.

    ``graph.graph["attempts"]`` is the number of pairs drawn; pairs without a receptive node add no
    edge.
    """
    graph = build_base(kind, width)
    first = graph.number_of_nodes()
    anchor = rng.randrange(first)
    graph.add_nodes_from(range(first, first + 5), receptive=False)
    graph.add_edges_from((first + u, first + v) for u, v in build_motif(motif).edges)
    graph.add_edge(first, anchor)
    attempts = int(0.05 * graph.number_of_edges())
    for _ in range(attempts):
        u, v = _unconnected_pair(graph, rng)
        if graph.nodes[u]["receptive"] or graph.nodes[v]["receptive"]:
            graph.add_edge(u, v)
    graph.graph.update(kind=kind, width=width, motif=motif, attempts=attempts)
    return graph


def build_graphs(name: str, split: str, count: int, seed: int) -> list[nx.Graph]:
    """Draw ``count`` graphs of ``motif-size`` or ``motif-base`` with noisy labels."""
    rng = random.Random(f"{name} {split} {seed}")
    graphs = []
    for _ in range(count):
        motif = rng.randrange(3)
        domain = UNSEEN[split] if split in UNSEEN else rng.randrange(3)
        kind, width_id = (domain, 0) if name == "motif-base" else (rng.randrange(5), domain)
        width = CENTERS[name][width_id] + rng.randint(-5, 5)
        graph = build_graph(kind, width, motif, rng)
        graph.graph["label"] = rng.randrange(3) if rng.random() < 0.1 else motif
        graph.graph["domain"] = domain
        graphs.append(graph)
    return graphs


def _unconnected_pair(graph: nx.Graph, rng: random.Random) -> tuple[int, int]:
    """Draw two different nodes without an edge between them."""
    while True:
        u, v = rng.randrange(len(graph)), rng.randrange(len(graph))
        if u != v and not graph.has_edge(u, v):
            return u, v
