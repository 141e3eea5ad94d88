"""PyG graphs, and files with them, for tests of readers."""

import torch
from torch_geometric.data import Data

NUM_RINGS = 40


def ring(number, **fields):
    """Return a ring of ``number + 3`` nodes with categories, edge values and a label."""
    nodes = number + 3
    index = torch.arange(nodes)
    ends = torch.stack([index, (index + 1) % nodes])
    return Data(
        x=torch.stack([index % 3, index % 2 + 4], dim=1),
        edge_index=torch.cat([ends, ends.flip(0)], dim=1),
        edge_attr=torch.full((2 * nodes, 1), number / 2),
        y=torch.tensor([number % 2]),
        **fields,
    )


RINGS = [ring(number, env_id=number % 2, assay="pqrs"[number // 10]) for number in range(NUM_RINGS)]


def save_pt(folder, value, name="mine.pt"):
    """Save a value with ``torch.save`` and return the path."""
    torch.save(value, folder / name)
    return folder / name
