"""Drawings of molecules by RDKit, with CSS colors of the page."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np
from rdkit import Chem, rdBase
from rdkit.Chem import rdDepictor
from rdkit.Chem.Draw import rdMolDraw2D

from gsx.ragged import Array
from gsx.stages.chem.rdkit_builder import build_molecules, undirected_bonds
from gsx.table import GraphTable

WIDTH, HEIGHT = 240, 190
_PLACEHOLDERS = {"c": 1, "e": 2, "b": 3, "bridge": 4, **{f"w{n}": 10 + n for n in range(6)}}
"""Role → placeholder color, which a CSS variable of the page replaces."""

_ATOM_COLORS = {"#000000": "currentColor", "#0000FF": "var(--a-n)", "#FF0000": "var(--a-o)"}
"""Atom colors of RDKit → CSS colors, which suit a dark page too."""


def draw_molecule(graph: GraphTable, roles: Sequence[str], bridges: Array) -> str | None:
    """Return the SVG of one molecule, or None if RDKit rejects it."""
    bonds = undirected_bonds(graph)
    features = graph.dense("node", "node_feat")
    with rdBase.BlockLogs():
        try:
            ((_, molecule),) = build_molecules(graph, features, bonds, ())
            Chem.SanitizeMol(molecule)
            rdDepictor.Compute2DCoords(molecule)
        except (ValueError, RuntimeError):  # RDKit raises either for invalid molecules
            return None
    atoms = {
        atom: _placeholder_color(role) for atom, role in enumerate(roles) if role in _PLACEHOLDERS
    }
    bridge_bonds = np.flatnonzero(bridges[bonds.edge]).tolist()
    drawer = rdMolDraw2D.MolDraw2DSVG(WIDTH, HEIGHT)
    options: Any = drawer.drawOptions()
    options.clearBackground = False
    options.padding = 0.06
    options.fixedBondLength = 34  # pixels; less for large molecules
    options.highlightRadius = 0.36
    options.highlightBondWidthMultiplier = 14
    drawer.DrawMolecule(
        molecule,
        highlightAtoms=list(atoms),
        highlightAtomColors=atoms,
        highlightBonds=bridge_bonds,
        highlightBondColors={bond: _placeholder_color("bridge") for bond in bridge_bonds},
    )
    drawer.FinishDrawing()
    return _with_page_colors(drawer.GetDrawingText())


def _placeholder_color(role: str) -> tuple[float, float, float]:
    return (0.0, 0.0, _PLACEHOLDERS[role] / 255)


def _with_page_colors(svg: str) -> str:
    """Strip the XML prologue and replace colors by CSS variables."""
    svg = svg[svg.index("<svg") :].replace("\n", "")
    body = svg.partition(">")[2]
    for role, code in _PLACEHOLDERS.items():
        body = body.replace(f"#0000{code:02X}", f"var(--m-{role})")
    for color, name in _ATOM_COLORS.items():
        body = body.replace(color, name)
    body = body.replace("<!-- END OF HEADER -->", "")
    return f'<svg class="molecule" viewBox="0 0 {WIDTH} {HEIGHT}" aria-hidden="true">{body}'
