"""Sharded build of augmented graphs: read the training graphs once, then build any shard."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator, Mapping, Sequence
from typing import Any

import numpy as np

from gsx.errors import StageError
from gsx.schema import CorpusInfo
from gsx.seeds import rng
from gsx.stages.augment.config import AugmentConfig
from gsx.stages.augment.g_mixup import GMixup
from gsx.stages.augment.perturbation import INHERITED_COLUMNS, Perturbation
from gsx.stages.augment.rejection_sampling import (
    BLOCK_GRAPHS,
    AugmentedBlock,
    Augmenter,
    sample_block,
)
from gsx.stages.augmented.cycle import Cycle
from gsx.stages.augmented.rejection import duplicate_counts, held_out_hashes
from gsx.stages.augmented.shards import (
    consecutive_shards,
    finish_augmented,
    graphs_per_shard,
    link_source_shards,
    num_generated,
    num_source_shards,
    split_range,
    write_shard_with_hashes,
)
from gsx.stages.augmented.source_graphs import next_graph_id, training_graphs
from gsx.stages.chem.features import is_molecular
from gsx.stages.graphs.wl_hash import Hashes, wl_hashes
from gsx.stages.sharded_build import (
    GRAPH_NODES,
    ReadFile,
    ShardPlan,
    ShardStats,
    hashes_path,
    max_shard_nodes,
)
from gsx.storage.artifacts.draft import Draft
from gsx.storage.artifacts.publish import StageResult
from gsx.storage.artifacts.store import Artifact
from gsx.storage.corpora.corpus import Corpus
from gsx.storage.corpora.corpus_writer import Shard
from gsx.table import GraphTable

BLOCK_NODES = 1_000_000
"""Approximate limit of the nodes of a block; blocks of large graphs hold fewer graphs."""


class AugmentBuild:
    """Builds shards of augmented graphs."""

    def __init__(self, config: AugmentConfig, inputs: Mapping[str, Artifact]) -> None:
        self._config = config
        self._corpus = corpus = Corpus(inputs["corpus"])
        check_config(config, corpus.info)
        self._train = training_graphs(corpus, ("graph_id", *INHERITED_COLUMNS), "augment")
        self._augmenter = _build_augmenter(config, corpus.info, self._train)
        self._held_out = held_out_hashes(corpus)
        count = num_generated(config.count, config.ratio, len(self._train))
        self._items = self._cycle_items(count)
        nodes_per_graph = max(float(self._train.num_nodes.mean()), 1.0)
        max_block = min(BLOCK_GRAPHS, config.shard_graphs)
        self._block = int(np.clip(BLOCK_NODES / nodes_per_graph, 1, max_block))
        shard_graphs = graphs_per_shard(
            config.shard_graphs,
            max_shard_nodes(GRAPH_NODES, self._train),
            nodes_per_graph,
            self._block,
        )
        self._first_id = next_graph_id(corpus)
        self._planned = consecutive_shards(
            [stop - start for start, stop in split_range(count, shard_graphs)],
            num_source_shards(corpus, augmented_only=config.augmented_only),
        )

    def _cycle_items(self, count: int) -> Cycle:
        """Return the item of every augmented graph; a last partial pass takes random graphs."""
        if isinstance(self._augmenter, GMixup):
            pairs = np.arange(len(self._augmenter.pairs))
            return Cycle(pairs, count, pairs[: count % len(pairs)])
        non_empty = np.flatnonzero(self._train.num_nodes > 0)
        if not len(non_empty):
            raise StageError(
                f"the training graphs of {self._corpus.info.name} have no nodes. Use another "
                "corpus."
            )
        stream = rng(self._config.seed, "augment", self._config.method, "rows")
        return Cycle.sample(non_empty, count, stream)

    @property
    def plans(self) -> list[ShardPlan]:
        """All shards of augmented graphs."""
        config = self._config
        return [
            ShardPlan(
                units=(*map(shard.path, config.formats), hashes_path(shard)),
                graphs=shard.stop - shard.start,
                description=(
                    f"{config.method} {shard.start} to {shard.stop - 1}, seed {config.seed}"
                ),
            )
            for shard in self._planned
        ]

    def build_shard(self, number: int, draft: Draft) -> ShardStats:
        """Write one shard and the hashes of its graphs, unless both exist."""
        shard = self._planned[number]
        hashes: list[Hashes] = []
        counts: Counter[str] = Counter()

        def tables() -> Iterator[GraphTable]:
            for table, block in self._blocks(shard):
                hashes.append(block.hashes)
                counts.update(block.counts)
                yield table

        return write_shard_with_hashes(
            draft,
            shard,
            self._augmenter.info,
            tables,
            hashes,
            self._config.formats,
            lambda: {"augmented": dict(counts)},
        )

    def _blocks(self, shard: Shard) -> Iterator[tuple[GraphTable, AugmentedBlock]]:
        seed, method = self._config.seed, self._config.method
        for start in range(shard.start, shard.stop, self._block):
            items = self._items[start : min(start + self._block, shard.stop)]
            block = sample_block(
                self._augmenter, items, self._held_out, seed, "augment", method, start
            )
            ids = self._first_id + start + np.arange(len(items), dtype=np.int64)
            yield block.table.with_columns(graph={"graph_id": ids}), block

    def finish(self, draft: Draft, stats: Sequence[ShardStats], read: ReadFile) -> StageResult:
        """Link the source shards and summarize the augmented graphs."""
        config = self._config
        linked = link_source_shards(
            draft,
            self._corpus,
            len(self._planned),
            config.formats,
            augmented_only=config.augmented_only,
        )
        return finish_augmented(
            draft,
            self._augmenter.info,
            [*linked, *stats],
            {"augment": self._quality(stats, draft, read)},
            self._warnings(),
            augmented_only=config.augmented_only,
        )

    def _quality(self, stats: Sequence[ShardStats], draft: Draft, read: ReadFile) -> dict[str, Any]:
        """Return quality metrics of all augmented graphs; raise if all are unchanged."""
        total: Counter[str] = Counter()
        for shard_stats in stats:
            total.update(shard_stats["augmented"])
        if total["unchanged"] == total["graphs"]:
            raise StageError(
                f"{self._config.method} changed nothing: all {total['graphs']} graphs of "
                f"{self._corpus.info.name} are unchanged. Raise the rate, or use another augmenter."
            )
        train = wl_hashes(self._train)
        held_out = np.setdiff1d(self._held_out, train)
        quality = {
            "method": self._config.method,
            "graphs": total["graphs"],
            **duplicate_counts(self._planned, read, draft, train, held_out),
            "rejected": {"held-out graph": total["held_out"]} if total["held_out"] else {},
        }
        if isinstance(self._augmenter, GMixup):
            return quality | _mixup_quality(self._augmenter)
        removed_share = round(total["lost"] / max(total["whole"], 1), 6)
        return quality | {"unchanged": total["unchanged"], "removed_fraction": removed_share}

    def _warnings(self) -> list[str]:
        if not is_molecular(self._corpus.info):
            return []
        return [
            f"graphs of {self._config.method} are not valid molecules: they have no SMILES, "
            "and atom features are not recomputed"
        ]


def check_config(config: AugmentConfig, info: CorpusInfo) -> None:
    """Raise if a method does not apply to a corpus of labelled graphs."""
    if info.sparse:
        raise StageError(
            f"{info.name} has sparse node features, which augmenters of graphs do not support. "
            "Prepare it with dense features."
        )
    has_classes = info.task == "classification" or (
        info.task == "binary" and len(info.outputs) == 1
    )
    if config.method == "g-mixup" and not has_classes:
        raise StageError(
            f"{info.name} is {info.task}; G-Mixup mixes classes and needs one class label. Use "
            "another augmenter."
        )


def _build_augmenter(config: AugmentConfig, info: CorpusInfo, train: GraphTable) -> Augmenter:
    if config.method == "g-mixup":
        mix, pairs = config.mix or (0.1, 0.2), config.pairs or 1
        return GMixup.estimate(info, train, mix, pairs, config.seed)
    mask_mode = config.masked or "columns"
    return Perturbation.of(config.method, config.rate or 0.0, mask_mode, info, train)


def _mixup_quality(augmenter: GMixup) -> dict[str, Any]:
    """Return the classes, their graphons' densities, and the mixed pairs with their weights."""
    info, classes = augmenter.info, augmenter.classes
    names = info.outputs if info.task == "classification" else ("no", "yes")
    return {
        "nodes": classes.size,
        "classes": {
            names[class_id]: {"graphs": int(count), "density": round(float(graphon.mean()), 6)}
            for class_id, (count, graphon) in enumerate(
                zip(classes.graphs, classes.graphons, strict=True)
            )
        },
        "pairs": [
            {"classes": [names[first], names[second]], "lambda": round(float(weight), 6)}
            for (first, second), weight in zip(augmenter.pairs, augmenter.weight, strict=True)
        ],
    }
