"""Train a PyG network on a corpus in several processes, and resume after an interruption.

    torchrun --nproc-per-node 2 examples/train_ddp.py CORPUS --checkpoint run.pt

CORPUS is a key or a directory. Every process reads its part of each epoch; gradients are averaged
by ``DistributedDataParallel``. Run the same command again to continue after the last checkpoint.
"""

from __future__ import annotations

import argparse
import gc
from pathlib import Path

import torch
from torch import distributed, nn
from torch.nn.parallel import DistributedDataParallel
from torch_geometric.nn import MLP, GINConv, global_mean_pool

import gsx


class Network(nn.Module):
    """A graph isomorphism network with two layers."""

    def __init__(self, features: int, classes: int, width: int = 32) -> None:
        super().__init__()
        self.layers = nn.ModuleList(
            GINConv(MLP([size, width, width], norm=None)) for size in (features, width)
        )
        self.head = nn.Linear(width, classes)

    def forward(self, batch):
        """Return the logits of a batch."""
        x = batch.x.float()
        for layer in self.layers:
            x = layer(x, batch.edge_index).relu()
        return self.head(global_mean_pool(x, batch.batch, batch.num_graphs))


def main() -> None:
    """Train in this process of a group."""
    options = parse_options()
    distributed.init_process_group("gloo")
    train(options)
    gc.collect()  # DistributedDataParallel must not outlive the group: PyTorch may hang at the end
    distributed.destroy_process_group()


def parse_options() -> argparse.Namespace:
    """Return the options of the command line."""
    parser = argparse.ArgumentParser()
    parser.add_argument("corpus")
    parser.add_argument("--epochs", type=int, default=2)
    parser.add_argument("--batch-size", type=int, default=64)
    parser.add_argument("--checkpoint", type=Path)
    parser.add_argument("--save-every", type=int, default=10)
    parser.add_argument("--stop-after", type=int, help="stop after this number of steps")
    return parser.parse_args()


def train(options: argparse.Namespace) -> None:
    """Train, and save checkpoints; rank 0 prints the sum of the weights."""
    rank, world_size = distributed.get_rank(), distributed.get_world_size()
    torch.manual_seed(0)
    corpus = gsx.open(options.corpus)
    # Rank and world size are those of the process group.
    loader = corpus.loader(options.batch_size, split="train", shuffle=True, seed=0)
    network = Network(corpus.info.num_features, len(corpus.info.outputs))
    model = DistributedDataParallel(network)
    optimizer = torch.optim.Adam(model.parameters(), lr=0.01)
    if options.checkpoint and options.checkpoint.exists():
        state = torch.load(options.checkpoint, weights_only=True)
        network.load_state_dict(state["network"])
        optimizer.load_state_dict(state["optimizer"])
        loader.load_state_dict(state["loader"])

    def save() -> None:
        if options.checkpoint and rank == 0:
            state = {"network": network.state_dict(), "optimizer": optimizer.state_dict(),
                     "loader": loader.state_dict()}  # fmt: skip
            torch.save(state, options.checkpoint)

    step = 0
    while loader.epoch < options.epochs:
        for batch in loader:
            loss = nn.functional.cross_entropy(model(batch), batch.y)  # class probabilities
            optimizer.zero_grad()
            loss.backward()
            optimizer.step()
            step += 1
            if step % options.save_every == 0:
                save()
            if step == options.stop_after:
                return
    save()
    if rank == 0:
        weights = sum(float(value.double().sum()) for value in network.state_dict().values())
        print(f"{world_size} processes, {options.epochs} epochs, weights {weights:.9f}")


if __name__ == "__main__":
    main()
