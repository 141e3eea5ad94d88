"""Limits on molecules, because some steps of RDKit take cubic time."""

from __future__ import annotations

from dataclasses import dataclass

MAX_ATOMS = 600
"""Atoms of a molecule, by default; Bemis-Murcko scaffolds of larger ones take 0.2 seconds each."""
_CHARACTERS_PER_ATOM = 32


@dataclass(frozen=True, slots=True)
class MoleculeLimits:
    """Largest molecule that is read; others are unreadable."""

    atoms: int
    rings: int
    """Independent rings: bonds minus atoms plus fragments."""
    scaffold_atoms: int
    """Atoms of the largest molecule whose scaffold is computed; larger ones get an empty one."""

    @property
    def characters(self) -> int:
        """Characters of the longest SMILES that is read."""
        return _CHARACTERS_PER_ATOM * self.atoms


def raw_limits(max_atoms: int = MAX_ATOMS) -> MoleculeLimits:
    """Return the limits for raw files, all of which follow from the number of atoms."""
    return MoleculeLimits(atoms=max_atoms, rings=max_atoms // 2, scaffold_atoms=max_atoms)


CORPUS_LIMITS = MoleculeLimits(atoms=5 * MAX_ATOMS, rings=MAX_ATOMS, scaffold_atoms=MAX_ATOMS)
"""Limits for molecules of a corpus, which are joined from several molecules of raw files."""
