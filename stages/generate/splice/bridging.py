"""Join the components of spliced graphs: bridges, random edges, bridge nodes and their columns."""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import Literal

import numpy as np

from gsx.ragged import Array, Ints, Ragged, pointers, row_indices
from gsx.stages.augmented.derived_columns import missing_values
from gsx.stages.chem.fragments import free_valence
from gsx.stages.generate.splice.component_columns import (
    JOINT,
    NODE_COLUMNS,
    PORT,
    SOURCE_NUMBER,
    bridge_columns,
)
from gsx.stages.generate.splice.composition import Composition
from gsx.stages.generate.splice.random_bridges import BridgeSource, RandomBridges, codebooks
from gsx.stages.generate.splice.random_edges import draw_random_edges
from gsx.stages.graphs.splice import add_edges, add_nodes
from gsx.stages.graphs.subgraphs import Bools
from gsx.stages.nn.bridge_sampling import (
    Attachments,
    Bridges,
    BridgeSampler,
    CountRule,
    DrawnLatents,
    PooledComponents,
    concat_bridges,
    sample_attributes_and_nodes,
)
from gsx.table import GraphTable


@dataclass(frozen=True, slots=True, kw_only=True)
class BridgeParameters:
    """How components are joined."""

    bridges: Literal["learned", "random", "none"]
    bridge_count: CountRule
    fixed_attributes: bool
    """Whether all bridges get the most frequent attribute."""
    bridge_nodes: bool
    """Whether a new node is put into the middle of every bridge."""
    ports: Literal["any", "own"]
    """Where bridges attach to a lead component."""
    random_edges: float
    """Random edges per edge."""


@dataclass(frozen=True, slots=True, eq=False)
class PooledEncodings:
    """Encodings by a bridge model of the components of some splices, which come from a pool."""

    latents: DrawnLatents
    """Those of the whole pool."""
    components: PooledComponents
    count_features: Array
    """``[S, …]`` for the prediction of bridge counts."""


def draw_bridges(
    source: BridgeSource,
    parameters: BridgeParameters,
    components: GraphTable,
    pooled: PooledEncodings | None,
    composition: Composition,
    stream: np.random.Generator,
    *,
    molecules: bool,
) -> Bridges | None:
    """Draw the bridges between ``components`` ``[S]``; None if no graph has two components.

    ``pooled`` are the encodings of the components by a model.
    """
    right = np.flatnonzero(composition.joined >= 0)
    if parameters.bridges == "none" or not len(right):
        return None
    left = composition.ptr[row_indices(composition.ptr)[right]] + composition.joined[right]
    attachments = Attachments(
        left_start=components.node_ptr[left],
        left_count=components.num_nodes[left],
        right_start=components.node_ptr[right],
        right_count=components.num_nodes[right],
        left_slot=left,
        right_slot=right,
    )
    sampler: BridgeSampler | RandomBridges
    if isinstance(source, RandomBridges):
        sampler = source
    else:
        assert pooled is not None
        sampler = BridgeSampler(
            source,
            pooled.latents,
            pooled.components,
            pooled.count_features,
            parameters.bridge_count,
        )
    if molecules:
        return _draw_bonds(sampler, attachments, composition.slots[right], components, stream)
    if parameters.ports == "any":
        return sampler.sample(attachments, stream)
    return sampler.sample(attachments, stream, *_own_ports(components, composition, attachments))


def _own_ports(
    components: GraphTable, composition: Composition, attachments: Attachments
) -> tuple[Bools, Ints]:
    """Return the nodes that may get a bridge, ``[N]``, and bridges per attachment, ``[P]``.

    A lead component gets its bridges at the nodes that connected it to the rest of its source
    graph, one bridge per edge that was cut. A lead component without such edges is not restricted.
    0 leaves the number of bridges to the model.
    """
    cut_edges = components.dense("node", PORT)
    component = row_indices(components.node_ptr)
    total = np.bincount(component, weights=cut_edges, minlength=len(components)).astype(np.int64)
    is_lead = composition.slots == 0
    allowed = (cut_edges > 0) | ~is_lead[component] | (total == 0)[component]
    return allowed, np.where(is_lead[attachments.left_slot], total[attachments.left_slot], 0)


def _draw_bonds(
    sampler: BridgeSampler | RandomBridges,
    attachments: Attachments,
    slot: Ints,
    components: GraphTable,
    stream: np.random.Generator,
) -> Bridges:
    """Join molecules one component after another; each bond uses up a free valence of its atoms."""
    hydrogens = free_valence(components)
    rounds: list[Bridges] = []
    for number in range(1, int(slot.max(initial=0)) + 1):
        rows = np.flatnonzero(slot == number)
        bonds = sampler.sample(attachments.take(rows), stream, hydrogens > 0)
        rounds.append(replace(bonds, attachment=rows[bonds.attachment]))
        np.subtract.at(hydrogens, np.concatenate([bonds.left, bonds.right]), 1)
    return concat_bridges(rounds)


def add_random_edges(
    source: BridgeSource,
    per_edge: float,
    graphs: GraphTable,
    protected: Ints,
    components: GraphTable,
    pooled: PooledEncodings | None,
    bridges: Bridges,
    stream: np.random.Generator,
) -> Bridges:
    """Return the bridges plus random edges of ``graphs``, the unions of ``components``.

    ``protected`` ``[S]`` numbers the components that get no edges inside, -1 for all others.
    """
    node_protected = protected[row_indices(components.node_ptr)]
    ends = draw_random_edges(
        graphs, (bridges.left, bridges.right), per_edge, node_protected, stream
    )
    if isinstance(source, RandomBridges):
        heads = source.sample_codes(len(ends[0]), stream)
    else:
        assert pooled is not None
        nodes = [pooled.components.pool_nodes(end) for end in ends]
        latent = pooled.latents.latent
        heads = sample_attributes_and_nodes(source, latent, nodes[0], nodes[1], stream)
    extra = Bridges(np.full(len(ends[0]), len(bridges.left)), *ends, *heads)
    return concat_bridges([bridges, extra])


def is_fully_bridged(composition: Composition, bridges: Bridges | None) -> Bools:
    """Return for every graph whether all its components have a bridge, ``[G]``."""
    graphs = len(composition.ptr) - 1
    if bridges is None:
        return np.ones(graphs, dtype=bool)
    right = np.flatnonzero(composition.joined >= 0)
    bridged = np.zeros(len(right), dtype=bool)
    bridged[bridges.attachment] = True
    graph = row_indices(composition.ptr)[right]
    return np.asarray(np.bincount(graph[~bridged], minlength=graphs) == 0)


def without_bridges(graphs: GraphTable) -> tuple[GraphTable, Array, Ragged]:
    """Return graphs without temporary columns, source node numbers, and no bridge positions."""
    none = Ragged(np.zeros(len(graphs) + 1, dtype=np.int64), np.zeros(0, dtype=np.int32))
    return _drop_temporary(graphs), graphs.dense("node", SOURCE_NUMBER), none


def with_bridges(
    source: BridgeSource,
    parameters: BridgeParameters,
    graphs: GraphTable,
    slot: Ints,
    bridges: Bridges,
) -> tuple[GraphTable, Ints, Array, Ragged]:
    """Add bridges to ``graphs``, the unions of their components.

    Returns the graphs without temporary columns; the slot and the source number of every node,
    ``[N]``, -1 for bridge nodes; and the positions of bridges among the edges of each graph.
    """
    number, plain = graphs.dense("node", SOURCE_NUMBER), _drop_temporary(graphs)
    graph = np.searchsorted(graphs.node_ptr, bridges.left, side="right") - 1
    u, v = bridges.left - graphs.node_ptr[graph], bridges.right - graphs.node_ptr[graph]
    edge = bridge_columns(
        plain,
        bridges.attribute,
        codebooks(source).attributes,
        fixed=parameters.fixed_attributes,
    )
    if parameters.bridge_nodes:
        plain, middle, old = add_nodes(plain, graph, _bridge_node_columns(source, plain, bridges))
        slot, number = (_scatter(values, old, plain.total_nodes) for values in (slot, number))
        graph, u, v = (
            np.tile(graph, 2),
            np.concatenate([u, middle]),
            np.concatenate([middle, v]),
        )
        edge = {name: np.concatenate([values, values]) for name, values in edge.items()}
    table, ptr, positions = add_edges(plain, graph, u, v, edge)
    if JOINT in table.edge:
        table, ptr, positions = _pop_joint_positions(table)
    return table, slot, number, Ragged(ptr, positions.astype(np.int32))


def _drop_temporary(graphs: GraphTable) -> GraphTable:
    return graphs.select([*(set(graphs.node) - NODE_COLUMNS), *graphs.edge])


def _scatter(values: Array, rows: Ints, size: int) -> Array:
    """Return an array of ``size`` rows with ``values`` at ``rows`` and -1 elsewhere."""
    scattered = np.full(size, -1, dtype=values.dtype)
    scattered[rows] = values
    return scattered


def _bridge_node_columns(
    source: BridgeSource, table: GraphTable, bridges: Bridges
) -> dict[str, Array]:
    """Return the node columns of bridge nodes, one per bridge."""
    columns: dict[str, Array] = {}
    for name in table.node:
        existing = table.dense("node", name)
        if name == "node_feat":
            features = np.asarray(codebooks(source).bridge_nodes)
            columns[name] = features[bridges.node].astype(existing.dtype)
        else:
            shape = (len(bridges.left), *existing.shape[1:])
            columns[name] = missing_values(existing.dtype, shape)
    return columns


def _pop_joint_positions(table: GraphTable) -> tuple[GraphTable, Ints, Ints]:
    """Return graphs without the column ``JOINT``, and the positions of the edges marked in it.

    Bridges and the edges between copies of enlarged subgraphs are marked.
    """
    marked = np.flatnonzero(table.dense("edge", JOINT))
    graph = np.searchsorted(table.edge_ptr, marked, side="right") - 1
    plain = table.select((*table.graph, *table.node, *(set(table.edge) - {JOINT})))
    ptr = pointers(np.bincount(graph, minlength=len(table)))
    return plain, ptr, marked - table.edge_ptr[graph]
