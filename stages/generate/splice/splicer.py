"""Make blocks of spliced graphs; a block is a pure function of its name."""

from __future__ import annotations

import itertools
from collections import Counter
from dataclasses import dataclass, field
from typing import Literal

import numpy as np

from gsx.errors import StageError
from gsx.ragged import Array, Ints, Ragged, pointers, rows_of, text_rows
from gsx.schema import ORIGINS, SPLITS, CorpusInfo
from gsx.seeds import rng
from gsx.stages.augmented.derived_columns import (
    COPY,
    fill,
    same_text,
)
from gsx.stages.augmented.rejection import hopeless
from gsx.stages.chem.check_by_smiles import Written
from gsx.stages.chem.smiles_text import spliced_smiles
from gsx.stages.chem.splice_rules import Chemist
from gsx.stages.generate.splice.bridging import (
    JointRules,
    all_joined,
    apart,
    draw_joints,
    join,
    with_chords,
)
from gsx.stages.generate.splice.component_pool import (
    END,
    PLACE,
    START,
    Components,
)
from gsx.stages.generate.splice.composition import Attach, Composition, Partners, Sources, compose
from gsx.stages.graphs.splice import hard_labels, labels_by, union
from gsx.stages.graphs.subgraphs import Bools
from gsx.stages.graphs.wl_hash import Hashes, are_among, wl_hashes
from gsx.stages.nn.bridge_model import BridgeModel
from gsx.stages.nn.bridge_sampling import (
    Bridges,
)
from gsx.table import GraphTable, concat

Option = Literal[1, 2, 3]
Labels = Literal["average", "any", "all"]
ORIGIN_OF: dict[Option, str] = {1: "g_inv", 2: "g_inv_env", 3: "g_whole"}


@dataclass(frozen=True, slots=True, kw_only=True)
class SpliceRules:
    """How graphs of one option are composed and joined."""

    option: Option
    f: tuple[int, int]
    """How many graphs or environmental pieces, from and to."""
    partners: Partners
    attach: Attach
    balanced: bool
    labels: Labels
    joints: JointRules
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
        for attempt in itertools.count():
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
            if hopeless(attempt + 1, len(open_places), count):
                raise StageError(
                    f"block {number} of option {self.rules.option}: {len(open_places)} of {count} "
                    f"graphs were refused {attempt + 1} times ({_reasons(refused)}). Change the "
                    "seed, f or the bridges."
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
        bridges = None
        if self.model is not None and self.rules.joints.bridges != "none":
            bridges = draw_joints(
                self.model,
                self.rules.joints,
                taken,
                self.components.counted[ids],
                composition,
                stream,
                molecules=self.chemist is not None,
            )
        fine = all_joined(composition, bridges)
        if self.model is None or bridges is None:
            table, number, positions = apart(joined)
        else:
            if self.rules.joints.chords:
                whole = np.where(votes > 0, np.arange(len(votes)), -1)
                bridges = with_chords(
                    self.model, self.rules.joints.chords, joined, whole, taken, bridges, stream
                )
            table, node_slot, number, positions = join(
                self.model, self.rules.joints, joined, node_slot, bridges
            )
        reasons = Counter({"no place for a bridge": int((~fine).sum())})
        counts = np.diff(composition.ptr)
        y = labels_by(self.rules.labels, self.y[composition.source], votes, counts)
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


def _reasons(refused: Counter[str]) -> str:
    return ", ".join(f"{reason} {count}" for reason, count in refused.most_common() if count)
