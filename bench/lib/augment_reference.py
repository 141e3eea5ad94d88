"""DropNode, DropEdge, MaskFeature and G-Mixup as one would write them with PyG, graph by graph.

The baseline of ``bench/augment.py``.
"""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq
import torch
from torch_geometric.data import Data
from torch_geometric.utils import dense_to_sparse, dropout_edge, dropout_node, mask_feature

from gsx.stages.augment.g_mixup import GMixup


def augment_graphs(
    method: str, graphs: list[Data], mixer: GMixup, *, count: int, rate: float, seed: int
) -> list[Data]:
    """Return ``count`` augmented graphs; ``g-mixup`` samples the graphons of ``mixer``."""
    torch.manual_seed(seed)
    generator = np.random.default_rng(seed)
    if method == "g-mixup":
        return [
            sample_graphon(mixer, number % len(mixer.pairs), generator) for number in range(count)
        ]
    return [perturb(method, graphs[number % len(graphs)], rate) for number in range(count)]


def perturb(method: str, data: Data, rate: float) -> Data:
    """Return a graph after PyG's ``dropout_node``, ``dropout_edge`` or ``mask_feature``."""
    if method == "drop-node":
        edges, _, kept_nodes = dropout_node(
            data.edge_index, p=rate, num_nodes=data.num_nodes, relabel_nodes=True
        )
        return Data(x=data.x[kept_nodes], edge_index=edges, y=data.y)
    if method == "drop-edge":
        edges, _ = dropout_edge(data.edge_index, p=rate, force_undirected=True)
        return Data(x=data.x, edge_index=edges, y=data.y)
    x, _ = mask_feature(data.x, p=rate, mode="col")
    return Data(x=x, edge_index=data.edge_index, y=data.y)


def sample_graphon(mixer: GMixup, pair: int, generator: np.random.Generator) -> Data:
    """Return a graph sampled from the mixed graphon of a pair of classes."""
    graphon, weight = mixer.graphons[pair], float(mixer.weight[pair])
    first, second = mixer.pairs[pair]
    matrix = np.triu(generator.random(graphon.shape) < graphon, 1)
    matrix = matrix | matrix.T
    connected = np.flatnonzero(matrix.any(axis=1))
    edges, _ = dense_to_sparse(
        torch.from_numpy(matrix[np.ix_(connected, connected)].astype(np.float32))
    )
    means = mixer.classes.means
    features = weight * means[first][connected] + (1 - weight) * means[second][connected]
    y = torch.zeros(1, len(mixer.info.outputs))
    y[0, first], y[0, second] = weight, 1 - weight
    return Data(x=torch.from_numpy(features).float(), edge_index=edges, y=y)


def write_parquet(graphs: list[Data], path: Path) -> None:
    """Write graphs as rows of a Parquet file."""
    table = pa.table(
        {
            "x": [data.x.flatten().tolist() for data in graphs],
            "src": [data.edge_index[0].tolist() for data in graphs],
            "dst": [data.edge_index[1].tolist() for data in graphs],
            "y": [data.y.flatten().tolist() for data in graphs],
        }
    )
    pq.write_table(table, path, compression="zstd", compression_level=1)
