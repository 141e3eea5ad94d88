"""Gallery of labelled nodes with their neighborhoods, colored by class or environment."""

from __future__ import annotations

from collections.abc import Iterator, Sequence

import numpy as np
from scipy.sparse import csr_matrix

from gsx.ragged import Array, Ints
from gsx.schema import SPLITS, CorpusInfo
from gsx.stages.graphs.node_features import Features
from gsx.stages.graphs.subgraphs import global_edges
from gsx.stages.report.gallery import (
    GRAPHS_PER_CELL,
    ORIGIN_NAMES,
    SIDE,
    Card,
    alternate_labels,
    edge_path,
    label_text,
    node_path,
    scaled_positions,
)
from gsx.stages.report.node_data import NodeColumns, NodeSample, replaced_edges

MAX_NEIGHBORS, MAX_NODES = 14, 36
"""Largest numbers of drawn neighbors, and of nodes per drawing."""
NUM_COLORS = 8
"""Number of class and environment colors; further ones repeat them."""
MAX_LISTED_FEATURES = 3
"""Largest number of changed features that a caption lists."""


def node_cards(info: CorpusInfo, columns: NodeColumns, sample: NodeSample) -> list[Card]:
    """Return drawings of some nodes of every group and environment.

    Captions of augmented nodes list the changed features or the number of dropped edges.
    """
    names = {environment.id: environment.name for environment in info.environments}
    feature_names = () if info.sparse else info.column("node_feat").value_names
    source_adjacency = _adjacency(*global_edges(columns.table), columns.table.total_nodes)
    replica_adjacency: dict[int, csr_matrix] = {}
    gallery_cards = []
    for group, position in _choose_nodes(columns, sample):
        node, env = int(sample.nodes[group][position]), int(sample.env[group][position])
        label = label_text(info, sample.y[group][position])
        name, adjacency, kind = _node_name(columns, node), source_adjacency, "source node"
        change_lines: tuple[str, ...] = ()
        if group == "augmented":
            replica_index = int(sample.replica[position])
            replica = columns.replicas[replica_index]
            kind = ORIGIN_NAMES[replica.origin]
            if replica.edges is None:
                change_lines = _changed_features(
                    columns.features[[node]],
                    sample.features[group][[position]],
                    feature_names,
                )
            else:
                if replica_index not in replica_adjacency:
                    replica_adjacency[replica_index] = _adjacency(
                        *replaced_edges(columns, replica), columns.table.total_nodes
                    )
                adjacency = replica_adjacency[replica_index]
                num_dropped = int(columns.degree[node] - replica.degree[node - replica.nodes[0]])
                change_lines = (f"{num_dropped} of them dropped",)
        gallery_cards.append(
            Card(
                svg=_neighborhood_svg(adjacency, node, columns),
                split=SPLITS[columns.split[node]],
                kind=kind,
                env=f"{env} · {names[env]}" if env in names else "unknown",
                label=label,
                lines=(f"node {name} · {int(columns.degree[node])} edges", *change_lines),
                alt=f"Node {name} and its neighbors, {kind}, label {label}",
            )
        )
    return gallery_cards


def _choose_nodes(columns: NodeColumns, sample: NodeSample) -> Iterator[tuple[str, int]]:
    """Yield group and position in the sample, for every environment with alternating labels."""
    for group in ("train", "augmented", "ood_val", "ood_test"):
        if group not in sample.nodes:
            continue
        env, label = sample.env[group], columns.label[sample.nodes[group]]
        for id_ in np.unique(env).tolist():
            positions = np.flatnonzero(env == id_)
            yield from (
                (group, position)
                for position in alternate_labels(positions, label[positions])[
                    : GRAPHS_PER_CELL[group]
                ].tolist()
            )


def _adjacency(src: Ints, dst: Ints, nodes: int) -> csr_matrix:
    shape = (nodes, nodes)
    ones = np.ones(2 * len(src), dtype=np.int8)
    adjacency = csr_matrix(
        (ones, (np.concatenate([src, dst]), np.concatenate([dst, src]))), shape=shape
    )
    adjacency.sum_duplicates()
    return adjacency


def _node_name(columns: NodeColumns, node: int) -> str:
    graph = int(np.searchsorted(columns.table.node_ptr, node, side="right")) - 1
    number = node - int(columns.table.node_ptr[graph])
    if len(columns.table) == 1:
        return str(number)
    return f"{number} of graph {int(columns.table.dense('graph', 'graph_id')[graph])}"


def neighborhood(adjacency: csr_matrix, node: int) -> Ints:
    """Return a node, its neighbors and their neighbors, at most ``MAX_NODES`` nodes."""
    neighbors = _evenly_spaced(_neighbors(adjacency, node), MAX_NEIGHBORS)
    chosen = dict.fromkeys([node, *neighbors])
    second_neighbors = dict.fromkeys(
        other for neighbor in neighbors for other in _neighbors(adjacency, neighbor)
    )
    remaining = [other for other in second_neighbors if other not in chosen]
    return np.array([*chosen, *_evenly_spaced(remaining, MAX_NODES - len(chosen))], dtype=np.int64)


def _neighbors(adjacency: csr_matrix, node: int) -> list[int]:
    row = adjacency.indices[adjacency.indptr[node] : adjacency.indptr[node + 1]]
    return [int(other) for other in np.sort(row) if other != node]


def _evenly_spaced(nodes: Sequence[int], max_nodes: int) -> list[int]:
    """Return at most ``max_nodes`` of the nodes, evenly spaced."""
    if len(nodes) <= max_nodes:
        return list(nodes)
    return [nodes[int(position)] for position in np.linspace(0, len(nodes) - 1, max_nodes)]


def _neighborhood_svg(adjacency: csr_matrix, node: int, columns: NodeColumns) -> str:
    nodes = neighborhood(adjacency, node)
    induced = adjacency[nodes][:, nodes].tocoo()
    upper = induced.row < induced.col
    src, dst = induced.row[upper], induced.col[upper]
    positions, height = scaled_positions(src, dst, len(nodes))
    lines = edge_path(positions, src, dst, np.ones(len(src), dtype=bool))
    size = min(max(150 / (len(nodes) ** 0.5 + 6), 6), 13)
    ring = (
        f'<path class="truth" stroke-width="{size * 1.3 + 5:.1f}" d="{node_path(positions[:1])}"/>'
    )
    dots = "".join(_colored_paths(positions, columns.label[nodes], columns.env[nodes], size))
    return (
        f'<svg viewBox="0 0 {SIDE} {height:.0f}" aria-hidden="true">'
        f'<path class="edge" d="{lines}"/>{ring}{dots}</svg>'
    )


def _colored_paths(positions: Array, label: Ints, env: Ints, size: float) -> Iterator[str]:
    """Yield dots with the CSS classes of label and environment; the page shows one of both."""
    pairs = np.stack([label, env], axis=1)
    for pair in np.unique(pairs, axis=0):
        pair_positions = positions[(pairs == pair).all(axis=1)]
        names = " ".join(
            f"{letter}{value % NUM_COLORS}" if value >= 0 else f"{letter}n"
            for letter, value in zip("lv", pair.tolist(), strict=True)
        )
        path = node_path(pair_positions)
        yield f'<path class="node {names}" stroke-width="{size:.1f}" d="{path}"/>'


def _changed_features(before: Features, after: Features, names: Sequence[str]) -> tuple[str, ...]:
    """Return a caption line with the most changed features, before and after."""
    first, second = (
        np.asarray(
            features.toarray() if isinstance(features, csr_matrix) else features, dtype=np.float64
        )[0]
        for features in (before, after)
    )
    difference = np.abs(second - first)
    changed = [
        int(index) for index in np.argsort(-difference, kind="stable") if difference[index] > 0
    ]
    if not changed:
        return ("no feature changed",)
    listed = ", ".join(
        f"{names[index] if names else index}: {first[index]:.3g} → {second[index]:.3g}"
        for index in changed[:MAX_LISTED_FEATURES]
    )
    more = " …" if len(changed) > MAX_LISTED_FEATURES else ""
    return (f"{len(changed):,} features changed: {listed}{more}",)
