"""The bridge model: networks, input encoding and codebooks of attributes."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Literal

import msgspec
import numpy as np
import torch
from torch import nn

from gsx.ragged import Array, row_indices
from gsx.stages.nn.batches import Layers, Size
from gsx.stages.nn.bridge_features import BridgeEncoding, bridge_input_width, bridge_inputs
from gsx.stages.nn.bridge_network import BridgeCountPredictor, BridgeDecoder, BridgeEncoder
from gsx.stages.nn.check_weights import check_weights
from gsx.stages.nn.gin import adjacency_matrix, init_weights
from gsx.stages.nn.training_loop import torch_stream
from gsx.table import GraphTable

ENCODE_BATCH = 2048
"""Components that are encoded at once."""


class BridgeShape(msgspec.Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """Everything needed to build the networks again. Serialized next to the weights."""

    model: Literal["vae", "diffusion"]
    code: BridgeEncoding
    """Encoding of the node inputs."""
    attributes: tuple[tuple[float, ...], ...]
    """Codebook of edge attributes of bridges, most frequent first; empty without attributes."""
    attribute_rates: tuple[float, ...]
    largest_count: Size
    """Largest number of bridges that is predicted; larger numbers are counted as this one."""
    width: Size
    layers: Layers
    latent: Size
    terms: Size
    """Terms of the inner product of a pair."""
    bridge_nodes: tuple[tuple[float, ...], ...] = ()
    """Codebook of features of bridge nodes; empty without bridge nodes."""

    def __post_init__(self) -> None:
        """Check that the rows of the codebooks have the width of the features."""
        code = self.code
        widths = ((self.attributes, code.num_edge_features),
                  (self.bridge_nodes, code.num_node_features))  # fmt: skip
        if any(len(row) != width for rows, width in widths for row in rows):
            raise ValueError("a row of a codebook has another width than the features")
        if len(self.attribute_rates) != len(self.attributes) or self.largest_count < 1:
            raise ValueError("the codebook of attributes and its rates differ in length")


@dataclass(frozen=True, slots=True, eq=False)
class BridgeModel:
    """Networks that sample the bridges between components."""

    shape: BridgeShape
    encoder: BridgeEncoder
    decoder: BridgeDecoder
    counter: BridgeCountPredictor
    device: torch.device

    @classmethod
    def with_random_weights(
        cls, shape: BridgeShape, seed: int, device: torch.device
    ) -> BridgeModel:
        """Return untrained networks with weights from named random streams."""
        initialized = {
            name: init_weights(network, torch_stream(seed, "bridge", name)).to(device)
            for name, network in _build_networks(shape).items()
        }
        return cls(shape, device=device, **initialized)  # type: ignore[arg-type]

    @classmethod
    def load(
        cls, shape: BridgeShape, arrays: Mapping[str, Array], device: torch.device, where: str
    ) -> BridgeModel:
        """Return trained networks in evaluation mode, with the weights of a file."""
        check_weights(lambda: nn.ModuleDict(_build_networks(shape)), arrays, where)
        model = cls.with_random_weights(shape, 0, device)
        for name, network in model.networks().items():
            state = {
                key.removeprefix(f"{name}."): torch.from_numpy(values)
                for key, values in arrays.items()
                if key.startswith(f"{name}.")
            }
            network.load_state_dict(state)
            network.eval()
        return model

    def networks(self) -> dict[str, nn.Module]:
        """Return the networks by name."""
        return {"encoder": self.encoder, "decoder": self.decoder, "counter": self.counter}

    def weights(self) -> dict[str, Array]:
        """Return all weights, prefixed with the names of the networks."""
        return {
            f"{name}.{key}": np.ascontiguousarray(value.cpu().numpy())
            for name, network in self.networks().items()
            for key, value in network.state_dict().items()
        }

    def encode(self, components: GraphTable) -> EncodedComponents:
        """Encode components. The result is valid for every splice that uses them."""
        means, stds, count_features = [], [], []
        with torch.no_grad():
            for start in range(0, len(components), ENCODE_BATCH):
                batch = components.slice(start, start + ENCODE_BATCH)
                matrix = adjacency_matrix(batch, self.device)
                rows = torch.from_numpy(bridge_inputs(batch, self.shape.code)).to(self.device)
                mean, log_variance = self.encoder(matrix, rows)
                means.append(mean.cpu().numpy())
                stds.append((log_variance / 2).exp().cpu().numpy())
                if self.shape.largest_count == 1:
                    count_features.append(np.zeros((len(batch), 0), dtype=np.float32))
                    continue
                owner = torch.from_numpy(row_indices(batch.node_ptr)).to(self.device)
                features = self.counter.component_features(matrix, rows, owner, len(batch))
                count_features.append(features.cpu().numpy())
        if not means:
            empty = np.zeros((0, self.shape.latent), dtype=np.float32)
            width = 0 if self.shape.largest_count == 1 else 2 * self.shape.width + 1
            return EncodedComponents(empty, empty, np.zeros((0, width), dtype=np.float32))
        return EncodedComponents(
            np.concatenate(means), np.concatenate(stds), np.concatenate(count_features)
        )


def _build_networks(shape: BridgeShape) -> dict[str, nn.Module]:
    inputs = bridge_input_width(shape.code)
    return {
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


@dataclass(frozen=True, slots=True, eq=False)
class EncodedComponents:
    """Encodings of components by a bridge model."""

    mean: Array
    """``[N, Z]`` means of the latents of all nodes."""
    std: Array
    """``[N, Z]`` standard deviations of the latents."""
    count_features: Array
    """``[C, 2 W + 1]`` inputs of the count predictor, per component; ``[C, 0]`` if the number of
    bridges is always 1."""


def concat_encoded(parts: Sequence[EncodedComponents]) -> EncodedComponents:
    """Concatenate the encodings of components."""
    return EncodedComponents(
        np.concatenate([part.mean for part in parts]),
        np.concatenate([part.std for part in parts]),
        np.concatenate([part.count_features for part in parts]),
    )
