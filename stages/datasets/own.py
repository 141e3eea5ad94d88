"""A user's own graphs: molecules in a table (``smiles``), or a dataset in TU files (``tu``).

Graphs, splits and environments are made by the code that makes the datasets that are built in; what
those have published, options say here.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np

from gsx.columns import SPLITS, CorpusInfo
from gsx.errors import StageError, UsageError
from gsx.ragged import Ints
from gsx.seeds import rng
from gsx.stages.datasets.family import Card, Family, Order, Source, size_of_files
from gsx.stages.datasets.labels import Labels, TaskAsked, labels_of
from gsx.stages.datasets.molecules import SOURCES, About, Asked, open_molecules
from gsx.stages.datasets.own_options import FLAG, options, plain_name
from gsx.stages.datasets.placing import (
    Key,
    Rule,
    builder,
    domains_of,
    empty_split_warnings,
    environments,
    infer_environments,
    place,
    placed_columns,
)
from gsx.stages.datasets.tables import MISSING, Table, read_table
from gsx.stages.datasets.tu import edge_warnings, tu_columns
from gsx.stages.datasets.tu_files import TuGraphs, read_graphs, tu_parts
from gsx.stages.kernels.splits import split_counts

_SPLIT_WORDS = {
    **{name: number for number, name in enumerate(SPLITS[:5])},
    "val": SPLITS.index("ood_val"),
    "valid": SPLITS.index("ood_val"),
    "validation": SPLITS.index("ood_val"),
    "test": SPLITS.index("ood_test"),
}


def card(name: str) -> Card:
    """Say that nothing is known before the files are read."""
    del name
    return Card(shift="yours", counts={})


def files(name: str, chosen: Mapping[str, Any]) -> dict[str, Path]:
    """Return the files to read by the names that stand for them."""
    path = Path(chosen["file"])
    if name == "tu" and path.is_dir():
        folder = _tu_folder(path)
        found = [each for each in sorted(folder.iterdir()) if each.suffix == ".txt"]
        parts = tu_parts([each.name for each in found])
        if parts:
            named = {member for files in parts.values() for member in files.values()}
            found = [each for each in found if each.name in named]
        return {plain_name(each.name): each for each in found}
    if not path.is_file():
        raise UsageError(f"no file {path}. Name it: `gsx prepare {FLAG[name]}`.")
    return {plain_name(path.name): path}


def open_own(order: Order) -> Source:
    """Read and split the files of a user."""
    chosen = options(order.name, order.options)
    source = _open_smiles(order, chosen) if order.name == "smiles" else _open_tu(order, chosen)
    if len(source.info.environments) < 2 and chosen["environments"] != 1:
        raise StageError(
            f"{Path(chosen['file']).name}: all graphs to train on are of one environment, "
            f"{source.info.environments[0].name}. Choose another domain, or say `--envs 1` if that "
            "is meant."
        )
    return source


def _open_smiles(order: Order, chosen: Mapping[str, Any]) -> Source:
    path = Path(chosen["file"])
    table = read_table(path, path.name)
    hint = " Name it with `--smiles-column`." if chosen["smiles_column"] == "smiles" else ""
    texts = [cell.strip() for cell in table.column(chosen["smiles_column"], hint)]
    values = np.stack([table.numbers(target) for target in chosen["targets"]], axis=1)
    labels = labels_of(values, chosen["targets"], chosen["task"], chosen["metric"], path.name)
    domain = chosen["domain"].removeprefix("column:")
    column = _keys(table, domain) if domain != chosen["domain"] else None
    asked = Asked(
        where=path.name,
        smiles=texts,
        labels=labels,
        domain=domain,
        column=column,
        rule=_rule(chosen),
        given=_given(table, chosen["split_column"]) if chosen["split_column"] else None,
        infer=chosen["environments"] == "infer",
        strict=chosen["strict"],
    )
    about = About(name=chosen["name"], description=_describe(chosen))
    source = open_molecules(asked, about, rng(order.seed, "prepare", order.name, "id"))
    return _with_warnings(source, labels)


def _open_tu(order: Order, chosen: Mapping[str, Any]) -> Source:
    path = Path(chosen["file"])
    graphs = read_graphs(_tu_folder(path), path.name)
    labels = _tu_labels(graphs, chosen, path.name)
    stream = rng(order.seed, "prepare", order.name, "id")
    sizes = graphs.table.num_nodes
    placed = place(domains_of(sizes.tolist(), "nodes"), _rule(chosen), stream, where=path.name)
    if chosen["environments"] == "infer":
        placed = infer_environments(placed, graphs.table, graphs.node_words, stream)
    columns = placed_columns(
        np.arange(len(sizes)),
        placed.split,
        placed.env_id,
        placed.domains.number,
        labels.y,
        labels.label,
    )
    counts = split_counts(placed.split)
    source = Source(
        info=CorpusInfo(
            name=chosen["name"],
            task=labels.task,
            metric=labels.metric,
            outputs=labels.outputs,
            domain="size",
            domains=placed.domains.texts(),
            environments=environments(placed),
            columns=tu_columns(graphs, outputs=len(labels.outputs)),
            num_features=graphs.table.dense("node", "node_feat").shape[1],
            description=_describe(chosen),
        ),
        split_sizes=counts,
        build=builder(graphs.table.with_columns(graph=columns)),
        warnings=empty_split_warnings(counts) + edge_warnings(graphs),
    )
    return _with_warnings(source, labels)


def _tu_labels(graphs: TuGraphs, chosen: Mapping[str, Any], where: str) -> Labels:
    """Return classes where files have labels, else values."""
    task: TaskAsked = chosen["task"]
    if graphs.labels is None or (task == "regression" and graphs.values is not None):
        values = graphs.values
        if values is None:
            raise StageError(f"{where}: there are no labels of graphs")
        names = [f"value_{place}" for place in range(values.shape[1])]
        task = "regression" if task == "auto" else task
        return labels_of(values.astype(np.float64), names, task, chosen["metric"], where)
    values = graphs.labels.astype(np.float64)[:, None]
    known = np.unique(graphs.labels)
    name = "label"
    if len(known) == 2 and task in ("auto", "binary"):
        task, name = "binary", f"label_{known[1]}"
        values = (values == known[1]).astype(np.float64)
    task = "classification" if task == "auto" else task
    return labels_of(values, [name], task, chosen["metric"], where)


def _with_warnings(source: Source, labels: Labels) -> Source:
    """Add what a user should know of splits and labels."""
    warnings = list(source.warnings)
    if not source.split_sizes["ood_test"]:
        warnings.append(
            "nothing is left to test on: the last domains are too large for these shares. Ask for "
            "a smaller share to train on, such as `--ratios 0.5/0.25/0.1`, or another domain"
        )
    if labels.unknown:
        warnings.append(f"nothing is known of {labels.unknown:,} graphs: they have no label")
    return replace(source, warnings=tuple(warnings))


def _rule(chosen: Mapping[str, Any]) -> Rule:
    train, val, held_out = chosen["ratios"]
    count = chosen["environments"]
    return Rule(
        kind=chosen["rule"],
        descending=chosen["direction"] == "descending",
        train=train,
        val=val,
        held_out=held_out,
        environments=1 if count == "infer" else count,
    )


def _keys(table: Table, column: str) -> list[Key]:
    """Return the cells of a column as whole numbers, as numbers or, if one is neither, as text."""
    cells = [cell.strip() for cell in table.column(column)]
    for row, cell in enumerate(cells):
        if cell.lower() in MISSING:
            raise StageError(
                f"{table.name}, row {row}: {column} is `{cell}`; every row needs a domain."
            )
    for read in (int, float):
        try:
            return [read(cell) for cell in cells]
        except ValueError:
            continue
    return list(cells)


def _given(table: Table, column: str) -> Ints:
    """Return the split that a column names, per row."""
    found = []
    for row, cell in enumerate(table.column(column)):
        code = _SPLIT_WORDS.get(cell.strip().lower())
        if code is None:
            known = ", ".join(_SPLIT_WORDS)
            raise StageError(
                f"{table.name}, row {row}: {column} is `{cell}`; expected one of {known}."
            )
        found.append(code)
    return np.array(found, dtype=np.int64)


def _describe(chosen: Mapping[str, Any]) -> str:
    return (
        f"A user's own graphs, split by {chosen['domain']} ({chosen['rule']}, "
        f"{chosen['direction']})."
    )


def _tu_folder(path: Path) -> Path:
    """Return the folder of TU files; PyG keeps them in ``raw``."""
    if path.is_dir() and not list(path.glob("*_A.txt")) and (path / "raw").is_dir():
        return path / "raw"
    return path


FAMILY = Family(
    names=tuple(FLAG),
    listed=False,
    card=card,
    size=size_of_files,
    options=options,
    more_files=files,
    open=open_own,
    sources=(
        "gsx.stages.datasets.own",
        "gsx.stages.datasets.own_options",
        "gsx.stages.datasets.labels",
        "gsx.stages.datasets.tu",
        "gsx.stages.datasets.tu_files",
        "gsx.stages.kernels.clusters",
        *SOURCES,
    ),
)
