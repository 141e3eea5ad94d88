"""Splice blocks of graphs; a block is a pure function of its random stream's name."""

from __future__ import annotations

import itertools
from collections import Counter
from dataclasses import dataclass, field
from typing import Literal

import numpy as np

from gsx.errors import StageError
from gsx.ragged import Array, Ints, Ragged, pointers, row_indices
from gsx.schema import CorpusInfo
from gsx.seeds import rng
from gsx.stages.augmented.derived_columns import derived_columns, fill_missing_columns
from gsx.stages.augmented.label_rules import Sizes, hard_labels, size_slope, spliced_labels
from gsx.stages.augmented.rejection import should_give_up
from gsx.stages.chem.check_by_smiles import SpliceSmiles
from gsx.stages.chem.smiles_text import splice_smiles
from gsx.stages.chem.splice_rules import check_spliced_molecules
from gsx.stages.generate.config import Option
from gsx.stages.generate.splice.bridging import (
    BridgeParameters,
    PooledEncodings,
    add_random_edges,
    draw_bridges,
    is_fully_bridged,
    with_bridges,
    without_bridges,
)
from gsx.stages.generate.splice.component_columns import (
    COPY,
    SMILES_END,
    SMILES_ORDER,
    SMILES_START,
)
from gsx.stages.generate.splice.component_pool import ComponentPool
from gsx.stages.generate.splice.composition import (
    Attach,
    Composition,
    Partners,
    SourcesByClass,
    compose,
)
from gsx.stages.generate.splice.plan import ORIGIN_OF_OPTION
from gsx.stages.generate.splice.random_bridges import BridgeSource
from gsx.stages.graphs.splice import union
from gsx.stages.graphs.subgraphs import Bools, Floats
from gsx.stages.graphs.wl_hash import Hashes, contained_in, wl_hashes
from gsx.stages.nn.bridge_model import BridgeModel
from gsx.stages.nn.bridge_sampling import Bridges, DrawnLatents, PooledComponents
from gsx.table import GraphTable, concat

BLOCKS_PER_LATENT_DRAW = 64
"""Consecutive blocks that share one draw of the latents of all nodes."""
LabelRule = Literal["average", "any", "all", "sum", "size-scaled"]


@dataclass(frozen=True, slots=True, kw_only=True)
class SpliceParameters:
    """How graphs of one option are composed, joined and labelled."""

    option: Option
    f: tuple[int, int]
    """Minimum and maximum number of environmental subgraphs or whole graphs."""
    partners: Partners
    attach: Attach
    balanced: bool
    labels: LabelRule
    bridging: BridgeParameters
    seed: int


@dataclass(frozen=True, slots=True, eq=False)
class SplicedBlock:
    """Spliced graphs and how many draws were rejected."""

    table: GraphTable
    """All columns except ``graph_id`` and ``env_id``."""
    hashes: Hashes
    rejected: Counter[str]
    """Rejected draws by reason."""
    rejected_at_first: int
    """Graphs whose first draw was rejected."""


@dataclass(frozen=True, slots=True, eq=False)
class Splicer:
    """Splices graphs of one option from a pool of components."""

    parameters: SpliceParameters
    info: CorpusInfo
    """Description of the augmented corpus."""
    pool: ComponentPool
    lead_component: Ints
    """``[R]`` component of the first slot by source row; -1 if a source has none."""
    other_components: Ints
    """``[V, R]`` components of the other slots by source row: whole subgraphs, then fragments."""
    graph_id: Ints
    """``[R]`` of all source rows."""
    y: Array
    """``[R, C]`` labels of all source rows."""
    source_nodes: Ints
    """``[R]`` number of nodes of all source rows."""
    classes: Ints
    """``[R]`` class of all source rows; 0 if classes are not used."""
    bridge_source: BridgeSource | None
    """What draws bridges; None leaves components unconnected."""
    forbidden: Hashes
    """Sorted hashes of held-out graphs, which must not be generated."""
    molecules: bool = False
    """Whether graphs must be valid molecules."""
    causal_subgraphs: dict[str, int] | None = None
    """Counts by `label_causal_subgraphs` of the first option with causal subgraphs, else None."""
    sources: tuple[SourcesByClass, SourcesByClass] = field(init=False)
    """Source rows of lead components and of other components."""
    slope: Floats = field(init=False)
    """``[C]`` change of every label per node of a source graph, for the rule ``size-scaled``."""
    _drawn: dict[int, DrawnLatents] = field(init=False, default_factory=dict)
    """The latest draw of latents, by its number."""

    def __post_init__(self) -> None:
        lead, others = (
            SourcesByClass.from_rows(np.flatnonzero(component >= 0), self.classes)
            for component in (self.lead_component, self.other_components[0])
        )
        object.__setattr__(self, "sources", (lead, others))
        object.__setattr__(self, "slope", size_slope(self.source_nodes, self.y))

    def block(self, number: int, count: int) -> SplicedBlock:
        """Splice ``count`` graphs: block ``number`` of the option.

        Rejection sampling: graphs that are invalid or equal a held-out graph are drawn again. The
        result depends on the parameters and the block number only.
        """
        name = ("generate", ORIGIN_OF_OPTION[self.parameters.option], number)
        latents = self._latents(number)
        draws: list[GraphTable] = []
        rows, num_drawn = np.zeros(count, dtype=np.int64), 0
        hashes = np.zeros(count, dtype=np.uint64)
        rejected: Counter[str] = Counter()
        pending = np.arange(count)
        rejected_at_first = 0
        for attempt in itertools.count():
            stream = rng(self.parameters.seed, *name, attempt)
            table, valid, reasons = self._draw(
                len(pending), stream, "/".join(map(str, name)), latents
            )
            rejected.update(reasons)
            drawn_hashes = wl_hashes(table)
            is_held_out = contained_in(drawn_hashes, self.forbidden) & valid
            rejected["held-out graph"] += int(is_held_out.sum())
            accepted = np.flatnonzero(valid & ~is_held_out)
            draws.append(table)
            rows[pending[accepted]] = num_drawn + accepted
            num_drawn += len(table)
            hashes[pending[accepted]] = drawn_hashes[accepted]
            pending = np.delete(pending, accepted)
            rejected_at_first = len(pending) if attempt == 0 else rejected_at_first
            if not len(pending):
                break
            if should_give_up(attempt + 1, len(pending), count):
                raise StageError(
                    f"option {self.parameters.option}, block {number}: {len(pending)} of {count} "
                    f"graphs were rejected {attempt + 1} times ({_format_reasons(rejected)}). "
                    "Change the seed, f or the bridges."
                )
        spliced = draws[0] if len(draws) == 1 else concat(draws).take(rows)
        return SplicedBlock(spliced, hashes, +rejected, rejected_at_first)

    def _latents(self, number: int) -> DrawnLatents | None:
        """Return the latents of the pool for a block; None without a bridge model.

        Consecutive blocks share one draw, which costs as much as several blocks.
        """
        model, encoded = self.bridge_source, self.pool.encoded
        if not isinstance(model, BridgeModel) or encoded is None or self.parameters.option == 1:
            return None
        group = number // BLOCKS_PER_LATENT_DRAW
        if group not in self._drawn:
            self._drawn.clear()
            name = ("generate", ORIGIN_OF_OPTION[self.parameters.option], "latents", group)
            self._drawn[group] = DrawnLatents.draw(model, encoded, rng(self.parameters.seed, *name))
        return self._drawn[group]

    def _draw(
        self, count: int, stream: np.random.Generator, name: str, latents: DrawnLatents | None
    ) -> tuple[GraphTable, Bools, Counter[str]]:
        """Splice ``count`` graphs once; return them, which are valid, and reasons of rejection."""
        option, bridging = self.parameters.option, self.parameters.bridging
        composition = self._compose(count, stream)
        counts = np.diff(composition.ptr)
        ids = self._choose_components(composition, stream)
        components = self.pool.table.take(ids)
        pooled = None
        if latents is not None and self.pool.encoded is not None:
            pool_start = self.pool.table.node_ptr[ids]
            pooled = PooledEncodings(
                latents,
                PooledComponents(components.node_ptr, pool_start),
                self.pool.encoded.count_features[ids],
            )
        graphs, _, _ = union(components, counts)
        slots = self.pool.slots[ids]
        first_slot = pointers(slots)
        parents = Ragged(
            first_slot[composition.ptr], np.repeat(self.graph_id[composition.source], slots)
        )
        node_slot = self._node_slots(
            components, first_slot[:-1] - np.repeat(parents.ptr[:-1], counts)
        )
        coefficients = np.where((composition.slots == 0) | (option == 3), 1.0, 0.0)
        bridges = None
        if self.bridge_source is not None and bridging.bridges != "none":
            bridges = draw_bridges(
                self.bridge_source,
                bridging,
                components,
                pooled,
                composition,
                stream,
                molecules=self.molecules,
            )
        valid = is_fully_bridged(composition, bridges)
        if self.bridge_source is None or bridges is None:
            table, number, positions = without_bridges(graphs)
        else:
            if bridging.random_edges:
                protected = np.where(coefficients > 0, np.arange(len(coefficients)), -1)
                bridges = add_random_edges(
                    self.bridge_source,
                    bridging.random_edges,
                    graphs,
                    protected,
                    components,
                    pooled,
                    bridges,
                    stream,
                )
            table, node_slot, number, positions = with_bridges(
                self.bridge_source, bridging, graphs, node_slot, bridges
            )
        reasons = Counter({"no place for a bridge": int((~valid).sum())})
        rule, sizes = self.parameters.labels, None
        if rule == "size-scaled":
            of_parents = self.source_nodes[composition.source]
            sizes = Sizes(of_parents, table.num_nodes, self.slope)
        y = spliced_labels(rule, self.y[composition.source], coefficients, counts, sizes)
        table = table.with_columns(
            graph={
                "y": y,
                "label": hard_labels(y, self.info.task),
                **derived_columns(
                    count,
                    origin=ORIGIN_OF_OPTION[option],
                    stream=name,
                    parents=parents,
                    node_number=Ragged(table.node_ptr, number),
                    node_slot=Ragged(table.node_ptr, node_slot.astype(np.int16)),
                    bridges=positions,
                ),
            }
        )
        table = fill_missing_columns(table, self.info)
        if self.molecules:
            joined = self._joined_smiles(components, ids, composition, bridges)
            slot = row_indices(components.node_ptr)
            rank = components.node_ptr[slot] + components.dense("node", SMILES_ORDER)
            checked = check_spliced_molecules(table, SpliceSmiles(joined, rank, slot))
            for reason, passed in (
                ("not a molecule", checked.is_molecule),
                ("SMILES and graph disagree", checked.agrees),
            ):
                reasons[reason] += int((valid & ~passed).sum())
                valid = valid & passed
            table = checked.table
        return table, valid, reasons

    def _node_slots(self, components: GraphTable, first: Ints) -> Ints:
        """Return the slot of every node, given the first slot of every component."""
        slot: Ints = first[row_indices(components.node_ptr)]
        if COPY in components.node:
            slot = slot + components.dense("node", COPY)
        return slot

    def _joined_smiles(
        self, components: GraphTable, ids: Ints, composition: Composition, bridges: Bridges | None
    ) -> list[str]:
        """Join the SMILES of components; bridges are ring-closure labels."""
        texts = [self.pool.smiles[number] for number in ids.tolist()]
        none = np.zeros(0, dtype=np.int64)
        left, right = (none, none) if bridges is None else (bridges.left, bridges.right)
        start = components.dense("node", SMILES_START)
        end = components.dense("node", SMILES_END)
        slots = tuple(
            np.searchsorted(components.node_ptr, nodes, side="right") - 1 for nodes in (left, right)
        )
        spans = (start[left], end[left], start[right], end[right])
        return splice_smiles(texts, composition.ptr, (slots[0], slots[1]), spans)

    def _choose_components(self, composition: Composition, stream: np.random.Generator) -> Ints:
        """Return the component of every slot; all but the first may be whole or a fragment."""
        variants = len(self.other_components)
        if variants == 1:
            variant = np.zeros(len(composition.source), dtype=np.int64)
        elif self.parameters.partners == "same-component":
            variant = np.repeat(
                stream.integers(variants, size=len(composition.ptr) - 1), np.diff(composition.ptr)
            )
        else:
            variant = stream.integers(variants, size=len(composition.source))
        return np.where(
            composition.slots == 0,
            self.lead_component[composition.source],
            self.other_components[variant, composition.source],
        )

    def _compose(self, count: int, stream: np.random.Generator) -> Composition:
        parameters = self.parameters
        lead, others = self.sources
        low, high = parameters.f
        if parameters.option != 2:  # f counts the lead component, too
            low, high = low - 1, high - 1
        return compose(
            count,
            lead,
            None if parameters.option == 1 else others,
            self.classes,
            (low, high),
            stream,
            partners=parameters.partners,
            attach=parameters.attach,
            balanced=parameters.balanced,
        )


def _format_reasons(rejected: Counter[str]) -> str:
    return ", ".join(f"{reason} {count}" for reason, count in rejected.most_common() if count)
