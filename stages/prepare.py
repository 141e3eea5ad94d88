"""Prepare a source corpus: graphs of a known dataset with labels, splits and environments."""

from __future__ import annotations

from collections.abc import Mapping
from itertools import accumulate

import msgspec

from gsx.columns import CorpusInfo
from gsx.errors import UsageError, nearest
from gsx.stages.datasets import motif
from gsx.stages.stage import Progress, Stage
from gsx.storage.corpus_writer import SHARD_GRAPHS, Format, Shard, plan_shards, write_corpus
from gsx.storage.draft import Draft
from gsx.storage.publish import Outcome
from gsx.storage.store import Artifact
from gsx.table import GraphTable

MAX_GRAPHS = 10**10


class PrepareConfig(msgspec.Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """Options of ``[prepare]``."""

    dataset: str
    """Name of the dataset; ``gsx datasets`` lists them."""
    num_graphs: int | None = None
    """Graphs of all splits together; the published number when left out."""
    seed: int = 0
    """Root of the random streams that draw the graphs."""
    shard_graphs: int = SHARD_GRAPHS
    """Graphs per file."""
    formats: tuple[Format, ...] = ("parquet",)
    """``parquet``, ``zarr`` or both."""


def resolve(config: PrepareConfig) -> PrepareConfig:
    """Fill in the published number of graphs; refuse a dataset or size that cannot be made."""
    name = motif.ALIASES.get(config.dataset, config.dataset)
    if name not in motif.DATASETS:
        known = (*motif.DATASETS, *motif.ALIASES)
        raise UsageError(f"no dataset `{config.dataset}`. {nearest(config.dataset, known)}")
    num_graphs = motif.DEFAULT_NUM_GRAPHS if config.num_graphs is None else config.num_graphs
    if not 1 <= num_graphs <= MAX_GRAPHS:
        raise UsageError(f"num_graphs must lie in 1..{MAX_GRAPHS}; got {num_graphs}")
    if config.shard_graphs < 1:
        raise UsageError(f"shard_graphs must be at least 1; got {config.shard_graphs}")
    if not config.formats or len(set(config.formats)) != len(config.formats):
        raise UsageError("formats must name `parquet`, `zarr` or both, each once")
    motif.split_sizes(name, num_graphs)
    formats = tuple(sorted(config.formats))
    return msgspec.structs.replace(config, dataset=name, num_graphs=num_graphs, formats=formats)


def corpus_info(config: PrepareConfig) -> CorpusInfo:
    """Describe the corpus a resolved config makes."""
    return motif.corpus_info(config.dataset)


def plan(config: PrepareConfig) -> tuple[Shard, ...]:
    """Return the shards a resolved config makes."""
    return plan_shards(_split_sizes(config), config.shard_graphs)


def build_shard(config: PrepareConfig, shard: Shard) -> GraphTable:
    """Return the graphs of one shard; needs nothing but the config, so any worker may do it."""
    sizes = _split_sizes(config)
    first = dict(zip(sizes, accumulate(sizes.values(), initial=0), strict=False))
    return motif.build(
        config.dataset,
        shard.split,
        shard.start,
        shard.stop,
        seed=config.seed,
        first_graph_id=first[shard.split],
    )


def run(
    config: PrepareConfig, inputs: Mapping[str, Artifact], draft: Draft, progress: Progress
) -> Outcome:
    """Write the corpus into ``draft``."""
    del inputs
    shards = plan(config)
    total = sum(shard.stop - shard.start for shard in shards)
    done = 0

    def count(shard: Shard) -> None:
        nonlocal done
        done += shard.stop - shard.start
        progress(done, total)

    return write_corpus(
        draft,
        corpus_info(config),
        shards,
        lambda shard: build_shard(config, shard),
        config.formats,
        count,
    )


def _split_sizes(config: PrepareConfig) -> dict[str, int]:
    if config.num_graphs is None:
        raise UsageError("resolve the config before planning")
    return motif.split_sizes(config.dataset, config.num_graphs)


STAGE = Stage(
    name="prepare",
    version=1,
    kind="corpus",
    config=PrepareConfig,
    resolve=resolve,
    run=run,
    seeds=lambda config: {"prepare": config.seed},
    sources=("gsx.stages.prepare", "gsx.stages.datasets.motif", "gsx.stages.kernels.motif"),
)
