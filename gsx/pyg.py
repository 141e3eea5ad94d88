"""Conversion of graph tables to PyG objects, vectorized over all graphs."""

from __future__ import annotations

import warnings
from collections.abc import Iterator, Sequence
from dataclasses import dataclass

import numpy as np
import torch
from torch import Tensor
from torch_geometric.data import Batch, Data, InMemoryDataset

from gsx.dense_features import densify_features as densify_features
from gsx.errors import UsageError
from gsx.ragged import Array, Ints, Ragged, decode_texts, row_indices
from gsx.schema import SPLITS, Axis, CorpusInfo
from gsx.table import GraphTable, Values

STANDARD = {
    "node_feat": "x",
    "edge_attr": "edge_attr",
    "y": "y",
    "label": "label",
    "env_id": "env_id",
    "graph_id": "graph_id",
    "node_y": "y",
    "node_label": "label",
    "node_env_id": "env_id",
    "node_domain_id": "domain_id",
}
"""Column → PyG attribute name; other columns keep their names."""

MASKS = {
    "train": "train_mask",
    "id_val": "id_val_mask",
    "id_test": "id_test_mask",
    "ood_val": "val_mask",
    "ood_test": "test_mask",
}
"""Split of a node → name of its boolean mask."""


@dataclass(frozen=True, slots=True)
class _Attribute:
    """One attribute of a ``Data`` object and its axis."""

    name: str
    axis: Axis
    value: Tensor | list[str]
    """A tensor, or one string per graph."""


def pyg_columns(info: CorpusInfo, extra: Sequence[str] = ()) -> list[str]:
    """Return the columns of the PyG objects of a corpus: the standard and the extra ones."""
    names = {column.name for column in info.columns}
    for column in info.columns:
        text = column.dtype == "text" and column.axis == "graph"
        if column.name in extra and column.ragged and not text:
            raise UsageError(
                f"column `{column.name}` is ragged and cannot be part of a PyG object. "
                f'Use `corpus.table(columns=["{column.name}"])`.'
            )
    if info.level == "node":
        standard = {"node_feat", "edge_attr", "node_y", "node_label", "node_env_id",
                    "node_domain_id", "node_split"}  # fmt: skip
    else:
        standard = {"node_feat", "edge_attr", "y", "label", "env_id", "graph_id"}
    sparse = {"node_feat_index", "node_feat_value"}
    return sorted(names & {*standard, *sparse, *extra})


def collate(table: GraphTable, *, num_features: int | None = None) -> Batch:
    """Return the graphs as one ``Batch``, equal to ``Batch.from_data_list(data_list(table))``."""
    batch = object.__new__(_DATA_BATCH)
    Data.__init__(batch)
    slices = _slices(table)
    node_ptr, edge_ptr = slices["node"], slices["edge"]
    no_increment = torch.zeros(len(table), dtype=torch.int64)
    values: dict[str, object] = {"edge_index": _edge_index(table, table.node_ptr[:-1])}
    slice_dict: dict[str, Tensor] = {"edge_index": edge_ptr}
    inc_dict: dict[str, Tensor | None] = {"edge_index": node_ptr[:-1]}
    for attribute in _attributes(table, num_features):
        values[attribute.name] = attribute.value
        slice_dict[attribute.name] = slices[attribute.axis]
        inc_dict[attribute.name] = no_increment if isinstance(attribute.value, Tensor) else None
        if isinstance(attribute.value, Tensor) and attribute.value.layout != torch.strided:
            slice_dict[attribute.name] = node_ptr[:, None]
            inc_dict[attribute.name] = None
    if "x" not in values:
        values["num_nodes"] = table.total_nodes
        batch._store.__dict__["_num_nodes"] = table.num_nodes.tolist()
    values["batch"] = torch.from_numpy(row_indices(table.node_ptr))
    values["ptr"] = node_ptr.clone()
    batch._store._mapping.update(values)
    batch.__dict__.update(_num_graphs=len(table), _slice_dict=slice_dict, _inc_dict=inc_dict)
    return batch


def data_list(table: GraphTable, *, num_features: int | None = None) -> list[Data]:
    """Return the graphs as separate ``Data`` objects."""
    return list(_iter_data(table, num_features))


def _iter_data(table: GraphTable, num_features: int | None) -> Iterator[Data]:
    for row in range(len(table)):
        one = table.slice(row, row + 1)
        data = Data(edge_index=_edge_index(one, one.node_ptr[:-1]))
        for attribute in _attributes(one, num_features):
            value = attribute.value
            data[attribute.name] = value if isinstance(value, Tensor) else value[0]
        if "x" not in data:
            data.num_nodes = one.total_nodes
        yield data


class CorpusDataset(InMemoryDataset):  # type: ignore[misc]
    """Graphs of a corpus as a PyG ``InMemoryDataset``, without download or processing."""

    def __init__(self, table: GraphTable, info: CorpusInfo) -> None:
        super().__init__()
        self.info = info
        if len(table) == 1:  # PyG returns the data of a single graph unsliced
            self.data = data_list(table, num_features=info.num_features)[0]
            return
        data = Data(edge_index=_edge_index(table, np.zeros(len(table), dtype=np.int64)))
        by_axis = _slices(table)
        slices = {"edge_index": by_axis["edge"]}
        for attribute in _attributes(table, info.num_features):
            data[attribute.name] = attribute.value
            slices[attribute.name] = by_axis[attribute.axis]
        if "node_feat_index" in table.node:
            # PyG cannot slice sparse tensors; its own datasets hold one tensor per graph as well.
            features = table.select(["node_feat_index", "node_feat_value"])
            data.x = [one.x for one in data_list(features, num_features=info.num_features)]
            slices["x"] = by_axis["graph"]
        if "x" not in data:
            data.num_nodes = table.num_nodes.tolist()
            slices["num_nodes"] = by_axis["graph"]
        self.data, self.slices = data, slices

    @property
    def num_classes(self) -> int:
        """Number of classes: 2 for binary tasks, the number of targets for regression."""
        return self.info.num_classes

    @property
    def num_tasks(self) -> int:
        """Number of targets."""
        return self.info.num_tasks


def _slices(table: GraphTable) -> dict[Axis, Tensor]:
    """Return copies of the graph pointers of each axis."""
    return {
        "graph": torch.arange(len(table) + 1),
        "node": torch.from_numpy(table.node_ptr.copy()),
        "edge": torch.from_numpy(table.edge_ptr.copy()),
    }


def _attributes(table: GraphTable, num_features: int | None) -> Iterator[_Attribute]:
    axes: tuple[Axis, ...] = ("node", "edge", "graph")
    node_names = {_name(name) for name in table.node}
    for axis in axes:
        for name, values in table.columns(axis).items():
            if name in ("edge_src", "edge_dst", "node_feat_value"):
                continue
            if axis == "graph" and _name(name) in node_names:
                continue  # in node-labelled corpora, `env_id` is the environment of the node
            if name == "node_feat_index":
                yield _Attribute("x", axis, _sparse(table, num_features))
            elif name == "node_split" and isinstance(values, np.ndarray):
                for split, mask_name in MASKS.items():
                    mask = torch.from_numpy(values == SPLITS.index(split))
                    yield _Attribute(mask_name, axis, mask)
            elif axis == "graph" and isinstance(values, Ragged):
                if values.values.dtype == np.uint8:
                    yield _Attribute(_name(name), axis, decode_texts(values))
            else:
                yield _Attribute(_name(name), axis, _tensor(values))


def _name(column: str) -> str:
    return STANDARD.get(column, column.replace(".", "_"))


def _tensor(values: Values) -> Tensor:
    """Return a tensor: integers become int64, and read-only (memory-mapped) values are copied."""
    if isinstance(values, Ragged):
        raise TypeError("a ragged column cannot be converted to a tensor")
    if values.dtype.kind in "iu" and values.dtype != np.int64:
        return torch.from_numpy(values.astype(np.int64))
    return torch.from_numpy(values if values.flags.writeable else values.copy())


def _edge_index(table: GraphTable, first_node: Ints) -> Tensor:
    """Return node indices ``[2, E]``, with ``first_node[g]`` added in graph ``g``."""
    edges = np.empty((2, table.total_edges), dtype=np.int64)
    offset = np.repeat(first_node, table.num_edges)
    np.add(table.dense("edge", "edge_src"), offset, out=edges[0])
    np.add(table.dense("edge", "edge_dst"), offset, out=edges[1])
    return torch.from_numpy(edges)


def _sparse(table: GraphTable, num_features: int | None) -> Tensor:
    index = table.lists("node", "node_feat_index")
    value: Array = table.lists("node", "node_feat_value").values
    width = num_features if num_features is not None else int(index.values.max(initial=-1)) + 1
    with warnings.catch_warnings():
        warnings.filterwarnings("ignore", message="Sparse CSR tensor support is in beta")
        return torch.sparse_csr_tensor(
            torch.from_numpy(index.ptr.copy()),
            torch.from_numpy(index.values.astype(np.int64)),
            torch.from_numpy(value.copy()),
            size=(len(index), width),
            check_invariants=True,
        )


_DATA_BATCH: type[Batch] = type(Batch(_base_cls=Data))
