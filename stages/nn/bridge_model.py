"""The bridge model: networks, input encoding and codebooks of attributes."""

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
"""Components that are encoded at once."""


class BridgeShape(msgspec.Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """Everything needed to build the networks again. Serialized next to the weights."""

    model: Literal["vae", "diffusion"]
    code: BridgeEncoding
    """Encoding of the node inputs."""
    attributes: tuple[tuple[float, ...], ...]
    """Codebook of edge attributes of bridges, most frequent first; empty without attributes."""
    attribute_rates: tuple[float, ...]
    largest_count: int
    """Largest number of bridges that is predicted; larger numbers are counted as this one."""
    width: int
    layers: int
    latent: int
    terms: int
    """Terms of the inner product of a pair."""
    bridge_nodes: tuple[tuple[float, ...], ...] = ()
    """Codebook of features of bridge nodes; empty without bridge nodes."""


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
        inputs = bridge_input_width(shape.code)
        networks: dict[str, nn.Module] = {
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
        initialized = {
            name: init_weights(network, torch_stream(seed, "bridge", name)).to(device)
            for name, network in networks.items()
        }
        return cls(shape, device=device, **initialized)  # type: ignore[arg-type]

    @classmethod
    def load(
        cls, shape: BridgeShape, weights: Mapping[str, Tensor], device: torch.device
    ) -> BridgeModel:
        """Return trained networks in evaluation mode."""
        model = cls.with_random_weights(shape, 0, device)
        for name, network in model.networks().items():
            state = {
                key.removeprefix(f"{name}."): value
                for key, value in weights.items()
                if key.startswith(f"{name}.")
            }
            try:
                network.load_state_dict(state)
            except RuntimeError as error:
                raise ArtifactError(
                    f"bridge model: the weights of the {name} do not match the model description; "
                    "another version of gsx may have written them. Train the model again: `gsx "
                    "pretrain bridge`."
                ) from error
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
                owner = torch.from_numpy(row_indices(batch.node_ptr)).to(self.device)
                features = self.counter.component_features(matrix, rows, owner, len(batch))
                count_features.append(features.cpu().numpy())
        if not means:
            empty = np.zeros((0, self.shape.latent), dtype=np.float32)
            return EncodedComponents(
                empty, empty, np.zeros((0, 2 * self.shape.width + 1), np.float32)
            )
        return EncodedComponents(
            np.concatenate(means), np.concatenate(stds), np.concatenate(count_features)
        )


@dataclass(frozen=True, slots=True, eq=False)
class EncodedComponents:
    """Encodings of components by a bridge model."""

    mean: Array
    """``[N, Z]`` means of the latents of all nodes."""
    std: Array
    """``[N, Z]`` standard deviations of the latents."""
    count_features: Array
    """``[C, 2 W + 1]`` inputs of the count predictor, per component."""
