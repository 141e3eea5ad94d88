"""Molecules drawn by RDKit, with the colors of the page."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np
from rdkit import Chem, rdBase
from rdkit.Chem import rdDepictor
from rdkit.Chem.Draw import rdMolDraw2D

from gsx.ragged import Array
from gsx.stages.chem.rdkit_builder import bonds_of, molecules_of
from gsx.table import GraphTable

WIDTH, HEIGHT = 240, 190
_STAND_INS = {"c": 1, "e": 2, "b": 3, "bridge": 4, **{f"w{n}": 10 + n for n in range(6)}}
"""Shades of black that stand for roles until the page's own colors take their place."""

_ATOMS = {"#000000": "currentColor", "#0000FF": "var(--a-n)", "#FF0000": "var(--a-o)"}
"""Colors of atoms that a dark page would swallow."""


def draw_molecule(graph: GraphTable, roles: Sequence[str], bridges: Array) -> str | None:
    """Return the picture of one molecule, or None when RDKit refuses it."""
    bonds = bonds_of(graph)
    features = graph.dense("node", "node_feat")
    with rdBase.BlockLogs():
        try:
            ((_, molecule),) = molecules_of(graph, features, bonds, ())
            Chem.SanitizeMol(molecule)
            rdDepictor.Compute2DCoords(molecule)
        except (ValueError, RuntimeError):  # what RDKit raises for a molecule that is none
            return None
    atoms = {atom: _shade(role) for atom, role in enumerate(roles) if role in _STAND_INS}
    marked = np.flatnonzero(bridges[bonds.edge]).tolist()
    drawer = rdMolDraw2D.MolDraw2DSVG(WIDTH, HEIGHT)
    options: Any = drawer.drawOptions()
    options.clearBackground = False
    options.padding = 0.06
    options.fixedBondLength = 34  # pixels, or less where the molecule is large
    options.highlightRadius = 0.36
    options.highlightBondWidthMultiplier = 14
    drawer.DrawMolecule(
        molecule,
        highlightAtoms=list(atoms),
        highlightAtomColors=atoms,
        highlightBonds=marked,
        highlightBondColors={bond: _shade("bridge") for bond in marked},
    )
    drawer.FinishDrawing()
    return _on_page(drawer.GetDrawingText())


def _shade(role: str) -> tuple[float, float, float]:
    return (0.0, 0.0, _STAND_INS[role] / 255)


def _on_page(svg: str) -> str:
    """Keep the picture, drop the prologue, and let the page choose colors."""
    svg = svg[svg.index("<svg") :].replace("\n", "")
    body = svg.partition(">")[2]
    for role, shade in _STAND_INS.items():
        body = body.replace(f"#0000{shade:02X}", f"var(--m-{role})")
    for color, name in _ATOMS.items():
        body = body.replace(color, name)
    body = body.replace("<!-- END OF HEADER -->", "")
    return f'<svg class="molecule" viewBox="0 0 {WIDTH} {HEIGHT}" aria-hidden="true">{body}'
