"""Write canonical SMILES, and remember the order of their atoms."""

from __future__ import annotations

import numpy as np
from rdkit import Chem

from gsx.ragged import Ints, row_indices
from gsx.stages.graphs.subgraphs import Bools
from gsx.table import GraphTable

_ORDER = "_smilesAtomOutputOrder"
"""Property of a molecule that RDKit sets when it writes SMILES, such as ``[2,0,1]``."""


def _plain_smiles() -> Chem.SmilesWriteParams:
    params = Chem.SmilesWriteParams()
    params.doIsomericSmiles = False  # type: ignore[assignment]
    params.cleanStereo = False  # type: ignore[assignment]
    return params


_WRITE = _plain_smiles()


class AtomOrders:
    """Writes SMILES of molecules of a table and collects the order of their atoms.

    Molecules must be written in the order of the table.
    """

    def __init__(self, table: GraphTable) -> None:
        self._table = table
        self._graphs: list[int] = []
        self._texts: list[str] = []

    def write(self, molecule: Chem.Mol, graph: int) -> str:
        """Return the canonical SMILES, without stereo and isotopes, of the molecule of a graph."""
        text: str = Chem.MolToSmiles(molecule, _WRITE)
        self._graphs.append(graph)
        self._texts.append(molecule.GetProp(_ORDER)[1:-1])
        return text

    def flat(self, ok: Bools) -> Ints:
        """Return the number in its molecule of every written atom ``[N]``.

        Molecules that were not written or are not ``ok`` ``[G]`` keep the order of their nodes.
        """
        table = self._table
        owner = row_indices(table.node_ptr)
        order = np.arange(table.total_nodes) - table.node_ptr[owner]
        written = np.zeros(len(table), dtype=bool)
        written[self._graphs] = True
        numbers = np.fromstring(",".join(filter(None, self._texts)), dtype=np.int64, sep=",")
        is_ok = ok[owner]
        order[written[owner] & is_ok] = numbers[is_ok[written[owner]]]
        return order
