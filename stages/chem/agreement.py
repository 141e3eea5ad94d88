"""Compare SMILES with graphs: number of atoms, number of bonds, and molecular formula.

The formula counts hydrogens and the charge. The order of atoms is not compared. Isotopes, stereo
and atom maps are no part of a graph.
"""

from __future__ import annotations

import re
from collections.abc import Sequence
from dataclasses import replace
from itertools import pairwise

import numpy as np
from rdkit import Chem, rdBase
from rdkit.Chem import rdMolDescriptors

from gsx.errors import MoleculeError
from gsx.ragged import Ints, pointers, row_indices
from gsx.stages.chem.features import (
    ATOM_FEATURES,
    ATOMIC_NUM,
    CHARGE,
    HYDROGEN,
    LOWEST_CHARGE,
    NUM_HS,
)
from gsx.stages.chem.limits import CORPUS_LIMITS, MoleculeLimits
from gsx.stages.chem.smiles_reader import parse_smiles
from gsx.table import GraphTable

_ELEMENTS = len(ATOM_FEATURES["atomic_num"])
_CARBON = 6
_HYDROGEN_ATOM = re.compile(r"\[H[\]+-]")
"""A hydrogen that SMILES write as an atom. RDKit merges most of them into their neighbor."""


def _without_sanitization() -> Chem.SmilesParserParams:
    params = Chem.SmilesParserParams()
    for name in ("sanitize", "removeHs", "allowCXSMILES", "parseName"):
        setattr(params, name, False)
    return params


UNSANITIZED = _without_sanitization()


def disagreements(
    table: GraphTable, texts: Sequence[str], *, sanitize: bool = True
) -> dict[int, str]:
    """Return graph → reason, for every graph that its SMILES does not describe.

    Graphs without SMILES are skipped. ``sanitize=False`` is for texts that RDKit has written: only
    those with hydrogens as atoms are sanitized, because nothing else changes the counts.
    """
    atoms, bonds = table.num_nodes.tolist(), (table.num_edges // 2).tolist()
    limits = _limits(table)
    expected = formulas(table)
    reasons: dict[int, str] = {}
    with rdBase.BlockLogs():
        for graph, text in enumerate(texts):
            if not text:
                continue
            try:
                needs_sanitization = sanitize or bool(_HYDROGEN_ATOM.search(text))
                molecule = parse_smiles(text, limits) if needs_sanitization else _parse(text)
            except MoleculeError as error:
                reasons[graph] = f"its SMILES cannot be read: {error}"
                continue
            found = (
                (molecule.GetNumAtoms(), atoms[graph], "{} atoms"),
                (molecule.GetNumBonds(), bonds[graph], "{} bonds"),
                (rdMolDescriptors.CalcMolFormula(molecule), expected[graph], "the formula {}"),
            )
            for of_text, of_graph, what in found:
                if of_text != of_graph:
                    reasons[graph] = (
                        f"its SMILES has {what.format(of_text)}; "
                        f"the graph has {what.format(of_graph)}"
                    )
                    break
    return reasons


def _limits(table: GraphTable) -> MoleculeLimits:
    """Return limits that no graph of the table exceeds."""
    return replace(
        CORPUS_LIMITS,
        atoms=max(CORPUS_LIMITS.atoms, int(table.num_nodes.max(initial=0))),
        rings=max(CORPUS_LIMITS.rings, int(table.num_edges.max(initial=0))),
    )


def _parse(text: str) -> Chem.Mol:
    """Parse a SMILES string without sanitization, and count hydrogens."""
    molecule: Chem.Mol | None = Chem.MolFromSmiles(text, UNSANITIZED)
    if molecule is None:
        raise MoleculeError(f"`{text}` is not a valid SMILES string")
    molecule.UpdatePropertyCache(strict=False)
    return molecule


def formulas(table: GraphTable) -> list[str]:
    """Return the molecular formula of every graph in Hill order, as RDKit writes it."""
    features = table.dense("node", "node_feat").astype(np.int64)
    owner = row_indices(table.node_ptr)
    code, count = np.unique(owner * _ELEMENTS + features[:, ATOMIC_NUM], return_counts=True)
    hydrogens = np.bincount(owner, weights=features[:, NUM_HS], minlength=len(table))
    charge = np.bincount(owner, weights=features[:, CHARGE] + LOWEST_CHARGE, minlength=len(table))
    return _write(code, count, hydrogens.astype(np.int64), charge.astype(np.int64))


def _write(code: Ints, count: Ints, hydrogens: Ints, charge: Ints) -> list[str]:
    """Write formulas; ``code`` is graph · 119 + element, in increasing order."""
    graph, element = np.divmod(code, _ELEMENTS)
    is_hydrogen = element == HYDROGEN
    hydrogens = hydrogens + np.bincount(
        graph[is_hydrogen], weights=count[is_hydrogen], minlength=len(hydrogens)
    ).astype(np.int64)
    rank = np.array(_RANKS)[element]
    order = np.lexsort((rank, graph))[~is_hydrogen[np.lexsort((rank, graph))]]
    parts = [
        f"{_SYMBOLS[number]}{times if times > 1 else ''}"
        for number, times in zip(element[order].tolist(), count[order].tolist(), strict=True)
    ]
    first_is_carbon = np.zeros(len(hydrogens), dtype=bool)
    first_is_carbon[graph[element == _CARBON]] = True
    bounds = pointers(np.bincount(graph[order], minlength=len(hydrogens))).tolist()
    written = []
    for (start, stop), carbon, h, total in zip(
        pairwise(bounds), first_is_carbon.tolist(), hydrogens.tolist(), charge.tolist(), strict=True
    ):
        head = start + int(carbon)
        hydrogen = "" if not h else "H" if h == 1 else f"H{h}"
        sign = "" if not total else "+" if total > 0 else "-"
        digits = "" if abs(total) < 2 else str(abs(total))
        written.append("".join([*parts[start:head], hydrogen, *parts[head:stop], sign, digits]))
    return written


_TABLE = Chem.GetPeriodicTable()
_SYMBOLS = [_TABLE.GetElementSymbol(number) for number in range(_ELEMENTS)]


def _hill_ranks() -> list[int]:
    """Return the position of every element in a formula: carbon first, then by symbol."""
    order = sorted(range(_ELEMENTS), key=lambda number: (number != _CARBON, _SYMBOLS[number]))
    ranks = [0] * _ELEMENTS
    for rank, number in enumerate(order):
        ranks[number] = rank
    return ranks


_RANKS = _hill_ranks()
