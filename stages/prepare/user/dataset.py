"""User data: tables of molecules or nodes, TU, OGB and GOOD datasets, and PyG files.

Graphs, splits and environments are built by the same code as those of the benchmarks. Options
select what a benchmark publishes: domain, split rule and environments.
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
from gsx.stages.prepare.readers.raw_files import exists_as_file, file_problem
from gsx.stages.prepare.readers.tu import group_tu_files, read_tu
from gsx.stages.prepare.targets import TaskOption, check_num_targets
from gsx.stages.prepare.user.options import COMMAND_OPTIONS, resolve_user_options, safe_file_name
from gsx.stages.prepare.user.parsed_dataset import open_parsed
from gsx.stages.prepare.user.smiles import open_smiles

_READERS: Mapping[str, Callable[[Path, Mapping[str, Any]], ParsedGraphs]] = {
    "ogb": read_ogb,
    "pyg": read_pyg,
    "good": read_good,
    "nodes": read_nodes,
}


def metadata(name: str) -> DatasetMetadata:
    """Return empty metadata; nothing is known before the files are read."""
    del name
    return DatasetMetadata(shift="yours", counts={})


def user_files(name: str, options: Mapping[str, Any]) -> dict[str, Path]:
    """Return the name and path of the files to read."""
    path = Path(options["file"])
    if name == "ogb":
        return ogb_files(path, options)
    if name == "good":
        return good_files(path, options)
    if name == "tu" and path.is_dir():
        return _tu_files(path)
    paths = [path, Path(options["edges"])] if name == "nodes" else [path]
    for file in paths:
        problem = file_problem(file)
        if problem is not None:
            raise UsageError(
                f"{problem}. Pass an existing file: `gsx prepare {COMMAND_OPTIONS[name]}`."
            )
    if len({safe_file_name(file.name) for file in paths}) < len(paths):
        raise UsageError(f"two files have the name {path.name}. Rename one of them.")
    return {safe_file_name(file.name): file for file in paths}


def open_user_dataset(request: DatasetRequest) -> PreparedDataset:
    """Read the files of a user and split the graphs or nodes."""
    options = resolve_user_options(request.name, request.options)
    path = Path(options["file"])
    if request.name == "smiles":
        dataset = open_smiles(request, options)
    elif request.name == "tu":
        dataset = open_parsed(request, options, _read_tu(path, options))
    else:
        parsed = _READERS[request.name](path, options)
        if request.name == "pyg" and options["domain"] == "auto":
            options["domain"] = "degree" if parsed.level == "node" else "size"
        dataset = open_parsed(request, options, parsed)
    if len(dataset.info.environments) < 2 and options["environments"] != 1:
        raise StageError(
            f"{path.name}: all training {dataset.info.level}s are in one environment, "
            f"{dataset.info.environments[0].name}. Choose another domain, or set `--envs 1` to "
            "train with a single environment."
        )
    return dataset


def _read_tu(path: Path, options: Mapping[str, Any]) -> ParsedGraphs:
    """Read TU files; targets are the graph labels if they exist, else the graph attributes."""
    graphs = read_tu(_tu_folder(path), path.name)
    task: TaskOption = options["task"]
    inferred_task: TaskOption
    if graphs.labels is None or (task == "regression" and graphs.values is not None):
        if graphs.values is None:
            raise StageError(f"{path.name} has no graph labels. Add `_graph_labels.txt`.")
        check_num_targets(graphs.values.shape[1], path.name)
        values = graphs.values.astype(np.float64)
        names = tuple(f"value_{column}" for column in range(values.shape[1]))
        inferred_task = "regression"
    else:
        values = graphs.labels.astype(np.float64)[:, None]
        classes = np.unique(graphs.labels)
        names, inferred_task = ("label",), "classification"
        if len(classes) == 2 and task in ("auto", "binary"):
            names, inferred_task = (f"label_{classes[1]}",), "binary"
            values = (graphs.labels == classes[1]).astype(np.float64)[:, None]
    return ParsedGraphs(
        where=path.name,
        table=graphs.table,
        node_words=graphs.node_words,
        edge_words=graphs.edge_words,
        targets=values,
        names=names,
        task=inferred_task,
        warnings=one_way_warning(graphs.completed),
    )


def _tu_files(path: Path) -> dict[str, Path]:
    """Return the TU files of a folder; all text files if none has the name of a TU file."""
    paths = [file for file in sorted(_tu_folder(path).iterdir()) if file.suffix == ".txt"]
    datasets = group_tu_files([file.name for file in paths])
    if datasets:
        names = {name for files in datasets.values() for name in files.values()}
        paths = [file for file in paths if file.name in names]
    paths = [file for file in paths if exists_as_file(file)]
    return {safe_file_name(file.name): file for file in paths}


def _tu_folder(path: Path) -> Path:
    """Return the folder with the TU files; PyG stores them in ``raw``."""
    if path.is_dir() and not list(path.glob("*_A.txt")) and (path / "raw").is_dir():
        return path / "raw"
    return path


FAMILY = DatasetFamily(
    names=tuple(COMMAND_OPTIONS),
    listed=False,
    metadata=metadata,
    size=reject_num_graphs,
    options=resolve_user_options,
    extra_files=user_files,
    open=open_user_dataset,
)
