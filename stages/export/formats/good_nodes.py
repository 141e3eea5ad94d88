"""Format ``good`` for node-labelled corpora: one graph per shift, with a mask per subset."""

from __future__ import annotations

import json
from functools import partial
from pathlib import Path
from typing import Any

import numpy as np
import torch
from torch_geometric.data import Data

from gsx.pyg import MASKS
from gsx.stages.export.formats.good import (
    METRICS,
    SHIFTS,
    TASKS,
    dataset_type,
    good_names,
    to_tensor,
)
from gsx.stages.export.node_arrays import NodeArrays, node_arrays
from gsx.stages.export.request import ExportRequest
from gsx.stages.export.torch_files import save_tensors
from gsx.storage.sharing.bundle import Bundle

READER = '''"""Load this corpus as GOOD's `load` does for labelled nodes: a dataset and metadata.

    from load_good import load
    dataset, meta = load()
    dataset[0].train_mask, dataset.task, meta["num_envs"]

GOOD reads the same files if `dataset_root` is this directory. They contain `Data` objects, so this
module allows four classes of PyG when it unpickles them; all other classes are refused.
"""

import json
from pathlib import Path

import torch
from torch_geometric.data import Data, InMemoryDataset
from torch_geometric.data.data import DataEdgeAttr, DataTensorAttr
from torch_geometric.data.storage import GlobalStorage

HERE = Path(__file__).parent
SAFE = [Data, DataEdgeAttr, DataTensorAttr, GlobalStorage]
META = json.loads((HERE / "good.json").read_text(encoding="utf-8"))


class Nodes(InMemoryDataset):
    def __init__(self, path):
        super().__init__()
        self.domain, self.metric, self.task = META["domain"], META["metric"], META["task"]
        with torch.serialization.safe_globals(SAFE):
            self.data, self.slices = torch.load(path, weights_only=True)


def load():
    folder = HERE / META["dataset"] / META["domain"] / "processed"
    return Nodes(folder / f"{META['shift']}.pt"), dict(META["meta"])
'''


def write_node_corpus(bundle: Bundle, request: ExportRequest) -> None:
    """Write the three files, ``good.json`` and a loader.

    Replicas and the source are components of one graph. The files of the other shifts exist too,
    without nodes, because GOOD rebuilds the dataset if a file is missing.
    """
    info = request.corpus.info
    name, domain, shift = good_names(info)
    arrays = node_arrays(request, "good")
    values = _values(arrays, domain)
    empty = {key: _empty(key, value) for key, value in values.items()}
    for file_shift in SHIFTS:
        path = f"{name}/{domain}/processed/{file_shift}.pt"
        bundle.write(path, partial(_save, values=values if file_shift == shift else empty))
    train_envs = arrays.env_id[arrays.in_split("train")]
    metadata = {
        "dataset": name,
        "domain": domain,
        "shift": shift,
        "task": TASKS[info.task],
        "metric": METRICS[info.metric],
        "labels": request.labels,
        "meta": {
            "dataset_type": dataset_type(info),
            "model_level": "node",
            "dim_node": info.num_features,
            "dim_edge": int(values["edge_attr"].shape[1]) if "edge_attr" in values else 0,
            "num_envs": len(np.unique(train_envs[train_envs >= 0])),
            "num_classes": len(info.outputs) if info.task != "regression" else 1,
        },
    }
    bundle.add("good.json", (json.dumps(metadata, indent=2) + "\n").encode())
    bundle.add("load_good.py", READER.encode())
    bundle.copy_file(request.corpus.artifact, "env_table.json")


def _values(arrays: NodeArrays, domain: str) -> dict[str, Any]:
    values: dict[str, Any] = {
        "x": to_tensor(arrays.table.dense("node", "node_feat")),
        "edge_index": torch.from_numpy(np.stack([arrays.src, arrays.dst]).astype(np.int64)),
        "y": torch.from_numpy(arrays.y.copy()),
        "env_id": torch.from_numpy(np.where(arrays.in_split("train"), arrays.env_id, -1)),
        "domain_id": torch.from_numpy(arrays.domain_id),
        "domain": domain,
        "graph_id": torch.from_numpy(arrays.graph_id.astype(np.int64)),
    }
    values |= {mask: torch.from_numpy(arrays.in_split(split)) for split, mask in MASKS.items()}
    if "edge_attr" in arrays.table.edge:
        values["edge_attr"] = to_tensor(arrays.table.dense("edge", "edge_attr"))
    return values


def _empty(key: str, value: Any) -> Any:  # noqa: ANN401
    if not isinstance(value, torch.Tensor):
        return value
    return value[:, :0] if key == "edge_index" else value[:0]


def _save(path: Path, values: dict[str, Any]) -> None:
    save_tensors(path, (Data(**values), None))
