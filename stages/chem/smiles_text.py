"""SMILES as text: molecules joined by bonds are their SMILES joined by ring-bond labels.

``C%90C.O%90`` is ethanol in two parts. So a splice is written by putting labels behind the atoms
that its bridges join, and no molecule need be searched and ranked anew.
"""

from __future__ import annotations

import re
from collections.abc import Sequence
from dataclasses import dataclass
from itertools import pairwise

import numpy as np

from gsx.ragged import Array, Ints, pointers

_ATOM = re.compile(r"\[[^\]]+\]|Br|Cl|[BCNOPSFIbcnops*]")
_HYDROGENS = re.compile(r"(?<=[A-Za-z*])H(\d*)")
_LABEL = re.compile(r"%(\d\d)")
FIRST_LABEL, LAST_LABEL = 80, 99
"""Labels of bridges; a molecule that uses them for its own rings gets longer ones."""


@dataclass(frozen=True, slots=True, eq=False)
class Texts:
    """SMILES of many molecules, and where each of their atoms is written."""

    text: Sequence[str]
    start: Ints
    """``[N]`` where the atom of every node starts in the text of its molecule."""
    end: Ints
    """``[N]`` where it ends."""
    place: Ints
    """``[N]`` how many atoms of its molecule are written before it."""


def locate_atoms(texts: Sequence[str], order: Ints, node_ptr: Ints) -> Texts:
    """Find the atoms of SMILES; ``order`` ``[N]`` names, text by text, the node of every atom."""
    spans = [[match.span() for match in _ATOM.finditer(text)] for text in texts]
    counts = [len(found) for found in spans]
    if pointers(counts).tolist() != node_ptr.tolist():
        raise ValueError("SMILES do not write every node as an atom")
    flat = np.array([span for found in spans for span in found], dtype=np.int64).reshape(-1, 2)
    place = np.repeat(node_ptr[:-1], counts) + order
    start, end = np.empty(len(flat), dtype=np.int64), np.empty(len(flat), dtype=np.int64)
    start[place], end[place] = flat[:, 0], flat[:, 1]
    rank = np.empty(len(flat), dtype=np.int64)
    rank[place] = np.arange(len(flat)) - np.repeat(node_ptr[:-1], counts)
    return Texts(texts, start, end, rank)


def join_texts(parts: Sequence[Texts]) -> Texts:
    """Put the texts of several tables of molecules behind each other."""
    return Texts(
        [text for part in parts for text in part.text],
        np.concatenate([part.start for part in parts]),
        np.concatenate([part.end for part in parts]),
        np.concatenate([part.place for part in parts]),
    )


def spliced_smiles(
    pieces: Sequence[str], ptr: Ints, slots: tuple[Ints, Ints], spans: tuple[Array, ...]
) -> list[str]:
    """Write every splice from the SMILES of its pieces, ``pieces[ptr[g]:ptr[g + 1]]``.

    ``slots`` are the two pieces of every bridge, over all pieces; ``spans`` are start and end of
    its left and of its right atom. Bridges come splice by splice. What is easy is written at once:
    labels of two digits behind atoms without brackets, each piece from its end to its start.
    """
    owner = np.searchsorted(ptr, slots[0], side="right") - 1
    number = FIRST_LABEL + np.arange(len(owner)) - np.searchsorted(owner, owner)
    slot, number = np.concatenate(slots), np.tile(number, 2)
    start, end = np.concatenate(spans[::2]), np.concatenate(spans[1::2])
    order = np.lexsort((-number, -start, slot))
    written = list(pieces)
    hard = {place for place, text in enumerate(pieces) if "%" in text}
    hard.update(slot[number > LAST_LABEL].tolist())
    columns = (slot[order].tolist(), start[order].tolist(), end[order].tolist())
    for place, first, last, label in zip(*columns, number[order].tolist(), strict=True):
        text = written[place]
        if text[first] == "[":
            hard.add(place)
        else:
            written[place] = f"{text[:last]}%{label}{text[last:]}"
    bounds = ptr.tolist()
    found = [".".join(written[a:b]) for a, b in pairwise(bounds)]
    for graph in {int(np.searchsorted(ptr, place, side="right")) - 1 for place in hard}:
        rows = np.flatnonzero(owner == graph)
        first = bounds[graph]
        bonds = zip(
            (slots[0][rows] - first).tolist(), *(span[rows].tolist() for span in spans[:2]),
            (slots[1][rows] - first).tolist(), *(span[rows].tolist() for span in spans[2:]),
            strict=True,
        )  # fmt: skip
        found[graph] = joined_smiles(pieces[first : bounds[graph + 1]], list(bonds))
    return found


def joined_smiles(
    pieces: Sequence[str], bonds: Sequence[tuple[int, int, int, int, int, int]]
) -> str:
    """Write pieces joined by single bonds, each of which takes a hydrogen at both ends.

    A bond is ``(piece, start, end, piece, start, end)``: its two pieces, and where its atoms are
    written in them.
    """
    first = FIRST_LABEL
    long = [text for text in pieces if "%" in text]
    if long and any(int(label) >= first for text in long for label in _LABEL.findall(text)):
        first = LAST_LABEL + 1
    ends: list[list[tuple[int, int, str]]] = [[] for _ in pieces]
    for number, (left, start, end, right, start_2, end_2) in enumerate(bonds, first):
        label = f"%{number}" if number <= LAST_LABEL else f"%({number})"
        ends[left].append((start, end, label))
        ends[right].append((start_2, end_2, label))
    return ".".join(_labelled(text, sorted(at)) for text, at in zip(pieces, ends, strict=True))


def _labelled(text: str, ends: list[tuple[int, int, str]]) -> str:
    """Put labels behind atoms; an atom in brackets counts its hydrogens, and loses one each."""
    written, done = [], 0
    for number, (start, end, label) in enumerate(ends):
        if end > done:
            taken = sum(other[0] == start for other in ends[number:])
            written += [text[done:start], _without_hydrogens(text[start:end], taken)]
            done = end
        written.append(label)
    return "".join([*written, text[done:]])


def _without_hydrogens(atom: str, taken: int) -> str:
    """Return an atom with fewer hydrogens, if it counts them.

    >>> _without_hydrogens("[nH]", 1), _without_hydrogens("[NH3+]", 1), _without_hydrogens("C", 1)
    ('[n]', '[NH2+]', 'C')
    """
    if not atom.startswith("["):
        return atom

    def fewer(found: re.Match[str]) -> str:
        left = int(found[1] or 1) - taken
        return "" if left <= 0 else "H" if left == 1 else f"H{left}"

    return _HYDROGENS.sub(fewer, atom, count=1)
