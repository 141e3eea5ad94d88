"""Write graphs in the formats of other libraries and read them as PyG batches.

Batches of all readers have the attributes that batches of a gsx loader have, so all readers do the
same work. Each library uses the fastest format that it documents: tensors under a schema in SQLite
(PyG ``OnDiskDataset``), one pickled dictionary of arrays per sample (WebDataset), one dictionary of
tensors per item (litdata), plain rows (Hugging Face; twice as fast here as its rows of NumPy arrays
or tensors).
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
INTEGER_COLUMNS = ("label", "env_id", "graph_id")
TAR = "graphs-000000.tar"

Tensors = dict[str, torch.Tensor]


@dataclass(frozen=True, slots=True)
class Batches:
    """Batches of 256 graphs; each iteration calls ``graphs`` again and is one epoch."""

    graphs: Callable[[], Iterable[Data]]

    def __iter__(self) -> Iterator[Batch]:
        pending: list[Data] = []
        for graph in self.graphs():
            pending.append(graph)
            if len(pending) == BATCH:
                yield Batch.from_data_list(pending)
                pending = []
        if pending:
            yield Batch.from_data_list(pending)


def graphs_of(table: GraphTable) -> Iterator[Tensors]:
    """Yield the attributes of each graph; tensors share no memory."""
    x, edge_attr = table.dense("node", "node_feat"), table.dense("edge", "edge_attr")
    edges = np.stack([table.dense("edge", "edge_src"), table.dense("edge", "edge_dst")])
    graph = {name: table.dense("graph", name).astype(np.int64) for name in INTEGER_COLUMNS}
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
    """All graphs in one file, which ``torch.load`` reads into memory."""

    def __init__(self, root: Path, table: GraphTable | None = None) -> None:
        self._table = table
        super().__init__(str(root), log=False)
        self.load(self.processed_paths[0])

    @property
    def processed_file_names(self) -> list[str]:
        """Name of the file."""
        return ["data.pt"]

    def process(self) -> None:
        """Write the file."""
        self.save([Data(**graph) for graph in graphs_of(self._table)], self.processed_paths[0])


class OnDisk(OnDiskDataset):
    """One row of a SQLite table per graph, with the attributes as columns."""

    def __init__(self, root: Path) -> None:
        schema = {
            "edge_index": {"dtype": torch.int64, "size": (2, -1)},
            "x": {"dtype": torch.float32, "size": (-1, 16)},
            "edge_attr": {"dtype": torch.float32, "size": (-1, 4)},
            "y": {"dtype": torch.float32, "size": (1, -1)},
            **{name: {"dtype": torch.int64, "size": (1,)} for name in INTEGER_COLUMNS},
        }
        super().__init__(str(root), schema=schema, log=False)

    def serialize(self, data: Data) -> Tensors:
        """Return the values of a row."""
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
    vector = {dtype: datasets.List(datasets.Value(dtype)) for dtype in ("float32", "int64")}
    matrices = {"edge_index": "int64", "x": "float32", "edge_attr": "float32", "y": "float32"}
    features = {name: datasets.List(vector[dtype]) for name, dtype in matrices.items()}
    features |= dict.fromkeys(INTEGER_COLUMNS, vector["int64"])
    rows = [{name: value.tolist() for name, value in graph.items()} for graph in graphs_of(table)]
    dataset = datasets.Dataset.from_list(rows, features=datasets.Features(features))
    dataset.save_to_disk(str(folder))


def open_hugging_face(folder: Path) -> Iterable[Batch]:
    import datasets

    rows = datasets.load_from_disk(str(folder))
    return Batches(
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
    return Batches(
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
    return Batches(lambda: (Data(**item) for item in items))
