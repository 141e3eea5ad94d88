"""Make blocks of spliced graphs; a block is a pure function of its name."""

from __future__ import annotations

from collections import Counter
from dataclasses import dataclass, field, replace
from typing import Literal

import numpy as np

from gsx.columns import ORIGINS, SPLITS, CorpusInfo
from gsx.errors import StageError
from gsx.ragged import Array, Ints, Ragged, pointers, rows_of, text_rows
from gsx.seeds import rng
from gsx.stages.bridges.draw import (
    Attachments,
    Bridges,
    CountRule,
    Drawer,
    Nodes,
    draw_heads,
    join_bridges,
)
from gsx.stages.bridges.model import BridgeModel
from gsx.stages.kernels.chords import draw_chords
from gsx.stages.kernels.fragments import free_valence
from gsx.stages.kernels.splice import add_edges, add_nodes, hard_labels, spliced_labels, union
from gsx.stages.kernels.subgraphs import Bools, Floats
from gsx.stages.kernels.wl import Hashes, are_among, wl_hashes
from gsx.stages.kernels.written import Written
from gsx.stages.splicing.columns import (
    COPY,
    JOINT,
    bridge_columns,
    fill,
    missing,
    same_text,
    spread,
)
from gsx.stages.splicing.components import (
    END,
    MEAN,
    NUMBER,
    PLACE,
    PORT,
    SPREAD,
    START,
    Components,
)
from gsx.stages.splicing.compose import Attach, Composition, Partners, Sources, compose
from gsx.stages.splicing.molecules import Chemist, spliced_smiles
from gsx.table import GraphTable, concat

Option = Literal[1, 2, 3]
ORIGIN_OF: dict[Option, str] = {1: "g_inv", 2: "g_inv_env", 3: "g_whole"}
REDRAWS = 24
"""Times a graph is drawn anew after it was refused."""
_INNER = {MEAN, SPREAD, NUMBER, PLACE, PORT, COPY, START, END}


@dataclass(frozen=True, slots=True, kw_only=True)
class SpliceRules:
    """How graphs of one option are composed and joined."""

    option: Option
    f: tuple[int, int]
    """How many graphs or environmental pieces, from and to."""
    partners: Partners
    attach: Attach
    balanced: bool
    bridges: Literal["learned", "random", "none"]
    bridge_count: CountRule
    fixed_attributes: bool
    bridge_nodes: bool
    ports: Literal["any", "own"]
    """Where a first component takes bridges."""
    chords: float
    """Random edges per edge."""
    seed: int


@dataclass(frozen=True, slots=True, eq=False)
class Block:
    """Spliced graphs, and what was refused on the way."""

    table: GraphTable
    """Every column but ``graph_id`` and ``env_id``."""
    hashes: Hashes
    refused: Counter[str]
    """How many draws were refused, by reason."""
    first_refused: int
    """Graphs refused at the first draw."""


@dataclass(frozen=True, slots=True, eq=False)
class Splicer:
    """Everything needed to make graphs of one option."""

    rules: SpliceRules
    info: CorpusInfo
    """Of the corpus that is made."""
    components: Components
    lead_at: Ints
    """Component of the first slot, by source row; -1 where a source has none."""
    rest_at: Ints
    """``[V, R]`` component of the other slots, by source row: whole pieces, then fragments."""
    graph_id: Ints
    """``[R]`` of all source rows."""
    y: Array
    """``[R, C]`` labels of all source rows."""
    classes: Ints
    """``[R]`` class of all source rows; 0 where classes do not matter."""
    model: BridgeModel | None
    forbidden: Hashes
    """Sorted hashes of graphs that must not be made: those held out from training."""
    chemist: Chemist | None = None
    sources: tuple[Sources, Sources] = field(init=False)

    def __post_init__(self) -> None:
        lead, rest = (
            Sources.of(np.flatnonzero(at >= 0), self.classes)
            for at in (self.lead_at, self.rest_at[0])
        )
        object.__setattr__(self, "sources", (lead, rest))

    def block(self, number: int, count: int) -> Block:
        """Make block ``number`` of the option: ``count`` graphs, the same whoever makes them."""
        name = ("generate", ORIGIN_OF[self.rules.option], number)
        found: list[GraphTable] = []
        rows, drawn = np.zeros(count, dtype=np.int64), 0
        hashes = np.zeros(count, dtype=np.uint64)
        refused: Counter[str] = Counter()
        open_places = np.arange(count)
        first_refused = 0
        for attempt in range(REDRAWS):
            stream = rng(self.rules.seed, *name, attempt)
            table, fine, reasons = self._draw(len(open_places), stream, "/".join(map(str, name)))
            refused.update(reasons)
            hashed = wl_hashes(table)
            again = are_among(hashed, self.forbidden) & fine
            refused["held-out graph"] += int(again.sum())
            good = np.flatnonzero(fine & ~again)
            found.append(table)
            rows[open_places[good]] = drawn + good
            drawn += len(table)
            hashes[open_places[good]] = hashed[good]
            open_places = np.delete(open_places, good)
            first_refused = len(open_places) if attempt == 0 else first_refused
            if not len(open_places):
                break
        else:
            raise StageError(
                f"block {number} of option {self.rules.option}: {len(open_places)} of {count} "
                f"graphs were refused {REDRAWS} times ({_reasons(refused)}). Change the seed, f or "
                "the bridges."
            )
        made = found[0] if len(found) == 1 else concat(found).take(rows)
        return Block(made, hashes, +refused, first_refused)

    def _draw(
        self, count: int, stream: np.random.Generator, name: str
    ) -> tuple[GraphTable, Bools, Counter[str]]:
        composition = self._compose(count, stream)
        slot = composition.slots
        ids = self._components(composition, stream)
        taken = self.components.table.take(ids)
        joined, _, _ = union(taken, np.diff(composition.ptr))
        width = self.components.slots[ids]
        first = pointers(width)
        parents = Ragged(
            first[composition.ptr], np.repeat(self.graph_id[composition.source], width)
        )
        node_slot = self._node_slots(
            taken, first[:-1] - np.repeat(parents.ptr[:-1], np.diff(composition.ptr))
        )
        votes = np.where((slot == 0) | (self.rules.option == 3), 1.0, 0.0)
        bridges = self._bridges(taken, ids, composition, stream)
        fine = self._all_joined(composition, bridges)
        if self.rules.chords and bridges is not None:
            bridges = self._with_chords(joined, taken, votes, bridges, stream)
        table, node_slot, number, positions = self._join(joined, node_slot, bridges)
        reasons = Counter({"no place for a bridge": int((~fine).sum())})
        y = spliced_labels(self.y[composition.source], votes, np.diff(composition.ptr))
        table = table.with_columns(
            graph={
                "split": np.full(count, SPLITS.index("train"), dtype=np.int8),
                "domain_id": np.full(count, -1, dtype=np.int32),
                "origin": np.full(count, ORIGINS.index(ORIGIN_OF[self.rules.option]), np.int8),
                "y": y,
                "label": hard_labels(y, self.info.task),
                "provenance.parents": parents,
                "provenance.node_slot": Ragged(table.node_ptr, node_slot.astype(np.int16)),
                "provenance.node_number": Ragged(table.node_ptr, number),
                "provenance.bridges": positions,
                "provenance.lambda": np.full(count, np.nan, dtype=np.float32),
                "provenance.partner": np.full(count, -1, dtype=np.int64),
                "provenance.stream": same_text(name, count),
            }
        )
        table = fill(table, self.info)
        if self.chemist is not None:
            texts = self._smiles(taken, ids, composition, bridges)
            table = table.with_columns(graph={"smiles": text_rows(texts)})
            slot = rows_of(taken.node_ptr)
            place = taken.node_ptr[slot] + taken.dense("node", PLACE)
            valid, table = self.chemist.judge(table, Written(texts, place, slot))
            reasons["not a molecule"] += int((fine & ~valid).sum())
            fine = fine & valid
        return table, fine, reasons

    def _node_slots(self, taken: GraphTable, first: Ints) -> Ints:
        """Return the slot of every node, given the first slot of every component."""
        slot: Ints = first[rows_of(taken.node_ptr)]
        if COPY in taken.node:
            slot = slot + taken.dense("node", COPY)
        return slot

    def _smiles(
        self, taken: GraphTable, ids: Ints, composition: Composition, bridges: Bridges | None
    ) -> list[str]:
        """Write molecules from the SMILES of their components."""
        pieces = [self.components.texts[number] for number in ids.tolist()]
        none = np.zeros(0, dtype=np.int64)
        left, right = (none, none) if bridges is None else (bridges.left, bridges.right)
        start, end = taken.dense("node", START), taken.dense("node", END)
        slots = tuple(np.searchsorted(taken.node_ptr, at, side="right") - 1 for at in (left, right))
        spans = (start[left], end[left], start[right], end[right])
        return spliced_smiles(pieces, composition.ptr, (slots[0], slots[1]), spans)

    def _components(self, composition: Composition, stream: np.random.Generator) -> Ints:
        """Return the component of every slot: for all but the first a whole piece or a fragment."""
        kinds = len(self.rest_at)
        if kinds == 1:
            kind = np.zeros(len(composition.source), dtype=np.int64)
        elif self.rules.partners == "same-piece":
            kind = np.repeat(
                stream.integers(kinds, size=len(composition.ptr) - 1), np.diff(composition.ptr)
            )
        else:
            kind = stream.integers(kinds, size=len(composition.source))
        return np.where(
            composition.slots == 0,
            self.lead_at[composition.source],
            self.rest_at[kind, composition.source],
        )

    def _compose(self, count: int, stream: np.random.Generator) -> Composition:
        rules = self.rules
        lead, rest = self.sources
        least, most = rules.f if rules.option == 2 else (rules.f[0] - 1, rules.f[1] - 1)
        return compose(
            count,
            lead,
            None if rules.option == 1 else rest,
            self.classes,
            (least, most),
            stream,
            partners=rules.partners,
            attach=rules.attach,
            balanced=rules.balanced,
        )

    def _bridges(
        self, taken: GraphTable, ids: Ints, composition: Composition, stream: np.random.Generator
    ) -> Bridges | None:
        right = np.flatnonzero(composition.joined >= 0)
        if self.model is None or self.rules.bridges == "none" or not len(right):
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
        nodes = Nodes(
            mean=taken.dense("node", MEAN),
            spread=taken.dense("node", SPREAD),
            counted=self.components.counted[ids],
        )
        drawer = Drawer.of(
            self.model,
            nodes,
            stream,
            pairs=self.rules.bridges,
            counts=self.rules.bridge_count,
        )
        if self.chemist is None:
            own = self._own_joints(taken, composition, attachments)
            return drawer.draw(attachments, stream, *own)
        return _draw_bonds(drawer, attachments, composition.slots[right], taken, stream)

    def _own_joints(
        self, taken: GraphTable, composition: Composition, attachments: Attachments
    ) -> tuple[Bools | None, Ints | None]:
        """Say which nodes may take a bridge, ``[N]``, and how many each attachment gets, ``[P]``.

        With own ports, a first component is joined where its own graph joined it to the rest, and
        as often; one that was never joined is joined anywhere. None and 0 leave it to the model.
        """
        if self.rules.ports == "any":
            return None, None
        lost = taken.dense("node", PORT)
        owner = rows_of(taken.node_ptr)
        times = np.bincount(owner, weights=lost, minlength=len(taken)).astype(np.int64)
        leads = composition.slots == 0
        free = (lost > 0) | ~leads[owner] | (times == 0)[owner]
        return free, np.where(leads[attachments.left_slot], times[attachments.left_slot], 0)

    def _with_chords(
        self,
        joined: GraphTable,
        taken: GraphTable,
        votes: Floats,
        bridges: Bridges,
        stream: np.random.Generator,
    ) -> Bridges:
        """Add random edges, none of them inside a component that votes for the label."""
        model = self.model
        assert model is not None  # there are bridges
        component = rows_of(taken.node_ptr)
        whole = np.where(votes[component] > 0, component, -1)
        left, right = draw_chords(
            joined, (bridges.left, bridges.right), self.rules.chords, whole, stream
        )
        heads = draw_heads(model, taken.dense("node", MEAN), left, right, stream)
        extra = Bridges(np.full(len(left), len(bridges.left)), left, right, *heads)
        return join_bridges([bridges, extra])

    def _all_joined(self, composition: Composition, bridges: Bridges | None) -> Bools:
        """Say of every graph whether all its slots got a bridge."""
        graphs = len(composition.ptr) - 1
        if bridges is None:
            return np.ones(graphs, dtype=bool)
        right = np.flatnonzero(composition.joined >= 0)
        bridged = np.zeros(len(right), dtype=bool)
        bridged[bridges.attachment] = True
        owner = rows_of(composition.ptr)[right]
        return np.asarray(np.bincount(owner[~bridged], minlength=graphs) == 0)

    def _join(
        self, joined: GraphTable, slot: Ints, bridges: Bridges | None
    ) -> tuple[GraphTable, Ints, Array, Ragged]:
        number = joined.dense("node", NUMBER)
        names = [*(set(joined.node) - _INNER), *joined.edge]
        plain = joined.select(names)
        if bridges is None or self.model is None:
            none = Ragged(np.zeros(len(joined) + 1, dtype=np.int64), np.zeros(0, dtype=np.int32))
            return plain, slot, number, none
        graph = np.searchsorted(joined.node_ptr, bridges.left, side="right") - 1
        u, v = bridges.left - joined.node_ptr[graph], bridges.right - joined.node_ptr[graph]
        edge = bridge_columns(
            plain, bridges.attribute, self.model, fixed=self.rules.fixed_attributes
        )
        if self.rules.bridge_nodes:
            rows = self._node_columns(plain, bridges)
            plain, middle, old = add_nodes(plain, graph, rows)
            slot, number = (spread(values, old, plain.total_nodes) for values in (slot, number))
            graph, u, v = (
                np.tile(graph, 2),
                np.concatenate([u, middle]),
                np.concatenate([middle, v]),
            )
            edge = {name: np.concatenate([values, values]) for name, values in edge.items()}
        table, ptr, positions = add_edges(plain, graph, u, v, edge)
        if JOINT in table.edge:
            table, ptr, positions = _joints(table)
        return table, slot, number, Ragged(ptr, positions.astype(np.int32))

    def _node_columns(self, table: GraphTable, bridges: Bridges) -> dict[str, Array]:
        columns: dict[str, Array] = {}
        for name in table.node:
            old = table.dense("node", name)
            if name == "node_feat" and self.model is not None:
                columns[name] = np.asarray(self.model.shape.bridge_nodes)[bridges.node].astype(
                    old.dtype
                )
            else:
                columns[name] = missing(old.dtype, (len(bridges.left), *old.shape[1:]))
        return columns


def _joints(table: GraphTable) -> tuple[GraphTable, Ints, Ints]:
    """Return the graphs without the mark of joints, and where the marked edges are."""
    marked = np.flatnonzero(table.dense("edge", JOINT))
    owner = np.searchsorted(table.edge_ptr, marked, side="right") - 1
    plain = table.select((*table.graph, *table.node, *(set(table.edge) - {JOINT})))
    ptr = pointers(np.bincount(owner, minlength=len(table)))
    return plain, ptr, marked - table.edge_ptr[owner]


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


def _reasons(refused: Counter[str]) -> str:
    return ", ".join(f"{reason} {count}" for reason, count in refused.most_common() if count)
