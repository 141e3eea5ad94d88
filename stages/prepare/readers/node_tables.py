"""Read one graph whose nodes are labelled from two tables (``nodes``): its nodes and its edges."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

import numpy as np

from gsx.errors import StageError
from gsx.ragged import Array, Ints, pointers
from gsx.stages.prepare.readers.csv_tables import MISSING, Table, read_table
from gsx.stages.prepare.readers.parsed import ParsedGraphs, graph_table, told_features
from gsx.stages.prepare.splitting import DomainKey


def read_nodes(path: Path, chosen: Mapping[str, Any]) -> ParsedGraphs:
    """Read the tables of a user."""
    edges = Path(chosen["edges"])
    nodes = read_table(path, path.name, "a table of nodes with a header")
    number = _numbers_of_ids(nodes, chosen["id_column"])
    src, dst, warnings = _ends(read_table(edges, edges.name, "a table of edges"), number, path.name)
    names = feature_names(nodes, chosen)
    feat, _ = told_features(_matrix(nodes, names), "node_feature", f"{path.name}: features")
    ends, count = np.stack([src, dst]), nodes.count
    table, _ = graph_table(pointers([count]), pointers([len(src)]), ends, feat, None)
    domain = chosen["domain"].removeprefix("column:")
    columns: dict[str, Sequence[DomainKey]] = {}
    if domain != chosen["domain"]:
        columns[domain] = nodes.keys(domain).cells
    return ParsedGraphs(
        where=path.name,
        level="node",
        table=table,
        targets=np.stack([nodes.numbers(target) for target in chosen["targets"]], axis=1),
        names=chosen["targets"],
        columns=columns,
        given=nodes.splits(chosen["split_column"]) if chosen["split_column"] else None,
        warnings=warnings if names else (*warnings, "nodes have no features: each gets a 1"),
    )


def _numbers_of_ids(nodes: Table, column: str) -> dict[str, int]:
    """Return the row of every node by its id."""
    hint = " Name it with `--id-column`." if column == "id" else ""
    ids = [cell.strip() for cell in nodes.column(column, hint)]
    number = {id_: row for row, id_ in enumerate(ids)}
    if len(number) < len(ids):
        row = next(row for row, id_ in enumerate(ids) if number[id_] != row)
        raise StageError(
            f"{nodes.name}, row {row}: {column} `{ids[row]}` stands again at row "
            f"{number[ids[row]]}; every node needs an id of its own."
        )
    return number


def _ends(
    edges: Table, number: Mapping[str, int], nodes: str
) -> tuple[Ints, Ints, tuple[str, ...]]:
    """Return both ends of all edges, which the first two columns name by id."""
    if len(edges.header) < 2:
        raise StageError(
            f"{edges.name} has one column, `{edges.header[0]}`; the first two should hold the ids "
            "of the nodes that an edge joins."
        )
    found = []
    for place in range(2):
        cells = [row[place].strip() for row in edges.rows()]
        rows = [number.get(cell, -1) for cell in cells]
        if -1 in rows:
            row = rows.index(-1)
            raise StageError(
                f"{edges.name}, row {row}: {edges.header[place]} is `{cells[row]}`; {nodes} has no "
                "node of this id."
            )
        found.append(np.array(rows, dtype=np.int64))
    more = edges.header[2:]
    warning = f"columns of {edges.name} that are not read: {', '.join(more)}"
    return found[0], found[1], (warning,) if more else ()


def feature_names(nodes: Table, chosen: Mapping[str, Any]) -> list[str]:
    """Return the columns that are features: those named, else all that have no other use."""
    if chosen["feature_columns"]:
        return list(chosen["feature_columns"])
    used = {chosen["id_column"], *chosen["targets"], chosen["split_column"]}
    used.add(chosen["domain"].removeprefix("column:"))
    return [name for name in nodes.header if name not in used]


def _matrix(nodes: Table, names: list[str]) -> Array | None:
    """Return features ``[N, F]``; a cell that is no number is an error."""
    if not names:
        return None
    found = np.empty((nodes.count, len(names)), dtype=np.float64)
    for place, name in enumerate(names):
        cells = nodes.column(name)
        try:
            found[:, place] = np.array(cells, dtype=np.str_).astype(np.float64)
        except ValueError:
            row = next(row for row, cell in enumerate(cells) if not _is_number(cell))
            what = "missing" if cells[row].strip().lower() in MISSING else f"`{cells[row]}`"
            raise StageError(
                f"{nodes.name}, row {row}: the feature {name} is {what}; expected a number. Name "
                "the columns that are features with `--feature-column NAME …`."
            ) from None
    return found


def _is_number(cell: str) -> bool:
    try:
        float(cell)
    except ValueError:
        return False
    return True
