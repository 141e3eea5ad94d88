"""Pictures of some graphs: which part decides the label, what was joined, and where."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass

import numpy as np

from gsx.graph_svg import MAX_NODES, node_positions
from gsx.ragged import Array, Ints
from gsx.schema import ORIGINS, SPLITS, CorpusInfo
from gsx.seeds import rng
from gsx.stages.chem.features import molecular
from gsx.stages.report.sample import CHANGED, SOURCE, Facts, Sample
from gsx.table import GraphTable

ORIGIN_WORDS = {
    "source": "source graph",
    "g_inv": "causal piece alone",
    "g_inv_env": "causal piece in other surroundings",
    "g_whole": "whole graphs joined",
    "featx": "features extrapolated",
    "dropnode": "nodes dropped",
    "dropedge": "edges dropped",
    "maskfeature": "features masked",
    "g_mixup": "classes mixed by their graphons",
}
SIDE = 240
PIECES = 6
"""Colors of pieces; further ones begin again."""
MANY = {"train": 4, "id_test": 0, "ood_val": 3, "ood_test": 6, "augmented": 9}
"""Graphs that are drawn of every environment and origin of a group."""
MOST = 60
"""Graphs of a group that are drawn at most; a picture of a molecule has some 20 kB."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Card:
    """One picture and what is said about it."""

    svg: str
    split: str
    kind: str
    """How it came to be, in words."""
    env: str
    label: str
    lines: tuple[str, ...]
    """What is said below."""
    alt: str
    """What is told to those who do not see it."""


@dataclass(frozen=True, slots=True, eq=False)
class Pieces:
    """What an extractor found in training graphs."""

    graph_id: Ints
    node_ptr: Ints
    causal: Array
    environmental: Array

    def roles(self, graph_id: int) -> list[str] | None:
        """Return the role of every node of a graph, or None where the extractor never saw it."""
        found = np.flatnonzero(self.graph_id == graph_id)
        if not len(found):
            return None
        run = slice(int(self.node_ptr[found[0]]), int(self.node_ptr[found[0] + 1]))
        either = zip(self.causal[run], self.environmental[run], strict=True)
        return ["c" if causal else "e" if env else "n" for causal, env in either]


def cards(
    info: CorpusInfo, facts: Facts, sample: Sample, pieces: Pieces | None, seed: int
) -> list[Card]:
    """Draw some graphs of every group, environment and origin."""
    names = {environment.id: environment.name for environment in info.environments}
    drawn = []
    for row in _choose(facts, sample, seed):
        graph = sample.table.take(sample.at(np.array([row])))
        env, origin = int(facts.env[row]), ORIGINS[facts.origin[row]]
        roles = _roles(graph, int(facts.origin[row]), pieces)
        kind, label = ORIGIN_WORDS.get(origin, origin), label_text(info, facts.y[row])
        number, nodes = int(facts.graph_id[row]), int(facts.nodes[row])
        drawn.append(
            Card(
                svg=draw(graph, roles, molecules=molecular(info)),
                split=SPLITS[facts.split[row]],
                kind=kind,
                env=f"{env} · {names[env]}" if env in names else "hidden",
                label=label,
                lines=(f"#{number} · {nodes} nodes", *_parents(facts, row)),
                alt=f"Graph {number}, {kind}, {nodes} nodes, label {label}",
            )
        )
    return drawn


def _parents(facts: Facts, row: int) -> list[str]:
    parents = list(dict.fromkeys(facts.parents.take(np.array([row])).values.tolist()))
    more = " …" if len(parents) > 4 else ""
    noun = "graph" if len(parents) == 1 else "graphs"
    return [f"from {noun} {', '.join(map(str, parents[:4]))}{more}"] if parents else []


def _choose(facts: Facts, sample: Sample, seed: int) -> list[int]:
    """Return rows of the graphs to draw; small enough, and of every label in turn."""
    chosen: list[int] = []
    order = rng(seed, "report", "gallery").permutation(sample.rows)
    order = order[(facts.nodes[order] <= MAX_NODES) & (facts.nodes[order] > 0)]
    for group in ("train", "augmented", "ood_val", "ood_test"):
        rows = order[np.isin(order, facts.groups.get(group, ()))]
        kinds = sorted({(int(facts.origin[row]), int(facts.env[row])) for row in rows})
        some = np.linspace(0, len(kinds) - 1, min(len(kinds), MOST)).astype(np.int64)
        each = min(MANY[group], MOST // max(len(some), 1))
        for origin, env in (kinds[number] for number in some):
            mine = rows[(facts.origin[rows] == origin) & (facts.env[rows] == env)]
            chosen += in_turn(mine, facts.label[mine])[:each].tolist()
    return chosen


def in_turn(rows: Ints, label: Ints) -> Ints:
    """Return rows so that labels take turns, those of one label in the order they had."""
    turn = np.zeros(len(rows), dtype=np.int64)
    for each in np.unique(label):
        same = label == each
        turn[same] = np.arange(same.sum())
    return rows[np.argsort(turn, kind="stable")]


def _roles(graph: GraphTable, origin: int, pieces: Pieces | None) -> list[str]:
    """Return what every node is: causal, environmental, of a piece, of a bridge, or unknown."""
    if origin == SOURCE:
        known = pieces.roles(int(graph.dense("graph", "graph_id")[0])) if pieces else None
        return known or ["n"] * graph.total_nodes
    slots = graph.lists("graph", "provenance.node_slot").values.tolist()
    if len(slots) != graph.total_nodes or ORIGINS[origin] in CHANGED:
        return ["n"] * graph.total_nodes
    if ORIGINS[origin] == "g_whole":
        return ["b" if slot < 0 else f"w{slot % PIECES}" for slot in slots]
    return ["b" if slot < 0 else "c" if slot == 0 else "e" for slot in slots]


def label_text(info: CorpusInfo, y: Array) -> str:
    """Say a label in words: a class, shares of classes, or a value per task."""
    if info.task == "classification":
        parts = [(name, float(p)) for name, p in zip(info.outputs, y, strict=True) if p > 0]
        if not parts:
            return "unknown"
        if len(parts) == 1:
            return parts[0][0]
        return ", ".join(f"{name} {p:.0%}" for name, p in sorted(parts, key=lambda q: -q[1]))
    known = [(name, float(v)) for name, v in zip(info.outputs, y, strict=True) if not np.isnan(v)]
    if info.task == "binary" and len(known) == 1:
        name, value = known[0]
        if value in (0.0, 1.0):
            return f"{name}: {'yes' if value else 'no'}"
        return f"{name}: {value:.0%}"
    return ", ".join(f"{name} {value:.3g}" for name, value in known[:3]) or "unknown"


def draw(graph: GraphTable, roles: Sequence[str], *, molecules: bool) -> str:
    """Draw one graph as SVG: a molecule by RDKit where it is one, else dots and lines."""
    if molecules:
        from gsx.stages.report.molecule_svg import draw_molecule

        drawn = draw_molecule(graph, roles, _bridges(graph))
        if drawn is not None:
            return drawn
    return _draw_plain(graph, roles)


def _bridges(graph: GraphTable) -> Array:
    marked = np.zeros(graph.total_edges, dtype=bool)
    marked[graph.lists("graph", "provenance.bridges").values] = True
    return marked


def _draw_plain(graph: GraphTable, roles: Sequence[str]) -> str:
    src, dst = graph.dense("edge", "edge_src"), graph.dense("edge", "edge_dst")
    at, high = on_paper(src, dst, graph.total_nodes)
    bridge = _bridges(graph)
    once = src < dst
    dot = min(max(150 / (graph.total_nodes**0.5 + 6), 5), 13)
    parts = [
        f'<path class="edge" d="{strokes(at, src, dst, once & ~bridge)}"/>',
        f'<path class="bridge" d="{strokes(at, src, dst, once & bridge)}"/>'
        if bridge.any()
        else "",
    ]
    truth = graph.node.get("node_truth")
    if isinstance(truth, np.ndarray) and (truth > 0).any():
        marks = dots(at[truth > 0])
        parts.append(f'<path class="truth" stroke-width="{dot * 1.3 + 4:.1f}" d="{marks}"/>')
    kinds = np.array(roles)
    for role in dict.fromkeys(roles):
        marks = dots(at[kinds == role])
        parts.append(f'<path class="node r-{role}" stroke-width="{dot:.1f}" d="{marks}"/>')
    return f'<svg viewBox="0 0 {SIDE} {high:.0f}" aria-hidden="true">{"".join(parts)}</svg>'


def on_paper(src: Ints, dst: Ints, num_nodes: int) -> tuple[Array, float]:
    """Return places of nodes in a picture, and how high it is."""
    at = 16 + node_positions(src, dst, num_nodes) * (SIDE - 32)
    high = max(float(np.ptp(at[:, 1])) + 32, 60.0)
    at[:, 1] += high / 2 - (at[:, 1].max() + at[:, 1].min()) / 2
    return at, high


def strokes(at: Array, src: Array, dst: Array, chosen: Array) -> str:
    """Return the path of the edges that are chosen."""
    return "".join(
        f"M{x:.0f} {y:.0f}L{u:.0f} {v:.0f}"
        for (x, y), (u, v) in zip(at[src[chosen]], at[dst[chosen]], strict=True)
    )


def dots(at: Array) -> str:
    """Return the path of dots."""
    return "".join(f"M{x:.0f} {y:.0f}h0" for x, y in at)


def legend(cards: Sequence[Card]) -> Mapping[str, str]:
    """Return the roles that the pictures show, and what they mean."""
    words = {
        "r-c": "causal piece",
        "r-e": "environmental piece",
        "r-n": "rest of the graph, or not looked at",
        "r-w0": "pieces of a whole-graph splice, one color each",
        "r-b": "node of a bridge",
        "bridge": "bridge: an edge that joins pieces",
        "truth": "ring: truly causal, where the dataset knows",
    }
    drawn = "".join(card.svg for card in cards)
    if 'r-c"' not in drawn and "--m-c)" not in drawn:
        words["r-n"] = "node"  # nobody looked for pieces
    return {
        name: text
        for name, text in words.items()
        if f'{name}"' in drawn or f"--m-{name.removeprefix('r-')})" in drawn
    }
