"""A user's own data: tables of molecules or of nodes, datasets of TU, OGB and GOOD, PyG files.

Graphs, splits and environments are made by the code that makes the datasets that are built in; what
those have published, options say here.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from pathlib import Path
from typing import Any

import numpy as np

from gsx.errors import StageError, UsageError
from gsx.stages.prepare.dataset import (
    DatasetFamily,
    DatasetMetadata,
    DatasetRequest,
    PreparedDataset,
    reject_num_graphs,
)
from gsx.stages.prepare.readers.good import good_files, read_good
from gsx.stages.prepare.readers.node_tables import read_nodes
from gsx.stages.prepare.readers.ogb import ogb_files, read_ogb
from gsx.stages.prepare.readers.parsed import ParsedGraphs, one_way_warning
from gsx.stages.prepare.readers.pyg import read_pyg
from gsx.stages.prepare.readers.tu import read_graphs, tu_parts
from gsx.stages.prepare.targets import TaskOption
from gsx.stages.prepare.user.options import FLAG, options, plain_name
from gsx.stages.prepare.user.parsed_dataset import open_parsed
from gsx.stages.prepare.user.smiles import open_smiles

_READERS: Mapping[str, Callable[[Path, Mapping[str, Any]], ParsedGraphs]] = {
    "ogb": read_ogb,
    "pyg": read_pyg,
    "good": read_good,
    "nodes": read_nodes,
}


def card(name: str) -> DatasetMetadata:
    """Say that nothing is known before the files are read."""
    del name
    return DatasetMetadata(shift="yours", counts={})


def files(name: str, chosen: Mapping[str, Any]) -> dict[str, Path]:
    """Return the files to read by the names that stand for them."""
    path = Path(chosen["file"])
    if name == "ogb":
        return ogb_files(path, chosen)
    if name == "good":
        return good_files(path, chosen)
    if name == "tu" and path.is_dir():
        return _tu_files(path)
    paths = [path, Path(chosen["edges"])] if name == "nodes" else [path]
    for each in paths:
        if not each.is_file():
            found = f"{each} is a folder, not a file" if each.is_dir() else f"no file {each}"
            raise UsageError(f"{found}. Name it: `gsx prepare {FLAG[name]}`.")
    if len({plain_name(each.name) for each in paths}) < len(paths):
        raise UsageError(f"two files are called {path.name}; give them names of their own.")
    return {plain_name(each.name): each for each in paths}


def open_own(order: DatasetRequest) -> PreparedDataset:
    """Read and split the files of a user."""
    chosen = options(order.name, order.options)
    path = Path(chosen["file"])
    if order.name == "smiles":
        source = open_smiles(order, chosen)
    elif order.name == "tu":
        source = open_parsed(order, chosen, _read_tu(path, chosen))
    else:
        found = _READERS[order.name](path, chosen)
        if order.name == "pyg" and chosen["domain"] == "auto":
            chosen["domain"] = "degree" if found.level == "node" else "size"
        source = open_parsed(order, chosen, found)
    if len(source.info.environments) < 2 and chosen["environments"] != 1:
        raise StageError(
            f"{path.name}: all {source.info.level}s to train on are of one environment, "
            f"{source.info.environments[0].name}. Choose another domain, or say `--envs 1` if that "
            "is meant."
        )
    return source


def _read_tu(path: Path, chosen: Mapping[str, Any]) -> ParsedGraphs:
    """Read TU files: classes where they have labels, else values."""
    graphs = read_graphs(_tu_folder(path), path.name)
    task: TaskOption = chosen["task"]
    told: TaskOption
    if graphs.labels is None or (task == "regression" and graphs.values is not None):
        if graphs.values is None:
            raise StageError(f"{path.name}: there are no labels of graphs")
        values = graphs.values.astype(np.float64)
        names = tuple(f"value_{place}" for place in range(values.shape[1]))
        told = "regression"
    else:
        values = graphs.labels.astype(np.float64)[:, None]
        known = np.unique(graphs.labels)
        names, told = ("label",), "classification"
        if len(known) == 2 and task in ("auto", "binary"):
            names, told = (f"label_{known[1]}",), "binary"
            values = (values == known[1]).astype(np.float64)
    return ParsedGraphs(
        where=path.name,
        table=graphs.table,
        node_words=graphs.node_words,
        edge_words=graphs.edge_words,
        targets=values,
        names=names,
        task=told,
        warnings=one_way_warning(graphs.completed),
    )


def _tu_files(path: Path) -> dict[str, Path]:
    found = [each for each in sorted(_tu_folder(path).iterdir()) if each.suffix == ".txt"]
    parts = tu_parts([each.name for each in found])
    if parts:
        named = {member for files in parts.values() for member in files.values()}
        found = [each for each in found if each.name in named]
    return {plain_name(each.name): each for each in found}


def _tu_folder(path: Path) -> Path:
    """Return the folder of TU files; PyG keeps them in ``raw``."""
    if path.is_dir() and not list(path.glob("*_A.txt")) and (path / "raw").is_dir():
        return path / "raw"
    return path


FAMILY = DatasetFamily(
    names=tuple(FLAG),
    listed=False,
    metadata=card,
    size=reject_num_graphs,
    options=options,
    extra_files=files,
    open=open_own,
)
