"""Format ``good``: folders, file names, keys and shapes of the GOOD benchmark.

GOOD reads ``<root>/<Dataset>/<domain>/processed/<shift>_<subset>.pt``: a ``Data`` object of all
graphs and its slices. If one of the thirteen files is missing, GOOD rebuilds the whole dataset.
Therefore the files of the other shifts exist too, without graphs.
"""

from __future__ import annotations

import json
from functools import partial
from pathlib import Path
from typing import Any

import numpy as np
import torch
from torch_geometric.data import Data

from gsx.escape import folder_name
from gsx.ragged import Array, Ints, decode_texts, pointers
from gsx.schema import CorpusInfo
from gsx.stages.export.hard_labels import tables_with_labels
from gsx.stages.export.request import ExportRequest
from gsx.stages.export.torch_files import save_tensors
from gsx.storage.sharing.bundle import Bundle
from gsx.table import GraphTable, concat

SUBSETS = {"train": "train", "id_val": "id_val", "id_test": "id_test", "ood_val": "val",
           "ood_test": "test"}  # fmt: skip
"""Split → name of the subset in GOOD."""
SHIFTS = ("no_shift", "covariate", "concept")
_DATASET_NAMES = {"motif": "GOODMotif", "hiv": "GOODHIV", "cmnist": "GOODCMNIST",
                  "sst2": "GOODSST2", "twitter": "GOODTwitter", "cora": "GOODCora",
                  "cora-ml": "GOODCoraML", "webkb": "GOODWebKB", "cbas": "GOODCBAS",
                  "twitch": "GOODTwitch"}  # fmt: skip
_DATASET_TYPES = {"motif": "syn", "fsmotif": "syn", "cmnist": "syn", "cbas": "syn", "sst2": "nlp",
          "twitter": "nlp"}  # fmt: skip
_DOMAINS = {"base": "basis"}
TASKS = {"classification": "Multi-label classification", "binary": "Binary classification",
          "multitask": "Binary classification", "regression": "Regression"}  # fmt: skip
METRICS = {"accuracy": "Accuracy", "roc_auc": "ROC-AUC", "rmse": "RMSE", "mcc": "MCC"}

READER = '''"""Load this corpus as GOOD's `load` does: datasets by subset, and metadata.

    from load_good import load
    datasets, meta = load()
    datasets["train"], datasets["val"], meta["num_envs"]

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


class Subset(InMemoryDataset):
    def __init__(self, path):
        super().__init__()
        with torch.serialization.safe_globals(SAFE):
            self.data, self.slices = torch.load(path, weights_only=True)


def load():
    folder = HERE / META["dataset"] / META["domain"] / "processed"
    datasets = {
        name: Subset(folder / f"{META['shift']}_{name}.pt")
        for name in ("train", "id_val", "id_test", "val", "test")
    }
    return {**datasets, "task": META["task"], "metric": META["metric"]}, dict(META["meta"])
'''


def write(bundle: Bundle, request: ExportRequest) -> None:
    """Write the thirteen files, ``good.json`` and a loader."""
    if request.corpus.info.level == "node":
        from gsx.stages.export.formats.good_nodes import write_node_corpus

        write_node_corpus(bundle, request)
        return
    info = request.corpus.info
    name, domain, shift = good_names(info)
    folder = f"{name}/{domain}/processed"
    splits = {split: _graphs(request, split) for split in SUBSETS if split in request.corpus.splits}
    empty = _empty_like(next(iter(splits.values())))
    for file_shift in SHIFTS:
        for split, subset in SUBSETS.items():
            if file_shift == "no_shift" and split.startswith("id_"):
                continue
            graphs = splits.get(split, empty) if file_shift == shift else empty
            path = f"{folder}/{file_shift}_{subset}.pt"
            bundle.write(path, partial(_save, graphs=graphs), rows=len(graphs[1]["edge_index"]) - 1)
    metadata = {
        "dataset": name,
        "domain": domain,
        "shift": shift,
        "task": TASKS[info.task],
        "metric": METRICS[info.metric],
        "labels": request.labels,
        "meta": _meta(info, splits),
    }
    bundle.add("good.json", (json.dumps(metadata, indent=2) + "\n").encode())
    bundle.add("load_good.py", READER.encode())


def good_names(info: CorpusInfo) -> tuple[str, str, str]:
    """Return GOOD's names of the dataset, the domain and the shift."""
    family = "cora-ml" if info.name.startswith("cora-ml") else info.name.split("-")[0]
    shift = "concept" if info.name.endswith("concept") else "covariate"
    title = "".join(word.capitalize() for word in info.name.split("-")[:1])
    name = _DATASET_NAMES.get(family, folder_name(f"GOOD{title}", "GOODCorpus"))
    return name, folder_name(_DOMAINS.get(info.domain, info.domain), "domain"), shift


def dataset_type(info: CorpusInfo) -> str:
    """Return GOOD's dataset type; GOOD has feature encoders for molecules only (``mol``)."""
    if any(column.name == "smiles" for column in info.columns):
        return "mol"
    return _DATASET_TYPES.get(info.name.split("-")[0], "real")


Graphs = tuple[dict[str, Any], dict[str, torch.Tensor]]
"""Concatenated values by key, and the slice pointers of the graphs by key."""


def _graphs(request: ExportRequest, split: str) -> Graphs:
    blocks = list(tables_with_labels(request, split))
    if not blocks:
        table = next(request.corpus.iter_tables(split=split)).slice(0, 0)
        return _collate(table, np.zeros(0, dtype=np.int64))
    table = concat([block for block, _ in blocks])
    return _collate(table, np.concatenate([y for _, y in blocks]))


def _collate(table: GraphTable, y: Array) -> Graphs:
    edges = np.stack([table.dense("edge", "edge_src"), table.dense("edge", "edge_dst")])
    values: dict[str, Any] = {
        "edge_index": torch.from_numpy(edges.astype(np.int64)),
        "x": to_tensor(table.dense("node", "node_feat")),
        "y": torch.from_numpy(y.copy()),
        "env_id": torch.from_numpy(table.dense("graph", "env_id").astype(np.int64)),
        "domain_id": torch.from_numpy(table.dense("graph", "domain_id").astype(np.int64)),
        "idx": torch.from_numpy(table.dense("graph", "graph_id").copy()),
    }
    slices = {name: _slices(np.arange(len(table) + 1)) for name in values}
    slices |= {"edge_index": _slices(table.edge_ptr), "x": _slices(table.node_ptr)}
    if "edge_attr" in table.edge:
        values["edge_attr"] = to_tensor(table.dense("edge", "edge_attr"))
        slices["edge_attr"] = _slices(table.edge_ptr)
    if "node_truth" in table.node:
        truth = table.dense("node", "node_truth").astype(np.int64)
        values["node_gt"] = torch.from_numpy(truth)
        slices["node_gt"] = _slices(table.node_ptr)
        first = np.repeat(table.node_ptr[:-1], table.num_edges)
        values["edge_gt"] = torch.from_numpy(
            (truth[edges[0] + first] & truth[edges[1] + first]) > 0
        )
        slices["edge_gt"] = _slices(table.edge_ptr)
    for name in ("basis_id", "motif_id", "width_id"):
        if name in table.graph:
            values[name] = torch.from_numpy(table.dense("graph", name).astype(np.int64))
            slices[name] = _slices(np.arange(len(table) + 1))
    for name in ("smiles", "scaffold"):
        if name in table.graph:
            values[name] = decode_texts(table.lists("graph", name))
            slices[name] = _slices(np.arange(len(table) + 1))
    if "smiles" in table.graph:
        values["nodesize"] = torch.from_numpy(table.num_nodes.astype(np.int64))
        slices["nodesize"] = _slices(np.arange(len(table) + 1))
    return values, slices


def to_tensor(values: Array) -> torch.Tensor:
    """Return integers as int64, as GOOD's encoders need them, and other values as float32."""
    is_integer = values.dtype.kind in "iu"
    return torch.from_numpy(values.astype(np.int64 if is_integer else np.float32))


def _slices(ptr: Ints) -> torch.Tensor:
    return torch.from_numpy(np.asarray(ptr, dtype=np.int64).copy())


def _empty_like(graphs: Graphs) -> Graphs:
    values, slices = graphs
    empty = {
        name: value[:, :0] if name == "edge_index" else value[:0] for name, value in values.items()
    }
    return empty, {name: _slices(pointers([])) for name in slices}


def _meta(info: CorpusInfo, splits: dict[str, Graphs]) -> dict[str, Any]:
    values = next(iter(splits.values()))[0]
    classes = len(info.outputs) if info.task != "regression" else 1
    train = splits["train"][0]["env_id"] if "train" in splits else torch.zeros(0)
    return {
        "dataset_type": dataset_type(info),
        "model_level": "graph",
        "dim_node": int(values["x"].shape[1]),
        "dim_edge": int(values["edge_attr"].shape[1]) if "edge_attr" in values else 0,
        "num_envs": len(torch.unique(train)),
        "num_classes": classes,
    }


def _save(path: Path, graphs: Graphs) -> None:
    values, slices = graphs
    save_tensors(path, (Data(**values), slices))
