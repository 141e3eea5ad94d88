"""HIV datasets: molecules with a binary label, the inhibition of HIV replication.

``hiv-size`` trains on large molecules and tests on small ones. ``hiv-scaffold`` sorts molecules by
the SMILES of their scaffolds and tests on the end of that list. Splits and environments follow the
published covariate rule (``prepare.split_methods``) over all rows of the raw file, including those
that RDKit cannot parse: their size is the number of characters of their SMILES, and their scaffold
is empty. After splitting, these rows are dropped and listed. The remaining rows therefore have the
splits of the published benchmark, except for the choice of held-out training rows, which is drawn
from a random stream of gsx.
"""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path

import numpy as np

from gsx.errors import StageError
from gsx.names import shown
from gsx.ragged import Array
from gsx.schema import SPLITS
from gsx.seeds import rng
from gsx.stages.prepare.dataset import (
    DatasetFamily,
    DatasetMetadata,
    DatasetRequest,
    PreparedDataset,
    RawFile,
    reject_num_graphs,
)
from gsx.stages.prepare.molecule_dataset import CorpusDescription, MoleculeRequest, open_molecules
from gsx.stages.prepare.readers.csv_tables import read_table
from gsx.stages.prepare.splitting import SplitRule
from gsx.stages.prepare.targets import Labels

TARGET = "HIV_active"
_RULE = {
    "hiv-size": SplitRule(descending=True, train=0.8, val=0.1, held_out=0.1, environments=10),
    "hiv-scaffold": SplitRule(train=0.8, val=0.1, held_out=0.1, environments=10),
}
_RAW = RawFile(
    paths=("hiv/HIV.csv.gz", "hiv/HIV.csv"),
    what=(
        "the HIV table of MoleculeNet (moleculenet.org, 41,127 rows), "
        f"with the columns smiles and {TARGET}"
    ),
)
_COUNTS = {
    "hiv-size": (26169, 4112, 4112, 2773, 3961),
    "hiv-scaffold": (24682, 4112, 4112, 4113, 4108),
}
"""Published sizes of splits, including unreadable rows."""
_SHIFT = {
    "size": "Molecules are largest in training and smallest in ood_test; ood_val is in between.",
    "scaffold": "Scaffolds of training molecules do not occur in ood_val or ood_test.",
}
_CITATION = (
    "Z. Wu, B. Ramsundar, E. N. Feinberg, J. Gomes, C. Geniesse, A. S. Pappu, K. Leswing, "
    "V. Pande. MoleculeNet: a benchmark for molecular machine learning. Chemical Science 2018. "
    "Splits follow S. Gui, X. Li, L. Wang, S. Ji. GOOD: A Graph Out-of-Distribution Benchmark. "
    "NeurIPS 2022."
)


@dataclass(frozen=True, slots=True)
class _Rows:
    """Rows of the raw file."""

    smiles: list[str]
    active: Array
    """``[n]`` 1, 0, or NaN if missing."""


def metadata(name: str) -> DatasetMetadata:
    """Return the metadata of a dataset."""
    counts = dict(zip(SPLITS, _COUNTS[name], strict=False))
    return DatasetMetadata(shift=name.removeprefix("hiv-"), counts=counts, raw=(_RAW,))


def open_hiv(request: DatasetRequest) -> PreparedDataset:
    """Read the raw file, split its rows and build graphs of the readable ones."""
    ((raw_name, path),) = request.raw.items()
    rows = read_rows(path, raw_name)
    shift = request.name.removeprefix("hiv-")
    molecules = MoleculeRequest(
        where=raw_name,
        smiles=rows.smiles,
        labels=Labels(
            task="binary",
            metric="roc_auc",
            outputs=(TARGET,),
            y=rows.active[:, None],
            label=np.where(np.isnan(rows.active), -1, rows.active).astype(np.int64),
        ),
        domain=shift,
        rule=_RULE[request.name],
        unreadable_placed=True,
        executor=request.executor,
        progress=request.progress,
    )
    description = CorpusDescription(
        name=request.name,
        description=(
            "Molecules and whether each inhibits HIV replication in the screen of the Drug "
            f"Therapeutics Program. {_SHIFT[shift]} Hydrogens are counted by their atoms."
        ),
        licence="MIT (MoleculeNet); screening data of the US National Cancer Institute",
        citation=_CITATION,
    )
    stream = rng(request.seed, "prepare", request.name, "id")
    return open_molecules(molecules, description, stream)


def read_rows(path: Path, name: str) -> _Rows:
    """Read the raw table; errors call it ``name``."""
    table = read_table(path, name, _RAW.what)
    hint = f" Expected {_RAW.what}."
    smiles, cells = (table.column(column, hint) for column in ("smiles", TARGET))
    value_of = {"0": 0.0, "1": 1.0, "0.0": 0.0, "1.0": 1.0, "": np.nan}
    for row, cell in enumerate(cells):
        if cell.strip() not in value_of:
            raise StageError(
                f"{name}, row {row}: {TARGET} is {shown(cell)}; expected 0, 1 or an empty cell."
            )
    active = np.array([value_of[cell.strip()] for cell in cells], dtype=np.float32)
    return _Rows([text.strip() for text in smiles], active)


FAMILY = DatasetFamily(
    names=tuple(_COUNTS),
    metadata=metadata,
    size=reject_num_graphs,
    open=open_hiv,
)
