"""SMILES as text: molecules joined by bonds are their SMILES joined by ring-bond labels.

``C%90C.O%90`` is ethanol in two parts. So a splice is written by putting labels behind the atoms
that its bridges join, and no molecule need be searched and ranked anew.
"""

from __future__ import annotations

import re
from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np

from gsx.ragged import Ints, pointers

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
    if len(ends) == 1 and text[ends[0][0]] != "[":
        _, end, label = ends[0]
        return f"{text[:end]}{label}{text[end:]}"
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
