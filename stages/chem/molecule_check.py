"""The check of molecules by `gsx verify`: SMILES describe the graphs."""

from __future__ import annotations

from collections.abc import Callable

from gsx.ragged import decode_texts
from gsx.schema import CorpusInfo
from gsx.stages.chem.features import is_molecular
from gsx.table import GraphTable


def molecule_check(info: CorpusInfo) -> Callable[[GraphTable], dict[int, str]] | None:
    """Return a function that maps rows of a table to the reason why they are wrong.

    None if the graphs are not molecules. Raises ImportError without RDKit.
    """
    if not is_molecular(info):
        return None
    from gsx.stages.chem.agreement import disagreements

    return lambda table: disagreements(table, decode_texts(table.lists("graph", "smiles")))
