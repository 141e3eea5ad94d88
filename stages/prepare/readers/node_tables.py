"""Read one graph with labelled nodes (``nodes``) from a table of nodes and a table of edges."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

import numpy as np

from gsx.errors import StageError
from gsx.names import shown
from gsx.ragged import Array, Ints, pointers
from gsx.stages.prepare.readers.csv_tables import MISSING, Table, read_table
from gsx.stages.prepare.readers.parsed import ParsedGraphs, graph_table, infer_features
from gsx.stages.prepare.readers.target_columns import read_targets
from gsx.stages.prepare.splitting import DomainKey


def read_nodes(path: Path, options: Mapping[str, Any]) -> ParsedGraphs:
    """Read a table of nodes and the table of edges named in ``options``."""
    edges = Path(options["edges"])
    nodes = read_table(path, path.name, "a table of nodes with a header")
    row_of_id = _rows_by_id(nodes, options["id_column"])
    src, dst, warnings = _endpoints(
        read_table(edges, edges.name, "a table of edges"), row_of_id, path.name
    )
    taken = {options["id_column"], options["split_column"], *options["feature_columns"]}
    taken.add(options["domain"].removeprefix("column:"))
    targets = read_targets(nodes, options["targets"], options["task"], taken)
    names = feature_names(nodes, {**options, "targets": targets.names})
    feat, _ = infer_features(_matrix(nodes, names), "node_feature", f"{path.name}: features")
    ends, count = np.stack([src, dst]), nodes.count
    table, _ = graph_table(pointers([count]), pointers([len(src)]), ends, feat, None, path.name)
    domain = options["domain"].removeprefix("column:")
    columns: dict[str, Sequence[DomainKey]] = {}
    if domain != options["domain"]:
        columns[domain] = nodes.keys(domain).cells
    return ParsedGraphs(
        where=path.name,
        level="node",
        table=table,
        feature_names=tuple(names) if options["feature_names"] else (),
        targets=targets.values,
        names=targets.names,
        classes=targets.classes,
        columns=columns,
        splits=nodes.splits(options["split_column"]) if options["split_column"] else None,
        warnings=warnings
        if names
        else (*warnings, "nodes have no features; a constant feature 1 was added"),
    )


def _rows_by_id(nodes: Table, column: str) -> dict[str, int]:
    """Return the row of every node by its id."""
    hint = "Name it with `--id-column`." if column == "id" else ""
    ids = [cell.strip() for cell in nodes.column(column, hint)]
    row_of_id = {id_: row for row, id_ in enumerate(ids)}
    if len(row_of_id) < len(ids):
        row = next(row for row, id_ in enumerate(ids) if row_of_id[id_] != row)
        raise StageError(
            f"{nodes.name}, row {row}: {column} {shown(ids[row])} occurs again at row "
            f"{row_of_id[ids[row]]}. Node ids must be unique."
        )
    return row_of_id


def _endpoints(
    edges: Table, row_of_id: Mapping[str, int], nodes: str
) -> tuple[Ints, Ints, tuple[str, ...]]:
    """Return sources and targets of all edges, from the ids in the first two columns."""
    if len(edges.header) < 2:
        raise StageError(
            f"{edges.name} has one column, `{edges.header[0]}`; the first two columns must contain "
            "the ids of source and target nodes."
        )
    endpoints = []
    for column in range(2):
        cells = [row[column].strip() for row in edges.rows()]
        rows = [row_of_id.get(cell, -1) for cell in cells]
        if -1 in rows:
            row = rows.index(-1)
            raise StageError(
                f"{edges.name}, row {row}: {edges.header[column]} is {shown(cells[row])}, but "
                f"{nodes} has no node with this id."
            )
        endpoints.append(np.array(rows, dtype=np.int64))
    more = edges.header[2:]
    listed = ", ".join(more[:20]) + (", …" if len(more) > 20 else "")
    warning = f"ignored columns of {edges.name}: {listed}"
    return endpoints[0], endpoints[1], (warning,) if more else ()


def feature_names(nodes: Table, options: Mapping[str, Any]) -> list[str]:
    """Return the feature columns: those in ``options``, else all columns without another role."""
    if options["feature_columns"]:
        return list(options["feature_columns"])
    used = {options["id_column"], *options["targets"], options["split_column"]}
    used.add(options["domain"].removeprefix("column:"))
    return [name for name in nodes.header if name not in used]


def _matrix(nodes: Table, names: list[str]) -> Array | None:
    """Return features ``[N, F]``; reject cells that are not numbers."""
    if not names:
        return None
    matrix = np.empty((nodes.count, len(names)), dtype=np.float64)
    position = {name: index for index, name in enumerate(nodes.header)}
    for column, name in enumerate(names):
        if name not in position:
            nodes.column(name)  # raises the error about a missing column
        cells = [row[position[name]] for row in nodes.rows()]
        try:
            matrix[:, column] = np.fromiter(map(float, cells), dtype=np.float64, count=nodes.count)
        except ValueError:
            row = next(row for row, cell in enumerate(cells) if not _is_number(cell))
            missing = cells[row].strip().lower() in MISSING
            raise StageError(
                f"{nodes.name}, row {row}: the feature {name} is "
                f"{'missing' if missing else shown(cells[row])}; expected a number. Select feature "
                "columns with `--feature-column NAME …`."
            ) from None
    return matrix


def _is_number(cell: str) -> bool:
    try:
        float(cell)
    except ValueError:
        return False
    return True
