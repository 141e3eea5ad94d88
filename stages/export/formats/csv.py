"""Format ``csv``: tables of graphs, nodes and edges per split, with one column per feature.

Node-labelled corpora have one set of tables; a column of the nodes names their split.
"""

from __future__ import annotations

from collections.abc import Callable, Collection, Iterator
from functools import partial

import numpy as np

from gsx.dense_features import densify_features
from gsx.escape import column_names
from gsx.ragged import Array, Ragged, decode_texts, row_indices
from gsx.schema import ORIGINS, SPLITS, Column, CorpusInfo
from gsx.stages.export.request import ExportRequest
from gsx.storage.corpora.shared_edges import shares_parent_edges
from gsx.storage.sharing.bundle import Bundle
from gsx.storage.sharing.csv_file import Columns, write_csv
from gsx.table import GraphTable


def write(bundle: Bundle, request: ExportRequest) -> None:
    """Write the tables of every split; labels stay soft, as in the corpus."""
    if request.corpus.info.level == "node":
        _write_node_corpus(bundle, request)
    for split in request.corpus.splits if request.corpus.info.level == "graph" else ():
        for name, rows in (
            ("graphs", _graph_blocks),
            ("nodes", _node_blocks),
            ("edges", _edge_blocks),
        ):
            bundle.write(f"{split}/{name}.csv", partial(write_csv, blocks=rows(request, split)))
    for name in ("env_table.json", "corpus.json"):
        bundle.copy_file(request.corpus.artifact, name)


def _tables(request: ExportRequest, split: str) -> Iterator[GraphTable]:
    for table in request.corpus.iter_tables(split=split):
        yield densify_features(table, request.corpus.info)


def _graph_blocks(request: ExportRequest, split: str) -> Iterator[Columns]:
    info = request.corpus.info
    for table in _tables(request, split):
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
        standard = set(columns)
        columns |= _target_columns(y, info)
        for column in info.columns:
            values = table.graph.get(column.name)
            if column.name in standard or column.name.startswith(("provenance", "split", "y")):
                continue
            (name,) = column_names([column.name], taken=columns)
            if column.dtype == "text" and isinstance(values, Ragged):
                columns[name] = decode_texts(values)
            elif isinstance(values, np.ndarray) and values.ndim == 1:
                columns[name] = values
        yield columns


def _node_blocks(request: ExportRequest, split: str) -> Iterator[Columns]:
    column = request.corpus.info.column("node_feat") if not request.corpus.info.sparse else None
    for table in _tables(request, split):
        owner = row_indices(table.node_ptr)
        yield {
            "graph_id": table.dense("graph", "graph_id")[owner],
            "node": np.arange(table.total_nodes) - table.node_ptr[owner],
            **_feature_columns(
                table.dense("node", "node_feat"), column, "feature",
                taken=("graph_id", "node", "node_truth"),
            ),
            **({"node_truth": table.dense("node", "node_truth")}
               if "node_truth" in table.node else {}),
        }  # fmt: skip


def _edge_blocks(request: ExportRequest, split: str) -> Iterator[Columns]:
    for table in _tables(request, split):
        yield _edge_columns(request, table)


def _edge_columns(request: ExportRequest, table: GraphTable) -> Columns:
    columns: dict[str, Array] = {
        "graph_id": table.dense("graph", "graph_id")[table.edge_graph()],
        "source": table.dense("edge", "edge_src"),
        "target": table.dense("edge", "edge_dst"),
    }
    if "edge_attr" in table.edge:
        column = request.corpus.info.column("edge_attr")
        values = table.dense("edge", "edge_attr")
        columns |= _feature_columns(values, column, "attribute", taken=columns)
    return columns


def _write_node_corpus(bundle: Bundle, request: ExportRequest) -> None:
    """Write a node-labelled corpus; edges that replicas share with their source are written once.

    Sparse features go to a separate table with one row per non-zero value.
    """
    tables: dict[str, Callable[[ExportRequest], Iterator[Columns]]] = {
        "graphs": _replica_blocks,
        "nodes": _labelled_node_blocks,
        "edges": _own_edge_blocks,
    }
    if request.corpus.info.sparse:
        tables["features"] = _sparse_feature_blocks
    for name, rows in tables.items():
        bundle.write(f"{name}.csv", partial(write_csv, blocks=rows(request)))


def _replica_blocks(request: ExportRequest) -> Iterator[Columns]:
    for table in request.corpus.iter_tables():
        parents = table.lists("graph", "provenance.parents")
        graph_id = table.dense("graph", "graph_id")
        edges_of = graph_id.copy()
        shares_edges = shares_parent_edges(table)
        edges_of[shares_edges] = parents.values[parents.ptr[:-1][shares_edges]]
        yield {
            "graph_id": graph_id,
            "origin": np.array(ORIGINS)[table.dense("graph", "origin")].tolist(),
            "edges_of": edges_of,
            "num_nodes": table.num_nodes,
            "num_edges": table.num_edges,
        }


def _labelled_node_blocks(request: ExportRequest) -> Iterator[Columns]:
    info = request.corpus.info
    for table in request.corpus.iter_tables():
        y = table.dense("node", "node_y")
        columns: dict[str, Array | list[str]] = {
            **_node_ids(table),
            "split": np.array(SPLITS)[table.dense("node", "node_split")].tolist(),
            "env_id": table.dense("node", "node_env_id"),
            "domain_id": table.dense("node", "node_domain_id"),
            "label": table.dense("node", "node_label"),
            **_target_columns(y, info),
        }
        if not info.sparse:
            features = table.dense("node", "node_feat")
            column = info.column("node_feat")
            columns |= _feature_columns(features, column, "feature", taken=columns)
        yield columns


def _sparse_feature_blocks(request: ExportRequest) -> Iterator[Columns]:
    for table in request.corpus.iter_tables():
        index = table.lists("node", "node_feat_index")
        owner = row_indices(index.ptr)
        node_ids = {name: values[owner] for name, values in _node_ids(table).items()}
        value = table.lists("node", "node_feat_value").values
        yield {**node_ids, "feature": index.values, "value": value}


def _node_ids(table: GraphTable) -> dict[str, Array]:
    owner = row_indices(table.node_ptr)
    return {
        "graph_id": table.dense("graph", "graph_id")[owner],
        "node": np.arange(table.total_nodes) - table.node_ptr[owner],
    }


def _own_edge_blocks(request: ExportRequest) -> Iterator[Columns]:
    for table in request.corpus.iter_tables():
        has_own_edges = ~shares_parent_edges(table)
        if has_own_edges.any():
            yield _edge_columns(request, table.filter(has_own_edges))


def _target_columns(y: Array, info: CorpusInfo) -> dict[str, Array]:
    """Return one column per class or task."""
    names = column_names(info.outputs, prefix="y_")
    return {name: y[:, index] for index, name in enumerate(names)}


def _feature_columns(
    values: Array, column: Column | None, prefix: str, taken: Collection[str]
) -> dict[str, Array]:
    """Return one column per feature, named after the feature or numbered."""
    names = [] if column is None else list(column.value_names)
    names = names or [f"{prefix}_{index}" for index in range(values.shape[1])]
    columns = column_names(names, taken=taken)
    return {name: values[:, index] for index, name in enumerate(columns)}
