"""Read many SMILES into graphs that wait on disk until they are written.

What decides splits is kept in memory: a few numbers per molecule, and every scaffold once. Atoms,
bonds and texts, which are much more, are not.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass, field
from itertools import chain, islice, pairwise

import numpy as np

from gsx.ragged import Array, Ints, Ragged, pointers, text_rows, texts_of
from gsx.stages.prepare.array_blocks import Block, Spill
from gsx.stages.prepare.block_executor import spread, worker_count
from gsx.table import GraphTable, concat

BLOCK = 1024
"""SMILES that one process reads at a time."""
LISTED = 1000
"""Rows that cannot be read whose reasons are kept."""


@dataclass(slots=True)
class Refused:
    """Rows that could not be read."""

    rows: list[int] = field(default_factory=list)
    lengths: list[int] = field(default_factory=list)
    """Characters of each text."""
    reasons: dict[int, str] = field(default_factory=dict)
    """Why, by row, of the first that were met."""

    def __len__(self) -> int:
        return len(self.rows)

    def add(self, start: int, texts: list[str], lost: Ints, reasons: list[str]) -> None:
        """Note the rows ``lost`` of a block of texts that begins at row ``start``."""
        for row, reason in zip(lost.tolist(), reasons, strict=True):
            self.rows.append(start + row)
            self.lengths.append(len(texts[row]))
            if len(self.reasons) < LISTED:
                self.reasons[start + row] = reason


@dataclass(frozen=True, slots=True, kw_only=True, eq=False)
class MoleculeRows:
    """What could be read of some SMILES."""

    count: int
    """Texts in all."""
    rows: Ints
    """``[G]`` row of each molecule among the texts."""
    sizes: Ints
    """``[G]`` atoms of each."""
    scaffold: Ints
    """``[G]`` place of the scaffold of each in ``scaffolds``."""
    scaffolds: Sequence[str]
    """Distinct SMILES of Bemis-Murcko scaffolds without chirality; empty without rings."""
    refused: Refused
    spill: Spill
    first: Ints
    """``[B + 1]`` first molecule of every block on disk."""

    def take(self, chosen: Ints) -> GraphTable:
        """Return molecules by number, which must rise, with the columns smiles and scaffold."""
        places = np.searchsorted(chosen, self.first)
        parts = [
            _table(self.spill.read(block), chosen[start:stop] - self.first[block])
            for block, (start, stop) in enumerate(pairwise(places.tolist()))
            if start < stop
        ]
        return concat(parts or [_table(self.spill.read(0), chosen)])


def read_smiles(texts: Iterable[str], workers: int | None = None) -> MoleculeRows:
    """Read many SMILES, in several processes where there are many."""
    spill, refused, known = Spill(), Refused(), dict[str, int]()
    rows, sizes, scaffold = [], [], []
    waiting: list[list[str]] = []
    start = 0
    for found in _answers(_blocks(texts, waiting), workers):
        block = waiting.pop(0)
        inside = found.pop("rows")
        refused.add(start, block, found.pop("refused"), _arrays_text(found, "reason"))
        rows.append(start + inside)
        sizes.append(np.diff(found["node_ptr"]).astype(np.int32))
        names = _arrays_text(found, "scaffold")
        scaffold.append(
            np.array([known.setdefault(name, len(known)) for name in names], dtype=np.int32)
        )
        spill.add({**found, **_text_arrays([block[row] for row in inside.tolist()], "smiles")})
        start += len(block)
    return MoleculeRows(
        count=start,
        rows=_joined(rows),
        sizes=_joined(sizes),
        scaffold=_joined(scaffold),
        scaffolds=tuple(known),
        refused=refused,
        spill=spill,
        first=pointers([len(each) for each in rows]),
    )


def read_block(block: Block) -> dict[str, Array]:
    """Read the SMILES of a block of ``workers``."""
    from gsx.stages.chem.smiles_reader import read_molecules

    found = read_molecules(_arrays_text(block, "smiles"))
    table = found.table
    return {
        "node_ptr": table.node_ptr,
        "edge_ptr": table.edge_ptr,
        "node_feat": table.dense("node", "node_feat"),
        **{name: table.dense("edge", name) for name in ("edge_src", "edge_dst", "edge_attr")},
        "rows": found.rows,
        "refused": np.array(list(found.refused), dtype=np.int64),
        **_text_arrays(found.scaffolds, "scaffold"),
        **_text_arrays(list(found.refused.values()), "reason"),
    }


def _blocks(texts: Iterable[str], waiting: list[list[str]]) -> Iterator[dict[str, Array]]:
    """Yield texts in blocks, at least one, and leave each in ``waiting`` for its answer."""
    left = iter(texts)
    block = list(islice(left, BLOCK))
    while True:
        waiting.append(block)
        yield _text_arrays(block, "smiles")
        block = list(islice(left, BLOCK))
        if not block:
            return


def _answers(blocks: Iterator[dict[str, Array]], workers: int | None) -> Iterator[dict[str, Array]]:
    """Return what is read of each block, in this process where there is one block alone."""
    ahead = list(islice(blocks, 2))
    count = 1
    if len(ahead) > 1:
        count = worker_count() if workers is None else workers
    return spread("smiles", chain(ahead, blocks), count)


def _table(block: Block, chosen: Ints) -> GraphTable:
    """Return some molecules of a block."""
    return GraphTable(
        block["node_ptr"],
        block["edge_ptr"],
        graph={name: _lists(block, name) for name in ("smiles", "scaffold")},
        node={"node_feat": block["node_feat"]},
        edge={name: block[name] for name in ("edge_src", "edge_dst", "edge_attr")},
    ).take(chosen)


def _joined(parts: list[Array]) -> Ints:
    return np.concatenate(parts).astype(np.int64)


def _lists(block: Block, name: str) -> Ragged:
    return Ragged(block[f"{name}_ptr"], block[f"{name}_bytes"])


def _text_arrays(texts: Sequence[str], name: str) -> dict[str, Array]:
    rows = text_rows(texts)
    return {f"{name}_ptr": rows.ptr, f"{name}_bytes": rows.values}


def _arrays_text(block: Block, name: str) -> list[str]:
    return texts_of(_lists(block, name))
