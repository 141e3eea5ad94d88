"""The bridge model: networks, how they read a corpus, and what they know of attributes."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Literal

import msgspec
import numpy as np
import torch
from torch import Tensor, nn

from gsx.errors import ArtifactError
from gsx.ragged import Array, row_indices
from gsx.stages.nn.bridge_features import BridgeEncoding, bridge_input_width, bridge_inputs
from gsx.stages.nn.bridge_network import BridgeCountPredictor, BridgeDecoder, BridgeEncoder
from gsx.stages.nn.gin import adjacency_matrix, init_weights
from gsx.stages.nn.training_loop import torch_stream
from gsx.table import GraphTable

ENCODE_BATCH = 2048
"""Components encoded together."""


class BridgeShape(msgspec.Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """What must be known to build the networks again; travels beside the weights."""

    model: Literal["vae", "diffusion"]
    code: BridgeEncoding
    attributes: tuple[tuple[float, ...], ...]
    """Rows of edge attributes a bridge may have, the most frequent first; empty without."""
    attribute_rates: tuple[float, ...]
    largest_count: int
    """Bridges between two components the counter tells apart; more count as so many."""
    width: int
    layers: int
    latent: int
    terms: int
    """Terms of the inner product of a pair."""
    bridge_nodes: tuple[tuple[float, ...], ...] = ()
    """Rows of node features a generated bridge node may have; empty without bridge nodes."""


@dataclass(frozen=True, slots=True, eq=False)
class BridgeModel:
    """Networks that join components."""

    shape: BridgeShape
    encoder: BridgeEncoder
    decoder: BridgeDecoder
    counter: BridgeCountPredictor
    device: torch.device

    @classmethod
    def with_random_weights(
        cls, shape: BridgeShape, seed: int, device: torch.device
    ) -> BridgeModel:
        """Return untrained networks; their weights come from named streams."""
        inputs = bridge_input_width(shape.code)
        nets: dict[str, nn.Module] = {
            "encoder": BridgeEncoder(inputs, shape.width, shape.layers, shape.latent),
            "decoder": BridgeDecoder(
                shape.latent,
                shape.width,
                shape.terms,
                attributes=max(len(shape.attributes), 1),
                nodes=len(shape.bridge_nodes),
                noisy=shape.model == "diffusion",
            ),
            "counter": BridgeCountPredictor(inputs, shape.width, shape.layers, shape.largest_count),
        }
        ready = {
            name: init_weights(net, torch_stream(seed, "bridge", name)).to(device)
            for name, net in nets.items()
        }
        return cls(shape, device=device, **ready)  # type: ignore[arg-type]

    @classmethod
    def load(
        cls, shape: BridgeShape, weights: Mapping[str, Tensor], device: torch.device
    ) -> BridgeModel:
        """Return trained networks, ready to read."""
        model = cls.with_random_weights(shape, 0, device)
        for name, net in model.networks().items():
            own = {
                key.removeprefix(f"{name}."): value
                for key, value in weights.items()
                if key.startswith(f"{name}.")
            }
            try:
                net.load_state_dict(own)
            except RuntimeError as error:
                raise ArtifactError(
                    f"the weights of a bridge model are not those its description asks for, as if "
                    f"another gsx had written them. Train it again: `gsx pretrain bridge`. ({name})"
                ) from error
            net.eval()
        return model

    def networks(self) -> dict[str, nn.Module]:
        """Return the networks by name."""
        return {"encoder": self.encoder, "decoder": self.decoder, "counter": self.counter}

    def weights(self) -> dict[str, Array]:
        """Return all weights, named after the networks."""
        return {
            f"{name}.{key}": np.ascontiguousarray(value.cpu().numpy())
            for name, net in self.networks().items()
            for key, value in net.state_dict().items()
        }

    def encode(self, components: GraphTable) -> EncodedComponents:
        """Return what is known of components, once and for every splice they take part in."""
        means, spreads, counted = [], [], []
        with torch.no_grad():
            for start in range(0, len(components), ENCODE_BATCH):
                part = components.slice(start, start + ENCODE_BATCH)
                matrix = adjacency_matrix(part, self.device)
                rows = torch.from_numpy(bridge_inputs(part, self.shape.code)).to(self.device)
                mean, log_variance = self.encoder(matrix, rows)
                means.append(mean.cpu().numpy())
                spreads.append((log_variance / 2).exp().cpu().numpy())
                owner = torch.from_numpy(row_indices(part.node_ptr)).to(self.device)
                terms = self.counter.component_features(matrix, rows, owner, len(part))
                counted.append(terms.cpu().numpy())
        if not means:
            empty = np.zeros((0, self.shape.latent), dtype=np.float32)
            return EncodedComponents(
                empty, empty, np.zeros((0, 2 * self.shape.width + 1), np.float32)
            )
        return EncodedComponents(
            np.concatenate(means), np.concatenate(spreads), np.concatenate(counted)
        )


@dataclass(frozen=True, slots=True, eq=False)
class EncodedComponents:
    """What the networks know of some components."""

    mean: Array
    """``[N, Z]`` means of the latents of all nodes."""
    std: Array
    """``[N, Z]`` their standard deviations."""
    count_features: Array
    """``[C, 2 W + 1]`` what the counter knows of every component."""
