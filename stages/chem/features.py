"""Atom and bond features: names, categories and column indices.

Codes and their order are those of PyG's ``from_smiles``, so that models for it can be used.
"""

from __future__ import annotations

from collections.abc import Mapping

from gsx.schema import CorpusInfo

ATOM_FEATURES: Mapping[str, tuple[str, ...]] = {
    "atomic_num": tuple(map(str, range(119))),
    "chirality": (
        "CHI_UNSPECIFIED",
        "CHI_TETRAHEDRAL_CW",
        "CHI_TETRAHEDRAL_CCW",
        "CHI_OTHER",
        "CHI_TETRAHEDRAL",
        "CHI_ALLENE",
        "CHI_SQUAREPLANAR",
        "CHI_TRIGONALBIPYRAMIDAL",
        "CHI_OCTAHEDRAL",
    ),
    "degree": tuple(map(str, range(11))),
    "formal_charge": tuple(map(str, range(-5, 7))),
    "num_hs": tuple(map(str, range(9))),
    "num_radical_electrons": tuple(map(str, range(5))),
    "hybridization": ("UNSPECIFIED", "S", "SP", "SP2", "SP3", "SP3D", "SP3D2", "OTHER"),
    "is_aromatic": ("False", "True"),
    "is_in_ring": ("False", "True"),
}
"""Categories of every atom feature; ``degree`` includes implicit hydrogens, as in RDKit."""

BOND_FEATURES: Mapping[str, tuple[str, ...]] = {
    "bond_type": (
        "UNSPECIFIED",
        "SINGLE",
        "DOUBLE",
        "TRIPLE",
        "QUADRUPLE",
        "QUINTUPLE",
        "HEXTUPLE",
        "ONEANDAHALF",
        "TWOANDAHALF",
        "THREEANDAHALF",
        "FOURANDAHALF",
        "FIVEANDAHALF",
        "AROMATIC",
        "IONIC",
        "HYDROGEN",
        "THREECENTER",
        "DATIVEONE",
        "DATIVE",
        "DATIVEL",
        "DATIVER",
        "OTHER",
        "ZERO",
    ),
    "stereo": (
        "STEREONONE",
        "STEREOANY",
        "STEREOZ",
        "STEREOE",
        "STEREOCIS",
        "STEREOTRANS",
    ),
    "is_conjugated": ("False", "True"),
}
"""Categories of every bond feature."""

FEATURE_DTYPE = "uint8"
"""Data type of both feature columns."""

ATOMIC_NUM = 0
CHIRALITY = 1
CHARGE = 3
NUM_HS = 4
RADICALS = 5
HYBRIDIZATION = 6
AROMATIC = 7
"""Column indices in ``node_feat``."""
BOND_TYPE = 0
STEREO = 1
CONJUGATED = 2
"""Column indices in ``edge_attr``."""

LOWEST_CHARGE = int(ATOM_FEATURES["formal_charge"][0])
HYDROGEN = 1
SINGLE, DOUBLE, TRIPLE = 1, 2, 3
"""Bond types that hydrogens can replace; the code is the bond order."""
DATIVE = BOND_FEATURES["bond_type"].index("DATIVE")
SP3 = ATOM_FEATURES["hybridization"].index("SP3")


def is_molecular(info: CorpusInfo) -> bool:
    """Return whether the graphs of a corpus are molecules with the features of this module."""
    columns = {column.name: column for column in info.columns}
    if "smiles" not in columns or "edge_attr" not in columns:
        return False
    names = [feature.name for feature in columns["node_feat"].features or ()]
    return names == list(ATOM_FEATURES)
