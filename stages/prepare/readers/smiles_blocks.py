"""Parse SMILES in blocks and keep the graphs in a temporary file until they are written.

Only the data that determines splits stays in memory: a few numbers per molecule, and each scaffold
once. Atoms, bonds and texts are on disk.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Sequence
from dataclasses import dataclass, field, replace
from itertools import islice, pairwise

import numpy as np

from gsx.ragged import Array, Ints, Ragged, decode_texts, encode_texts, pointers
from gsx.stages.array_blocks import Block, SpillFile
from gsx.stages.block_executor import BlockExecutor
from gsx.stages.chem.limits import MAX_ATOMS, raw_limits
from gsx.table import GraphTable, concat

BLOCK_ROWS = 1024
"""SMILES per block."""
MAX_REASONS = 1000
"""Unreadable rows for which the reason is kept."""


@dataclass(slots=True)
class RejectedRows:
    """Unreadable rows."""

    rows: list[int] = field(default_factory=list)
    lengths: list[int] = field(default_factory=list)
    """Number of characters of each text."""
    reasons: dict[int, str] = field(default_factory=dict)
    """Row → reason, for the first rows."""

    def __len__(self) -> int:
        return len(self.rows)

    def add(self, start: int, lengths: list[int], rejected: Ints, reasons: list[str]) -> None:
        """Add the rows ``rejected`` of a block of texts that starts at row ``start``."""
        for row, reason in zip(rejected.tolist(), reasons, strict=True):
            self.rows.append(start + row)
            self.lengths.append(lengths[row])
            if len(self.reasons) < MAX_REASONS:
                self.reasons[start + row] = reason


@dataclass(frozen=True, slots=True, kw_only=True, eq=False)
class ParsedMolecules:
    """Molecules parsed from SMILES."""

    count: int
    """Total number of texts."""
    rows: Ints
    """``[G]`` row of each molecule among the texts."""
    sizes: Ints
    """``[G]`` number of atoms."""
    scaffold: Ints
    """``[G]`` index into ``scaffolds``."""
    scaffolds: Sequence[str]
    """Distinct SMILES of Bemis-Murcko scaffolds without chirality; empty without rings."""
    refused: RejectedRows
    spill: SpillFile
    first: Ints
    """``[B + 1]`` first molecule of every block on disk."""

    def take(self, chosen: Ints) -> GraphTable:
        """Return molecules by increasing index, with the columns ``smiles`` and ``scaffold``."""
        bounds = np.searchsorted(chosen, self.first)
        tables = [
            _table(self.spill.read(block), chosen[start:stop] - self.first[block])
            for block, (start, stop) in enumerate(pairwise(bounds.tolist()))
            if start < stop
        ]
        return concat(tables or [_table(self.spill.read(0), chosen)])


def read_smiles(
    texts: Iterable[str],
    executor: BlockExecutor,
    max_atoms: int = MAX_ATOMS,
    progress: Callable[[int], None] = lambda _done: None,
) -> ParsedMolecules:
    """Parse SMILES of at most ``max_atoms`` atoms in blocks with an executor.

    ``progress`` receives the number of parsed texts after every block.
    """
    spill, refused, scaffold_ids = SpillFile(), RejectedRows(), dict[str, int]()
    rows, sizes, scaffold = [], [], []
    start = 0
    for block in iter_parsed_blocks(texts, executor, max_atoms):
        refused.add(start, block.lengths, block.rejected, block.reasons)
        rows.append(start + block.rows)
        sizes.append(np.diff(block.arrays["node_ptr"]).astype(np.int32))
        names = _arrays_text(block.arrays, "scaffold")
        scaffold.append(
            np.array(
                [scaffold_ids.setdefault(name, len(scaffold_ids)) for name in names], dtype=np.int32
            )
        )
        spill.append(block.arrays)
        start += len(block.texts)
        progress(start)
    return ParsedMolecules(
        count=start,
        rows=_concatenate(rows),
        sizes=_concatenate(sizes),
        scaffold=_concatenate(scaffold),
        scaffolds=tuple(scaffold_ids),
        refused=refused,
        spill=spill,
        first=pointers([len(block_rows) for block_rows in rows]),
    )


@dataclass(frozen=True, slots=True, kw_only=True, eq=False)
class ParsedBlock:
    """Parsed SMILES of consecutive rows."""

    texts: list[str]
    lengths: list[int]
    """Number of characters of each text."""
    rows: Ints
    """``[G]`` row of each molecule among the texts."""
    rejected: Ints
    """Unreadable rows."""
    reasons: list[str]
    """Why each of them is unreadable."""
    arrays: dict[str, Array]
    """The molecules as arrays."""

    def table(self) -> GraphTable:
        """Return the molecules, with the columns ``smiles`` and ``scaffold``."""
        return _table(self.arrays, np.arange(len(self.rows)))


def iter_parsed_blocks(
    texts: Iterable[str],
    executor: BlockExecutor,
    max_atoms: int = MAX_ATOMS,
    *,
    scaffolds: bool = True,
) -> Iterator[ParsedBlock]:
    """Yield SMILES, parsed in blocks with an executor: at least one block.

    Without ``scaffolds``, which take time, all scaffolds are empty.
    """
    waiting: list[tuple[list[str], list[int]]] = []
    for arrays in executor.map(parse_block, _blocks(texts, waiting, max_atoms, scaffolds)):
        block, lengths = waiting.pop(0)
        rows, rejected = arrays.pop("rows"), arrays.pop("refused")
        readable = [block[row] for row in rows.tolist()]
        yield ParsedBlock(
            texts=block,
            lengths=lengths,
            rows=rows,
            rejected=rejected,
            reasons=_arrays_text(arrays, "reason"),
            arrays={**arrays, **_text_arrays(readable, "smiles")},
        )


def parse_block(block: Block) -> dict[str, Array]:
    """Parse the SMILES of a block."""
    from gsx.stages.chem.smiles_reader import read_molecules

    limits = raw_limits(int(block["max_atoms"][0]))
    if not block["scaffolds"][0]:
        limits = replace(limits, scaffold_atoms=0)
    parsed = read_molecules(_arrays_text(block, "smiles"), limits)
    table = parsed.table
    return {
        "node_ptr": table.node_ptr,
        "edge_ptr": table.edge_ptr,
        "node_feat": table.dense("node", "node_feat"),
        **{name: table.dense("edge", name) for name in ("edge_src", "edge_dst", "edge_attr")},
        "rows": parsed.rows,
        "refused": np.array(list(parsed.refused), dtype=np.int64),
        **_text_arrays(parsed.scaffolds, "scaffold"),
        **_text_arrays(list(parsed.refused.values()), "reason"),
    }


def _blocks(
    texts: Iterable[str],
    waiting: list[tuple[list[str], list[int]]],
    max_atoms: int,
    scaffolds: bool,  # noqa: FBT001
) -> Iterator[dict[str, Array]]:
    """Yield texts in blocks, at least one.

    ``waiting`` holds each block until its result, with the number of characters of every text.
    Texts with too many characters, which are unreadable, are shortened at once.
    """
    most = raw_limits(max_atoms).characters + 1
    remaining = ((text[:most], len(text)) for text in texts)
    rows = list(islice(remaining, BLOCK_ROWS))
    while True:
        block = [text for text, _ in rows]
        waiting.append((block, [length for _, length in rows]))
        yield {
            **_text_arrays(block, "smiles"),
            "max_atoms": np.array([max_atoms]),
            "scaffolds": np.array([scaffolds]),
        }
        rows = list(islice(remaining, BLOCK_ROWS))
        if not rows:
            return


def _table(block: Block, chosen: Ints) -> GraphTable:
    """Return some molecules of a block."""
    return GraphTable(
        block["node_ptr"],
        block["edge_ptr"],
        graph={name: _lists(block, name) for name in ("smiles", "scaffold")},
        node={"node_feat": block["node_feat"]},
        edge={name: block[name] for name in ("edge_src", "edge_dst", "edge_attr")},
    ).take(chosen)


def _concatenate(arrays: list[Array]) -> Ints:
    return np.concatenate(arrays).astype(np.int64)


def _lists(block: Block, name: str) -> Ragged:
    return Ragged(block[f"{name}_ptr"], block[f"{name}_bytes"])


def _text_arrays(texts: Sequence[str], name: str) -> dict[str, Array]:
    rows = encode_texts(texts)
    return {f"{name}_ptr": rows.ptr, f"{name}_bytes": rows.values}


def _arrays_text(block: Block, name: str) -> list[str]:
    return decode_texts(_lists(block, name))
