"""Three plain tables per split: graphs, nodes and edges, with a column per feature.

Where nodes are labelled there is one set of tables, and nodes say which split they are in.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from functools import partial

import numpy as np

from gsx.pyg import densify_features
from gsx.ragged import Array, Ragged, decode_texts, row_indices
from gsx.schema import ORIGINS, SPLITS, Column
from gsx.stages.export.request import Given
from gsx.storage.corpora.shared_edges import shares_parent_edges
from gsx.storage.sharing.bundle import Bundle
from gsx.storage.sharing.csv_file import Columns, write_csv
from gsx.table import GraphTable


def fill(bundle: Bundle, given: Given) -> None:
    """Write the tables of every split; labels are soft, as the corpus has them."""
    if given.corpus.info.level == "node":
        fill_nodes(bundle, given)
    for split in given.corpus.splits if given.corpus.info.level == "graph" else ():
        for name, rows in (("graphs", _graphs), ("nodes", _nodes), ("edges", _edges)):
            bundle.write(f"{split}/{name}.csv", partial(write_csv, blocks=rows(given, split)))
    for name in ("env_table.json", "corpus.json"):
        bundle.copy_file(given.corpus.artifact, name)


def _tables(given: Given, split: str) -> Iterator[GraphTable]:
    for table in given.corpus.iter_tables(split=split):
        yield densify_features(table, given.corpus.info)


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
                columns[column.name] = decode_texts(values)
            elif isinstance(values, np.ndarray) and values.ndim == 1:
                columns[column.name] = values
        yield columns


def _nodes(given: Given, split: str) -> Iterator[Columns]:
    column = given.corpus.info.column("node_feat") if not given.corpus.info.sparse else None
    for table in _tables(given, split):
        owner = row_indices(table.node_ptr)
        yield {
            "graph_id": table.dense("graph", "graph_id")[owner],
            "node": np.arange(table.total_nodes) - table.node_ptr[owner],
            **_wide(table.dense("node", "node_feat"), column, "feature"),
            **({"node_truth": table.dense("node", "node_truth")}
               if "node_truth" in table.node else {}),
        }  # fmt: skip


def _edges(given: Given, split: str) -> Iterator[Columns]:
    for table in _tables(given, split):
        yield _edge_columns(given, table)


def _edge_columns(given: Given, table: GraphTable) -> Columns:
    found: dict[str, Array] = {
        "graph_id": table.dense("graph", "graph_id")[table.edge_graph()],
        "source": table.dense("edge", "edge_src"),
        "target": table.dense("edge", "edge_dst"),
    }
    if "edge_attr" in table.edge:
        column = given.corpus.info.column("edge_attr")
        found |= _wide(table.dense("edge", "edge_attr"), column, "attribute")
    return found


def fill_nodes(bundle: Bundle, given: Given) -> None:
    """Write the nodes of all graphs, with their splits; edges that replicas share, once.

    Sparse features are a table of their own, a row per value that is not zero.
    """
    tables: dict[str, Callable[[Given], Iterator[Columns]]] = {
        "graphs": _structures, "nodes": _labelled, "edges": _own_edges,
    }  # fmt: skip
    if given.corpus.info.sparse:
        tables["features"] = _features
    for name, rows in tables.items():
        bundle.write(f"{name}.csv", partial(write_csv, blocks=rows(given)))


def _structures(given: Given) -> Iterator[Columns]:
    for table in given.corpus.iter_tables():
        parents = table.lists("graph", "provenance.parents")
        own = table.dense("graph", "graph_id")
        edges_of = own.copy()
        borrowed = shares_parent_edges(table)
        edges_of[borrowed] = parents.values[parents.ptr[:-1][borrowed]]
        yield {
            "graph_id": own,
            "origin": np.array(ORIGINS)[table.dense("graph", "origin")].tolist(),
            "edges_of": edges_of,
            "num_nodes": table.num_nodes,
            "num_edges": table.num_edges,
        }


def _labelled(given: Given) -> Iterator[Columns]:
    info = given.corpus.info
    for table in given.corpus.iter_tables():
        y = table.dense("node", "node_y")
        found: dict[str, Array | list[str]] = {
            **_places(table),
            "split": np.array(SPLITS)[table.dense("node", "node_split")].tolist(),
            "env_id": table.dense("node", "node_env_id"),
            "domain_id": table.dense("node", "node_domain_id"),
            "label": table.dense("node", "node_label"),
            **{f"y_{_word(name)}": y[:, i] for i, name in enumerate(info.outputs)},
        }
        if not info.sparse:
            features = table.dense("node", "node_feat")
            found |= _wide(features, info.column("node_feat"), "feature")
        yield found


def _features(given: Given) -> Iterator[Columns]:
    for table in given.corpus.iter_tables():
        index = table.lists("node", "node_feat_index")
        owner = row_indices(index.ptr)
        places = {name: values[owner] for name, values in _places(table).items()}
        value = table.lists("node", "node_feat_value").values
        yield {**places, "feature": index.values, "value": value}


def _places(table: GraphTable) -> dict[str, Array]:
    owner = row_indices(table.node_ptr)
    return {
        "graph_id": table.dense("graph", "graph_id")[owner],
        "node": np.arange(table.total_nodes) - table.node_ptr[owner],
    }


def _own_edges(given: Given) -> Iterator[Columns]:
    for table in given.corpus.iter_tables():
        own = ~shares_parent_edges(table)
        if own.any():
            yield _edge_columns(given, table.filter(own))


def _wide(values: Array, column: Column | None, word: str) -> dict[str, Array]:
    """Return one column per feature, named where it has a name."""
    names = [feature.name for feature in column.features or ()] if column is not None else []
    names = names or [f"{word}_{number}" for number in range(values.shape[1])]
    return {_word(name): values[:, place] for place, name in enumerate(names)}


def _word(name: str) -> str:
    """Return a name that needs no quotes in a header."""
    return "".join(letter if letter.isalnum() else "_" for letter in name)
