"""Pictures of some graphs: which part decides the label, what was joined, and where."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass

import numpy as np

from gsx.columns import ORIGINS, SPLITS, CorpusInfo
from gsx.drawing import LARGEST, places
from gsx.ragged import Array, Ints
from gsx.seeds import rng
from gsx.stages.kernels.atoms import molecular
from gsx.stages.reporting.sample import CHANGED, SOURCE, Facts, Sample
from gsx.table import GraphTable

SIDE = 240
PIECES = 6
"""Colors of pieces; further ones begin again."""
_MANY = {"train": 4, "id_test": 0, "ood_val": 3, "ood_test": 6, "augmented": 9}
"""Graphs that are drawn of every environment and origin of a group."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Card:
    """One picture and what is said about it."""

    svg: str
    graph_id: int
    group: str
    split: str
    origin: str
    env: str
    label: str
    nodes: int
    parents: tuple[int, ...]


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
    for group, row in _choose(facts, sample, seed):
        graph = sample.table.take(sample.at(np.array([row])))
        env = int(facts.env[row])
        drawn.append(
            Card(
                svg=draw(
                    graph,
                    _roles(graph, int(facts.origin[row]), pieces),
                    molecules=molecular(info),
                ),
                graph_id=int(facts.graph_id[row]),
                group=group,
                split=SPLITS[facts.split[row]],
                origin=ORIGINS[facts.origin[row]],
                env=f"{env} · {names[env]}" if env in names else "hidden",
                label=label_text(info, facts.y[row]),
                nodes=int(facts.nodes[row]),
                parents=tuple(dict.fromkeys(facts.parents.take(np.array([row])).values.tolist())),
            )
        )
    return drawn


def _choose(facts: Facts, sample: Sample, seed: int) -> list[tuple[str, int]]:
    """Return group and row of the graphs to draw; small enough, and of every label in turn."""
    chosen: list[tuple[str, int]] = []
    order = rng(seed, "report", "gallery").permutation(sample.rows)
    order = order[(facts.nodes[order] <= LARGEST) & (facts.nodes[order] > 0)]
    for group in ("train", "augmented", "ood_val", "ood_test"):
        rows = order[np.isin(order, facts.groups.get(group, ()))]
        kinds = sorted({(int(facts.origin[row]), int(facts.env[row])) for row in rows})
        for origin, env in kinds:
            mine = rows[(facts.origin[rows] == origin) & (facts.env[rows] == env)]
            turn = np.zeros(len(mine), dtype=np.int64)
            for label in np.unique(facts.label[mine]):
                same = facts.label[mine] == label
                turn[same] = np.arange(same.sum())
            best = mine[np.argsort(turn, kind="stable")[: _MANY[group]]]
            chosen += [(group, int(row)) for row in best]
    return chosen


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
        from gsx.stages.reporting.molecule import draw_molecule

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
    at = 16 + places(src, dst, graph.total_nodes) * (SIDE - 32)
    high = float(at[:, 1].max() - at[:, 1].min()) + 32
    high = max(high, 60.0)
    at[:, 1] += high / 2 - (at[:, 1].max() + at[:, 1].min()) / 2
    bridge = _bridges(graph)
    once = src < dst
    dot = min(max(150 / (graph.total_nodes**0.5 + 6), 5), 13)
    parts = [
        f'<path class="edge" d="{_strokes(at, src, dst, once & ~bridge)}"/>',
        f'<path class="bridge" d="{_strokes(at, src, dst, once & bridge)}"/>'
        if bridge.any()
        else "",
    ]
    truth = graph.node.get("node_truth")
    if isinstance(truth, np.ndarray) and (truth > 0).any():
        marks = _dots(at[truth > 0])
        parts.append(f'<path class="truth" stroke-width="{dot * 1.3 + 4:.1f}" d="{marks}"/>')
    kinds = np.array(roles)
    for role in dict.fromkeys(roles):
        marks = _dots(at[kinds == role])
        parts.append(f'<path class="node r-{role}" stroke-width="{dot:.1f}" d="{marks}"/>')
    return f'<svg viewBox="0 0 {SIDE} {high:.0f}" aria-hidden="true">{"".join(parts)}</svg>'


def _strokes(at: Array, src: Array, dst: Array, chosen: Array) -> str:
    return "".join(
        f"M{x:.0f} {y:.0f}L{u:.0f} {v:.0f}"
        for (x, y), (u, v) in zip(at[src[chosen]], at[dst[chosen]], strict=True)
    )


def _dots(at: Array) -> str:
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
    return {
        name: text
        for name, text in words.items()
        if f'{name}"' in drawn or f"--m-{name.removeprefix('r-')})" in drawn
    }
