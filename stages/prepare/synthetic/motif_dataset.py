"""Motif datasets in general: bases, motifs, the domain that shifts, and the domains of each split.

The published datasets, their leave-one-base-out variants and the confirmation data are instances of
``MotifDataset``. Graphs are independent draws, so ``id_val`` and ``id_test`` are more draws from
the distribution of ``train``.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass, replace
from itertools import accumulate, count
from typing import Any, Literal

import numpy as np

from gsx.errors import StageError, UsageError, did_you_mean
from gsx.plurals import counted
from gsx.provenance import source_provenance
from gsx.ragged import Ints
from gsx.schema import ORIGINS, SPLITS, Column, CorpusInfo, Environment, corpus_columns
from gsx.seeds import rng
from gsx.stages.prepare.dataset import (
    DatasetFamily,
    DatasetMetadata,
    DatasetRequest,
    PreparedDataset,
    reject_options,
)
from gsx.stages.prepare.synthetic.base_graphs import ALL_BASES, BASES
from gsx.stages.prepare.synthetic.motif_graphs import (
    ALL_MOTIFS,
    MOTIFS,
    motif_graphs,
    noisy_labels,
)
from gsx.table import GraphTable, concat

DEFAULT_NUM_GRAPHS = 30_000
MAX_GRAPHS = 10**10
BLOCK = 1024
"""Graphs per random stream; changing it changes the graphs of a seed."""
WIDTHS = (6, 10, 15, 30, 70)
"""Center of each width class, if the size shifts."""
BASE_WIDTHS = (10,)
"""Center of all widths, if the base shifts."""
_SPREAD = 5
"""A width is its center plus an integer in ``-5..5``."""
_MATCH = (0.99, 0.97, 0.95)
"""Concept shift: probability that domain and motif agree, per environment."""
_UNSEEN_MATCH = {"ood_val": 0.3, "ood_test": 0.0}
_MOTIF_SPLITS = SPLITS[:5]
_CONFIRMATION = " Confirmation data: no recipe, option or network is chosen on it."
_CITATION = (
    "S. Gui, X. Li, L. Wang, S. Ji. GOOD: A Graph Out-of-Distribution Benchmark. NeurIPS 2022. "
    "Motif follows Y.-X. Wu, X. Wang, A. Zhang, X. He, T.-S. Chua. Discovering Invariant "
    "Rationales for Graph Neural Networks. ICLR 2022."
)


@dataclass(frozen=True, slots=True, kw_only=True)
class MotifDataset:
    """A Motif dataset. Domains are indices into ``bases`` or into ``widths``."""

    name: str
    """Name of the corpus."""
    domain: Literal["size", "base"]
    """What shifts."""
    concept: bool = False
    """Whether the domain depends on the motif (concept shift) or differs between splits."""
    bases: tuple[str, ...] = BASES
    motifs: tuple[str, ...] = MOTIFS
    """The classes."""
    widths: tuple[int, ...] = WIDTHS
    """Center of each width class; one center if the base shifts."""
    train: tuple[int, ...] = (0, 1, 2)
    """Domains of training graphs, each an environment. With concept shift an environment is a
    probability that domain and motif agree."""
    ood_val: tuple[int, ...] = (3,)
    ood_test: tuple[int, ...] = (4,)
    settings: str = ""
    """What differs from the dataset ``base_name``: part of the names of random streams."""
    base_name: str = ""
    """Name of the dataset that the settings change; default: ``name``."""
    confirmation: bool = False
    """Whether recipes, options and networks must not be chosen on the dataset."""

    def split_sizes(self, num_graphs: int) -> dict[str, int]:
        """Distribute ``num_graphs`` over the splits.

        Covariate: a training pool of 80 %, 10 % each for ``ood_val`` and ``ood_test``, and 10 %
        each from the pool for ``id_val`` and ``id_test``. Concept: 60 %, 20 % each, and 15 % of the
        pool each.
        """
        sizes = self._shares(num_graphs)
        if min(sizes) < 1:
            smallest = next(number for number in count(1) if min(self._shares(number)) >= 1)
            raise UsageError(
                f"{self.name}: {counted(num_graphs, 'graph')} would leave a split empty. Use at "
                f"least {smallest}."
            )
        return dict(zip(_MOTIF_SPLITS, sizes, strict=True))

    def check_size(self, num_graphs: int | None) -> int:
        """Return the number of graphs, by default the published one; reject invalid numbers."""
        number = DEFAULT_NUM_GRAPHS if num_graphs is None else num_graphs
        if not 1 <= number <= MAX_GRAPHS:
            raise UsageError(f"num_graphs must be in 1..{MAX_GRAPHS} (found {number})")
        self.split_sizes(number)
        return number

    def metadata(self) -> DatasetMetadata:
        """Return the metadata for lists of datasets."""
        return DatasetMetadata(
            shift=self.domain,
            counts=self.split_sizes(DEFAULT_NUM_GRAPHS),
            confirmation=self.confirmation,
        )

    def info(self) -> CorpusInfo:
        """Describe the corpus."""
        if self.domain == "size":
            domains = tuple(f"width {c - _SPREAD}..{c + _SPREAD}" for c in self.widths)
        else:
            domains = self.bases[: len(self.motifs)] if self.concept else self.bases
        if self.concept:
            names = tuple(f"{self.domain} = motif with probability {match}" for match in _MATCH)
            shift = f"the {self.domain} goes with the motif in training, not in testing"
        else:
            names = tuple(domains[domain] for domain in self.train)
            shift = f"the {self.domain} of the base graph shifts between splits"
        return CorpusInfo(
            name=self.name,
            outputs=self.motifs,
            domain=self.domain,
            domains=domains,
            environments=tuple(Environment(id=id_, name=text) for id_, text in enumerate(names)),
            columns=corpus_columns(
                outputs=len(self.motifs), num_features=1, extras=_extras(self.bases, self.motifs)
            ),
            num_features=1,
            description=(
                "Synthetic graphs, each a motif joined to a base graph. The class is the motif; "
                f"{shift}. One label in ten is drawn at random."
                f"{_CONFIRMATION if self.confirmation else ''}"
            ),
            licence="MIT (synthetic, generated by gsx)",
            citation=_CITATION,
        )

    def build(
        self, split: str, start: int, stop: int, *, seed: int, first_graph_id: int
    ) -> GraphTable:
        """Return graphs ``start:stop`` of a split; the result does not depend on shard boundaries.

        ``first_graph_id`` is the id of graph 0 of the split.
        """
        if split not in _MOTIF_SPLITS:
            raise StageError(
                f"{self.name}: no split `{split}`. {did_you_mean(split, _MOTIF_SPLITS)}"
            )
        if not 0 <= start <= stop:
            raise StageError(f"{self.name}: {start}:{stop} is not a range of graphs of `{split}`")
        first, last = start // BLOCK, max(start, stop - 1) // BLOCK
        stream = ("prepare", self.base_name or self.name, *filter(None, [self.settings]))
        blocks = [
            self._build_block(split, rng(seed, *stream, split, block))
            for block in range(first, last + 1)
        ]
        table = concat(blocks).slice(start - first * BLOCK, stop - first * BLOCK)
        return table.with_columns(
            graph={"graph_id": first_graph_id + np.arange(start, stop, dtype=np.int64)}
        )

    def open(self, request: DatasetRequest) -> PreparedDataset:
        """Plan the corpus of a request."""
        sizes = self.split_sizes(self.check_size(request.num_graphs))
        first = dict(zip(sizes, accumulate(sizes.values(), initial=0), strict=False))

        def shard(split: str, start: int, stop: int) -> GraphTable:
            return self.build(split, start, stop, seed=request.seed, first_graph_id=first[split])

        return PreparedDataset(info=self.info(), split_sizes=sizes, build=shard)

    def _shares(self, num_graphs: int) -> tuple[int, int, int, int, int]:
        if self.concept:
            pool, ood_val = num_graphs * 6 // 10, num_graphs * 2 // 10
            held_out = pool * 15 // 100
        else:
            pool, ood_val = num_graphs * 8 // 10, num_graphs // 10
            held_out = ood_val
        return pool - 2 * held_out, held_out, held_out, ood_val, num_graphs - pool - ood_val

    def _build_block(self, split: str, generator: np.random.Generator) -> GraphTable:
        motif = generator.integers(0, len(self.motifs), BLOCK)
        env, domain = self._draw_domains(split, motif, generator)
        if self.domain == "size":
            base, width_id = generator.integers(0, len(self.bases), BLOCK), domain
            center = np.array(self.widths)[domain]
        else:
            base, width_id = domain, np.full(BLOCK, -1)
            center = np.full(BLOCK, self.widths[0])
        width = center + generator.integers(-_SPREAD, _SPREAD + 1, BLOCK)
        kind = np.array([ALL_BASES.index(name) for name in self.bases])[base]
        shape = np.array([ALL_MOTIFS.index(name) for name in self.motifs])[motif]
        graphs = motif_graphs(kind, width, shape, generator)
        label = noisy_labels(motif, generator, len(self.motifs))
        return GraphTable(
            node_ptr=graphs.node_ptr,
            edge_ptr=graphs.edge_ptr,
            graph={
                "split": np.full(BLOCK, SPLITS.index(split), dtype=np.int8),
                "env_id": env.astype(np.int32),
                "domain_id": domain.astype(np.int32),
                "origin": np.full(BLOCK, ORIGINS.index("source"), dtype=np.int8),
                "y": np.eye(len(self.motifs), dtype=np.float32)[label],
                "label": label.astype(np.int32),
                **source_provenance(BLOCK),
                "basis_id": base.astype(np.int8),
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
        self, split: str, motif: Ints, generator: np.random.Generator
    ) -> tuple[Ints, Ints]:
        """Return environment and domain of each graph."""
        env = np.full(len(motif), -1)
        unseen = {"ood_val": self.ood_val, "ood_test": self.ood_test}
        if split not in unseen:
            env = generator.integers(0, len(self.train), len(motif))
        if self.concept:
            match = _UNSEEN_MATCH[split] if split in unseen else np.array(_MATCH)[env]
            agrees = generator.random(len(motif)) < match
            other = (motif + generator.integers(1, len(self.motifs), len(motif))) % len(self.motifs)
            return env, np.where(agrees, motif, other)
        if split not in unseen:
            return env, np.array(self.train)[env]
        domains = np.array(unseen[split])
        if len(domains) == 1:
            return env, np.full(len(motif), domains[0])
        return env, domains[generator.integers(0, len(domains), len(motif))]


def descending(dataset: MotifDataset) -> MotifDataset:
    """Return a dataset that shifts to smaller graphs; width classes keep their numbers."""
    test, val, *train = range(len(dataset.widths))
    return replace(dataset, train=tuple(train), ood_val=(val,), ood_test=(test,))


def motif_family(
    datasets: Mapping[str, MotifDataset],
    aliases: Mapping[str, str] | None = None,
    options: Callable[[str, Mapping[str, Any]], Mapping[str, Any]] = reject_options,
    variant: Callable[[MotifDataset, Mapping[str, Any]], MotifDataset] = lambda dataset, _: dataset,
) -> DatasetFamily:
    """Return a family of datasets; ``variant`` applies the resolved ``options`` to one of them."""
    return DatasetFamily(
        names=tuple(datasets),
        aliases=aliases or {},
        metadata=lambda name: datasets[name].metadata(),
        size=lambda name, num_graphs: datasets[name].check_size(num_graphs),
        options=options,
        open=lambda request: variant(datasets[request.name], request.options).open(request),
    )


def _extras(bases: tuple[str, ...], motifs: tuple[str, ...]) -> tuple[Column, ...]:
    return (
        Column(name="node_truth", axis="node", dtype="int8", doc="1 = node of the motif"),
        Column(name="basis_id", axis="graph", dtype="int8", doc="base: " + ", ".join(bases)),
        Column(name="motif_id", axis="graph", dtype="int8", doc="motif: " + ", ".join(motifs)),
        Column(name="width_id", axis="graph", dtype="int8", doc="class of the width, -1 without"),
    )
