"""Load this corpus into PyTorch Geometric.

A copy of this file lies in every portable corpus. It needs numpy, pyarrow, torch and
torch_geometric, and nothing else:

    import load_pyg
    train = load_pyg.load("train")                    # a torch_geometric Dataset
    train = load_pyg.load("train", env=[0, 2])        # some environments
    train = load_pyg.load("train", origin="source")   # without augmented graphs

A graph has `x`, `edge_index`, `edge_attr` where edges have features, `y` (float32: a class
distribution, or one value per task, NaN = missing), `label` (the class where it is hard, else -1),
`env_id`, `domain_id`, `graph_id` and `origin`. Where nodes have labels, the split is `all` and
there is a mask per split: `train_mask`, `id_val_mask`, `id_test_mask`, `val_mask`, `test_mask`.
Graphs of origin `featx` repeat one with other features of training nodes; score the source alone.
"""

from __future__ import annotations

import json
import warnings
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
import pyarrow.parquet as pq
import torch
from torch_geometric.data import Data, Dataset

HERE = Path(__file__).resolve().parent
NAMES = {"node_feat": "x", "node_y": "y", "node_label": "label", "node_env_id": "env_id",
         "node_domain_id": "domain_id"}  # fmt: skip
MASKS = {"train": "train_mask", "id_val": "id_val_mask", "id_test": "id_test_mask",
         "ood_val": "val_mask", "ood_test": "test_mask"}  # fmt: skip


def load(
    split: str,
    *,
    env: int | Sequence[int] | None = None,
    origin: str | Sequence[str] | None = None,
    extras: Sequence[str] = (),
    folder: str | Path = HERE,
) -> Corpus:
    """Return the graphs of a split, of some environments and origins if named.

    `extras` are names of further columns to put on every graph.
    """
    files = sorted(Path(folder, "data").glob(f"{split}-*.parquet"))
    if not files:
        raise FileNotFoundError(f"no shards of split {split!r} in {folder}/data")
    table = every = pa.concat_tables([pq.read_table(file, memory_map=True) for file in files])
    for name, wanted in (("env_id", env), ("origin", origin)):
        if wanted is not None:
            values = [wanted] if isinstance(wanted, int | str) else list(wanted)
            column = table[name].cast(pa.string()) if name == "origin" else table[name]
            table = table.filter(pc.is_in(column, value_set=pa.array(values).cast(column.type)))
    info = json.loads(Path(folder, "corpus.json").read_text(encoding="utf-8"))
    plain = [column["name"] for column in info["columns"] if not column["ragged"]]
    for name in extras:
        if name not in plain:
            raise ValueError(f"no plain column {name!r} to add; there are {', '.join(plain)}")
    return Corpus(table, info, tuple(extras), every if info["level"] == "node" else table)


class Corpus(Dataset):  # type: ignore[misc]
    """Graphs held as flat tensors; a `Data` is cut out when it is asked for."""

    def __init__(
        self, table: pa.Table, info: dict[str, Any], extras: tuple[str, ...], edges: pa.Table
    ) -> None:
        """Hold the graphs of `table`; `edges` also holds those whose structure they share."""
        super().__init__()
        self.info = info
        """The description of the corpus: task, outputs, environments, columns."""
        nodes = info["level"] == "node"
        self._like = _structure(table, edges) if nodes else np.arange(len(table))
        sizes = {"node": table["num_nodes"], "edge": edges["num_edges"]}
        self._ptr = {axis: _pointers(counts.to_numpy()) for axis, counts in sizes.items()}
        self._values: list[tuple[str, str, Any]] = []
        usual = ("graph_id", "env_id", "domain_id", "origin", "y", "label")
        for column in info["columns"]:
            name, axis = column["name"], column["axis"]
            if axis == "graph" and (info["level"] == "node" or name not in usual + extras):
                continue
            if axis != "graph" and not _is_usual(name) and name not in extras:
                continue
            self._add(name, axis, _flat((edges if axis == "edge" else table)[name], column))
        ends = [value for name, _, value in self._values if name in ("edge_src", "edge_dst")]
        self._edges = torch.stack(ends)

    @property
    def num_classes(self) -> int:
        """As many as `y` is wide."""
        return len(self.info["outputs"])

    def len(self) -> int:
        """Return the number of graphs."""
        return len(self._ptr["node"]) - 1

    def get(self, idx: int) -> Data:
        """Return one graph."""
        row = {"node": idx, "edge": int(self._like[idx])}
        low = {axis: int(ptr[row[axis]]) for axis, ptr in self._ptr.items()} | {"graph": idx}
        high = {axis: int(ptr[row[axis] + 1]) for axis, ptr in self._ptr.items()}
        high["graph"] = idx + 1
        data = Data(edge_index=self._edges[:, low["edge"] : high["edge"]])
        for name, axis, value in self._values:
            if name in ("edge_src", "edge_dst"):
                continue
            part = value[low[axis] : high[axis]]
            data[name] = part[0] if isinstance(part, list) else part
        if "x" not in data:
            data.num_nodes = high["node"] - low["node"]
        return data

    def _add(self, name: str, axis: str, values: Any) -> None:  # noqa: ANN401
        if name == "node_split":
            for split, mask in MASKS.items():
                self._values.append((mask, axis, torch.from_numpy(values == split)))
        elif name == "node_feat_index":
            self._values.append(
                ("x", axis, _Sparse(values[0], values[1], self.info["num_features"]))
            )
        elif name == "node_feat_value":
            sparse = next(value for known, _, value in self._values if known == "x")
            sparse.values = torch.from_numpy(values[1].copy())
        elif isinstance(values, np.ndarray) and values.dtype.kind in "iuf":
            self._values.append((NAMES.get(name, name), axis, _tensor(values)))
        else:
            self._values.append((NAMES.get(name, name), axis, list(values)))


class _Sparse:
    """Rows of features held as numbers of columns and values."""

    def __init__(self, ptr: Any, columns: Any, width: int) -> None:  # noqa: ANN401
        self.ptr, self.columns, self.width = ptr, torch.from_numpy(columns.astype(np.int64)), width
        self.values = torch.zeros(0)

    def __getitem__(self, rows: slice) -> torch.Tensor:
        ptr = self.ptr[rows.start : rows.stop + 1]
        inside = slice(int(ptr[0]), int(ptr[-1]))
        with warnings.catch_warnings():
            warnings.filterwarnings("ignore", message="Sparse CSR tensor support is in beta")
            return torch.sparse_csr_tensor(
                torch.from_numpy(ptr - ptr[0]), self.columns[inside], self.values[inside],
                size=(len(ptr) - 1, self.width), check_invariants=True,
            )  # fmt: skip


def _structure(table: pa.Table, edges: pa.Table) -> Any:  # noqa: ANN401
    """Return the row of `edges` whose edges a graph has: its own, or those of its parent."""
    row_of = {number: row for row, number in enumerate(edges["graph_id"].to_pylist())}
    parents = [each["parents"] for each in table["provenance"].to_pylist()]
    own = [name == "dropedge" for name in table["origin"].to_pylist()]
    rows = zip(table["graph_id"].to_pylist(), parents, own, strict=True)
    return np.array([row_of[id_ if mine or not found else found[0]] for id_, found, mine in rows])


def _is_usual(name: str) -> bool:
    usual = ("edge_src", "edge_dst", "edge_attr", "node_split", "node_feat_index")
    return name in usual or name in NAMES or name == "node_feat_value"


def _flat(column: Any, about: dict[str, Any]) -> Any:  # noqa: ANN401
    """Return the values of a column without the lists around them; pointers too where ragged."""
    array = column.combine_chunks()
    if isinstance(array, pa.ChunkedArray):
        array = pa.concat_arrays(array.chunks) if array.num_chunks else pa.array([], array.type)
    if about["axis"] != "graph":
        array = array.flatten()
    if about["ragged"] and about["dtype"] != "text":
        ptr = _pointers(pc.list_value_length(array).to_numpy(zero_copy_only=False))
        return ptr, array.flatten().to_numpy(zero_copy_only=False)
    if about["width"] is not None:
        return array.flatten().to_numpy(zero_copy_only=False).reshape(-1, about["width"])
    return array.to_numpy(zero_copy_only=False)


def _pointers(counts: Any) -> Any:  # noqa: ANN401
    return np.concatenate([[0], np.cumsum(counts, dtype=np.int64)])


def _tensor(values: Any) -> torch.Tensor:  # noqa: ANN401
    whole = values.dtype.kind in "iu"
    return torch.from_numpy(values.astype(np.int64) if whole else values.copy())


if __name__ == "__main__":
    for found in sorted({file.name.split("-")[0] for file in (HERE / "data").glob("*.parquet")}):
        graphs = load(found)
        print(f"{found:<9} {len(graphs):>8,} graphs  {graphs[0]}")  # noqa: T201
