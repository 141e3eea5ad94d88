"""Gallery of graph drawings with causal and environmental subgraphs, components and bridges."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass

import numpy as np

from gsx.graph_svg import MAX_NODES, node_positions
from gsx.ragged import Array, Ints
from gsx.schema import ORIGINS, SPLITS, CorpusInfo
from gsx.seeds import rng
from gsx.stages.chem.features import is_molecular
from gsx.stages.report.sample import PERTURBED, SOURCE, GraphColumns, Sample
from gsx.table import GraphTable

ORIGIN_NAMES = {
    "source": "source graph",
    "g_inv": "causal subgraph only",
    "g_inv_env": "causal and environmental subgraphs spliced",
    "g_whole": "whole graphs spliced",
    "featx": "features extrapolated",
    "dropnode": "nodes dropped",
    "dropedge": "edges dropped",
    "maskfeature": "features masked",
    "g_mixup": "g-mixup of class graphons",
}
SIDE = 240
NUM_COLORS = 6
"""Number of component colors; further components repeat them."""
GRAPHS_PER_CELL = {"train": 4, "id_test": 0, "ood_val": 3, "ood_test": 6, "augmented": 9}
"""Drawn graphs per environment and origin, by group."""
MAX_GRAPHS = 60
"""Largest number of drawn graphs per group; the SVG of a molecule has about 20 kB."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Card:
    """One drawing with its caption."""

    svg: str
    split: str
    kind: str
    """Name of the origin."""
    env: str
    label: str
    lines: tuple[str, ...]
    """Lines of the caption."""
    alt: str
    """Alternative text for screen readers."""


@dataclass(frozen=True, slots=True, eq=False)
class Subgraphs:
    """Causal and environmental subgraphs of the training graphs, from an extractor."""

    graph_id: Ints
    node_ptr: Ints
    causal: Array
    environmental: Array

    def roles(self, graph_id: int) -> list[str] | None:
        """Return the role of every node of a graph, or None if the extractor has no such graph."""
        rows = np.flatnonzero(self.graph_id == graph_id)
        if not len(rows):
            return None
        nodes = slice(int(self.node_ptr[rows[0]]), int(self.node_ptr[rows[0] + 1]))
        flags = zip(self.causal[nodes], self.environmental[nodes], strict=True)
        return ["c" if causal else "e" if env else "n" for causal, env in flags]


def cards(
    info: CorpusInfo, columns: GraphColumns, sample: Sample, subgraphs: Subgraphs | None, seed: int
) -> list[Card]:
    """Return drawings of some graphs of every group, environment and origin."""
    names = {environment.id: environment.name for environment in info.environments}
    gallery_cards = []
    for row in _choose_rows(columns, sample, seed):
        graph = sample.table.take(sample.at(np.array([row])))
        env, origin = int(columns.env[row]), ORIGINS[columns.origin[row]]
        roles = _node_roles(graph, int(columns.origin[row]), subgraphs)
        kind, label = ORIGIN_NAMES.get(origin, origin), label_text(info, columns.y[row])
        number, nodes = int(columns.graph_id[row]), int(columns.nodes[row])
        gallery_cards.append(
            Card(
                svg=draw_graph(graph, roles, molecules=is_molecular(info)),
                split=SPLITS[columns.split[row]],
                kind=kind,
                env=f"{env} · {names[env]}" if env in names else "unknown",
                label=label,
                lines=(f"#{number} · {nodes} nodes", *_parent_line(columns, row)),
                alt=f"Graph {number}, {kind}, {nodes} nodes, label {label}",
            )
        )
    return gallery_cards


def _parent_line(columns: GraphColumns, row: int) -> list[str]:
    parents = list(dict.fromkeys(columns.parents.take(np.array([row])).values.tolist()))
    more = " …" if len(parents) > 4 else ""
    noun = "graph" if len(parents) == 1 else "graphs"
    return [f"from {noun} {', '.join(map(str, parents[:4]))}{more}"] if parents else []


def _choose_rows(columns: GraphColumns, sample: Sample, seed: int) -> list[int]:
    """Return rows of graphs to draw: at most ``MAX_NODES`` nodes, labels alternating."""
    chosen: list[int] = []
    order = rng(seed, "report", "gallery").permutation(sample.rows)
    order = order[(columns.nodes[order] <= MAX_NODES) & (columns.nodes[order] > 0)]
    for group in ("train", "augmented", "ood_val", "ood_test"):
        rows = order[np.isin(order, columns.groups.get(group, ()))]
        cells = sorted({(int(columns.origin[row]), int(columns.env[row])) for row in rows})
        sampled_cells = np.linspace(0, len(cells) - 1, min(len(cells), MAX_GRAPHS)).astype(np.int64)
        per_cell = min(GRAPHS_PER_CELL[group], MAX_GRAPHS // max(len(sampled_cells), 1))
        for origin, env in (cells[number] for number in sampled_cells):
            cell_rows = rows[(columns.origin[rows] == origin) & (columns.env[rows] == env)]
            chosen += alternate_labels(cell_rows, columns.label[cell_rows])[:per_cell].tolist()
    return chosen


def alternate_labels(rows: Ints, label: Ints) -> Ints:
    """Return rows with alternating labels; rows of one label keep their order."""
    rank = np.zeros(len(rows), dtype=np.int64)
    for value in np.unique(label):
        mask = label == value
        rank[mask] = np.arange(mask.sum())
    return rows[np.argsort(rank, kind="stable")]


def _node_roles(graph: GraphTable, origin: int, subgraphs: Subgraphs | None) -> list[str]:
    """Return the role of every node: ``c``, ``e``, ``w<slot>``, ``b`` (bridge) or ``n`` (none)."""
    if origin == SOURCE:
        roles = subgraphs.roles(int(graph.dense("graph", "graph_id")[0])) if subgraphs else None
        return roles or ["n"] * graph.total_nodes
    slots = graph.lists("graph", "provenance.node_slot").values.tolist()
    if len(slots) != graph.total_nodes or ORIGINS[origin] in PERTURBED:
        return ["n"] * graph.total_nodes
    if ORIGINS[origin] == "g_whole":
        return ["b" if slot < 0 else f"w{slot % NUM_COLORS}" for slot in slots]
    return ["b" if slot < 0 else "c" if slot == 0 else "e" for slot in slots]


def label_text(info: CorpusInfo, y: Array) -> str:
    """Return a label as text: a class, class probabilities, or a value per task."""
    if info.task == "classification":
        shares = [(name, float(p)) for name, p in zip(info.outputs, y, strict=True) if p > 0]
        if not shares:
            return "unknown"
        if len(shares) == 1:
            return shares[0][0]
        return ", ".join(f"{name} {p:.0%}" for name, p in sorted(shares, key=lambda q: -q[1]))
    labelled = [
        (name, float(v)) for name, v in zip(info.outputs, y, strict=True) if not np.isnan(v)
    ]
    if info.task == "binary" and len(labelled) == 1:
        name, value = labelled[0]
        if value in (0.0, 1.0):
            return f"{name}: {'yes' if value else 'no'}"
        return f"{name}: {value:.0%}"
    return ", ".join(f"{name} {value:.3g}" for name, value in labelled[:3]) or "unknown"


def draw_graph(graph: GraphTable, roles: Sequence[str], *, molecules: bool) -> str:
    """Draw one graph as SVG: molecules with RDKit, other graphs as dots and lines."""
    if molecules:
        from gsx.stages.report.molecule_svg import draw_molecule

        svg = draw_molecule(graph, roles, _bridges(graph))
        if svg is not None:
            return svg
    return _draw_plain_graph(graph, roles)


def _bridges(graph: GraphTable) -> Array:
    is_bridge = np.zeros(graph.total_edges, dtype=bool)
    is_bridge[graph.lists("graph", "provenance.bridges").values] = True
    return is_bridge


def _draw_plain_graph(graph: GraphTable, roles: Sequence[str]) -> str:
    src, dst = graph.dense("edge", "edge_src"), graph.dense("edge", "edge_dst")
    positions, height = scaled_positions(src, dst, graph.total_nodes)
    bridge = _bridges(graph)
    forward = src < dst
    dot = min(max(150 / (graph.total_nodes**0.5 + 6), 5), 13)
    paths = [
        f'<path class="edge" d="{edge_path(positions, src, dst, forward & ~bridge)}"/>',
        f'<path class="bridge" d="{edge_path(positions, src, dst, forward & bridge)}"/>'
        if bridge.any()
        else "",
    ]
    truth = graph.node.get("node_truth")
    if isinstance(truth, np.ndarray) and (truth > 0).any():
        marks = node_path(positions[truth > 0])
        paths.append(f'<path class="truth" stroke-width="{dot * 1.3 + 4:.1f}" d="{marks}"/>')
    role_array = np.array(roles)
    for role in dict.fromkeys(roles):
        marks = node_path(positions[role_array == role])
        paths.append(f'<path class="node r-{role}" stroke-width="{dot:.1f}" d="{marks}"/>')
    return f'<svg viewBox="0 0 {SIDE} {height:.0f}" aria-hidden="true">{"".join(paths)}</svg>'


def scaled_positions(src: Ints, dst: Ints, num_nodes: int) -> tuple[Array, float]:
    """Return node positions ``[N, 2]`` in pixels, and the height of the drawing."""
    positions = 16 + node_positions(src, dst, num_nodes) * (SIDE - 32)
    height = max(float(np.ptp(positions[:, 1])) + 32, 60.0)
    positions[:, 1] += height / 2 - (positions[:, 1].max() + positions[:, 1].min()) / 2
    return positions, height


def edge_path(positions: Array, src: Array, dst: Array, mask: Array) -> str:
    """Return the SVG path of the edges in ``mask``."""
    return "".join(
        f"M{x:.0f} {y:.0f}L{u:.0f} {v:.0f}"
        for (x, y), (u, v) in zip(positions[src[mask]], positions[dst[mask]], strict=True)
    )


def node_path(positions: Array) -> str:
    """Return the SVG path of one dot per position."""
    return "".join(f"M{x:.0f} {y:.0f}h0" for x, y in positions)


def legend(cards: Sequence[Card]) -> Mapping[str, str]:
    """Return the CSS classes that occur in the drawings, with their meaning."""
    meanings = {
        "r-c": "causal subgraph",
        "r-e": "environmental subgraph",
        "r-n": "node in neither subgraph, or not extracted",
        "r-w0": "components of a whole-graph splice, one color each",
        "r-b": "bridge node",
        "bridge": "bridge: an edge that joins components",
        "truth": "ring: causal in the ground truth",
    }
    svgs = "".join(card.svg for card in cards)
    if 'r-c"' not in svgs and "--m-c)" not in svgs:
        meanings["r-n"] = "node"  # no extractor
    return {
        name: text
        for name, text in meanings.items()
        if f'{name}"' in svgs or f"--m-{name.removeprefix('r-')})" in svgs
    }
