"""Write a corpus into a draft, shard by shard, and merge the shard statistics."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass
from functools import partial
from pathlib import Path
from typing import Any, Literal

import msgspec
import numpy as np

from gsx.errors import TableError
from gsx.ragged import Ints
from gsx.schema import SPLITS, CorpusInfo
from gsx.storage.artifacts.digest import readable_json
from gsx.storage.artifacts.draft import Draft
from gsx.storage.artifacts.location import Location
from gsx.storage.artifacts.publish import StageResult
from gsx.storage.corpora.parquet import ROW_GROUP, ParquetShard, write_parquet
from gsx.storage.corpora.shard_stats import (
    compute_shard_stats,
    merge_groups,
    merge_node_groups,
    merge_oddities,
    merge_shard_stats,
)
from gsx.storage.corpora.split_warnings import small_split_warnings
from gsx.storage.corpora.zarr_format import ZarrShard, write_zarr
from gsx.table import GraphTable, rechunk
from gsx.validation import validate_table

Format = Literal["parquet", "zarr"]
INFO = "corpus.json"
ENV_TABLE = "env_table.json"
SHARD_GRAPHS = 25_000
FOLDERS: Mapping[Format, str] = {"parquet": "data", "zarr": "zarr"}
SUFFIXES: Mapping[Format, str] = {"parquet": ".parquet", "zarr": ""}


@dataclass(frozen=True, slots=True)
class Shard:
    """A contiguous range of graphs of one split, stored in one file."""

    split: str
    number: int
    total: int
    """Number of shards of the split."""
    start: int
    """First graph, counted inside the split."""
    stop: int

    def path(self, file_format: Format) -> str:
        """Return the path of the shard inside the artifact."""
        name = f"{self.split}-{self.number:05d}-of-{self.total:05d}"
        return f"{FOLDERS[file_format]}/{name}{SUFFIXES[file_format]}"


def plan_shards(split_sizes: Mapping[str, int], shard_graphs: int) -> tuple[Shard, ...]:
    """Divide every split into shards of ``shard_graphs`` graphs; the last one may be smaller."""
    shards = []
    for split in SPLITS:
        size = split_sizes.get(split, 0)
        starts = range(0, size, shard_graphs)
        shards += [
            Shard(split, number, len(starts), start, min(start + shard_graphs, size))
            for number, start in enumerate(starts)
        ]
    return tuple(shards)


def write_shard(
    draft: Draft,
    shard: Shard,
    info: CorpusInfo,
    tables: Callable[[], Iterable[GraphTable]],
    formats: Sequence[Format],
    extra_stats: Callable[[], Mapping[str, Any]] = dict,
) -> dict[str, Any]:
    """Write one shard in every format unless it is finished, and return its statistics.

    ``tables`` yields the graphs of the shard in order; one row group is in memory at a time.
    Further formats are converted from the first. ``extra_stats`` is called after the last table,
    and its result is added to the statistics.
    """
    rows = shard.stop - shard.start

    def write_new(path: Path) -> dict[str, Any]:
        parts: list[dict[str, Any]] = []
        _write(formats[0], path, _validated(rechunk(tables(), ROW_GROUP), info, parts), info)
        return {**merge_shard_stats(parts), **extra_stats()}

    def convert(path: Path, file_format: Format) -> dict[str, Any]:
        first = open_draft_shard(draft, shard, formats[0])
        _write(file_format, path, first.iter_groups(), info)
        return stats

    stats = dict(draft.write(shard.path(formats[0]), write_new, rows=rows).stats)
    for file_format in formats[1:]:
        write_other = partial(convert, file_format=file_format)
        draft.write(shard.path(file_format), write_other, rows=rows)
    return stats


def open_draft_shard(draft: Draft, shard: Shard, file_format: Format) -> ParquetShard | ZarrShard:
    """Open a finished shard of a draft for reading."""
    shard_type = ParquetShard if file_format == "parquet" else ZarrShard
    return shard_type(Location.at(draft.content), shard.path(file_format))


def _write(file_format: Format, path: Path, tables: Iterable[GraphTable], info: CorpusInfo) -> None:
    (write_parquet if file_format == "parquet" else write_zarr)(path, tables, info)


def _validated(
    tables: Iterable[GraphTable], info: CorpusInfo, stats: list[dict[str, Any]]
) -> Iterator[GraphTable]:
    """Yield tables after validation and append the statistics of each to ``stats``."""
    previous: list[Ints] = []
    largest = -1
    for table in tables:
        validate_table(table, info)
        ids = table.dense("graph", "graph_id")
        # In increasing order, as of most corpora, no id can occur twice.
        if len(ids) and ids.min() <= largest:
            repeated = ids[np.isin(ids, np.concatenate(previous))]
            if len(repeated):
                raise TableError(f"graph_id {int(repeated[0])} belongs to more than one graph")
        largest = max(largest, int(ids.max(initial=-1)))
        previous.append(ids)
        stats.append(compute_shard_stats(table, info))
        yield table


def write_corpus(
    draft: Draft,
    info: CorpusInfo,
    shards: Iterable[Shard],
    make: Callable[[Shard], GraphTable],
    formats: Sequence[Format] = ("parquet",),
    on_shard: Callable[[Shard], None] = lambda _: None,
) -> StageResult:
    """Write all shards of a corpus and return the fields of its manifest.

    Two shards are processed at a time: one is encoded while the other is flushed to disk.
    """

    def write_one(shard: Shard) -> dict[str, Any]:
        shard_stats = write_shard(draft, shard, info, lambda: (make(shard),), formats)
        on_shard(shard)
        return shard_stats

    with ThreadPoolExecutor(max_workers=2) as pool:
        futures = [pool.submit(write_one, shard) for shard in shards]
        try:
            stats = [future.result() for future in futures]
        except BaseException:
            pool.shutdown(cancel_futures=True)
            raise
    return finish_corpus(draft, info, stats)


def finish_corpus(
    draft: Draft,
    info: CorpusInfo,
    stats: Sequence[Mapping[str, Any]],
    extra_summary: Mapping[str, Any] | None = None,
) -> StageResult:
    """Write the description and the environment table, and merge the statistics of all shards.

    ``extra_summary`` is added to the summary of the manifest.
    """
    groups = merge_groups(stats)
    nodes: dict[str, Any] = {}
    if info.level == "node":
        nodes = {"node_groups": merge_node_groups(stats)}
    environments = environment_rows(info, nodes.get("node_groups", groups))
    draft.write_bytes(INFO, readable_json(info))
    draft.write_bytes(ENV_TABLE, readable_json(environments))
    counts: dict[str, int] = {}
    for group in groups:
        counts[group["split"]] = counts.get(group["split"], 0) + group["count"]
    return StageResult(
        counts=counts,
        warnings=(
            *_warnings(info, environments),
            *small_split_warnings(info, nodes.get("node_groups", groups)),
        ),
        summary={
            "name": info.name,
            "environments": environments,
            "groups": groups,
            "oddities": merge_oddities(stats),
            **nodes,
            **(extra_summary or {}),
        },
    )


def environment_rows(info: CorpusInfo, groups: Sequence[Mapping[str, Any]]) -> list[dict[str, Any]]:
    """Return one row per environment: its description and the statistics of its training items.

    Items are graphs, or nodes in a node-labelled corpus. Nodes have only a count and labels.
    """
    train = {group["env_id"]: group for group in groups if group["split"] == "train"}
    fields = ("count", "min_nodes", "max_nodes", "nodes", "edges", "labels", "sizes")
    return [
        {
            **msgspec.to_builtins(environment),
            **{
                field: train[environment.id][field]
                for field in fields
                if environment.id in train and field in train[environment.id]
            },
        }
        for environment in info.environments
    ]


def _warnings(info: CorpusInfo, environments: Iterable[Mapping[str, Any]]) -> Iterable[str]:
    items = f"training {info.level}s"
    for row in environments:
        if "count" not in row:
            yield f"environment {row['id']} ({row['name']}) has no {items}"
        elif info.task in ("classification", "binary") and sum(map(bool, row["labels"])) == 1:
            yield (
                f"environment {row['id']} ({row['name']}) has {items} of one class only; "
                "methods that compare labels inside an environment cannot learn from it"
            )
