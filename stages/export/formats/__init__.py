"""Export formats. To add one, write its file and add an entry to ``EXPORT_FORMATS``.

The command line reads this tuple, so this module imports nothing heavy: every ``write`` function
imports the file of its format, and with it NumPy, torch or RDKit, when it is called.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import TYPE_CHECKING

from gsx.errors import UsageError

if TYPE_CHECKING:
    from gsx.stages.export.request import ExportRequest
    from gsx.storage.sharing.bundle import Bundle


@dataclass(frozen=True, slots=True, kw_only=True)
class ExportFormat:
    """A directory layout that other tools read."""

    name: str
    """Value of ``gsx export --to``, and of ``layout`` in the manifest."""
    description: str
    write: Callable[[Bundle, ExportRequest], None]
    """Writes the corpus of a request into a bundle."""
    hard_labels: bool = False
    """Whether readers expect hard labels; ``--labels`` then sets the treatment of soft ones."""
    molecules: bool = False
    """Whether only graphs with a SMILES string are written."""
    version: int = 1
    """Increased when the same corpus must give other bytes."""


def _write_portable(bundle: Bundle, request: ExportRequest) -> None:
    from gsx.stages.export.formats import portable

    portable.write(bundle, request)


def _write_pyg(bundle: Bundle, request: ExportRequest) -> None:
    from gsx.stages.export.formats import pyg

    pyg.write(bundle, request)


def _write_good(bundle: Bundle, request: ExportRequest) -> None:
    from gsx.stages.export.formats import good

    good.write(bundle, request)


def _write_ogb(bundle: Bundle, request: ExportRequest) -> None:
    from gsx.stages.export.formats import ogb

    ogb.write(bundle, request)


def _write_dgl(bundle: Bundle, request: ExportRequest) -> None:
    from gsx.stages.export.formats import dgl

    dgl.write(bundle, request)


def _write_csv(bundle: Bundle, request: ExportRequest) -> None:
    from gsx.stages.export.formats import csv

    csv.write(bundle, request)


def _write_smi(bundle: Bundle, request: ExportRequest) -> None:
    from gsx.stages.export.formats import molecules

    molecules.write_smi(bundle, request)


def _write_sdf(bundle: Bundle, request: ExportRequest) -> None:
    from gsx.stages.export.formats import molecules

    molecules.write_sdf(bundle, request)


def _write_chemprop(bundle: Bundle, request: ExportRequest) -> None:
    from gsx.stages.export.formats import molecules

    molecules.write_chemprop(bundle, request)


EXPORT_FORMATS: tuple[ExportFormat, ...] = (
    ExportFormat(
        name="portable",
        description="Parquet shards, dataset card, Croissant metadata, checksums and a PyG loader.",
        write=_write_portable,
        version=2,
    ),
    ExportFormat(
        name="pyg",
        description="Files of PyTorch Geometric's `InMemoryDataset`, one per split.",
        write=_write_pyg,
        version=2,
    ),
    ExportFormat(
        name="good",
        description="Folders and files of the GOOD benchmark.",
        write=_write_good,
        hard_labels=True,
    ),
    ExportFormat(
        name="ogb",
        description="Folders and files of OGB's `DatasetSaver`.",
        write=_write_ogb,
        hard_labels=True,
        version=2,
    ),
    ExportFormat(
        name="dgl",
        description="Tables of DGL's `CSVDataset`.",
        write=_write_dgl,
        hard_labels=True,
    ),
    ExportFormat(
        name="csv",
        description="Plain tables of graphs, nodes and edges.",
        write=_write_csv,
    ),
    ExportFormat(
        name="smi",
        description="SMILES strings with ids and labels, one molecule per line.",
        write=_write_smi,
        molecules=True,
        version=2,
    ),
    ExportFormat(
        name="sdf",
        description="Structure-data files; coordinates only of molecules with stereo.",
        write=_write_sdf,
        molecules=True,
        version=2,
    ),
    ExportFormat(
        name="chemprop",
        description="Tables with SMILES, targets and splits for chemprop.",
        write=_write_chemprop,
        hard_labels=True,
        molecules=True,
    ),
)
"""All export formats, in the order in which help lists them."""

_BY_NAME = {export_format.name: export_format for export_format in EXPORT_FORMATS}


def format_named(name: str) -> ExportFormat:
    """Return an export format by its name."""
    if name not in _BY_NAME:
        raise UsageError(f"unknown export format `{name}`. Choose one of {', '.join(_BY_NAME)}.")
    return _BY_NAME[name]
