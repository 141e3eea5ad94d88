"""The HIV datasets: molecules, and whether each inhibits replication of the virus.

``hiv-size`` trains on large molecules and tests on small ones; ``hiv-scaffold`` sorts molecules by
the SMILES of their scaffolds and tests on the end of that list. Splits and environments follow the
published covariate rule (``kernels.splits``) over all rows of the raw file, those included that
RDKit cannot read: they count as as many atoms as their SMILES has characters, or as having no
scaffold. Only then are they dropped, and listed. So the rows that are written have the splits they
have in the published benchmark, up to which rows of the training pool are held out: that is drawn
from a stream of our own.
"""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path

import numpy as np

from gsx.errors import StageError, UsageError
from gsx.ragged import Array
from gsx.schema import SPLITS
from gsx.seeds import rng
from gsx.stages.prepare.dataset import (
    DatasetFamily,
    DatasetMetadata,
    DatasetRequest,
    PreparedDataset,
    RawFile,
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
"""As published, unreadable rows included."""
_SHIFT = {
    "size": "Training molecules are larger than those of ood_val, and those than ood_test.",
    "scaffold": "No scaffold of training molecules is found in ood_val or ood_test.",
}
_CITATION = (
    "Z. Wu, B. Ramsundar, E. N. Feinberg, J. Gomes, C. Geniesse, A. S. Pappu, K. Leswing, "
    "V. Pande. MoleculeNet: a benchmark for molecular machine learning. Chemical Science 2018. "
    "Splits follow S. Gui, X. Li, L. Wang, S. Ji. GOOD: A Graph Out-of-Distribution Benchmark. "
    "NeurIPS 2022."
)


@dataclass(frozen=True, slots=True)
class _Rows:
    """The raw file: one entry per row."""

    smiles: list[str]
    active: Array
    """``[n]`` 1, 0, or NaN where it is not known."""


def card(name: str) -> DatasetMetadata:
    """Describe a dataset of the family."""
    counts = dict(zip(SPLITS, _COUNTS[name], strict=False))
    return DatasetMetadata(shift=name.removeprefix("hiv-"), counts=counts, raw=(_RAW,))


def size(name: str, num_graphs: int | None) -> None:
    """Refuse a number of graphs: the file decides it."""
    if num_graphs is not None:
        raise UsageError(
            f"{name} has as many graphs as its raw file has molecules; leave out num_graphs."
        )


def open_hiv(order: DatasetRequest) -> PreparedDataset:
    """Read the raw file, split its rows and make the graphs of those that can be read."""
    ((raw_name, path),) = order.raw.items()
    rows = read_rows(path, raw_name)
    shift = order.name.removeprefix("hiv-")
    asked = MoleculeRequest(
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
        rule=_RULE[order.name],
        unreadable_placed=True,
        executor=order.executor,
    )
    about = CorpusDescription(
        name=order.name,
        description=(
            "Molecules and whether each inhibits HIV replication in the screen of the Drug "
            f"Therapeutics Program. {_SHIFT[shift]} Hydrogens are counted by their atoms."
        ),
        licence="MIT (MoleculeNet); screening data of the US National Cancer Institute",
        citation=_CITATION,
    )
    return open_molecules(asked, about, rng(order.seed, "prepare", order.name, "id"))


def read_rows(path: Path, name: str) -> _Rows:
    """Read the raw table; ``name`` stands for it in errors."""
    table = read_table(path, name, _RAW.what)
    hint = f" It should be {_RAW.what}."
    smiles, cells = (table.column(column, hint) for column in ("smiles", TARGET))
    known = {"0": 0.0, "1": 1.0, "0.0": 0.0, "1.0": 1.0, "": np.nan}
    for row, cell in enumerate(cells):
        if cell.strip() not in known:
            raise StageError(f"{name}, row {row}: {TARGET} is `{cell}`; expected 0, 1 or nothing.")
    active = np.array([known[cell.strip()] for cell in cells], dtype=np.float32)
    return _Rows([text.strip() for text in smiles], active)


FAMILY = DatasetFamily(
    names=tuple(_COUNTS),
    metadata=card,
    size=size,
    open=open_hiv,
)
