"""The layout of GOOD where nodes are labelled: one graph per shift, with a mask per subset."""

from __future__ import annotations

import json
from functools import partial
from pathlib import Path
from typing import Any

import numpy as np
import torch
from torch_geometric.data import Data

from gsx.pyg import MASKS
from gsx.stages.export.formats.good import METRICS, SHIFTS, TASKS, numbers, place_of, sort_of
from gsx.stages.export.node_arrays import NodeArrays, node_arrays
from gsx.stages.export.request import Given
from gsx.stages.export.torch_files import save_tensors
from gsx.storage.sharing.bundle import Bundle

READER = '''"""Read this corpus as GOOD's own `load` returns it where nodes are labelled.

    from load_good import load
    dataset, meta = load()
    dataset[0].train_mask, dataset.task, meta["num_envs"]

GOOD itself reads the same files: give it this directory as `dataset_root`. It wants `Data` objects,
so four classes of PyG are allowed when the files are read; everything else is refused.
"""

import json
from pathlib import Path

import torch
from torch_geometric.data import Data, InMemoryDataset
from torch_geometric.data.data import DataEdgeAttr, DataTensorAttr
from torch_geometric.data.storage import GlobalStorage

HERE = Path(__file__).parent
SAFE = [Data, DataEdgeAttr, DataTensorAttr, GlobalStorage]
ABOUT = json.loads((HERE / "good.json").read_text(encoding="utf-8"))


class Nodes(InMemoryDataset):
    def __init__(self, path):
        super().__init__()
        self.domain, self.metric, self.task = ABOUT["domain"], ABOUT["metric"], ABOUT["task"]
        with torch.serialization.safe_globals(SAFE):
            self.data, self.slices = torch.load(path, weights_only=True)


def load():
    folder = HERE / ABOUT["dataset"] / ABOUT["domain"] / "processed"
    return Nodes(folder / f"{ABOUT['shift']}.pt"), dict(ABOUT["meta"])
'''


def fill_nodes(bundle: Bundle, given: Given) -> None:
    """Write the three files, what is known of the dataset, and a reader.

    Replicas lie beside the source, without edges between them. Shifts that a corpus does not have
    are there, without nodes: where a file is missing GOOD builds all anew.
    """
    info = given.corpus.info
    name, domain, shift = place_of(info)
    arrays = node_arrays(given, "good")
    values = _values(arrays, domain)
    none = {key: _empty(key, value) for key, value in values.items()}
    for each in SHIFTS:
        path = f"{name}/{domain}/processed/{each}.pt"
        bundle.write(path, partial(_save, values=values if each == shift else none))
    train = arrays.env[arrays.inside("train")]
    about = {
        "dataset": name,
        "domain": domain,
        "shift": shift,
        "task": TASKS[info.task],
        "metric": METRICS[info.metric],
        "labels": given.labels,
        "meta": {
            "dataset_type": sort_of(info),
            "model_level": "node",
            "dim_node": info.num_features,
            "dim_edge": int(values["edge_attr"].shape[1]) if "edge_attr" in values else 0,
            "num_envs": len(np.unique(train[train >= 0])),
            "num_classes": len(info.outputs) if info.task != "regression" else 1,
        },
    }
    bundle.add("good.json", (json.dumps(about, indent=2) + "\n").encode())
    bundle.add("load_good.py", READER.encode())
    bundle.copy_file(given.corpus.artifact, "env_table.json")


def _values(arrays: NodeArrays, domain: str) -> dict[str, Any]:
    values: dict[str, Any] = {
        "x": numbers(arrays.table.dense("node", "node_feat")),
        "edge_index": torch.from_numpy(np.stack([arrays.src, arrays.dst]).astype(np.int64)),
        "y": torch.from_numpy(arrays.y.copy()),
        "env_id": torch.from_numpy(np.where(arrays.inside("train"), arrays.env, -1)),
        "domain_id": torch.from_numpy(arrays.domain),
        "domain": domain,
        "graph_id": torch.from_numpy(arrays.graph.astype(np.int64)),
    }
    values |= {mask: torch.from_numpy(arrays.inside(split)) for split, mask in MASKS.items()}
    if "edge_attr" in arrays.table.edge:
        values["edge_attr"] = numbers(arrays.table.dense("edge", "edge_attr"))
    return values


def _empty(key: str, value: Any) -> Any:  # noqa: ANN401
    if not isinstance(value, torch.Tensor):
        return value
    return value[:, :0] if key == "edge_index" else value[:0]


def _save(path: Path, values: dict[str, Any]) -> None:
    save_tensors(path, (Data(**values), None))
