"""The same graphs in the formats of other libraries, and the way from each to PyG batches.

Every reader gives batches with the attributes that a gsx loader gives, so all do the same work.
Each library stores and reads graphs in the fastest of the ways it documents: tensors under a schema
in SQLite, a pickled dictionary of arrays per WebDataset sample, a dictionary of tensors per litdata
item, plain rows of Hugging Face (twice as fast here as its rows of NumPy arrays or tensors).
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator
from dataclasses import dataclass
from pathlib import Path

import numpy as np
import torch
from torch_geometric.data import Batch, Data, InMemoryDataset, OnDiskDataset
from torch_geometric.loader import DataLoader

from gsx.table import GraphTable

BATCH = 256
WHOLE_NUMBERS = ("label", "env_id", "graph_id")
TAR = "graphs-000000.tar"

Tensors = dict[str, torch.Tensor]


@dataclass(frozen=True, slots=True)
class Epochs:
    """Batches made anew from what ``graphs`` gives on each pass."""

    graphs: Callable[[], Iterable[Data]]

    def __iter__(self) -> Iterator[Batch]:
        waiting: list[Data] = []
        for graph in self.graphs():
            waiting.append(graph)
            if len(waiting) == BATCH:
                yield Batch.from_data_list(waiting)
                waiting = []
        if waiting:
            yield Batch.from_data_list(waiting)


def graphs_of(table: GraphTable) -> Iterator[Tensors]:
    """Yield the attributes of each graph; every tensor has memory of its own."""
    x, edge_attr = table.dense("node", "node_feat"), table.dense("edge", "edge_attr")
    edges = np.stack([table.dense("edge", "edge_src"), table.dense("edge", "edge_dst")])
    graph = {name: table.dense("graph", name).astype(np.int64) for name in WHOLE_NUMBERS}
    for row in range(len(table)):
        nodes = slice(table.node_ptr[row], table.node_ptr[row + 1])
        span = slice(table.edge_ptr[row], table.edge_ptr[row + 1])
        arrays = {
            "edge_index": edges[:, span].astype(np.int64),
            "x": x[nodes].copy(),
            "edge_attr": edge_attr[span].copy(),
            "y": table.dense("graph", "y")[row : row + 1].copy(),
            **{name: values[row : row + 1].copy() for name, values in graph.items()},
        }
        yield {name: torch.from_numpy(values) for name, values in arrays.items()}


class InMemory(InMemoryDataset):
    """All graphs in one file that ``torch.load`` reads whole."""

    def __init__(self, root: Path, table: GraphTable | None = None) -> None:
        self._table = table
        super().__init__(str(root), log=False)
        self.load(self.processed_paths[0])

    @property
    def processed_file_names(self) -> list[str]:
        """Name the one file."""
        return ["data.pt"]

    def process(self) -> None:
        """Write the file."""
        self.save([Data(**graph) for graph in graphs_of(self._table)], self.processed_paths[0])


class OnDisk(OnDiskDataset):
    """One row of a SQLite table per graph."""

    def __init__(self, root: Path) -> None:
        schema = {
            "edge_index": {"dtype": torch.int64, "size": (2, -1)},
            "x": {"dtype": torch.float32, "size": (-1, 16)},
            "edge_attr": {"dtype": torch.float32, "size": (-1, 4)},
            "y": {"dtype": torch.float32, "size": (1, -1)},
            **{name: {"dtype": torch.int64, "size": (1,)} for name in WHOLE_NUMBERS},
        }
        super().__init__(str(root), schema=schema, log=False)

    def serialize(self, data: Data) -> Tensors:
        """Return what the row holds."""
        return data.to_dict()

    def deserialize(self, data: Tensors) -> Data:
        """Return the graph of a row."""
        return Data(**data)


def write_in_memory(folder: Path, table: GraphTable) -> None:
    InMemory(folder, table)


def open_in_memory(folder: Path) -> Iterable[Batch]:
    return DataLoader(InMemory(folder), batch_size=BATCH)


def write_on_disk(folder: Path, table: GraphTable) -> None:
    dataset = OnDisk(folder)
    dataset.extend([Data(**graph) for graph in graphs_of(table)], batch_size=4096)
    dataset.close()


def open_on_disk(folder: Path) -> Iterable[Batch]:
    return DataLoader(OnDisk(folder), batch_size=BATCH)


def write_hugging_face(folder: Path, table: GraphTable) -> None:
    import datasets

    datasets.disable_progress_bars()
    value = {kind: datasets.List(datasets.Value(kind)) for kind in ("float32", "int64")}
    kinds = {"edge_index": "int64", "x": "float32", "edge_attr": "float32", "y": "float32"}
    features = {name: datasets.List(value[kind]) for name, kind in kinds.items()}
    features |= dict.fromkeys(WHOLE_NUMBERS, value["int64"])
    rows = [{name: value.tolist() for name, value in graph.items()} for graph in graphs_of(table)]
    stored = datasets.Dataset.from_list(rows, features=datasets.Features(features))
    stored.save_to_disk(str(folder))


def open_hugging_face(folder: Path) -> Iterable[Batch]:
    import datasets

    rows = datasets.load_from_disk(str(folder))
    return Epochs(
        lambda: (Data(**{name: torch.tensor(value) for name, value in row.items()}) for row in rows)
    )


def write_webdataset(folder: Path, table: GraphTable) -> None:
    import webdataset

    folder.mkdir()
    with webdataset.TarWriter(str(folder / TAR)) as sink:
        for number, graph in enumerate(graphs_of(table)):
            arrays = {name: value.numpy() for name, value in graph.items()}
            sink.write({"__key__": f"{number:09d}", "graph.pyd": arrays})


def open_webdataset(folder: Path) -> Iterable[Batch]:
    import webdataset

    samples = webdataset.WebDataset(str(folder / TAR), shardshuffle=False, empty_check=False)
    decoded = samples.decode()
    return Epochs(
        lambda: (
            Data(**{name: torch.from_numpy(value) for name, value in sample["graph.pyd"].items()})
            for sample in decoded
        )
    )


def write_litdata(folder: Path, table: GraphTable) -> None:
    from litdata.streaming.cache import Cache

    folder.mkdir()
    cache = Cache(str(folder), chunk_bytes="64MB")
    for number, graph in enumerate(graphs_of(table)):
        cache[number] = graph
    cache.done()
    cache.merge()


def open_litdata(folder: Path) -> Iterable[Batch]:
    from litdata import StreamingDataset

    items = StreamingDataset(str(folder))
    return Epochs(lambda: (Data(**item) for item in items))
