"""Join the SMILES of components with ring-closure labels, as input for RDKit.

``C-%90C.O-%90`` is ethanol in two parts. A splice is written by inserting labels after the atoms
that its bridges join. The hyphen keeps a bond between aromatic atoms single. These texts are never
stored: ``check_by_smiles`` writes canonical SMILES.
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
"""Labels of bridges; a molecule that uses them for its own rings gets longer labels."""


@dataclass(frozen=True, slots=True, eq=False)
class ComponentSmiles:
    """SMILES of many molecules, and the position of every atom in the text."""

    text: Sequence[str]
    start: Ints
    """``[N]`` start of the atom of every node in the text of its molecule."""
    end: Ints
    """``[N]`` end of the atom in the text."""
    rank: Ints
    """``[N]`` number of atoms of the molecule that are written before it."""


def locate_atoms(texts: Sequence[str], order: Ints, node_ptr: Ints) -> ComponentSmiles:
    """Locate the atoms of SMILES; ``order`` ``[N]`` is the node of every written atom."""
    spans = [[match.span() for match in _ATOM.finditer(text)] for text in texts]
    counts = [len(text_spans) for text_spans in spans]
    if pointers(counts).tolist() != node_ptr.tolist():
        raise ValueError("the SMILES of a component must have one atom per node")
    flat = np.array([span for text_spans in spans for span in text_spans], dtype=np.int64).reshape(
        -1, 2
    )
    node = np.repeat(node_ptr[:-1], counts) + order
    start, end = np.empty(len(flat), dtype=np.int64), np.empty(len(flat), dtype=np.int64)
    start[node], end[node] = flat[:, 0], flat[:, 1]
    rank = np.empty(len(flat), dtype=np.int64)
    rank[node] = np.arange(len(flat)) - np.repeat(node_ptr[:-1], counts)
    return ComponentSmiles(texts, start, end, rank)


def splice_smiles(
    components: Sequence[str], ptr: Ints, slots: tuple[Ints, Ints], spans: tuple[Array, ...]
) -> list[str]:
    """Write every splice from the SMILES of its components, ``components[ptr[g]:ptr[g + 1]]``.

    ``slots`` are the two components of every bridge; ``spans`` are start and end of its left and of
    its right atom. Bridges are sorted by splice. Simple cases are written directly: two-digit
    labels after atoms without brackets, from the end of each component to its start.
    """
    owner = np.searchsorted(ptr, slots[0], side="right") - 1
    number = FIRST_LABEL + np.arange(len(owner)) - np.searchsorted(owner, owner)
    slot, number = np.concatenate(slots), np.tile(number, 2)
    start, end = np.concatenate(spans[::2]), np.concatenate(spans[1::2])
    order = np.lexsort((-number, -start, slot))
    written = list(components)
    complex_components = {index for index, text in enumerate(components) if "%" in text}
    complex_components.update(slot[number > LAST_LABEL].tolist())
    columns = (slot[order].tolist(), start[order].tolist(), end[order].tolist())
    for component, first, last, label in zip(*columns, number[order].tolist(), strict=True):
        text = written[component]
        if text[first] == "[":
            complex_components.add(component)
        else:
            written[component] = f"{text[:last]}-%{label}{text[last:]}"
    bounds = ptr.tolist()
    spliced = [".".join(written[a:b]) for a, b in pairwise(bounds)]
    for graph in {
        int(np.searchsorted(ptr, component, side="right")) - 1 for component in complex_components
    }:
        rows = np.flatnonzero(owner == graph)
        first = bounds[graph]
        bonds = zip(
            (slots[0][rows] - first).tolist(), *(span[rows].tolist() for span in spans[:2]),
            (slots[1][rows] - first).tolist(), *(span[rows].tolist() for span in spans[2:]),
            strict=True,
        )  # fmt: skip
        spliced[graph] = join_smiles(components[first : bounds[graph + 1]], list(bonds))
    return spliced


def join_smiles(
    components: Sequence[str], bonds: Sequence[tuple[int, int, int, int, int, int]]
) -> str:
    """Write components joined by single bonds, each of which replaces a hydrogen at both ends.

    A bond is ``(component, start, end, component, start, end)``: its two components, and the
    positions of its atoms in their texts.
    """
    first = FIRST_LABEL
    long = [text for text in components if "%" in text]
    if long and any(int(label) >= first for text in long for label in _LABEL.findall(text)):
        first = LAST_LABEL + 1
    ends: list[list[tuple[int, int, str]]] = [[] for _ in components]
    for number, (left, start, end, right, start_2, end_2) in enumerate(bonds, first):
        label = f"-%{number}" if number <= LAST_LABEL else f"-%({number})"
        ends[left].append((start, end, label))
        ends[right].append((start_2, end_2, label))
    return ".".join(
        _insert_labels(text, sorted(labels)) for text, labels in zip(components, ends, strict=True)
    )


def _insert_labels(text: str, ends: list[tuple[int, int, str]]) -> str:
    """Insert labels after atoms; an atom in brackets loses one explicit hydrogen per label."""
    written, done = [], 0
    for number, (start, end, label) in enumerate(ends):
        if end > done:
            taken = sum(other[0] == start for other in ends[number:])
            written += [text[done:start], _without_hydrogens(text[start:end], taken)]
            done = end
        written.append(label)
    return "".join([*written, text[done:]])


def _without_hydrogens(atom: str, taken: int) -> str:
    """Return an atom with fewer explicit hydrogens.

    >>> _without_hydrogens("[nH]", 1), _without_hydrogens("[NH3+]", 1), _without_hydrogens("C", 1)
    ('[n]', '[NH2+]', 'C')
    """
    if not atom.startswith("["):
        return atom

    def fewer(match: re.Match[str]) -> str:
        left = int(match[1] or 1) - taken
        return "" if left <= 0 else "H" if left == 1 else f"H{left}"

    return _HYDROGENS.sub(fewer, atom, count=1)
