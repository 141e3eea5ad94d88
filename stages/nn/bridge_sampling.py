"""Sample bridges between components with a trained bridge model, for many splices at once."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass, fields
from typing import Literal

import numpy as np
import torch

from gsx.ragged import Array, Ints, pointers, ranges, row_indices
from gsx.stages.graphs.subgraphs import Bools, Floats
from gsx.stages.graphs.weighted_sampling import sample_without_replacement
from gsx.stages.nn.bridge_diffusion import (
    DIFFUSION_STEPS,
    keep_probability,
    noise_features,
    reverse_step_probability,
)
from gsx.stages.nn.bridge_model import BridgeModel, EncodedComponents
from gsx.stages.nn.pair_sampling import NodeRuns, draw_pairs

MAX_RUN_PAIRS = 4_000_000
"""Node pairs whose odds are in memory at once, unless a single attachment has more."""
BLOCK_PAIRS = 262_144
BLOCK_ATTACHMENTS = 512
"""Node pairs and attachments that the decoder processes at once; they fit into the CPU cache."""

MAX_LOGIT = 30.0
"""Bound of logits before they become odds."""

CountRule = Literal["expected", "sampled"]


@dataclass(frozen=True, slots=True, eq=False)
class Attachments:
    """Pairs of components to join. Nodes are numbered over the whole table of splices."""

    left_start: Ints
    left_count: Ints
    right_start: Ints
    right_count: Ints
    left_slot: Ints
    """Index of the left component among all components of the table."""
    right_slot: Ints

    def __len__(self) -> int:
        return len(self.left_start)

    def take(self, rows: Ints) -> Attachments:
        """Return some of the attachments."""
        return Attachments(
            self.left_start[rows],
            self.left_count[rows],
            self.right_start[rows],
            self.right_count[rows],
            self.left_slot[rows],
            self.right_slot[rows],
        )

    def restrict_to(self, free: Bools) -> Attachments:
        """Return the attachments over free nodes ``[N]`` only, numbered consecutively."""
        new_index = pointers(free)
        left, right = new_index[self.left_start], new_index[self.right_start]
        return Attachments(
            left,
            new_index[self.left_start + self.left_count] - left,
            right,
            new_index[self.right_start + self.right_count] - right,
            self.left_slot,
            self.right_slot,
        )

    @property
    def ptr(self) -> Ints:
        """Offsets ``[P + 1]`` of the node pairs of each attachment."""
        return pointers(self.left_count * self.right_count)

    def node_pairs(self, pair: Ints, attachment: Ints) -> tuple[Ints, Ints]:
        """Return left and right nodes of pairs, given by number and attachment."""
        offset = pair - self.ptr[attachment]
        left, right = np.divmod(offset, self.right_count[attachment])
        return self.left_start[attachment] + left, self.right_start[attachment] + right


@dataclass(frozen=True, slots=True, eq=False)
class Bridges:
    """Edges that join components."""

    attachment: Ints
    """``[B]`` attachment of each bridge, ascending."""
    left: Ints
    """``[B]`` nodes of the whole table of splices."""
    right: Ints
    attribute: Ints
    """``[B]`` row of the model's codebook of attributes."""
    node: Ints
    """``[B]`` row of the model's codebook of bridge nodes."""


@dataclass(frozen=True, slots=True, eq=False)
class DrawnLatents:
    """One draw of the latents of all nodes of a pool of components."""

    latent: Array
    """``[N, Z]`` float32."""
    terms: Array
    """``[N, K + 1]`` matching factors of every node, then its port logit; float32."""

    @classmethod
    def draw(
        cls, model: BridgeModel, encoded: EncodedComponents, stream: np.random.Generator
    ) -> DrawnLatents:
        """Draw latents; those of a diffusion model are not random."""
        latent = encoded.mean
        if model.shape.model == "vae":
            noise = stream.standard_normal(encoded.mean.shape, dtype=np.float32)
            latent = encoded.mean + encoded.std * noise
        with torch.no_grad():
            terms = model.decoder.node_terms(torch.from_numpy(latent).to(model.device))
        return cls(latent, np.ascontiguousarray(terms.cpu().numpy()))


@dataclass(frozen=True, slots=True, eq=False)
class PooledComponents:
    """Components of a table of splices, which come from a pool."""

    node_ptr: Ints
    """``[S + 1]`` pointers into the nodes of the table."""
    pool_start: Ints
    """``[S]`` first node of every component in the pool."""

    def pool_nodes(self, nodes: Ints) -> Ints:
        """Return the nodes of the pool that some nodes of the table come from."""
        slot = np.searchsorted(self.node_ptr, nodes, side="right") - 1
        return np.asarray(self.pool_start[slot] + nodes - self.node_ptr[slot])


def concat_bridges(parts: Sequence[Bridges]) -> Bridges:
    """Concatenate bridges, sorted by attachment."""
    order = np.argsort(np.concatenate([part.attachment for part in parts]), kind="stable")

    def column(name: str) -> Ints:
        joined: Ints = np.concatenate([getattr(part, name) for part in parts])[order]
        return joined

    return Bridges(*(column(field.name) for field in fields(Bridges)))


@dataclass(frozen=True, slots=True, eq=False)
class BridgeSampler:
    """Samples bridges of a table of splices, with one draw of the node latents.

    Every attachment gets at least one bridge unless it has no free node pair. The number is the
    expected number under the pair probabilities, rounded, or it is sampled from the count
    predictor. Pairs are drawn without replacement, in proportion to their odds.
    """

    model: BridgeModel
    latents: DrawnLatents
    components: PooledComponents
    count_features: Array
    """``[S, …]`` encodings of the components for the prediction of bridge counts."""
    counts: CountRule

    def sample(
        self,
        attachments: Attachments,
        stream: np.random.Generator,
        free: Bools | None = None,
        fixed_counts: Ints | None = None,
    ) -> Bridges:
        """Sample the bridges of some attachments.

        ``free`` ``[N]`` are the nodes that may get a bridge. ``fixed_counts`` ``[P]`` sets the
        number of bridges of each attachment; 0 leaves it to the count rule.
        """
        wanted = np.zeros(len(attachments), dtype=np.int64)
        with torch.no_grad():
            if self.counts == "sampled":
                rates = _count_probabilities(self.model, self.count_features, attachments)
                uniform = stream.random(len(rates))[:, None]
                wanted = 1 + (rates.cumsum(axis=1) < uniform).sum(axis=1)
                wanted = np.minimum(wanted, rates.shape[1])
            if fixed_counts is not None:
                wanted = np.where(fixed_counts > 0, fixed_counts, wanted)
            draw = self._denoised_pairs if self.model.shape.model == "diffusion" else self._pairs
            attachment, left, right = draw(attachments, wanted, free, stream)
            nodes = (self.components.pool_nodes(left), self.components.pool_nodes(right))
            attribute, node = sample_attributes_and_nodes(
                self.model, self.latents.latent, *nodes, stream
            )
        return Bridges(attachment, left, right, attribute, node)

    def _pairs(
        self,
        attachments: Attachments,
        wanted: Ints,
        free: Bools | None,
        stream: np.random.Generator,
    ) -> tuple[Ints, Ints, Ints]:
        """Return attachment, left node and right node of every sampled bridge."""
        most = self.model.shape.largest_count
        draws = max(int(wanted.max(initial=0)), most if (wanted == 0).any() else 0)
        start = self.components.pool_start
        runs = NodeRuns(
            start[attachments.left_slot],
            attachments.left_count,
            start[attachments.right_slot],
            attachments.right_count,
        )
        attachment, pair = draw_pairs(
            self.latents.terms,
            runs,
            wanted,
            most,
            stream.random((len(attachments), draws)),
            None if free is None else (free, attachments.left_start, attachments.right_start),
        )
        left, right = np.divmod(pair, attachments.right_count[attachment])
        return (
            attachment,
            attachments.left_start[attachment] + left,
            attachments.right_start[attachment] + right,
        )

    def _denoised_pairs(
        self,
        attachments: Attachments,
        wanted: Ints,
        free: Bools | None,
        stream: np.random.Generator,
    ) -> tuple[Ints, Ints, Ints]:
        """Return attachment, left node and right node of every bridge of a diffusion model."""
        components = self.components
        rows = ranges(components.pool_start, np.diff(components.node_ptr))
        latent = torch.from_numpy(self.latents.latent[rows]).to(self.model.device)
        factors = self.model.decoder.node_factors(latent)
        rates = _count_probabilities(self.model, self.count_features, attachments)
        samples = []
        for part in _runs(attachments):
            run = _Run(self.model, factors, attachments.take(part), rates[part])
            index, left, right = _sample_run(run, free, wanted[part], stream)
            samples.append((part[index], left, right))
        attachment, left, right = (np.concatenate(column) for column in zip(*samples, strict=True))
        order = np.argsort(attachment, kind="stable")
        return attachment[order], left[order], right[order]


def _count_probabilities(
    model: BridgeModel, count_features: Array, attachments: Attachments
) -> Floats:
    """Return the probabilities of 1..``largest_count`` bridges, ``[P, largest_count]``."""
    if model.shape.largest_count == 1:
        return np.ones((len(attachments), 1))
    left = torch.from_numpy(count_features[attachments.left_slot]).to(model.device)
    right = torch.from_numpy(count_features[attachments.right_slot]).to(model.device)
    return np.asarray(model.counter(left, right).softmax(dim=1).cpu().numpy(), dtype=np.float64)


def _runs(attachments: Attachments) -> Iterator[Ints]:
    """Yield attachments, sorted by size, in runs whose node pairs fit into memory."""
    order = np.lexsort((attachments.left_count, attachments.right_count))
    ends = np.cumsum((attachments.left_count * attachments.right_count)[order])
    start = 0
    while start < len(attachments):
        before = ends[start - 1] if start else 0
        stop = max(int(np.searchsorted(ends, before + MAX_RUN_PAIRS, side="right")), start + 1)
        yield order[start:stop]
        start = stop


@dataclass(frozen=True, slots=True, eq=False)
class _Run:
    """Attachments that are processed at once; node pairs are ordered by attachment."""

    model: BridgeModel
    factors: tuple[torch.Tensor, torch.Tensor]
    attachments: Attachments
    count_probabilities: Floats

    def logits(self) -> Array:
        """Return the logits of all node pairs."""
        logits = np.empty(int(self.attachments.ptr[-1]), dtype=np.float32)
        filled = 0
        for first, last in _blocks(self.attachments):
            block = self.attachments.take(np.arange(first, last))
            left, is_left = _padded(block.left_start, block.left_count)
            right, is_right = _padded(block.right_start, block.right_count)
            grid = self.model.decoder.grid_logits(
                self.factors, torch.from_numpy(left), torch.from_numpy(right)
            )
            values = grid.cpu().numpy()[is_left[:, :, None] & is_right[:, None, :]]
            logits[filled : filled + len(values)] = values
            filled += len(values)
        return logits


def _blocks(attachments: Attachments) -> Iterator[tuple[int, int]]:
    """Yield ranges of attachments, which are sorted by size, so that padded grids stay small."""
    start = 0
    while start < len(attachments):
        max_pairs = attachments.left_count[start : start + BLOCK_ATTACHMENTS].max()
        max_pairs *= attachments.right_count[start : start + BLOCK_ATTACHMENTS].max()
        stop = min(start + max(int(BLOCK_PAIRS // max_pairs), 1), start + BLOCK_ATTACHMENTS)
        yield start, min(stop, len(attachments))
        start = stop


def _padded(start: Ints, count: Ints) -> tuple[Ints, Bools]:
    """Return consecutive numbers ``[B, longest]``, and a mask that excludes the padding."""
    step = np.arange(int(count.max(initial=1)))
    is_real = step < count[:, None]
    return np.where(is_real, start[:, None] + step, start[:, None]), is_real


def _sample_run(
    run: _Run, free: Bools | None, wanted: Ints, stream: np.random.Generator
) -> tuple[Ints, Ints, Ints]:
    """Return attachment, left node and right node of every sampled bridge."""
    ptr = run.attachments.ptr
    odds = _denoise(run, stream)
    expected = np.add.reduceat(odds / (1 + odds), ptr[:-1], dtype=np.float64)
    most = run.count_probabilities.shape[1]
    num_bridges = np.clip(np.rint(expected).astype(np.int64), 1, most)
    num_bridges = np.where(wanted > 0, wanted, num_bridges)
    if free is not None:
        left, right = run.attachments.node_pairs(np.arange(ptr[-1]), row_indices(ptr))
        odds = odds * (free[left] & free[right])
    attachment, pair = sample_without_replacement(odds, ptr, num_bridges, stream)
    return attachment, *run.attachments.node_pairs(pair, attachment)


def _denoise(run: _Run, stream: np.random.Generator) -> Array:
    """Run the reverse diffusion from pure noise; return the odds after the last step."""
    ptr = run.attachments.ptr
    size = int(ptr[-1])
    probabilities = run.count_probabilities
    expected = probabilities @ np.arange(1, probabilities.shape[1] + 1)
    rates = np.repeat(expected / np.maximum(np.diff(ptr), 1), np.diff(ptr)).astype(np.float32)
    rates = np.minimum(rates, 0.5)
    left, right = run.attachments.node_pairs(np.arange(size), row_indices(ptr))
    base_logits = torch.from_numpy(run.logits()).to(run.model.device)
    bits = (stream.random(size, dtype=np.float32) < rates).astype(np.float32)
    odds = np.empty(size, dtype=np.float32)
    for step in range(DIFFUSION_STEPS, 0, -1):
        level = keep_probability(torch.tensor(float(step))).expand(size)
        ones = bits > 0
        nodes = np.concatenate([left[ones], right[ones]])
        degree = np.bincount(nodes, minlength=len(run.factors[1])).astype(np.float32)
        degrees = (torch.from_numpy(degree[left]), torch.from_numpy(degree[right]))
        noise = noise_features(torch.from_numpy(bits), level, *degrees).to(run.model.device)
        logits = run.model.decoder.denoise_logits(base_logits, noise).clamp(-MAX_LOGIT, MAX_LOGIT)
        odds = logits.exp().cpu().numpy()
        if step > 1:
            clean = torch.from_numpy(odds / (1 + odds))
            one = reverse_step_probability(
                torch.from_numpy(bits), clean, torch.from_numpy(rates), step
            )
            bits = (stream.random(size, dtype=np.float32) < one.numpy()).astype(np.float32)
    return odds


def pair_odds(model: BridgeModel, latent: Array, left: Ints, right: Ints) -> Floats:
    """Return the bridge odds of each node pair, ``[P]``."""
    with torch.no_grad():
        factors = model.decoder.node_factors(torch.from_numpy(latent).to(model.device))
        nodes = (torch.from_numpy(left), torch.from_numpy(right))
        logits = model.decoder.pair_logits(factors, *nodes).clamp(-MAX_LOGIT, MAX_LOGIT)
    return np.exp(logits.cpu().numpy().astype(np.float64))


def sample_attributes_and_nodes(
    model: BridgeModel, latent: Array, left: Ints, right: Ints, stream: np.random.Generator
) -> tuple[Ints, Ints]:
    """Sample attribute and bridge node of every node pair, as rows of the model's codebooks.

    They are 0 without a codebook.
    """
    none = np.zeros(len(left), dtype=np.int64)
    if not model.shape.attributes and not model.shape.bridge_nodes:
        return none, none
    ends = (torch.from_numpy(latent[nodes]).to(model.device) for nodes in (left, right))
    samples = []
    with torch.no_grad():
        features = model.decoder.features_of_ends(*ends)
        for head, codebook in (
            (model.decoder.attribute, model.shape.attributes),
            (model.decoder.node, model.shape.bridge_nodes),
        ):
            if codebook:
                cumulative = head(features).softmax(dim=1).cpu().numpy().cumsum(axis=1)
                uniform = stream.random(len(left)) * cumulative[:, -1]
                samples.append((cumulative < uniform[:, None]).sum(axis=1).astype(np.int64))
            else:
                samples.append(none)
    return samples[0], samples[1]
