"""Pools of components: whole graphs, causal subgraphs or environmental subgraphs."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass

import numpy as np

from gsx.ragged import Ints, row_indices
from gsx.stages.chem.splice_rules import (
    cut_molecules,
    without_hydrogen_nodes,
    write_component_smiles,
)
from gsx.stages.generate.splice.component_columns import (
    COPY,
    JOINT,
    PORT,
    SMILES_END,
    SMILES_ORDER,
    SMILES_START,
    SOURCE_NUMBER,
)
from gsx.stages.generate.splice.random_bridges import BridgeSource
from gsx.stages.graphs.cuts import sparse_cuts
from gsx.stages.graphs.subgraphs import Bools, global_edges, induced_subgraphs, is_connected
from gsx.stages.nn.bridge_model import BridgeModel, EncodedComponents, concat_encoded
from gsx.table import GraphTable, concat


@dataclass(frozen=True, slots=True, eq=False)
class ComponentPool:
    """C connected components and the source graphs they come from."""

    table: GraphTable
    """Node and edge columns of the source, plus temporary columns."""
    source: Ints
    """``[C]`` row of the source graph of every component."""
    encoded: EncodedComponents | None
    """Encodings of nodes and components by a bridge model; None without a model."""
    slots: Ints
    """``[C]`` slots of every component: 1, or 1 + number of copies if it was enlarged."""
    smiles: tuple[str, ...]
    """``[C]`` SMILES of components that are molecules; empty otherwise."""
    not_molecules: int
    """Components left out because RDKit rejects them, or because SMILES cannot describe them."""

    def by_source_row(self, rows: int) -> Ints:
        """Return the component of each of ``rows`` source graphs, -1 if there is none."""
        component = np.full(rows, -1, dtype=np.int64)
        component[self.source] = np.arange(len(self.source))
        return component


def build_component_pool(
    train: GraphTable,
    keep: Bools | None,
    source: BridgeSource | None,
    *,
    molecules: bool = False,
    grow: Callable[[GraphTable], GraphTable] | None = None,
) -> ComponentPool:
    """Cut the nodes ``keep`` ``[N]`` out of every graph and encode the resulting components.

    ``keep`` None takes whole graphs. A component must be connected and have at least one node;
    components of molecules must be molecules. ``grow`` enlarges the components, row by row.
    """
    plain = train.select((*train.node, *train.edge))
    valid = np.ones(len(train), dtype=bool)
    if keep is None:
        table = plain
        number = np.arange(train.total_nodes) - np.repeat(train.node_ptr[:-1], train.num_nodes)
    elif molecules:
        table, number, valid = cut_molecules(plain, keep)
    else:
        table, number = induced_subgraphs(plain, keep)
    table = table.with_columns(node={PORT: _count_ports(train, keep)})
    if molecules:
        table, number = without_hydrogen_nodes(table, number)
    table = table.with_columns(node={SOURCE_NUMBER: number.astype(np.int32)})
    is_candidate = (table.num_nodes > 0) & is_connected(table)
    usable = np.flatnonzero(is_candidate & valid)
    not_molecules = int(is_candidate.sum()) - len(usable)
    table = table.take(usable)
    smiles: tuple[str, ...] = ()
    if molecules:
        written, has_smiles = write_component_smiles(table)
        usable, table = usable[has_smiles], table.filter(has_smiles)
        not_molecules += int((~has_smiles).sum())
        positions = {
            SMILES_START: written.start,
            SMILES_END: written.end,
            SMILES_ORDER: written.rank,
        }
        table = table.with_columns(node=positions)
        smiles = tuple(written.text)
    slots = np.ones(len(usable), dtype=np.int64)
    if grow is not None:
        table = grow(table)
        np.maximum.at(slots, row_indices(table.node_ptr), table.dense("node", COPY) + 1)
    encoded = source.encode(table) if isinstance(source, BridgeModel) else None
    return ComponentPool(table, usable, encoded, slots, smiles, not_molecules)


def _count_ports(train: GraphTable, keep: Bools | None) -> Ints:
    """Return the number of edges of every kept node to nodes that are not kept."""
    if keep is None:
        return np.zeros(train.total_nodes, dtype=np.int64)
    src, dst = global_edges(train)
    cut_edges = np.bincount(src[~keep[dst]], minlength=train.total_nodes)
    return np.asarray(cut_edges[keep], dtype=np.int64)


def concat_pools(lead: ComponentPool, others: ComponentPool) -> ComponentPool:
    """Concatenate two pools; components of ``others`` follow those of ``lead``."""
    return ComponentPool(
        table=concat([_add_growth_columns(lead.table, others.table), others.table]),
        source=np.concatenate([lead.source, others.source]),
        encoded=(
            concat_encoded([lead.encoded, others.encoded])
            if lead.encoded is not None and others.encoded is not None
            else None
        ),
        slots=np.concatenate([lead.slots, others.slots]),
        smiles=(*lead.smiles, *others.smiles),
        not_molecules=lead.not_molecules + others.not_molecules,
    )


def _add_growth_columns(table: GraphTable, enlarged: GraphTable) -> GraphTable:
    """Return ``table`` with the columns that ``enlarged`` has from growth, if any."""
    if COPY not in enlarged.node or COPY in table.node:
        return table
    return table.with_columns(
        node={COPY: np.zeros(table.total_nodes, dtype=np.int32)},
        edge={JOINT: np.zeros(table.total_edges, dtype=np.int8)},
    )


def cut_fragments(
    train: GraphTable, keep: Bools, cuttable: Bools | None, stream: np.random.Generator
) -> Bools:
    """Cut the subgraph ``keep`` of every graph in two at random and keep one side, ``[N]``.

    ``cuttable`` ``[E]`` are the edges that may be cut. Subgraphs that cannot be cut stay whole.
    """
    marked = train.with_columns(edge={} if cuttable is None else {"may_cut": cuttable})
    subgraph, _ = induced_subgraphs(marked.select((*train.edge, "may_cut")), keep)
    allowed = None if cuttable is None else subgraph.dense("edge", "may_cut")
    cuts = sparse_cuts(subgraph, stream, may_cut=allowed, tries=1)
    graph = row_indices(subgraph.node_ptr)
    side = stream.integers(2, size=len(subgraph))
    chosen = (cuts.side == side[graph]) | ~cuts.cut[graph]
    kept = np.zeros(train.total_nodes, dtype=bool)
    kept[np.flatnonzero(keep)[chosen]] = True
    return kept
