"""Join the components of spliced graphs: bridges, chords, and what they are written with."""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import Literal

import numpy as np

from gsx.ragged import Array, Ints, Ragged, pointers, rows_of
from gsx.stages.augmented.derived_columns import COPY, JOINT, bridge_columns, missing, spread
from gsx.stages.chem.fragments import free_valence
from gsx.stages.generate.splice.component_pool import END, MEAN, NUMBER, PLACE, PORT, SPREAD, START
from gsx.stages.generate.splice.composition import Composition
from gsx.stages.generate.splice.random_edges import draw_chords
from gsx.stages.graphs.splice import add_edges, add_nodes
from gsx.stages.graphs.subgraphs import Bools
from gsx.stages.nn.bridge_model import BridgeModel
from gsx.stages.nn.bridge_sampling import (
    Attachments,
    Bridges,
    CountRule,
    Drawer,
    Nodes,
    draw_heads,
    join_bridges,
)
from gsx.table import GraphTable

_INNER = {MEAN, SPREAD, NUMBER, PLACE, PORT, COPY, START, END}
"""Node columns that are dropped when components are joined."""


@dataclass(frozen=True, slots=True, kw_only=True)
class JointRules:
    """How components are joined."""

    bridges: Literal["learned", "random", "none"]
    bridge_count: CountRule
    fixed_attributes: bool
    bridge_nodes: bool
    ports: Literal["any", "own"]
    """Where a first component takes bridges."""
    chords: float
    """Random edges per edge."""


def draw_joints(
    model: BridgeModel,
    rules: JointRules,
    taken: GraphTable,
    counted: Array,
    composition: Composition,
    stream: np.random.Generator,
    *,
    molecules: bool,
) -> Bridges | None:
    """Draw the bridges between ``taken`` ``[S]`` components; None where there is one each.

    ``counted`` ``[S, …]`` is what the counter knows of them.
    """
    right = np.flatnonzero(composition.joined >= 0)
    if rules.bridges == "none" or not len(right):
        return None
    left = composition.ptr[rows_of(composition.ptr)[right]] + composition.joined[right]
    attachments = Attachments(
        left_start=taken.node_ptr[left],
        left_count=taken.num_nodes[left],
        right_start=taken.node_ptr[right],
        right_count=taken.num_nodes[right],
        left_slot=left,
        right_slot=right,
    )
    nodes = Nodes(taken.dense("node", MEAN), taken.dense("node", SPREAD), counted)
    drawer = Drawer.of(model, nodes, stream, pairs=rules.bridges, counts=rules.bridge_count)
    if molecules:
        return _draw_bonds(drawer, attachments, composition.slots[right], taken, stream)
    if rules.ports == "any":
        return drawer.draw(attachments, stream)
    return drawer.draw(attachments, stream, *_own_joints(taken, composition, attachments))


def _own_joints(
    taken: GraphTable, composition: Composition, attachments: Attachments
) -> tuple[Bools, Ints]:
    """Say which nodes may take a bridge, ``[N]``, and how many each attachment gets, ``[P]``.

    A first component is joined where its own graph joined it to the rest, and as often; one that
    was never joined is joined anywhere, and 0 leaves the number to the model.
    """
    lost = taken.dense("node", PORT)
    owner = rows_of(taken.node_ptr)
    times = np.bincount(owner, weights=lost, minlength=len(taken)).astype(np.int64)
    leads = composition.slots == 0
    free = (lost > 0) | ~leads[owner] | (times == 0)[owner]
    return free, np.where(leads[attachments.left_slot], times[attachments.left_slot], 0)


def _draw_bonds(
    drawer: Drawer,
    attachments: Attachments,
    slot: Ints,
    taken: GraphTable,
    stream: np.random.Generator,
) -> Bridges:
    """Join molecules one component after another, and count the hydrogens that are left."""
    hydrogens = free_valence(taken)
    rounds: list[Bridges] = []
    for number in range(1, int(slot.max(initial=0)) + 1):
        rows = np.flatnonzero(slot == number)
        found = drawer.draw(attachments.take(rows), stream, hydrogens > 0)
        rounds.append(replace(found, attachment=rows[found.attachment]))
        np.subtract.at(hydrogens, np.concatenate([found.left, found.right]), 1)
    return join_bridges(rounds)


def with_chords(
    model: BridgeModel,
    per_edge: float,
    joined: GraphTable,
    whole: Ints,
    taken: GraphTable,
    bridges: Bridges,
    stream: np.random.Generator,
) -> Bridges:
    """Add random edges; those of components ``whole`` ``[S]`` numbers, -1 for none, stay as is."""
    inside = whole[rows_of(taken.node_ptr)]
    ends = draw_chords(joined, (bridges.left, bridges.right), per_edge, inside, stream)
    heads = draw_heads(model, taken.dense("node", MEAN), *ends, stream)
    extra = Bridges(np.full(len(ends[0]), len(bridges.left)), *ends, *heads)
    return join_bridges([bridges, extra])


def all_joined(composition: Composition, bridges: Bridges | None) -> Bools:
    """Say of every graph whether all its slots got a bridge."""
    graphs = len(composition.ptr) - 1
    if bridges is None:
        return np.ones(graphs, dtype=bool)
    right = np.flatnonzero(composition.joined >= 0)
    bridged = np.zeros(len(right), dtype=bool)
    bridged[bridges.attachment] = True
    owner = rows_of(composition.ptr)[right]
    return np.asarray(np.bincount(owner[~bridged], minlength=graphs) == 0)


def apart(joined: GraphTable) -> tuple[GraphTable, Array, Ragged]:
    """Return graphs without bridges, the numbers of their nodes, and no positions of bridges."""
    none = Ragged(np.zeros(len(joined) + 1, dtype=np.int64), np.zeros(0, dtype=np.int32))
    return _plain(joined), joined.dense("node", NUMBER), none


def join(
    model: BridgeModel, rules: JointRules, joined: GraphTable, slot: Ints, bridges: Bridges
) -> tuple[GraphTable, Ints, Array, Ragged]:
    """Return graphs with bridges, slots and numbers of their nodes, and positions of bridges."""
    number, plain = joined.dense("node", NUMBER), _plain(joined)
    graph = np.searchsorted(joined.node_ptr, bridges.left, side="right") - 1
    u, v = bridges.left - joined.node_ptr[graph], bridges.right - joined.node_ptr[graph]
    edge = bridge_columns(plain, bridges.attribute, model, fixed=rules.fixed_attributes)
    if rules.bridge_nodes:
        plain, middle, old = add_nodes(plain, graph, _node_columns(model, plain, bridges))
        slot, number = (spread(values, old, plain.total_nodes) for values in (slot, number))
        graph, u, v = (
            np.tile(graph, 2),
            np.concatenate([u, middle]),
            np.concatenate([middle, v]),
        )
        edge = {name: np.concatenate([values, values]) for name, values in edge.items()}
    table, ptr, positions = add_edges(plain, graph, u, v, edge)
    if JOINT in table.edge:
        table, ptr, positions = _marked(table)
    return table, slot, number, Ragged(ptr, positions.astype(np.int32))


def _plain(joined: GraphTable) -> GraphTable:
    return joined.select([*(set(joined.node) - _INNER), *joined.edge])


def _node_columns(model: BridgeModel, table: GraphTable, bridges: Bridges) -> dict[str, Array]:
    columns: dict[str, Array] = {}
    for name in table.node:
        old = table.dense("node", name)
        if name == "node_feat":
            known = np.asarray(model.shape.bridge_nodes)
            columns[name] = known[bridges.node].astype(old.dtype)
        else:
            columns[name] = missing(old.dtype, (len(bridges.left), *old.shape[1:]))
    return columns


def _marked(table: GraphTable) -> tuple[GraphTable, Ints, Ints]:
    """Return the graphs without the mark of joints, and where the marked edges are."""
    marked = np.flatnonzero(table.dense("edge", JOINT))
    owner = np.searchsorted(table.edge_ptr, marked, side="right") - 1
    plain = table.select((*table.graph, *table.node, *(set(table.edge) - {JOINT})))
    ptr = pointers(np.bincount(owner, minlength=len(table)))
    return plain, ptr, marked - table.edge_ptr[owner]
