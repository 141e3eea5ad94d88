"""Format ``ogb``: the files of OGB's ``DatasetSaver`` (arrays of all graphs, labels, splits)."""

from __future__ import annotations

from functools import partial
from pathlib import Path
from typing import Any

import numpy as np
import torch

from gsx.escape import folder_name, markdown_text, one_line
from gsx.ragged import Array, Ints
from gsx.schema import CorpusInfo
from gsx.stages.export.card_text import corpus_description
from gsx.stages.export.hard_labels import tables_with_labels
from gsx.stages.export.node_arrays import node_arrays
from gsx.stages.export.request import ExportRequest
from gsx.stages.export.torch_files import save_tensors
from gsx.storage.sharing.bundle import Bundle
from gsx.storage.sharing.csv_file import write_csv
from gsx.table import GraphTable, concat

SPLITS = {"train": "train", "ood_val": "valid", "ood_test": "test", "id_val": "id_valid",
          "id_test": "id_test"}  # fmt: skip
"""Split → key of OGB's ``get_idx_split``."""
_METRICS = {"accuracy": "acc", "roc_auc": "rocauc", "rmse": "rmse", "mcc": "mcc"}

READER = '''"""Read this corpus with OGB: `load()`, or `{kind}(NAME, meta_dict=meta_dict())`.

OGB stores a cache in `{folder}/processed`. The cache is no part of the corpus: `gsx verify` lists
its files, and it can be deleted.
"""

from pathlib import Path

import numpy as np
import torch

HERE = Path(__file__).parent
NAME = "{name}"


def load():
    """Return the dataset of OGB."""
    from ogb.{package} import {kind}

    return {kind}(NAME, meta_dict=meta_dict())


def meta_dict():
    """Return the metadata that OGB needs; also let torch read OGB's cache."""
    _allow_cache()
    meta = torch.load(HERE / "meta_dict.pt", weights_only=True)
    return {{**meta, "dir_path": str(HERE / meta["dir_path"])}}


def _allow_cache():
    """Allow the classes of OGB's cache: since torch 2.6, `torch.load` refuses others.

    The cache contains PyG graphs and NumPy integers.
    """
    if not hasattr(torch.serialization, "add_safe_globals"):  # before torch 2.4
        return
    from torch_geometric.data import Data
    from torch_geometric.data.data import DataEdgeAttr, DataTensorAttr
    from torch_geometric.data.storage import GlobalStorage

    integer = np.int64(0)
    torch.serialization.add_safe_globals(
        [Data, DataEdgeAttr, DataTensorAttr, GlobalStorage, integer.__reduce__()[0], np.dtype,
         type(integer.dtype)]
    )
'''


def write(bundle: Bundle, request: ExportRequest) -> None:
    """Write the folder that OGB's dataset classes read, and the metadata they need."""
    if request.corpus.info.level == "node":
        _write_node_corpus(bundle, request)
        return
    info = request.corpus.info
    blocks: list[tuple[GraphTable, Array]] = []
    split_indices: list[Ints] = []
    for split in SPLITS:
        if split in request.corpus.splits:
            split_blocks = list(tables_with_labels(request, split))
            blocks += split_blocks
            count = sum(len(table) for table, _ in split_blocks)
            split_indices.append(np.full(count, list(SPLITS).index(split)))
    table = concat([block for block, _ in blocks])
    y = np.concatenate([block_labels for _, block_labels in blocks])
    split_index = np.concatenate(split_indices)
    folder = folder_name(info.name, "corpus").replace("-", "_")
    bundle.write(f"{folder}/raw/data.npz", partial(_save_arrays, arrays=_arrays(table)))
    labels = {"graph_label": y.reshape(len(y), -1)}
    bundle.write(f"{folder}/raw/graph-label.npz", partial(_save_arrays, arrays=labels))
    index = {
        key: torch.from_numpy(np.flatnonzero(split_index == number))
        for number, key in enumerate(SPLITS.values())
    }
    _write_metadata(bundle, request, folder, index)
    ids = "graph_idx,graph_id\n" + "".join(
        f"{row},{number}\n" for row, number in enumerate(table.dense("graph", "graph_id").tolist())
    )
    bundle.add(f"{folder}/mapping/graphidx2graphid.csv", ids.encode())
    bundle.write("meta_dict.pt", partial(save_tensors, value=_meta_dict(info, folder, table)))
    reader = READER.format(
        name=f"ogbg-{folder_name(info.name, 'corpus')}",
        kind="PygGraphPropPredDataset",
        package="graphproppred",
        folder=folder,
    )
    bundle.add("load_ogb.py", reader.encode())


def _write_node_corpus(bundle: Bundle, request: ExportRequest) -> None:
    """Write a node-labelled corpus as one graph; replicas are separate components."""
    info = request.corpus.info
    arrays = node_arrays(request, "ogb")
    folder = folder_name(info.name, "corpus").replace("-", "_")
    table = arrays.table
    values: dict[str, Array] = {
        "edge_index": np.stack([arrays.src, arrays.dst]).astype(np.int64),
        "num_nodes_list": np.array([table.total_nodes]),
        "num_edges_list": np.array([table.total_edges]),
        "node_feat": _int64_or_float32(table.dense("node", "node_feat")),
        "node_env_id": np.where(arrays.in_split("train"), arrays.env_id, -1)[:, None],
    }
    if "edge_attr" in table.edge:
        values["edge_feat"] = _int64_or_float32(table.dense("edge", "edge_attr"))
    bundle.write(f"{folder}/raw/data.npz", partial(_save_arrays, arrays=values))
    labels = arrays.y.reshape(len(arrays.y), -1)
    bundle.write(
        f"{folder}/raw/node-label.npz", partial(_save_arrays, arrays={"node_label": labels})
    )
    index = {
        key: torch.from_numpy(np.flatnonzero(arrays.in_split(split)))
        for split, key in SPLITS.items()
    }
    _write_metadata(bundle, request, folder, index)
    ids = {"node_idx": np.arange(len(labels)), "graph_id": arrays.graph_id, "node": arrays.node}
    bundle.write(f"{folder}/mapping/nodeidx2node.csv", partial(write_csv, blocks=[ids]))
    bundle.write("meta_dict.pt", partial(save_tensors, value=_meta_dict(info, folder, table)))
    reader = READER.format(
        name=f"ogbn-{folder_name(info.name, 'corpus')}",
        kind="PygNodePropPredDataset",
        package="nodeproppred",
        folder=folder,
    )
    bundle.add("load_ogb.py", reader.encode())


def _write_metadata(
    bundle: Bundle, request: ExportRequest, folder: str, index: dict[str, torch.Tensor]
) -> None:
    """Write the split dictionary, the release note and the README of the mapping."""
    info = request.corpus.info
    bundle.write(
        f"{folder}/split/{_split_name(info)}/split_dict.pt", partial(save_tensors, value=index)
    )
    bundle.add(f"{folder}/RELEASE_v1.txt", f"# Release note for {one_line(info.name)}\n".encode())
    bundle.add(f"{folder}/mapping/README.md", _mapping_readme(request).encode())


def _arrays(table: GraphTable) -> dict[str, Array]:
    arrays: dict[str, Array] = {
        "edge_index": np.stack(
            [table.dense("edge", "edge_src"), table.dense("edge", "edge_dst")]
        ).astype(np.int64),
        "num_nodes_list": table.num_nodes.astype(np.int64),
        "num_edges_list": table.num_edges.astype(np.int64),
        "node_feat": _int64_or_float32(table.dense("node", "node_feat")),
        "node_env_id": np.repeat(table.dense("graph", "env_id"), table.num_nodes)[:, None].astype(
            np.int64
        ),
    }
    if "edge_attr" in table.edge:
        arrays["edge_feat"] = _int64_or_float32(table.dense("edge", "edge_attr"))
    return arrays


def _int64_or_float32(values: Array) -> Array:
    return values.astype(np.int64 if values.dtype.kind in "iu" else np.float32)


def _meta_dict(info: CorpusInfo, folder: str, table: GraphTable) -> dict[str, Any]:
    kinds = {"classification": "multiclass classification", "regression": "regression"}
    return {
        "version": 1,
        "dir_path": folder,
        "binary": "True",
        "num tasks": info.num_tasks,
        "num classes": -1 if info.task == "regression" else info.num_classes,  # as OGB does
        "task type": kinds.get(info.task, "binary classification"),
        "eval metric": _METRICS[info.metric],
        "split": _split_name(info),
        "download_name": folder,
        "url": "",
        "add_inverse_edge": "False",
        "has_node_attr": "True",
        "has_edge_attr": str("edge_attr" in table.edge),
        "additional node files": "node_env_id",
        "additional edge files": "None",
        "is hetero": "False",
    }


def _split_name(info: CorpusInfo) -> str:
    """Return the name of the split, which is a folder."""
    return folder_name(info.domain, "shift")


def _mapping_readme(request: ExportRequest) -> str:
    nodes = request.corpus.info.level == "node"
    of = "a node for training" if nodes else "the graph of a node"
    ids = "nodeidx2node.csv" if nodes else "graphidx2graphid.csv"
    rows = "\n".join(
        f"| {row['id']} | {markdown_text(row['name'])} | {markdown_text(row['origin'])} |"
        for row in request.corpus.environments
    )
    return (
        f"# {markdown_text(request.corpus.info.name)}\n\n"
        f"{corpus_description(request, markdown_text)}\n\n`node_env_id` is the "
        f"environment of {of}, -1 if it is unknown. `{ids}` lists the ids in the corpus."
        f"\n\n| env_id | name | origin |\n|---|---|---|\n{rows}\n"
    )


def _save_arrays(path: Path, arrays: dict[str, Array]) -> None:
    with path.open("wb") as stream:
        np.savez_compressed(stream, allow_pickle=False, **arrays)
