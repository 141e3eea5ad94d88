"""Three plain tables per split: graphs, nodes and edges, with a column per feature."""

from __future__ import annotations

from collections.abc import Iterator
from functools import partial

import numpy as np

from gsx.columns import ORIGINS, Column
from gsx.pyg import densified
from gsx.ragged import Array, Ragged, rows_of, texts_of
from gsx.stages.exporting.flat import require_graphs
from gsx.stages.exporting.given import Given
from gsx.storage.bundle import Bundle
from gsx.storage.csv_file import Columns, write_csv
from gsx.table import GraphTable


def fill(bundle: Bundle, given: Given) -> None:
    """Write the tables of every split; labels are soft, as the corpus has them."""
    require_graphs(given, "csv")
    for split in given.corpus.splits:
        for name, rows in (("graphs", _graphs), ("nodes", _nodes), ("edges", _edges)):
            bundle.write(f"{split}/{name}.csv", partial(write_csv, parts=rows(given, split)))
    for name in ("env_table.json", "corpus.json"):
        bundle.carry(given.corpus.artifact, name)


def _tables(given: Given, split: str) -> Iterator[GraphTable]:
    for table in given.corpus.iter_tables(split=split):
        yield densified(table, given.corpus.info)


def _graphs(given: Given, split: str) -> Iterator[Columns]:
    info = given.corpus.info
    for table in _tables(given, split):
        columns: dict[str, Array | list[str]] = {
            "graph_id": table.dense("graph", "graph_id"),
            "env_id": table.dense("graph", "env_id"),
            "domain_id": table.dense("graph", "domain_id"),
            "origin": np.array(ORIGINS)[table.dense("graph", "origin")].tolist(),
            "num_nodes": table.num_nodes,
            "num_edges": table.num_edges,
            "label": table.dense("graph", "label"),
        }
        y = table.dense("graph", "y")
        columns |= {f"y_{_word(name)}": y[:, i] for i, name in enumerate(info.outputs)}
        for column in info.columns:
            values = table.graph.get(column.name)
            if column.name in columns or column.name.startswith(("provenance", "split", "y")):
                continue
            if column.dtype == "text" and isinstance(values, Ragged):
                columns[column.name] = texts_of(values)
            elif isinstance(values, np.ndarray) and values.ndim == 1:
                columns[column.name] = values
        yield columns


def _nodes(given: Given, split: str) -> Iterator[Columns]:
    column = given.corpus.info.column("node_feat") if not given.corpus.info.sparse else None
    for table in _tables(given, split):
        owner = rows_of(table.node_ptr)
        yield {
            "graph_id": table.dense("graph", "graph_id")[owner],
            "node": np.arange(table.total_nodes) - table.node_ptr[owner],
            **_wide(table.dense("node", "node_feat"), column, "feature"),
            **({"node_truth": table.dense("node", "node_truth")}
               if "node_truth" in table.node else {}),
        }  # fmt: skip


def _edges(given: Given, split: str) -> Iterator[Columns]:
    for table in _tables(given, split):
        found: dict[str, Array] = {
            "graph_id": table.dense("graph", "graph_id")[table.edge_graph()],
            "source": table.dense("edge", "edge_src"),
            "target": table.dense("edge", "edge_dst"),
        }
        if "edge_attr" in table.edge:
            column = given.corpus.info.column("edge_attr")
            found |= _wide(table.dense("edge", "edge_attr"), column, "attribute")
        yield found


def _wide(values: Array, column: Column | None, word: str) -> dict[str, Array]:
    """Return one column per feature, named where it has a name."""
    names = [feature.name for feature in column.features or ()] if column is not None else []
    names = names or [f"{word}_{number}" for number in range(values.shape[1])]
    return {_word(name): values[:, place] for place, name in enumerate(names)}


def _word(name: str) -> str:
    """Return a name that needs no quotes in a header."""
    return "".join(letter if letter.isalnum() else "_" for letter in name)
