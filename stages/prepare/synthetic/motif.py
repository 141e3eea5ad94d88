"""The Motif datasets: the class is the motif, and the attached base graph shifts.

``motif-size`` and ``motif-base`` have covariate shift: motifs are independent of all else, and the
out-of-distribution splits have widths or bases that do not occur in training. An environment is a
width class or a base.

``motif-size-concept`` and ``motif-base-concept`` have concept shift: every split has the same three
domains (widths around 10, 40 and 70; wheel, tree and ladder), and what shifts is the probability
that the domain index equals the motif index. Otherwise the domain is one of the other two, with
equal probability. An environment is a level of that probability; training graphs draw their level
uniformly.

Graphs are independent draws, so ``id_val`` and ``id_test`` are more draws from the distribution of
``train``. The graphs follow the distribution of the published benchmark, not its random numbers.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from itertools import accumulate, count
from typing import Literal

import numpy as np

from gsx.errors import StageError, UsageError, did_you_mean
from gsx.provenance import source_provenance
from gsx.ragged import Ints
from gsx.schema import ORIGINS, SPLITS, Column, CorpusInfo, Environment, corpus_columns
from gsx.seeds import rng
from gsx.stages.prepare.dataset import (
    DatasetFamily,
    DatasetMetadata,
    DatasetRequest,
    PreparedDataset,
)
from gsx.stages.prepare.synthetic.motif_graphs import BASES, MOTIFS, motif_graphs, noisy_labels
from gsx.table import GraphTable, concat

DATASETS: tuple[str, ...] = (
    "motif-size",
    "motif-base",
    "motif-size-concept",
    "motif-base-concept",
)
ALIASES: Mapping[str, str] = {
    "motif-basis": "motif-base",
    "motif-basis-concept": "motif-base-concept",
}
DEFAULT_NUM_GRAPHS = 30_000
MAX_GRAPHS = 10**10
BLOCK = 1024
"""Graphs per random stream; changing it changes the graphs of a seed."""

_MOTIF_SPLITS = SPLITS[:5]
_ENVIRONMENTS = 3
_SPREAD = 5
"""A width is its center plus an integer in ``-5..5``."""
_MATCH = (0.99, 0.97, 0.95)
"""Concept datasets: probability that domain and motif agree, per environment."""
_UNSEEN_MATCH = {"ood_val": 0.3, "ood_test": 0.0}
_UNSEEN_DOMAIN = {"ood_val": 3, "ood_test": 4}
"""Covariate datasets: width class or base of the OOD splits."""
_EXTRAS = (
    Column(name="node_truth", axis="node", dtype="int8", doc="1 = node of the motif"),
    Column(name="basis_id", axis="graph", dtype="int8", doc="base: " + ", ".join(BASES)),
    Column(name="motif_id", axis="graph", dtype="int8", doc="motif: " + ", ".join(MOTIFS)),
    Column(name="width_id", axis="graph", dtype="int8", doc="class of the width, -1 without"),
)
_CITATION = (
    "S. Gui, X. Li, L. Wang, S. Ji. GOOD: A Graph Out-of-Distribution Benchmark. NeurIPS 2022. "
    "Motif follows Y.-X. Wu, X. Wang, A. Zhang, X. He, T.-S. Chua. Discovering Invariant "
    "Rationales for Graph Neural Networks. ICLR 2022."
)


@dataclass(frozen=True, slots=True, kw_only=True)
class _Dataset:
    domain: Literal["size", "base"]
    """Domain that shifts."""
    concept: bool
    """Whether the domain depends on the motif (concept shift) or differs between splits."""
    centers: tuple[int, ...]
    """Center of each width class; one center if the base shifts."""


_SPECIFICATIONS = {
    "motif-size": _Dataset(domain="size", concept=False, centers=(6, 10, 15, 30, 70)),
    "motif-base": _Dataset(domain="base", concept=False, centers=(10,)),
    "motif-size-concept": _Dataset(domain="size", concept=True, centers=(10, 40, 70)),
    "motif-base-concept": _Dataset(domain="base", concept=True, centers=(10,)),
}


def split_sizes(name: str, num_graphs: int) -> dict[str, int]:
    """Distribute ``num_graphs`` over the splits.

    Covariate: a training pool of 80 %, 10 % each for ``ood_val`` and ``ood_test``, and 10 % each
    from the pool for ``id_val`` and ``id_test``. Concept: 60 %, 20 % each, and 15 % of the pool
    each.
    """
    dataset = _specification(name)
    sizes = _shares(dataset, num_graphs)
    if min(sizes) < 1:
        smallest = next(number for number in count(1) if min(_shares(dataset, number)) >= 1)
        raise UsageError(
            f"{name}: {num_graphs} graphs leave a split empty. Use at least {smallest}."
        )
    return dict(zip(_MOTIF_SPLITS, sizes, strict=True))


def corpus_info(name: str) -> CorpusInfo:
    """Describe the corpus of a Motif dataset."""
    dataset = _specification(name)
    if dataset.domain == "size":
        domains = tuple(f"width {c - _SPREAD}..{c + _SPREAD}" for c in dataset.centers)
    else:
        domains = BASES[:_ENVIRONMENTS] if dataset.concept else BASES
    if dataset.concept:
        names = tuple(f"{dataset.domain} = motif with probability {match}" for match in _MATCH)
        shift = f"the {dataset.domain} goes with the motif in training, not in testing"
    else:
        names = domains[:_ENVIRONMENTS]
        shift = f"the {dataset.domain} of the base graph shifts between splits"
    return CorpusInfo(
        name=name,
        outputs=MOTIFS,
        domain=dataset.domain,
        domains=domains,
        environments=tuple(Environment(id=id_, name=text) for id_, text in enumerate(names)),
        columns=corpus_columns(outputs=len(MOTIFS), num_features=1, extras=_EXTRAS),
        num_features=1,
        description=(
            "Synthetic graphs, each a motif joined to a base graph. The class is the motif; "
            f"{shift}. One label in ten is drawn at random."
        ),
        licence="MIT (synthetic, generated by gsx)",
        citation=_CITATION,
    )


def build(
    name: str, split: str, start: int, stop: int, *, seed: int, first_graph_id: int
) -> GraphTable:
    """Return graphs ``start:stop`` of a split; the result does not depend on shard boundaries.

    ``first_graph_id`` is the id of graph 0 of the split.
    """
    dataset = _specification(name)
    if split not in _MOTIF_SPLITS:
        raise StageError(f"{name}: no split `{split}`. {did_you_mean(split, _MOTIF_SPLITS)}")
    if not 0 <= start <= stop:
        raise StageError(f"{name}: {start}:{stop} is not a range of graphs of `{split}`")
    first, last = start // BLOCK, max(start, stop - 1) // BLOCK
    blocks = [
        _build_block(dataset, split, rng(seed, "prepare", name, split, block))
        for block in range(first, last + 1)
    ]
    table = concat(blocks).slice(start - first * BLOCK, stop - first * BLOCK)
    return table.with_columns(
        graph={"graph_id": first_graph_id + np.arange(start, stop, dtype=np.int64)}
    )


def _specification(name: str) -> _Dataset:
    if name not in _SPECIFICATIONS:
        raise StageError(f"no Motif dataset `{name}`. {did_you_mean(name, DATASETS)}")
    return _SPECIFICATIONS[name]


def _shares(dataset: _Dataset, num_graphs: int) -> tuple[int, int, int, int, int]:
    if dataset.concept:
        pool, ood_val = num_graphs * 6 // 10, num_graphs * 2 // 10
        held_out = pool * 15 // 100
    else:
        pool, ood_val = num_graphs * 8 // 10, num_graphs // 10
        held_out = ood_val
    return pool - 2 * held_out, held_out, held_out, ood_val, num_graphs - pool - ood_val


def _build_block(dataset: _Dataset, split: str, generator: np.random.Generator) -> GraphTable:
    motif = generator.integers(0, len(MOTIFS), BLOCK)
    env, domain = _draw_domains(dataset, split, motif, generator)
    if dataset.domain == "size":
        kind, width_id = generator.integers(0, len(BASES), BLOCK), domain
        center = np.array(dataset.centers)[domain]
    else:
        kind, width_id = domain, np.full(BLOCK, -1)
        center = np.full(BLOCK, dataset.centers[0])
    width = center + generator.integers(-_SPREAD, _SPREAD + 1, BLOCK)
    graphs = motif_graphs(kind, width, motif, generator)
    label = noisy_labels(motif, generator)
    return GraphTable(
        node_ptr=graphs.node_ptr,
        edge_ptr=graphs.edge_ptr,
        graph={
            "split": np.full(BLOCK, SPLITS.index(split), dtype=np.int8),
            "env_id": env.astype(np.int32),
            "domain_id": domain.astype(np.int32),
            "origin": np.full(BLOCK, ORIGINS.index("source"), dtype=np.int8),
            "y": np.eye(len(MOTIFS), dtype=np.float32)[label],
            "label": label.astype(np.int32),
            **source_provenance(BLOCK),
            "basis_id": kind.astype(np.int8),
            "motif_id": motif.astype(np.int8),
            "width_id": width_id.astype(np.int8),
        },
        node={
            "node_feat": np.ones((graphs.node_ptr[-1], 1), dtype=np.float32),
            "node_truth": graphs.node_truth,
        },
        edge={"edge_src": graphs.edge_src, "edge_dst": graphs.edge_dst},
    )


def _draw_domains(
    dataset: _Dataset, split: str, motif: Ints, generator: np.random.Generator
) -> tuple[Ints, Ints]:
    """Return environment and domain of each graph."""
    env = np.full(len(motif), -1)
    if split not in _UNSEEN_DOMAIN:
        env = generator.integers(0, _ENVIRONMENTS, len(motif))
    if not dataset.concept:
        return env, np.full(len(motif), _UNSEEN_DOMAIN[split]) if split in _UNSEEN_DOMAIN else env
    match = _UNSEEN_MATCH[split] if split in _UNSEEN_MATCH else np.array(_MATCH)[env]
    agrees = generator.random(len(motif)) < match
    other = (motif + generator.integers(1, len(MOTIFS), len(motif))) % len(MOTIFS)
    return env, np.where(agrees, motif, other)


def _metadata(name: str) -> DatasetMetadata:
    info = corpus_info(name)
    return DatasetMetadata(
        shift=info.domain, level=info.level, counts=split_sizes(name, DEFAULT_NUM_GRAPHS)
    )


def _size(name: str, num_graphs: int | None) -> int:
    number = DEFAULT_NUM_GRAPHS if num_graphs is None else num_graphs
    if not 1 <= number <= MAX_GRAPHS:
        raise UsageError(f"num_graphs must be in 1..{MAX_GRAPHS} (found {number})")
    split_sizes(name, number)
    return number


def _open(request: DatasetRequest) -> PreparedDataset:
    sizes = split_sizes(request.name, _size(request.name, request.num_graphs))
    first = dict(zip(sizes, accumulate(sizes.values(), initial=0), strict=False))

    def shard(split: str, start: int, stop: int) -> GraphTable:
        return build(
            request.name, split, start, stop, seed=request.seed, first_graph_id=first[split]
        )

    return PreparedDataset(info=corpus_info(request.name), split_sizes=sizes, build=shard)


FAMILY = DatasetFamily(
    names=DATASETS,
    aliases=ALIASES,
    metadata=_metadata,
    size=_size,
    open=_open,
)
