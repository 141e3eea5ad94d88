"""The pair extractor: the paper's label-environment-aware pair learning.

Nodes of two graphs are compared by weighted cosine, ``S_ij = w cos(z_i, z_j)``. What a graph shares
with graphs of its label, but not with graphs of its environment, is causal; what it shares with
graphs of its environment, but not with graphs of its label, is environmental. Each extractor is
trained through the subgraph it samples, which must tell the label, or the environment, alone.

The paper leaves open how pair scores become node probabilities; here a node's score is its best
match in a partner that shares the target, less its best match in one that shares only the other
variable, averaged with its neighbors.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass

import numpy as np
import torch
from torch import Tensor

from gsx.ragged import Array, Ints, pointers, ranges, rows_of
from gsx.seeds import rng
from gsx.stages.extract.data import Extraction, Lesson, Pieces, Progress, hold_out, weights_of
from gsx.stages.extract.metrics import how_told
from gsx.stages.extract.pair_matching import PairNet, best_match, partners
from gsx.stages.graphs.subgraphs import Bools, Floats, best_nodes, largest_component
from gsx.stages.nn.gin import adjacency, initialize
from gsx.stages.nn.input_encoding import parts_of, rows_for, with_structure
from gsx.stages.nn.losses import row_loss
from gsx.stages.nn.training_loop import Descent, History, descend, torch_stream
from gsx.table import GraphTable, concat

DICE = 1 << 40


@dataclass(frozen=True, slots=True, kw_only=True)
class PairOptions:
    """How the pair extractor learns."""

    width: int = 64
    layers: int = 3
    epochs: int = 8
    batch_graphs: int = 256
    learning_rate: float = 3e-3
    size_penalty: float = 0.5
    """What keeping a whole graph costs, in nats."""
    partners: int = 8
    """Pairs of partners whose scores are averaged when pieces are cut."""


@dataclass(frozen=True, slots=True, eq=False)
class Goal:
    """What one of the two extractors tells, and which graphs are its pairs."""

    name: str
    task: str
    y: Array
    """``[G, C]`` what kept nodes must tell."""
    same: Ints
    """``[G]`` what a graph shares with its partner."""
    other: Ints
    """``[G]`` what a graph shares with the partner it is contrasted with."""


@dataclass(frozen=True, slots=True, eq=False)
class Side:
    """One trained extractor and the training graphs it finds partners in."""

    net: PairNet
    goal: Goal
    table: GraphTable
    kinds: int
    device: torch.device

    def tell(self, table: GraphTable, keep: Bools | None = None) -> Array:
        """Return logits ``[G, C]`` of what is told, from kept nodes alone."""
        told = [np.zeros((0, self.goal.y.shape[1]), dtype=np.float32)]
        mask = np.ones(table.total_nodes, dtype=bool) if keep is None else keep
        with torch.no_grad():
            for part in parts_of(table.with_columns(node={"keep": mask.astype(np.float32)})):
                matrix = adjacency(part, self.device)
                rows = rows_for(part, self.kinds, self.device)
                kept = torch.from_numpy(part.dense("node", "keep")).to(self.device)
                owner = torch.from_numpy(rows_of(part.node_ptr)).to(self.device)
                told.append(self.net.read(matrix, rows, kept, owner, len(part)).cpu().numpy())
        return np.concatenate(told)

    def embed(self, table: GraphTable) -> Tensor:
        """Return embeddings of all nodes, ``[N, width]``."""
        rows = [torch.zeros(0, self.net.project.out_features)]
        with torch.no_grad():
            for part in parts_of(table):
                inputs = rows_for(part, self.kinds, self.device)
                rows.append(self.net.embed(adjacency(part, self.device), inputs).cpu())
        return torch.cat(rows)

    def score(self, table: GraphTable, other: Ints, draws: int, seed: int) -> Floats:
        """Return the keep-probability of every node, averaged over ``draws`` pairs of partners.

        What a graph shares with its partner is what the network tells from the whole graph, so that
        neither noise nor knowledge of a held-out label decides.
        """
        goal, stream = self.goal, rng(seed, "extract", "pair", self.goal.name, "score")
        same = groups(self.tell(table), goal.task, logits=True)
        rows, pool = self.embed(table), self.embed(self.table)
        first = np.concatenate([part.node_ptr[-1:] for part in parts_of(table)])
        total = torch.zeros(len(rows))
        for _ in range(draws):
            dice = stream.integers(DICE, size=(2, len(table)))
            friends = partners(same, other, goal.same, goal.other, dice[0])
            strangers = partners(other, same, goal.other, goal.same, dice[1])
            contrast = self._match(rows, table, pool, friends)
            contrast -= self._match(rows, table, pool, strangers)
            start = 0
            for part, nodes in zip(parts_of(table), first.tolist(), strict=True):
                place = slice(start, start + nodes)
                matrix = adjacency(part, self.device)
                with torch.no_grad():
                    chance = self.net.chance(matrix, contrast[place].to(self.device))
                total[place] += chance.cpu() / draws
                start += nodes
        return total.numpy().astype(np.float64)

    def _match(self, rows: Tensor, table: GraphTable, pool: Tensor, chosen: Ints) -> Tensor:
        """Return the best match of every node in the training graph chosen for its graph."""
        starts, counts = self.table.node_ptr[chosen], self.table.num_nodes[chosen]
        best, start = [torch.zeros(0)], 0
        for part in parts_of(table):
            some = slice(start, start + len(part))
            nodes = torch.from_numpy(ranges(starts[some], counts[some]))
            first = int(table.node_ptr[start])
            left = rows[first : first + part.total_nodes]
            right_ptr = pointers(counts[some])
            best.append(best_match(left, part.node_ptr, pool[nodes], right_ptr))
            start += len(part)
        return torch.cat(best)


def extract(
    lesson: Lesson,
    options: PairOptions,
    *,
    seed: int,
    device: torch.device,
    progress: Progress,
) -> Extraction:
    """Train both extractors on pairs of most graphs and cut all."""
    parts = hold_out(lesson, seed)
    taught, held = parts.taught, parts.held
    envs = np.eye(int(lesson.env.max(initial=0)) + 1, dtype=np.float32)
    label, others = groups(taught.y, taught.task), groups(lesson.y, lesson.task)
    table, held_table = with_structure(lesson.graphs), with_structure(held.graphs)
    plans = (
        (Goal("causal", taught.task, taught.y, label, taught.env), held.y, lesson.env),
        (
            Goal("environmental", "classification", envs[taught.env], taught.env, label),
            envs[held.env],
            others,
        ),
    )
    history: History = []
    scores, keeps, weights, quality = [], [], {}, {}
    for number, (goal, held_y, other) in enumerate(plans):
        width, layers = options.width, options.layers
        net = PairNet(lesson.width, goal.y.shape[1], width, layers, lesson.kinds)
        initialize(net, torch_stream(seed, "extract", "pair", goal.name)).to(device)
        side = Side(net, goal, with_structure(taught.graphs), lesson.kinds, device)

        def seen(epoch: int, before: int = number * options.epochs) -> None:
            progress(before + epoch, 2 * options.epochs)

        history += _fit(side, options, seed, seen)
        scores.append(side.score(table, other, options.partners, seed))
        threshold = parting(scores[-1])
        piece, odd = connected(table, scores[-1], threshold)
        keeps.append(piece)
        keep = parts.of_held(piece)
        weights[goal.name] = weights_of(net)
        quality[goal.name] = {
            "threshold": round(threshold, 6),
            "graphs_kept_otherwise": odd,
            "told_held_out": {
                "piece": how_told(side.tell(held_table, keep), held_y, goal.task),
                "rest": how_told(side.tell(held_table, ~keep), held_y, goal.task),
                "whole": how_told(side.tell(held_table), held_y, goal.task),
            },
        }
    causal = keeps[0]
    rest = largest_component(lesson.graphs, ~causal)
    apart = largest_component(lesson.graphs, keeps[1] & ~causal)
    owner = rows_of(lesson.graphs.node_ptr)
    has = np.bincount(owner, apart, minlength=len(lesson)) > 0
    pieces = Pieces(scores[0], causal, np.where(has[owner], apart, rest), scores[1])
    told = quality["causal"]["told_held_out"]
    return Extraction(pieces, weights, history, {"label_told_held_out": told, "pair": quality})


def groups(y: Array, task: str, *, logits: bool = False) -> Ints:
    """Return the class of every graph, or a number for its pattern of tasks, ``[G]``.

    Values are taken as above or below their median; what is missing counts as no.
    """
    if task == "classification":
        return np.asarray(np.nan_to_num(y).argmax(axis=1))
    middle = np.nanmedian(y, axis=0) if task == "regression" else 0 if logits else 0.5
    yes = np.nan_to_num(y, nan=-np.inf) > middle
    return np.asarray((yes << np.arange(y.shape[1]).clip(max=40)).sum(axis=1), dtype=np.int64)


def connected(table: GraphTable, score: Floats, threshold: float) -> tuple[Bools, dict[str, int]]:
    """Return the largest connected part of nodes above the threshold, and how many graphs differ.

    Where nothing is above it, the best node is kept; where everything is, what is above the graph's
    mean. Both are counted.
    """
    owner, counts = rows_of(table.node_ptr), table.num_nodes
    keep = score > threshold
    kept = np.bincount(owner, keep, minlength=len(table))
    mean = np.bincount(owner, score, minlength=len(table)) / np.maximum(counts, 1)
    all_ = (kept == counts) & (counts > 1)
    keep = np.where(all_[owner], score > mean[owner], keep)
    none = (np.bincount(owner, keep, minlength=len(table)) == 0) & (counts > 0)
    keep[best_nodes(table, score, 1)[none, 0]] = True
    odd = {"nothing": int(none.sum()), "everything": int(all_.sum())}
    return largest_component(table, keep), odd


def _fit(side: Side, options: PairOptions, seed: int, progress: Callable[[int], None]) -> History:
    """Train through sampled subgraphs, which must tell the target alone and be small."""
    net, goal, table, device = side.net, side.goal, side.table, side.device
    stream = rng(seed, "extract", "pair", goal.name, "partners")
    sampler = torch_stream(seed, "extract", "pair", goal.name, "sample")

    def loss(graphs: Ints) -> Tensor:
        dice = stream.integers(DICE, size=(2, len(graphs)))
        same, other = goal.same[graphs], goal.other[graphs]
        friends = partners(same, other, goal.same, goal.other, dice[0])
        strangers = partners(other, same, goal.other, goal.same, dice[1])
        parts = [table.take(rows) for rows in (graphs, friends, strangers)]
        three = concat(parts)
        rows = net.embed(adjacency(three, device), rows_for(three, side.kinds, device))
        mine, theirs, others = torch.split(rows, [part.total_nodes for part in parts])
        batch = parts[0]
        contrast = best_match(mine, batch.node_ptr, theirs, parts[1].node_ptr)
        contrast = contrast - best_match(mine, batch.node_ptr, others, parts[2].node_ptr)
        chance = net.chance(adjacency(batch, device), contrast)
        sample = (torch.rand(len(chance), generator=sampler).to(device) < chance).float()
        keep = sample + chance - chance.detach()
        both = concat([batch, batch])
        owner = torch.from_numpy(rows_of(both.node_ptr)).to(device)
        logits = net.read(
            adjacency(both, device),
            rows_for(both, side.kinds, device),
            torch.cat([keep, torch.ones_like(keep)]),
            owner,
            len(both),
        )
        y = torch.from_numpy(goal.y[graphs]).to(device)
        told = row_loss(logits, torch.cat([y, y]), goal.task).sum() / len(graphs)
        share = torch.from_numpy(1 / np.maximum(batch.num_nodes, 1)).float().to(device)
        size = (chance * share[owner[: len(chance)]]).sum() / len(graphs)
        total: Tensor = told + options.size_penalty * size
        return total

    descent = Descent(
        name=goal.name,
        epochs=options.epochs,
        batch=options.batch_graphs,
        learning_rate=options.learning_rate,
    )
    return descend(net, loss, len(table), descent, seed=seed, progress=progress)


def parting(score: Floats) -> float:
    """Return the value that parts scores in 0..1 into the two groups most unlike (Otsu's rule)."""
    count, edges = np.histogram(score, bins=256, range=(0, 1))
    middle = (edges[:-1] + edges[1:]) / 2
    below, above = np.cumsum(count)[:-1], np.cumsum(count[::-1])[::-1][1:]
    low = np.cumsum(count * middle)[:-1] / np.maximum(below, 1)
    high = np.cumsum((count * middle)[::-1])[::-1][1:] / np.maximum(above, 1)
    return float(edges[1:-1][(below * above * (high - low) ** 2).argmax()])
