"""Splicing option 3 as one would write it with PyG: graph by graph, with the same bridge model.

The baseline of ``bench/splice.py``. It chooses f graphs, encodes them, draws latents, joins the
graphs along a random tree by node pairs drawn in proportion to their odds, averages the labels,
records the origin of every node and writes Parquet.
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

from gsx.stages.nn.bridge_features import bridge_inputs
from gsx.stages.nn.bridge_model import BridgeModel
from gsx.table import GraphTable


def to_data_list(train: GraphTable, model: BridgeModel) -> list[Data]:
    """Return the training graphs as PyG objects, with the inputs of the bridge model encoded."""
    inputs = torch.from_numpy(bridge_inputs(train, model.shape.code))
    graphs = []
    for row in range(len(train)):
        graph = train.slice(row, row + 1)
        nodes = slice(int(train.node_ptr[row]), int(train.node_ptr[row + 1]))
        ends = [torch.from_numpy(graph.edge[name]).long() for name in ("edge_src", "edge_dst")]
        graphs.append(
            Data(
                x=torch.from_numpy(graph.node["node_feat"].copy()),
                inputs=inputs[nodes],
                edge_index=torch.stack(ends),
                y=torch.from_numpy(graph.graph["y"].copy()),
                graph_id=int(graph.graph["graph_id"][0]),
            )
        )
    return graphs


class PerGraphSplicer:
    """Splice one graph at a time; with ``cached`` every source graph is encoded only once."""

    def __init__(self, graphs: list[Data], model: BridgeModel, *, cached: bool) -> None:
        self.graphs, self.model = graphs, model
        self.layers = [GINConv(layer.net) for layer in model.encoder.gin.layers]
        for layer in self.layers:
            layer.eval()
        self.encodings = [self.encode(graph) for graph in graphs] if cached else None

    def encode(self, graph: Data) -> tuple[torch.Tensor, torch.Tensor]:
        """Return mean and standard deviation of the latents of the nodes of one graph."""
        state = self.model.encoder.gin.enter(graph.inputs)
        for layer in self.layers:
            state = layer(state, graph.edge_index)
        deviation = self.model.encoder.log_variance(state).clamp(-8, 8).div(2).exp()
        return self.model.encoder.mean(state), deviation

    @torch.no_grad()
    def splice(self, f: tuple[int, int], random_stream: random.Random) -> Data:
        """Return one new graph of ``f[0]`` to ``f[1]`` components."""
        rows = random_stream.sample(range(len(self.graphs)), random_stream.randint(*f))
        components = [self.graphs[row] for row in rows]
        terms = []
        for row in rows:
            mean, deviation = (
                self.encodings[row] if self.encodings else self.encode(self.graphs[row])
            )
            latent = mean + deviation * torch.randn_like(mean)
            terms.append(self.model.decoder.node_factors(latent))
        starts = [0]
        for component in components:
            starts.append(starts[-1] + component.num_nodes)
        edges = [
            component.edge_index + start
            for component, start in zip(components, starts, strict=False)
        ]
        bridges = []
        for slot in range(1, len(components)):
            other = random_stream.randrange(slot)
            logits = terms[other][0] @ terms[slot][1].T
            odds = logits.clamp(-30, 30).exp().flatten()
            count = max(round(float((odds / (1 + odds)).sum())), 1)
            pairs = torch.multinomial(odds, min(count, len(odds)))
            left = starts[other] + pairs // components[slot].num_nodes
            right = starts[slot] + pairs % components[slot].num_nodes
            bridges.append(torch.stack([left, right]))
        joined = torch.cat(bridges, dim=1)
        edge_index = coalesce(torch.cat([*edges, joined, joined.flip(0)], dim=1))
        return Data(
            x=torch.cat([component.x for component in components]),
            edge_index=edge_index,
            y=torch.cat([component.y for component in components]).mean(dim=0, keepdim=True),
            parents=[component.graph_id for component in components],
            node_slot=torch.cat(
                [
                    torch.full((component.num_nodes,), slot)
                    for slot, component in enumerate(components)
                ]
            ),
            node_number=torch.cat([torch.arange(component.num_nodes) for component in components]),
            bridges=joined,
        )


def write_parquet(graphs: list[Data], path: Path) -> None:
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
