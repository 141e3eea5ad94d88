"""Format ``dgl``: the files of DGL's ``CSVDataset``. Columns hold numbers or lists of numbers."""

from __future__ import annotations

from collections.abc import Iterator
from functools import partial

import numpy as np

from gsx.escape import yaml_document
from gsx.ragged import row_indices
from gsx.schema import ORIGINS, SPLITS
from gsx.stages.export.hard_labels import tables_with_labels
from gsx.stages.export.node_arrays import node_arrays
from gsx.stages.export.request import ExportRequest
from gsx.storage.sharing.bundle import Bundle
from gsx.storage.sharing.csv_file import Columns, write_csv
from gsx.table import GraphTable

MAX_VALUES = 50_000_000
"""Largest number of node features that is written as text."""
_FILES = {
    "node_data": [{"file_name": "nodes.csv"}],
    "edge_data": [{"file_name": "edges.csv"}],
    "graph_data": {"file_name": "graphs.csv"},
}


def write(bundle: Bundle, request: ExportRequest) -> None:
    """Write tables of nodes, edges and graphs, and ``meta.yaml``."""
    if request.corpus.info.level == "node":
        _write_node_corpus(bundle, request)
        return
    bundle.add("meta.yaml", _meta(request))
    bundle.write("nodes.csv", partial(write_csv, blocks=_node_blocks(request)))
    bundle.write("edges.csv", partial(write_csv, blocks=_edge_blocks(request)))
    bundle.write("graphs.csv", partial(write_csv, blocks=_graph_blocks(request)))
    bundle.copy_file(request.corpus.artifact, "env_table.json")


def _write_node_corpus(bundle: Bundle, request: ExportRequest) -> None:
    """Write a node-labelled corpus; labels and split masks are columns of the nodes.

    The first graph is the source, the other graphs are replicas.
    """
    arrays = node_arrays(request, "dgl", MAX_VALUES)
    y, table = arrays.y, arrays.table
    labels = {"label": y} if y.ndim == 1 else {f"y_{i}": y[:, i] for i in range(y.shape[1])}
    nodes: Columns = {
        "graph_id": arrays.graph_id,
        "node_id": arrays.node,
        **labels,
        "env_id": np.where(arrays.in_split("train"), arrays.env_id, -1),
        "domain_id": arrays.domain_id,
        **{
            f"{name}_mask": arrays.in_split(name).astype(np.int8)
            for name in SPLITS
            if name in request.corpus.nodes
        },
        "feat": table.dense("node", "node_feat"),
    }
    edges: dict[str, np.ndarray] = {
        "graph_id": table.dense("graph", "graph_id")[table.edge_graph()],
        "src_id": table.dense("edge", "edge_src"),
        "dst_id": table.dense("edge", "edge_dst"),
    }
    if "edge_attr" in table.edge:
        edges["feat"] = table.dense("edge", "edge_attr")
    is_replica = table.dense("graph", "origin") != ORIGINS.index("source")
    graphs = {
        "graph_id": table.dense("graph", "graph_id"),
        "augmented": is_replica.astype(np.int8),
    }
    bundle.add("meta.yaml", _meta(request))
    for name, columns in (("nodes", nodes), ("edges", edges), ("graphs", graphs)):
        bundle.write(f"{name}.csv", partial(write_csv, blocks=[columns]))
    bundle.copy_file(request.corpus.artifact, "env_table.json")


def _meta(request: ExportRequest) -> bytes:
    return yaml_document({"dataset_name": request.corpus.info.name, **_FILES}).encode()


def _node_blocks(request: ExportRequest) -> Iterator[Columns]:
    for table, _ in tables_with_labels(request):
        yield {**_node_ids(table, "node"), "feat": table.dense("node", "node_feat")}


def _edge_blocks(request: ExportRequest) -> Iterator[Columns]:
    for table, _ in tables_with_labels(request):
        columns: dict[str, np.ndarray] = {
            "graph_id": table.dense("graph", "graph_id")[table.edge_graph()],
            "src_id": table.dense("edge", "edge_src"),
            "dst_id": table.dense("edge", "edge_dst"),
        }
        if "edge_attr" in table.edge:
            columns["feat"] = table.dense("edge", "edge_attr")
        yield columns


def _node_ids(table: GraphTable, axis: str) -> dict[str, np.ndarray]:
    owner = row_indices(table.node_ptr)
    node = np.arange(table.total_nodes) - table.node_ptr[owner]
    return {"graph_id": table.dense("graph", "graph_id")[owner], f"{axis}_id": node}


def _graph_blocks(request: ExportRequest) -> Iterator[Columns]:
    for table, y in tables_with_labels(request):
        split = table.dense("graph", "split")
        columns = {"label": y} if y.ndim == 1 else {f"y_{i}": y[:, i] for i in range(y.shape[1])}
        yield {
            "graph_id": table.dense("graph", "graph_id"),
            **columns,
            "env_id": table.dense("graph", "env_id"),
            "domain_id": table.dense("graph", "domain_id"),
            "augmented": (table.dense("graph", "origin") != ORIGINS.index("source")).astype(
                np.int8
            ),
            **{
                f"{name}_mask": (split == SPLITS.index(name)).astype(np.int8)
                for name in SPLITS
                if name in request.corpus.splits
            },
        }
