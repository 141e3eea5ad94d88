"""Feature extrapolation as one would write it with PyG, graph by graph.

The baseline of ``bench/featx.py``.
"""

from __future__ import annotations

import random
from pathlib import Path

import pyarrow as pa
import pyarrow.parquet as pq
import torch
from torch_geometric.data import Data


def extrapolate_and_write(graphs: list[Data], path: Path, *, count: int, seed: int) -> None:
    """Extrapolate all features of ``count`` graphs and write them to a Parquet file.

    Features are within [0, 1]; values outside are wrapped around.
    """
    random_stream = random.Random(seed)
    torch.manual_seed(seed)
    by_label: dict[int, list[Data]] = {}
    for data in graphs:
        by_label.setdefault(int(data.label), []).append(data)
    gamma = torch.distributions.Gamma(2.0, 2.0)
    extrapolated = []
    for number in range(count):
        data = graphs[number % len(graphs)]
        partner = random_stream.choice(by_label[int(data.label)])
        while int(partner.env_id) == int(data.env_id):
            partner = random_stream.choice(by_label[int(data.label)])
        partner_x = partner.x[random_stream.randrange(partner.num_nodes)]
        strength = gamma.sample()
        x = (1 + strength) * data.x - strength * partner_x
        inside = (x >= 0) & (x <= 1)
        graph = data.clone()
        graph.x = torch.where(inside, x, torch.remainder(x, 1.0))
        graph.strength, graph.partner = float(strength), int(partner.graph_id)
        extrapolated.append(graph)
    table = pa.table(
        {
            "x": [data.x.flatten().tolist() for data in extrapolated],
            "src": [data.edge_index[0].tolist() for data in extrapolated],
            "dst": [data.edge_index[1].tolist() for data in extrapolated],
            "y": [data.y.flatten().tolist() for data in extrapolated],
            "strength": [data.strength for data in extrapolated],
            "partner": [data.partner for data in extrapolated],
        }
    )
    pq.write_table(table, path, compression="zstd", compression_level=1)
