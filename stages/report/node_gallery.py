"""Pictures of labelled nodes: each in the middle of its neighbors, in colors of classes."""

from __future__ import annotations

from collections.abc import Iterator, Sequence

import numpy as np
from scipy.sparse import csr_matrix

from gsx.ragged import Array, Ints
from gsx.schema import SPLITS, CorpusInfo
from gsx.stages.graphs.node_features import Features
from gsx.stages.graphs.subgraphs import global_edges
from gsx.stages.report.gallery import (
    MANY,
    ORIGIN_WORDS,
    SIDE,
    Card,
    dots,
    in_turn,
    label_text,
    on_paper,
    strokes,
)
from gsx.stages.report.node_data import NodeFacts, NodeSample, replaced_edges

NEAR, MOST = 14, 36
"""Neighbors of a node that are drawn, and nodes of a picture."""
KINDS = 8
"""Colors of classes and environments; further ones begin again."""
MENTIONED = 3
"""Moved features that are told."""


def node_cards(info: CorpusInfo, facts: NodeFacts, sample: NodeSample) -> list[Card]:
    """Draw some nodes of every group and environment; those that moved say what moved."""
    names = {environment.id: environment.name for environment in info.environments}
    whole = _links(*global_edges(facts.table), facts.table.total_nodes)
    own: dict[int, csr_matrix] = {}
    drawn = []
    for group, place in _choose(facts, sample):
        node, env = int(sample.nodes[group][place]), int(sample.env[group][place])
        label = label_text(info, sample.y[group][place])
        number, links, kind = _number(facts, node), whole, "node of the source"
        more: tuple[str, ...] = ()
        if group == "augmented":
            turn = int(sample.replica[place])
            replica = facts.replicas[turn]
            kind = ORIGIN_WORDS[replica.origin]
            if replica.edges is None:
                more = _moves(facts.features[[node]], sample.features[group][[place]])
            else:
                if turn not in own:
                    own[turn] = _links(*replaced_edges(facts, replica), facts.table.total_nodes)
                links = own[turn]
                lost = int(facts.degree[node] - replica.degree[node - replica.nodes[0]])
                more = (f"{lost} of them dropped",)
        drawn.append(
            Card(
                svg=_draw(links, node, facts),
                split=SPLITS[facts.split[node]],
                kind=kind,
                env=f"{env} · {names[env]}" if env in names else "hidden",
                label=label,
                lines=(f"node {number} · {int(facts.degree[node])} edges", *more),
                alt=f"Node {number} and its neighbors, {kind}, label {label}",
            )
        )
    return drawn


def _choose(facts: NodeFacts, sample: NodeSample) -> Iterator[tuple[str, int]]:
    """Yield group and place in the sample; every environment, and labels in turn."""
    for group in ("train", "augmented", "ood_val", "ood_test"):
        if group not in sample.nodes:
            continue
        env, label = sample.env[group], facts.label[sample.nodes[group]]
        for id_ in np.unique(env).tolist():
            mine = np.flatnonzero(env == id_)
            yield from (
                (group, place) for place in in_turn(mine, label[mine])[: MANY[group]].tolist()
            )


def _links(src: Ints, dst: Ints, nodes: int) -> csr_matrix:
    shape = (nodes, nodes)
    ones = np.ones(2 * len(src), dtype=np.int8)
    both = csr_matrix((ones, (np.concatenate([src, dst]), np.concatenate([dst, src]))), shape=shape)
    both.sum_duplicates()
    return both


def _number(facts: NodeFacts, node: int) -> str:
    graph = int(np.searchsorted(facts.table.node_ptr, node, side="right")) - 1
    number = node - int(facts.table.node_ptr[graph])
    if len(facts.table) == 1:
        return str(number)
    return f"{number} of graph {int(facts.table.dense('graph', 'graph_id')[graph])}"


def around(links: csr_matrix, node: int) -> Ints:
    """Return a node, neighbors of it and neighbors of these, as many as a picture bears."""
    near = _spread(_neighbors(links, node), NEAR)
    found = dict.fromkeys([node, *near])
    further = dict.fromkeys(each for one in near for each in _neighbors(links, one))
    left = [each for each in further if each not in found]
    return np.array([*found, *_spread(left, MOST - len(found))], dtype=np.int64)


def _neighbors(links: csr_matrix, node: int) -> list[int]:
    row = links.indices[links.indptr[node] : links.indptr[node + 1]]
    return [int(each) for each in np.sort(row) if each != node]


def _spread(nodes: Sequence[int], most: int) -> list[int]:
    """Return at most so many of some nodes, evenly spread."""
    if len(nodes) <= most:
        return list(nodes)
    return [nodes[int(place)] for place in np.linspace(0, len(nodes) - 1, most)]


def _draw(links: csr_matrix, node: int, facts: NodeFacts) -> str:
    nodes = around(links, node)
    inside = links[nodes][:, nodes].tocoo()
    once = inside.row < inside.col
    src, dst = inside.row[once], inside.col[once]
    at, high = on_paper(src, dst, len(nodes))
    lines = strokes(at, src, dst, np.ones(len(src), dtype=bool))
    size = min(max(150 / (len(nodes) ** 0.5 + 6), 6), 13)
    ring = f'<path class="truth" stroke-width="{size * 1.3 + 5:.1f}" d="{dots(at[:1])}"/>'
    return (
        f'<svg viewBox="0 0 {SIDE} {high:.0f}" aria-hidden="true"><path class="edge" d="{lines}"/>'
        f"{ring}{''.join(_colored(at, facts.label[nodes], facts.env[nodes], size))}</svg>"
    )


def _colored(at: Array, label: Ints, env: Ints, size: float) -> Iterator[str]:
    """Yield dots that carry both colors; the page shows one of them."""
    pairs = np.stack([label, env], axis=1)
    for pair in np.unique(pairs, axis=0):
        mine = at[(pairs == pair).all(axis=1)]
        names = " ".join(
            f"{letter}{value % KINDS}" if value >= 0 else f"{letter}n"
            for letter, value in zip("lv", pair.tolist(), strict=True)
        )
        yield f'<path class="node {names}" stroke-width="{size:.1f}" d="{dots(mine)}"/>'


def _moves(before: Features, after: Features) -> tuple[str, ...]:
    """Say which features moved most, and from where to where."""
    first, second = (
        np.asarray(each.toarray() if isinstance(each, csr_matrix) else each, dtype=np.float64)[0]
        for each in (before, after)
    )
    far = np.abs(second - first)
    moved = [int(place) for place in np.argsort(-far, kind="stable") if far[place] > 0]
    if not moved:
        return ("no feature came out differently",)
    told = ", ".join(f"{p}: {first[p]:.3g} → {second[p]:.3g}" for p in moved[:MENTIONED])
    return (f"{len(moved):,} features moved: {told}{' …' if len(moved) > MENTIONED else ''}",)
