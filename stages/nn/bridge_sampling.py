"""Draw bridges between components with a trained model, many splices at once."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass, fields
from typing import Literal

import numpy as np
import torch

from gsx.ragged import Array, Ints, pointers, row_indices
from gsx.stages.graphs.subgraphs import Bools, Floats
from gsx.stages.graphs.weighted_sampling import sample_without_replacement
from gsx.stages.nn.bridge_diffusion import (
    DIFFUSION_STEPS,
    keep_probability,
    noise_features,
    reverse_step_probability,
)
from gsx.stages.nn.bridge_model import BridgeModel

MAX_RUN_PAIRS = 4_000_000
"""Pairs whose odds are held at once, unless a single attachment has more."""
BLOCK_PAIRS = 262_144
BLOCK_ATTACHMENTS = 512
"""Pairs and attachments the decoder looks at together: what stays inside a processor's cache."""

MAX_LOGIT = 30.0
"""Bound of logits before they become odds."""

CountRule = Literal["expected", "sampled"]
PairRule = Literal["learned", "random"]


@dataclass(frozen=True, slots=True, eq=False)
class Attachments:
    """Pairs of components to be joined; nodes are numbered over the whole table of splices."""

    left_start: Ints
    left_count: Ints
    right_start: Ints
    right_count: Ints
    left_slot: Ints
    """Which component the left one is, over all components of the table."""
    right_slot: Ints

    def __len__(self) -> int:
        return len(self.left_start)

    def take(self, rows: Ints) -> Attachments:
        """Return some of them."""
        return Attachments(
            self.left_start[rows],
            self.left_count[rows],
            self.right_start[rows],
            self.right_count[rows],
            self.left_slot[rows],
            self.right_slot[rows],
        )

    def restrict_to(self, free: Bools) -> Attachments:
        """Return them as if there were no nodes but the free ones, ``[N]``, numbered anew."""
        before = pointers(free)
        left, right = before[self.left_start], before[self.right_start]
        return Attachments(
            left,
            before[self.left_start + self.left_count] - left,
            right,
            before[self.right_start + self.right_count] - right,
            self.left_slot,
            self.right_slot,
        )

    @property
    def ptr(self) -> Ints:
        """Where the pairs of every attachment start, ``[P + 1]``, one attachment after another."""
        return pointers(self.left_count * self.right_count)

    def node_pairs(self, pair: Ints, attachment: Ints) -> tuple[Ints, Ints]:
        """Return the two nodes of some pairs of some attachments."""
        inside = pair - self.ptr[attachment]
        left, right = np.divmod(inside, self.right_count[attachment])
        return self.left_start[attachment] + left, self.right_start[attachment] + right


@dataclass(frozen=True, slots=True, eq=False)
class Bridges:
    """Edges that join components."""

    attachment: Ints
    """``[B]`` in rising order."""
    left: Ints
    """``[B]`` nodes over the whole table of splices."""
    right: Ints
    attribute: Ints
    """``[B]`` row of the model's attributes."""
    node: Ints
    """``[B]`` row of the model's bridge nodes."""


@dataclass(frozen=True, slots=True, eq=False)
class EncodedNodes:
    """What the model knows of the nodes and components of a table of splices."""

    mean: Array
    std: Array
    count_features: Array
    """``[S, 2 W + 1]`` per component."""


def concat_bridges(parts: Sequence[Bridges]) -> Bridges:
    """Put bridges drawn apart into the order of their attachments."""
    order = np.argsort(np.concatenate([part.attachment for part in parts]), kind="stable")

    def column(name: str) -> Ints:
        joined: Ints = np.concatenate([getattr(part, name) for part in parts])[order]
        return joined

    return Bridges(*(column(field.name) for field in fields(Bridges)))


def draw_bridges(
    model: BridgeModel,
    nodes: EncodedNodes,
    attachments: Attachments,
    stream: np.random.Generator,
    *,
    pairs: PairRule = "learned",
    counts: CountRule = "expected",
) -> Bridges:
    """Draw the bridges of every attachment: at least one, unless no free pair of nodes is left.

    How many: the expected number under the pair probabilities, rounded, or drawn from the
    counter. Which: without replacement, in proportion to the odds of the pairs, or at random.
    """
    return BridgeSampler.from_encoded(model, nodes, stream, pairs=pairs, counts=counts).sample(
        attachments, stream
    )


@dataclass(frozen=True, slots=True, eq=False)
class BridgeSampler:
    """Latents drawn for the nodes of a table of splices; attachments may be drawn in turns."""

    model: BridgeModel
    latent: torch.Tensor
    terms: tuple[torch.Tensor, torch.Tensor]
    count_features: Array
    pairs: PairRule
    counts: CountRule

    @classmethod
    def from_encoded(
        cls,
        model: BridgeModel,
        nodes: EncodedNodes,
        stream: np.random.Generator,
        *,
        pairs: PairRule,
        counts: CountRule,
    ) -> BridgeSampler:
        """Draw the latents of all nodes."""
        latent = nodes.mean
        if model.shape.model == "vae" and pairs == "learned":
            drawn = stream.standard_normal(nodes.mean.shape, dtype=np.float32)
            latent = nodes.mean + nodes.std * drawn
        with torch.no_grad():
            state = torch.from_numpy(latent).to(model.device)
            terms = model.decoder.node_factors(state)
        return cls(model, state, terms, nodes.count_features, pairs, counts)

    def sample(
        self,
        attachments: Attachments,
        stream: np.random.Generator,
        free: Bools | None = None,
        wanted: Ints | None = None,
    ) -> Bridges:
        """Draw the bridges of some attachments; ``free`` ``[N]`` are nodes that may take one.

        ``wanted`` ``[P]`` says how many of each, 0 where the rule decides.
        """
        with torch.no_grad():
            likely = _count_probabilities(self.model, self.count_features, attachments)
            found = []
            for rows in _runs(attachments):
                run = _Run(self.model, self.terms, attachments.take(rows), likely[rows])
                told = None if wanted is None else wanted[rows]
                at, left, right = _sample_run(run, free, told, stream, self.pairs, self.counts)
                found.append((rows[at], left, right))
            at, left, right = (np.concatenate(part) for part in zip(*found, strict=True))
            order = np.argsort(at, kind="stable")
            at, left, right = at[order], left[order], right[order]
            attribute, node = _sample_heads(self.model, self.latent, left, right, stream)
        return Bridges(at, left, right, attribute, node)


def _count_probabilities(model: BridgeModel, counted: Array, attachments: Attachments) -> Floats:
    """Return the counter's probabilities of 1..largest bridges, ``[P, largest]``."""
    if model.shape.largest_count == 1:
        return np.ones((len(attachments), 1))
    left = torch.from_numpy(counted[attachments.left_slot]).to(model.device)
    right = torch.from_numpy(counted[attachments.right_slot]).to(model.device)
    return np.asarray(model.counter(left, right).softmax(dim=1).cpu().numpy(), dtype=np.float64)


def _runs(attachments: Attachments) -> Iterator[Ints]:
    """Cut attachments into runs whose pairs fit into memory; those alike in size lie together."""
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
    """Attachments whose pairs are looked at together; pairs lie attachment by attachment."""

    model: BridgeModel
    terms: tuple[torch.Tensor, torch.Tensor]
    attachments: Attachments
    likely: Floats

    def logits(self, free: Bools | None = None) -> Array:
        """Return the logits of all pairs, ``[pairs]``, or of pairs of free nodes."""
        found = np.empty(int(self.attachments.ptr[-1]), dtype=np.float32)
        here = 0
        for first, last in _blocks(self.attachments):
            part = self.attachments.take(np.arange(first, last))
            left, has_left = _padded(part.left_start, part.left_count)
            right, has_right = _padded(part.right_start, part.right_count)
            if free is not None:
                has_left, has_right = has_left & free[left], has_right & free[right]
            grid = self.model.decoder.grid_logits(
                self.terms, torch.from_numpy(left), torch.from_numpy(right)
            )
            values = grid.cpu().numpy()[has_left[:, :, None] & has_right[:, None, :]]
            found[here : here + len(values)] = values
            here += len(values)
        return found[:here]


def _blocks(attachments: Attachments) -> Iterator[tuple[int, int]]:
    """Cut attachments, which are sorted by size, so that padded grids stay small."""
    start = 0
    while start < len(attachments):
        widest = attachments.left_count[start : start + BLOCK_ATTACHMENTS].max()
        widest *= attachments.right_count[start : start + BLOCK_ATTACHMENTS].max()
        stop = min(start + max(int(BLOCK_PAIRS // widest), 1), start + BLOCK_ATTACHMENTS)
        yield start, min(stop, len(attachments))
        start = stop


def _padded(start: Ints, count: Ints) -> tuple[Ints, Bools]:
    """Return ``[B, longest]`` consecutive numbers and which of them are real."""
    step = np.arange(int(count.max(initial=1)))
    real = step < count[:, None]
    return np.where(real, start[:, None] + step, start[:, None]), real


def _sample_run(
    run: _Run,
    free: Bools | None,
    told: Ints | None,
    stream: np.random.Generator,
    pairs: PairRule,
    counts: CountRule,
) -> tuple[Ints, Ints, Ints]:
    alone = (
        run.likely.shape[1] == 1 and told is None and counts == "expected"
    )  # one bridge each, whatever the odds
    if free is not None and alone and pairs == "learned" and run.model.shape.model == "vae":
        return _sample_single_bridges(run, free, stream)
    ptr = run.attachments.ptr
    if pairs == "random":
        odds = np.ones(int(ptr[-1]), dtype=np.float32)
    elif run.model.shape.model == "vae":
        odds = np.exp(np.clip(run.logits(), -MAX_LOGIT, MAX_LOGIT))
    else:
        odds = _denoise(run, stream)
    if counts == "sampled" or pairs == "random":
        mark = stream.random(len(run.likely))[:, None]
        wanted = 1 + (run.likely.cumsum(axis=1) < mark).sum(axis=1)
        wanted = np.minimum(wanted, run.likely.shape[1])
    else:
        total = np.add.reduceat(odds / (1 + odds), ptr[:-1], dtype=np.float64)
        wanted = np.clip(np.rint(total).astype(np.int64), 1, run.likely.shape[1])
    if told is not None:
        wanted = np.where(told > 0, told, wanted)
    if free is not None:
        left, right = run.attachments.node_pairs(np.arange(ptr[-1]), row_indices(ptr))
        odds = odds * (free[left] & free[right])
    at, pair = sample_without_replacement(odds, ptr, wanted, stream)
    return at, *run.attachments.node_pairs(pair, at)


def _sample_single_bridges(
    run: _Run, free: Bools, stream: np.random.Generator
) -> tuple[Ints, Ints, Ints]:
    """Draw one bridge of every attachment among its pairs of free nodes, looking at no others."""
    inner, nodes = run.attachments.restrict_to(free), np.flatnonzero(free)
    odds = np.exp(np.clip(run.logits(free), -MAX_LOGIT, MAX_LOGIT))
    one = np.ones(len(inner), dtype=np.int64)
    at, pair = sample_without_replacement(odds, inner.ptr, one, stream)
    left, right = inner.node_pairs(pair, at)
    return at, nodes[left], nodes[right]


def _denoise(run: _Run, stream: np.random.Generator) -> Array:
    """Walk from pure noise to the belief in every pair; the last step gives the odds."""
    ptr = run.attachments.ptr
    size = int(ptr[-1])
    expected = run.likely @ np.arange(1, run.likely.shape[1] + 1)
    rates = np.repeat(expected / np.maximum(np.diff(ptr), 1), np.diff(ptr)).astype(np.float32)
    rates = np.minimum(rates, 0.5)
    left, right = run.attachments.node_pairs(np.arange(size), row_indices(ptr))
    plain = torch.from_numpy(run.logits()).to(run.model.device)
    bits = (stream.random(size, dtype=np.float32) < rates).astype(np.float32)
    odds = np.empty(size, dtype=np.float32)
    for step in range(DIFFUSION_STEPS, 0, -1):
        level = keep_probability(torch.tensor(float(step))).expand(size)
        ones = bits > 0
        ends = np.concatenate([left[ones], right[ones]])
        degree = np.bincount(ends, minlength=len(run.terms[1])).astype(np.float32)
        around = (torch.from_numpy(degree[left]), torch.from_numpy(degree[right]))
        seen = noise_features(torch.from_numpy(bits), level, *around).to(run.model.device)
        logits = run.model.decoder.denoise_logits(plain, seen).clamp(-MAX_LOGIT, MAX_LOGIT)
        odds = logits.exp().cpu().numpy()
        if step > 1:
            true = torch.from_numpy(odds / (1 + odds))
            one = reverse_step_probability(
                torch.from_numpy(bits), true, torch.from_numpy(rates), step
            )
            bits = (stream.random(size, dtype=np.float32) < one.numpy()).astype(np.float32)
    return odds


def pair_odds(model: BridgeModel, latent: Array, left: Ints, right: Ints) -> Floats:
    """Return the odds of a bridge for each pair of nodes, ``[P]``."""
    with torch.no_grad():
        terms = model.decoder.node_factors(torch.from_numpy(latent).to(model.device))
        ends = (torch.from_numpy(left), torch.from_numpy(right))
        logits = model.decoder.pair_logits(terms, *ends).clamp(-MAX_LOGIT, MAX_LOGIT)
    return np.exp(logits.cpu().numpy().astype(np.float64))


def sample_attributes_and_nodes(
    model: BridgeModel, latent: Array, left: Ints, right: Ints, stream: np.random.Generator
) -> tuple[Ints, Ints]:
    """Draw the attribute and the bridge node of every pair, as rows of what the model knows."""
    with torch.no_grad():
        return _sample_heads(model, torch.from_numpy(latent).to(model.device), left, right, stream)


def _sample_heads(
    model: BridgeModel, latent: torch.Tensor, left: Ints, right: Ints, stream: np.random.Generator
) -> tuple[Ints, Ints]:
    """Draw attributes and bridge nodes from what the decoder thinks of the chosen pairs."""
    ends = (torch.from_numpy(left), torch.from_numpy(right))
    pair = model.decoder.pair_features(latent, *ends)
    drawn = []
    for head, known in (
        (model.decoder.attribute, model.shape.attributes),
        (model.decoder.node, model.shape.bridge_nodes),
    ):
        if known:
            share = head(pair).softmax(dim=1).cpu().numpy().cumsum(axis=1)
            mark = stream.random(len(left)) * share[:, -1]
            drawn.append((share < mark[:, None]).sum(axis=1).astype(np.int64))
        else:
            drawn.append(np.zeros(len(left), dtype=np.int64))
    return drawn[0], drawn[1]
