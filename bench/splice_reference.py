"""Splicing as one would write it with PyG: graph by graph, with the same trained bridge model.

Kept as the yardstick of ``bench/splice.py``. It does what option 3 does: choose f graphs, encode
them, draw latents, join them along a random tree by pairs drawn in proportion to their odds,
average the labels, remember where every node came from, and write Parquet.
"""

from __future__ import annotations

import random
from pathlib import Path

import pyarrow as pa
import pyarrow.parquet as pq
import torch
from torch_geometric.data import Data
from torch_geometric.nn import GINConv
from torch_geometric.utils import coalesce

from gsx.stages.bridges.model import BridgeModel
from gsx.stages.kernels.inputs import node_inputs
from gsx.table import GraphTable


def data_of(train: GraphTable, model: BridgeModel) -> list[Data]:
    """Return the training graphs as PyG objects; what can be prepared once is prepared."""
    inputs = torch.from_numpy(node_inputs(train, model.shape.code))
    graphs = []
    for row in range(len(train)):
        one = train.slice(row, row + 1)
        nodes = slice(int(train.node_ptr[row]), int(train.node_ptr[row + 1]))
        ends = [torch.from_numpy(one.edge[name]).long() for name in ("edge_src", "edge_dst")]
        graphs.append(
            Data(
                x=torch.from_numpy(one.node["node_feat"].copy()),
                inputs=inputs[nodes],
                edge_index=torch.stack(ends),
                y=torch.from_numpy(one.graph["y"].copy()),
                graph_id=int(one.graph["graph_id"][0]),
            )
        )
    return graphs


class PerGraph:
    """Splices one graph at a time."""

    def __init__(self, graphs: list[Data], model: BridgeModel, *, cached: bool) -> None:
        self.graphs, self.model = graphs, model
        self.layers = [GINConv(layer.net) for layer in model.encoder.gin.layers]
        for layer in self.layers:
            layer.eval()
        self.known = [self.encode(graph) for graph in graphs] if cached else None

    def encode(self, graph: Data) -> tuple[torch.Tensor, torch.Tensor]:
        """Return mean and spread of the latents of one graph."""
        state = self.model.encoder.gin.enter(graph.inputs)
        for layer in self.layers:
            state = layer(state, graph.edge_index)
        spread = self.model.encoder.log_variance(state).clamp(-8, 8).div(2).exp()
        return self.model.encoder.mean(state), spread

    @torch.no_grad()
    def splice(self, f: tuple[int, int], stream: random.Random) -> Data:
        """Return one new graph."""
        chosen = stream.sample(range(len(self.graphs)), stream.randint(*f))
        parts = [self.graphs[row] for row in chosen]
        terms = []
        for row in chosen:
            mean, spread = self.known[row] if self.known else self.encode(self.graphs[row])
            latent = mean + spread * torch.randn_like(mean)
            terms.append(self.model.decoder.node_terms(latent))
        starts = [0]
        for part in parts:
            starts.append(starts[-1] + part.num_nodes)
        edges = [part.edge_index + start for part, start in zip(parts, starts, strict=False)]
        bridges = []
        for slot in range(1, len(parts)):
            other = stream.randrange(slot)
            logits = terms[other][0] @ terms[slot][1].T
            odds = logits.clamp(-30, 30).exp().flatten()
            count = max(round(float((odds / (1 + odds)).sum())), 1)
            pairs = torch.multinomial(odds, min(count, len(odds)))
            left = starts[other] + pairs // parts[slot].num_nodes
            right = starts[slot] + pairs % parts[slot].num_nodes
            bridges.append(torch.stack([left, right]))
        joined = torch.cat(bridges, dim=1)
        edge_index = coalesce(torch.cat([*edges, joined, joined.flip(0)], dim=1))
        return Data(
            x=torch.cat([part.x for part in parts]),
            edge_index=edge_index,
            y=torch.cat([part.y for part in parts]).mean(dim=0, keepdim=True),
            parents=[part.graph_id for part in parts],
            node_slot=torch.cat(
                [torch.full((part.num_nodes,), slot) for slot, part in enumerate(parts)]
            ),
            node_number=torch.cat([torch.arange(part.num_nodes) for part in parts]),
            bridges=joined,
        )


def write(graphs: list[Data], path: Path) -> None:
    """Write graphs as rows of a Parquet file."""
    rows = [
        {
            "graph_id": number,
            "node_feat": graph.x.tolist(),
            "edge_src": graph.edge_index[0].tolist(),
            "edge_dst": graph.edge_index[1].tolist(),
            "y": graph.y[0].tolist(),
            "parents": graph.parents,
            "node_slot": graph.node_slot.tolist(),
            "node_number": graph.node_number.tolist(),
            "bridges": graph.bridges.tolist(),
        }
        for number, graph in enumerate(graphs)
    ]
    pq.write_table(pa.Table.from_pylist(rows), path, compression="zstd")
