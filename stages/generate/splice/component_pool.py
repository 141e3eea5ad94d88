"""Pools of components: whole graphs, causal pieces, environmental pieces."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass

import numpy as np

from gsx.ragged import Ints, rows_of
from gsx.stages.augmented.derived_columns import COPY, JOINT
from gsx.stages.chem.splice_rules import Chemist
from gsx.stages.graphs.cuts import sparse_cuts
from gsx.stages.graphs.subgraphs import Bools, global_edges, induced, is_connected
from gsx.stages.nn.bridge_model import BridgeModel, Encoded
from gsx.table import GraphTable, concat

MEAN, SPREAD = "latent_mean", "latent_spread"
"""Node columns of what a bridge model knows; they are dropped before anything is written."""
NUMBER = "source_number"
"""Node column of the number a node has in its source graph."""
PORT = "port"
"""Node column: how many edges the node had to what was cut away."""
START, END = "smiles_start", "smiles_end"
"""Node columns of where an atom is written in the SMILES of its component."""
PLACE = "smiles_place"
"""Node column of how many atoms are written before it there."""


@dataclass(frozen=True, slots=True, eq=False)
class Components:
    """Connected graphs to splice, and where they come from."""

    table: GraphTable
    """Carried columns, the number of every node in its source, and its latents."""
    source: Ints
    """``[C]`` row of the source graph of every component."""
    counted: np.ndarray[tuple[int, ...], np.dtype[np.float32]]
    """``[C, …]`` what the counter knows; 0 wide without a model."""
    slots: Ints
    """``[C]`` slots every component takes: one, or one per copy where it was grown."""
    texts: tuple[str, ...]
    """``[C]`` SMILES of components that are molecules; empty for others."""
    left_out: int
    """Graphs that gave no component: nothing of them was left, or it was not connected."""

    def at(self, rows: int) -> Ints:
        """Return the component of every one of ``rows`` source rows, -1 where there is none."""
        found = np.full(rows, -1, dtype=np.int64)
        found[self.source] = np.arange(len(self.source))
        return found


def components_of(
    train: GraphTable,
    keep: Bools | None,
    model: BridgeModel | None,
    chemist: Chemist | None = None,
    grown: Callable[[GraphTable], GraphTable] | None = None,
) -> Components:
    """Cut the nodes in ``keep`` out of every graph, or take graphs whole, and encode them.

    A component must be connected and have a node; how many graphs gave none is counted. Pieces of
    molecules must be molecules. ``grown`` makes larger components of them, row by row.
    """
    plain = train.select((*train.node, *train.edge))
    sound = np.ones(len(train), dtype=bool)
    if keep is None:
        part = plain
        number = np.arange(train.total_nodes) - np.repeat(train.node_ptr[:-1], train.num_nodes)
    elif chemist is not None:
        part, number, sound = chemist.pieces(plain, keep)
    else:
        part, number = induced(plain, keep)
    part = part.with_columns(node={NUMBER: number.astype(np.int32), PORT: _ports(train, keep)})
    fit = np.flatnonzero((part.num_nodes > 0) & is_connected(part) & sound)
    part = part.take(fit)
    slots = np.ones(len(fit), dtype=np.int64)
    if grown is not None:
        part = grown(part)
        np.maximum.at(slots, rows_of(part.node_ptr), part.dense("node", COPY) + 1)
    if model is None:
        counted = np.zeros((len(fit), 0), dtype=np.float32)
    else:
        encoded: Encoded = model.encode(part)
        part = part.with_columns(node={MEAN: encoded.mean, SPREAD: encoded.spread})
        counted = encoded.counted
    texts: tuple[str, ...] = ()
    if chemist is not None:
        written = chemist.write(part)
        where = {START: written.start, END: written.end, PLACE: written.place}
        part = part.with_columns(node=where)
        texts = tuple(written.text)
    return Components(part, fit, counted, slots, texts, len(train) - len(fit))


def _ports(train: GraphTable, keep: Bools | None) -> Ints:
    """Count the edges every kept node has to nodes that are not kept."""
    if keep is None:
        return np.zeros(train.total_nodes, dtype=np.int64)
    src, dst = global_edges(train)
    lost = np.bincount(src[~keep[dst]], minlength=train.total_nodes)
    return np.asarray(lost[keep], dtype=np.int64)


def join_components(lead: Components, rest: Components) -> Components:
    """Put two pools into one; components of ``rest`` come after those of ``lead``."""
    return Components(
        table=concat([_like(lead.table, rest.table), rest.table]),
        source=np.concatenate([lead.source, rest.source]),
        counted=np.concatenate([lead.counted, rest.counted]),
        slots=np.concatenate([lead.slots, rest.slots]),
        texts=(*lead.texts, *rest.texts),
        left_out=lead.left_out + rest.left_out,
    )


def _like(table: GraphTable, grown: GraphTable) -> GraphTable:
    """Give components that were not grown the columns of those that were."""
    if COPY not in grown.node or COPY in table.node:
        return table
    return table.with_columns(
        node={COPY: np.zeros(table.total_nodes, dtype=np.int32)},
        edge={JOINT: np.zeros(table.total_edges, dtype=np.int8)},
    )


def fragments(
    train: GraphTable, keep: Bools, may_cut: Bools | None, stream: np.random.Generator
) -> Bools:
    """Cut the kept part of every graph in two at random and keep either side, ``[N]``.

    What cannot be cut stays whole.
    """
    marked = train.with_columns(edge={} if may_cut is None else {"may_cut": may_cut})
    part, _ = induced(marked.select((*train.edge, "may_cut")), keep)
    allowed = None if may_cut is None else part.dense("edge", "may_cut")
    cuts = sparse_cuts(part, stream, may_cut=allowed, tries=1)
    owner = rows_of(part.node_ptr)
    side = stream.integers(2, size=len(part))
    chosen = (cuts.side == side[owner]) | ~cuts.cut[owner]
    kept = np.zeros(train.total_nodes, dtype=bool)
    kept[np.flatnonzero(keep)[chosen]] = True
    return kept
