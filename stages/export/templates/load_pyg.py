"""Load this corpus into PyTorch Geometric.

Every portable corpus contains a copy of this file. It needs only numpy, pyarrow, torch and
torch_geometric:

    import load_pyg
    train = load_pyg.load("train")                    # a torch_geometric Dataset
    train = load_pyg.load("train", env=[0, 2])        # some environments
    train = load_pyg.load("train", origin="source")   # without augmented graphs

A graph has `x`, `edge_index`, `edge_attr` if edges have features, `y` (float32: a class
distribution, or one value per task, NaN = missing), `label` (the class of a hard label, else -1),
`env_id`, `domain_id`, `graph_id` and `origin`. If nodes are labelled, the split is `all`, and
masks select the nodes of a split: `train_mask`, `id_val_mask`, `id_test_mask`, `val_mask`,
`test_mask`. Graphs of origin `featx`, `maskfeature` or `dropedge` are then replicas of a source
graph for training; evaluate on the source graph only.

Every file is compared with its size and SHA-256 in `manifest.json` before it is decoded. This
detects changed and additional files. It does not show who made the corpus: for that, use
`gsx verify --signature`, which also checks every graph.
"""

from __future__ import annotations

import hashlib
import json
import re
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
SHARD = re.compile(r"data/([a-z_]+)-\d{5,}-of-\d{5,}\.parquet")
MAX_MANIFEST_BYTES = 1 << 28


def load(
    split: str,
    *,
    env: int | Sequence[int] | None = None,
    origin: str | Sequence[str] | None = None,
    extras: Sequence[str] = (),
    folder: str | Path = HERE,
) -> Corpus:
    """Return the graphs of a split, optionally of some environments and origins only.

    `extras` are names of additional columns to attach to every graph.
    """
    files = list_files(folder)
    shards = [pa.BufferReader(read_file(folder, name, files)) for name in shards_of(files, split)]
    if not shards:
        raise FileNotFoundError(f"no shards of split {split!r} in {folder}/data")
    table = all_graphs = pa.concat_tables([pq.read_table(shard) for shard in shards])
    for name, wanted in (("env_id", env), ("origin", origin)):
        if wanted is not None:
            values = [wanted] if isinstance(wanted, int | str) else list(wanted)
            column = table[name].cast(pa.string()) if name == "origin" else table[name]
            table = table.filter(pc.is_in(column, value_set=pa.array(values).cast(column.type)))
    info = json.loads(read_file(folder, "corpus.json", files))
    plain = [column["name"] for column in info["columns"] if not column["ragged"]]
    for name in extras:
        if name not in plain:
            raise ValueError(f"extras: unknown column {name!r}. Choose from {', '.join(plain)}.")
    return Corpus(table, info, tuple(extras), all_graphs if info["level"] == "node" else table)


def list_files(folder: str | Path = HERE) -> dict[str, Any]:
    """Return the files that the manifest lists, with their sizes and hashes."""
    return dict(json.loads(_read(Path(folder, "manifest.json"), MAX_MANIFEST_BYTES))["files"])


def shards_of(files: dict[str, Any], split: str) -> list[str]:
    """Return the shards of a split, in order."""
    names = (SHARD.fullmatch(name) for name in files)
    return sorted(name[0] for name in names if name and name[1] == split)


def read_file(folder: str | Path, name: str, files: dict[str, Any]) -> bytes:
    """Return the content of a listed file; raise ValueError unless it has the listed hash."""
    size = int(files[name]["size"])
    data = _read(Path(folder, name), size)
    if len(data) != size or hashlib.sha256(data).hexdigest() != files[name]["sha256"]:
        raise ValueError(f"{folder}/{name} is damaged: it does not match manifest.json.")
    return data


def _read(path: Path, limit: int) -> bytes:
    """Return up to `limit` bytes of a regular file that is not behind a link."""
    if path.is_symlink() or path.parent.is_symlink() or not path.is_file():
        raise ValueError(f"{path} is not a regular file.")
    with path.open("rb") as stream:
        data = stream.read(limit + 1)
    if len(data) > limit:
        raise ValueError(f"{path} has more than {limit:,} bytes.")
    return data


class Corpus(Dataset):  # type: ignore[misc]
    """Graphs as flat tensors; `Data` objects are sliced from them on access."""

    def __init__(
        self, table: pa.Table, info: dict[str, Any], extras: tuple[str, ...], edges: pa.Table
    ) -> None:
        """Store the graphs of `table`; `edges` also contains graphs whose edges they share."""
        super().__init__()
        self.info = info
        """Description of the corpus: task, outputs, environments, columns."""
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
        """Number of classes: 2 for binary tasks, the number of targets for regression."""
        binary = self.info["task"] in ("binary", "multitask")
        return 2 if binary else len(self.info["outputs"])

    @property
    def num_tasks(self) -> int:
        """Number of targets."""
        return 1 if self.info["task"] == "classification" else len(self.info["outputs"])

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
            rows = value[low[axis] : high[axis]]
            data[name] = rows[0] if isinstance(rows, list) else rows
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
            sparse = next(value for key, _, value in self._values if key == "x")
            sparse.values = torch.from_numpy(values[1].copy())
        elif isinstance(values, np.ndarray) and values.dtype.kind in "iuf":
            self._values.append((NAMES.get(name, name), axis, _tensor(values)))
        else:
            self._values.append((NAMES.get(name, name), axis, list(values)))


class _Sparse:
    """Sparse feature rows: column indices and values."""

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
    parents = [row["parents"] for row in table["provenance"].to_pylist()]
    stores_edges = [name == "dropedge" for name in table["origin"].to_pylist()]
    rows = zip(table["graph_id"].to_pylist(), parents, stores_edges, strict=True)
    return np.array([row_of[id_ if own or not parent else parent[0]] for id_, parent, own in rows])


def _is_usual(name: str) -> bool:
    usual = ("edge_src", "edge_dst", "edge_attr", "node_split", "node_feat_index")
    return name in usual or name in NAMES or name == "node_feat_value"


def _flat(column: Any, description: dict[str, Any]) -> Any:  # noqa: ANN401
    """Return the values of a column without list nesting, after pointers if it is ragged."""
    array = column.combine_chunks()
    if isinstance(array, pa.ChunkedArray):
        array = pa.concat_arrays(array.chunks) if array.num_chunks else pa.array([], array.type)
    if description["axis"] != "graph":
        array = array.flatten()
    if description["ragged"] and description["dtype"] != "text":
        ptr = _pointers(pc.list_value_length(array).to_numpy(zero_copy_only=False))
        return ptr, array.flatten().to_numpy(zero_copy_only=False)
    if description["width"] is not None:
        return array.flatten().to_numpy(zero_copy_only=False).reshape(-1, description["width"])
    return array.to_numpy(zero_copy_only=False)


def _pointers(counts: Any) -> Any:  # noqa: ANN401
    return np.concatenate([[0], np.cumsum(counts, dtype=np.int64)])


def _tensor(values: Any) -> torch.Tensor:  # noqa: ANN401
    whole = values.dtype.kind in "iu"
    return torch.from_numpy(values.astype(np.int64) if whole else values.copy())


if __name__ == "__main__":
    for split in sorted({shard[1] for name in list_files() if (shard := SHARD.fullmatch(name))}):
        graphs = load(split)
        print(f"{split:<9} {len(graphs):>8,} graphs  {graphs[0]}")  # noqa: T201
