"""Read SMILES into graph tables with RDKit.

Hydrogens are not nodes: every atom counts its hydrogens. Stereo is read from SMILES, but spliced
molecules do not keep it, because a graph table does not store the order of an atom's bonds.
"""

from __future__ import annotations

import re
from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np
from rdkit import Chem, rdBase
from rdkit.Chem import rdMolDescriptors
from rdkit.Chem.Scaffolds import MurckoScaffold

from gsx.errors import MoleculeError
from gsx.ragged import Array, Ints, pointers
from gsx.stages.chem.features import (
    ATOM_FEATURES,
    BOND_FEATURES,
    CHARGE,
    FEATURE_DTYPE,
    HYBRIDIZATION,
    LOWEST_CHARGE,
)
from gsx.stages.chem.limits import CORPUS_LIMITS, MoleculeLimits
from gsx.table import GraphTable

RDKIT_VERSION: str = rdBase.rdkitVersion
UNSUPPORTED = "has an atom or a bond that the features cannot encode"
UNKNOWN_CODE = 255
"""Code of an unsupported value; molecules with such a value are rejected."""
_LONG_CHARGE = re.compile(r"[+-][0-9]{3}[^\[\]]{0,20}\]")
_SHOWN_CHARACTERS = 1000
"""Characters of a SMILES in messages."""
_ATOMS_PER_HEAVY_ATOM = 4
"""Atoms per heavy atom of the largest molecule, if a SMILES writes all hydrogens."""
_ATOM_LIMITS = np.array([len(words) for words in ATOM_FEATURES.values()])
_BOND_LIMITS = np.array([len(words) for words in BOND_FEATURES.values()])
HYBRIDIZATION_CODES = np.array(
    [
        ATOM_FEATURES["hybridization"].index(word)
        if (word := str(Chem.HybridizationType.values[code])) in ATOM_FEATURES["hybridization"]
        else UNKNOWN_CODE
        for code in sorted(Chem.HybridizationType.values)
    ]
)
"""gsx code of each RDKit hybridization code; all other features use RDKit's codes."""


@dataclass(frozen=True, slots=True, eq=False)
class ParsedSmiles:
    """Molecules parsed from SMILES, and the rejected texts."""

    table: GraphTable
    """Readable molecules with features, without graph columns."""
    rows: Ints
    """``[G]`` index of each molecule among the texts."""
    scaffolds: tuple[str, ...]
    """``[G]`` SMILES of the Bemis-Murcko scaffold without chirality; empty without rings, and for
    molecules above the limit."""
    refused: dict[int, str]
    """Index of every unreadable text → reason."""


def parse_smiles(text: str, limits: MoleculeLimits = CORPUS_LIMITS) -> Chem.Mol:
    """Parse and sanitize one SMILES; raise MoleculeError with the reason."""
    with rdBase.BlockLogs():
        try:
            return _parse(text, limits)
        except RuntimeError as error:  # violated invariants of RDKit
            message = f"{_quoted(text)} cannot be read by RDKit: {_first_line(error)}"
            raise MoleculeError(message) from error


def read_molecules(texts: Sequence[str], limits: MoleculeLimits = CORPUS_LIMITS) -> ParsedSmiles:
    """Parse many SMILES; unreadable texts are rejected individually, with the reason."""
    refused: dict[int, str] = {}
    rows, scaffolds = [], []
    features = FeatureRows()
    with rdBase.BlockLogs():
        for row, text in enumerate(texts):
            try:
                molecule = _parse(text, limits)
                small = molecule.GetNumAtoms() <= limits.scaffold_atoms
                scaffold = _scaffold(molecule) if small else ""
            except MoleculeError as error:
                refused[row] = str(error)
                continue
            except RuntimeError as error:  # violated invariants of RDKit
                refused[row] = f"{_quoted(text)} cannot be read by RDKit: {_first_line(error)}"
                continue
            rows.append(row)
            scaffolds.append(scaffold)
            features.read(molecule)
    table, unsupported = features.table(), features.unsupported()
    for index in unsupported.tolist():
        refused[rows[index]] = f"{_quoted(texts[rows[index]])} {UNSUPPORTED}"
    keep = np.ones(len(rows), dtype=bool)
    keep[unsupported] = False
    return ParsedSmiles(
        table=table.filter(keep) if len(unsupported) else table,
        rows=np.array(rows, dtype=np.int64)[keep],
        scaffolds=tuple(text for text, kept in zip(scaffolds, keep, strict=True) if kept),
        refused=dict(sorted(refused.items())),
    )


def featurize(molecules: Sequence[Chem.Mol]) -> GraphTable:
    """Return sanitized molecules as graphs with the features of ``features.py``."""
    features = FeatureRows()
    for molecule in molecules:
        features.read(molecule)
    unsupported = features.unsupported()
    if len(unsupported):
        raise MoleculeError(f"molecule {unsupported[0]} {UNSUPPORTED}")
    return features.table()


@dataclass(frozen=True, slots=True, eq=False)
class MoleculeProperties:
    """Size and lipophilicity of molecules, for reports."""

    heavy_atoms: Ints
    """``[G]``"""
    weight: Array
    """``[G]`` molecular weight in Dalton."""
    log_p: Array
    """``[G]`` Crippen's estimate."""
    rings: Ints
    """``[G]``"""


def molecule_properties(texts: Sequence[str]) -> MoleculeProperties:
    """Return properties of molecules given as SMILES."""
    molecules = [parse_smiles(text) for text in texts]
    return MoleculeProperties(
        heavy_atoms=np.array(
            [molecule.GetNumHeavyAtoms() for molecule in molecules], dtype=np.int64
        ),
        weight=np.array([_weight(molecule) for molecule in molecules], dtype=np.float64),
        log_p=np.array([_log_p(molecule) for molecule in molecules], dtype=np.float64),
        rings=np.array(
            [rdMolDescriptors.CalcNumRings(molecule) for molecule in molecules], dtype=np.int64
        ),
    )


def _scaffold(molecule: Chem.Mol) -> str:
    return str(MurckoScaffold.MurckoScaffoldSmiles(mol=molecule))  # type: ignore[no-untyped-call]


def _weight(molecule: Chem.Mol) -> float:
    from rdkit.Chem import Descriptors  # slow to import; processes that only parse do not need it

    return float(Descriptors.MolWt(molecule))  # type: ignore[attr-defined]


def _log_p(molecule: Chem.Mol) -> float:
    return float(rdMolDescriptors.CalcCrippenDescriptors(molecule)[0])


def _parse(text: str, limits: MoleculeLimits) -> Chem.Mol:
    _check_text(text, limits)
    if len(text) > limits.atoms:  # a shorter text cannot have too many atoms or rings
        _check_size(Chem.MolFromSmiles(text, sanitize=False), text, limits)
    molecule: Chem.Mol | None = Chem.MolFromSmiles(text)
    if molecule is not None:
        _check_atoms(molecule.GetNumAtoms(), text, limits)
        return molecule
    rough: Chem.Mol | None = Chem.MolFromSmiles(text, sanitize=False)
    if rough is None:
        raise MoleculeError(f"{_quoted(text)} is not a valid SMILES string")
    try:
        Chem.SanitizeMol(rough)
    except ValueError as error:
        raise MoleculeError(f"{_quoted(text)} cannot be sanitized by RDKit: {error}") from error
    raise MoleculeError(f"{_quoted(text)} cannot be read by RDKit")


def _check_text(text: str, limits: MoleculeLimits) -> None:
    if not text.strip():
        raise MoleculeError("the SMILES is empty")  # RDKit would return a molecule without atoms
    if len(text) > limits.characters:
        raise MoleculeError(
            f"{_quoted(text)} has more than {limits.characters:,} characters "
            "(`--max-atoms` raises this limit)"
        )
    if not text.isprintable():  # RDKit ignores what follows a NUL
        raise MoleculeError(f"{text[:100]!a} contains a control character")
    if _LONG_CHARGE.search(text):  # RDKit keeps the last 8 bits
        raise MoleculeError(f"{_quoted(text)} has a charge of more than two digits")


def _check_size(rough: Chem.Mol | None, text: str, limits: MoleculeLimits) -> None:
    """Reject a molecule that is too large before rings and aromaticity are computed."""
    if rough is None:
        raise MoleculeError(f"{_quoted(text)} is not a valid SMILES string")
    heavy, atoms = rough.GetNumHeavyAtoms(), rough.GetNumAtoms()
    _check_atoms(max(heavy, atoms // _ATOMS_PER_HEAVY_ATOM), text, limits)
    rings = rough.GetNumBonds() - atoms + len(Chem.GetMolFrags(rough))
    if rings > limits.rings:
        raise MoleculeError(
            f"{_quoted(text)} has {rings:,} rings; the limit is {limits.rings:,} "
            "(`--max-atoms` raises it)"
        )


def _check_atoms(atoms: int, text: str, limits: MoleculeLimits) -> None:
    if atoms > limits.atoms:
        raise MoleculeError(
            f"{_quoted(text)} has {atoms:,} atoms; the limit is {limits.atoms:,} "
            "(`--max-atoms` raises it)"
        )


def _first_line(error: Exception) -> str:
    return (str(error).splitlines() or [type(error).__name__])[0][:200]


def _quoted(text: str) -> str:
    shown = text if len(text) <= _SHOWN_CHARACTERS else f"{text[:_SHOWN_CHARACTERS]}…"
    return f"`{shown}`"


class FeatureRows:
    """Accumulates the features of molecules."""

    def __init__(self) -> None:
        self.atoms: list[int] = []
        self.bonds: list[int] = []
        self.num_atoms: list[int] = []
        self.num_bonds: list[int] = []

    def read(self, molecule: Chem.Mol) -> None:
        """Add the atoms and bonds of one molecule."""
        count, bonds = molecule.GetNumAtoms(), molecule.GetNumBonds()
        self.num_atoms.append(count)
        self.num_bonds.append(bonds)
        for index in range(count):  # twice as fast as GetAtoms()
            atom = molecule.GetAtomWithIdx(index)
            self.atoms += (
                atom.GetAtomicNum(),
                atom.GetChiralTag(),
                atom.GetTotalDegree(),
                atom.GetFormalCharge(),
                atom.GetTotalNumHs(),
                atom.GetNumRadicalElectrons(),
                atom.GetHybridization(),
                atom.GetIsAromatic(),
                atom.IsInRing(),
            )
        for index in range(bonds):
            bond = molecule.GetBondWithIdx(index)
            self.bonds += (
                bond.GetBeginAtomIdx(),
                bond.GetEndAtomIdx(),
                bond.GetBondType(),
                bond.GetStereo(),
                bond.GetIsConjugated(),
            )

    def atom_codes(self) -> Array:
        """Return the features of all atoms, ``[N, 9]`` int64."""
        values = np.array(self.atoms, dtype=np.int64).reshape(-1, len(ATOM_FEATURES))
        values[:, CHARGE] -= LOWEST_CHARGE
        values[:, HYBRIDIZATION] = HYBRIDIZATION_CODES[values[:, HYBRIDIZATION]]
        return values

    def bond_codes(self) -> Array:
        """Return begin, end and features of all bonds, ``[B, 5]``."""
        return np.array(self.bonds, dtype=np.int64).reshape(-1, 2 + len(BOND_FEATURES))

    def unsupported(self) -> Ints:
        """Return the indices of molecules with an unsupported value."""
        atoms, bonds = self.atom_codes(), self.bond_codes()[:, 2:]
        unsupported_atom = ((atoms < 0) | (atoms >= _ATOM_LIMITS)).any(axis=1)
        unsupported_bond = ((bonds < 0) | (bonds >= _BOND_LIMITS)).any(axis=1)
        of_atom = np.repeat(np.arange(len(self.num_atoms)), self.num_atoms)
        of_bond = np.repeat(np.arange(len(self.num_bonds)), self.num_bonds)
        return np.union1d(of_atom[unsupported_atom], of_bond[unsupported_bond])

    def table(self) -> GraphTable:
        """Return all molecules as graphs with sorted edges."""
        atoms, bonds = self.atom_codes(), self.bond_codes()
        twice = np.concatenate([bonds, bonds])
        src = np.concatenate([bonds[:, 0], bonds[:, 1]])
        dst = np.concatenate([bonds[:, 1], bonds[:, 0]])
        owner = np.repeat(np.arange(len(self.num_bonds)), self.num_bonds)
        order = np.lexsort((dst, src, np.concatenate([owner, owner])))
        return GraphTable(
            node_ptr=pointers(self.num_atoms),
            edge_ptr=pointers(2 * np.array(self.num_bonds, dtype=np.int64)),
            node={"node_feat": atoms.astype(FEATURE_DTYPE)},
            edge={
                "edge_src": src[order].astype(np.int32),
                "edge_dst": dst[order].astype(np.int32),
                "edge_attr": twice[order, 2:].astype(FEATURE_DTYPE),
            },
        )
