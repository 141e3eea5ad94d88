"""The files that DGL's ``CSVDataset`` reads: every column holds numbers, or lists of numbers."""

from __future__ import annotations

from collections.abc import Iterator
from functools import partial

import numpy as np

from gsx.ragged import row_indices
from gsx.schema import ORIGINS, SPLITS
from gsx.stages.export.hard_labels import parts
from gsx.stages.export.node_arrays import node_arrays
from gsx.stages.export.request import Given
from gsx.storage.sharing.bundle import Bundle
from gsx.storage.sharing.csv_file import Columns, write_csv
from gsx.table import GraphTable

MOST_VALUES = 50_000_000
"""Features of nodes that are written as text."""
META = """\
dataset_name: {name}
node_data:
- file_name: nodes.csv
edge_data:
- file_name: edges.csv
graph_data:
  file_name: graphs.csv
"""


def fill(bundle: Bundle, given: Given) -> None:
    """Write three tables and the file that names them."""
    if given.corpus.info.level == "node":
        _fill_nodes(bundle, given)
        return
    bundle.add("meta.yaml", META.format(name=given.corpus.info.name).encode())
    bundle.write("nodes.csv", partial(write_csv, blocks=_nodes(given)))
    bundle.write("edges.csv", partial(write_csv, blocks=_edges(given)))
    bundle.write("graphs.csv", partial(write_csv, blocks=_graphs(given)))
    bundle.copy_file(given.corpus.artifact, "env_table.json")


def _fill_nodes(bundle: Bundle, given: Given) -> None:
    """Write labels and masks with the nodes; the first graph is the source, others repeat it."""
    arrays = node_arrays(given, "dgl", MOST_VALUES)
    y, table = arrays.y, arrays.table
    labels = {"label": y} if y.ndim == 1 else {f"y_{i}": y[:, i] for i in range(y.shape[1])}
    nodes: Columns = {
        "graph_id": arrays.graph,
        "node_id": arrays.number,
        **labels,
        "env_id": np.where(arrays.inside("train"), arrays.env, -1),
        "domain_id": arrays.domain,
        **{
            f"{name}_mask": arrays.inside(name).astype(np.int8)
            for name in SPLITS
            if name in given.corpus.nodes
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
    again = table.dense("graph", "origin") != ORIGINS.index("source")
    graphs = {
        "graph_id": table.dense("graph", "graph_id"),
        "augmented": again.astype(np.int8),
    }
    bundle.add("meta.yaml", META.format(name=given.corpus.info.name).encode())
    for name, columns in (("nodes", nodes), ("edges", edges), ("graphs", graphs)):
        bundle.write(f"{name}.csv", partial(write_csv, blocks=[columns]))
    bundle.copy_file(given.corpus.artifact, "env_table.json")


def _nodes(given: Given) -> Iterator[Columns]:
    for table, _ in parts(given):
        yield {**_owner(table, "node"), "feat": table.dense("node", "node_feat")}


def _edges(given: Given) -> Iterator[Columns]:
    for table, _ in parts(given):
        found: dict[str, np.ndarray] = {
            "graph_id": table.dense("graph", "graph_id")[table.edge_graph()],
            "src_id": table.dense("edge", "edge_src"),
            "dst_id": table.dense("edge", "edge_dst"),
        }
        if "edge_attr" in table.edge:
            found["feat"] = table.dense("edge", "edge_attr")
        yield found


def _owner(table: GraphTable, axis: str) -> dict[str, np.ndarray]:
    owner = row_indices(table.node_ptr)
    number = np.arange(table.total_nodes) - table.node_ptr[owner]
    return {"graph_id": table.dense("graph", "graph_id")[owner], f"{axis}_id": number}


def _graphs(given: Given) -> Iterator[Columns]:
    for table, y in parts(given):
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
                if name in given.corpus.splits
            },
        }
