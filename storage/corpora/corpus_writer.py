"""Write a corpus into a draft, shard by shard, and sum it up."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass
from functools import partial
from pathlib import Path
from typing import Any, Literal

import msgspec

from gsx.errors import TableError
from gsx.schema import SPLITS, CorpusInfo
from gsx.storage.artifacts.digest import readable_json
from gsx.storage.artifacts.draft import Draft
from gsx.storage.artifacts.location import Place
from gsx.storage.artifacts.publish import Outcome
from gsx.storage.corpora.parquet import ROW_GROUP, ParquetShard, write_parquet
from gsx.storage.corpora.shard_stats import (
    merge_facts,
    merge_groups,
    merge_node_groups,
    merge_oddities,
    shard_facts,
)
from gsx.storage.corpora.zarr_format import ZarrShard, write_zarr
from gsx.table import GraphTable, cut
from gsx.validation import check_content

Format = Literal["parquet", "zarr"]
INFO = "corpus.json"
ENV_TABLE = "env_table.json"
SHARD_GRAPHS = 25_000
FOLDERS: Mapping[Format, str] = {"parquet": "data", "zarr": "zarr"}
SUFFIXES: Mapping[Format, str] = {"parquet": ".parquet", "zarr": ""}


@dataclass(frozen=True, slots=True)
class Shard:
    """A run of graphs of one split that lie in one file."""

    split: str
    number: int
    total: int
    """Shards of the split."""
    start: int
    """First graph, counted inside the split."""
    stop: int

    def path(self, form: Format) -> str:
        """Return the path of the shard inside the artifact."""
        name = f"{self.split}-{self.number:05d}-of-{self.total:05d}"
        return f"{FOLDERS[form]}/{name}{SUFFIXES[form]}"


def plan_shards(split_sizes: Mapping[str, int], shard_graphs: int) -> tuple[Shard, ...]:
    """Cut every split into shards of ``shard_graphs`` graphs, the last one smaller."""
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
    make: Callable[[], Iterable[GraphTable]],
    formats: Sequence[Format],
    more: Callable[[], Mapping[str, Any]] = dict,
) -> dict[str, Any]:
    """Write one shard in every format unless it is there, and return the facts about it.

    Its graphs come as tables, one after the other, and those of a row group are in memory; a
    further format is written from the first. Once all came, ``more`` tells what else to remember.
    """
    rows = shard.stop - shard.start

    def new(path: Path) -> dict[str, Any]:
        found: list[dict[str, Any]] = []
        _write(formats[0], path, _checked(cut(make(), ROW_GROUP), info, found), info)
        return {**merge_facts(found), **more()}

    def again(path: Path, form: Format) -> dict[str, Any]:
        _write(form, path, finished_shard(draft, shard, formats[0]).iter_groups(), info)
        return facts

    facts = dict(draft.write(shard.path(formats[0]), new, rows=rows).facts)
    for form in formats[1:]:
        draft.write(shard.path(form), partial(again, form=form), rows=rows)
    return facts


def finished_shard(draft: Draft, shard: Shard, form: Format) -> ParquetShard | ZarrShard:
    """Open a shard of a draft for reading."""
    kind = ParquetShard if form == "parquet" else ZarrShard
    return kind(Place.at(draft.content), shard.path(form))


def _write(form: Format, path: Path, parts: Iterable[GraphTable], info: CorpusInfo) -> None:
    (write_parquet if form == "parquet" else write_zarr)(path, parts, info)


def _checked(
    parts: Iterable[GraphTable], info: CorpusInfo, facts: list[dict[str, Any]]
) -> Iterator[GraphTable]:
    """Yield tables that may be stored, and note the facts about each."""
    last = None
    for part in parts:
        check_content(part, info)
        ids = part.dense("graph", "graph_id")
        if last is not None and len(ids) and ids.min() <= last:
            raise TableError(f"graph_id {int(ids.min())} comes after {last}: ids must rise")
        last = int(ids.max()) if len(ids) else last
        facts.append(shard_facts(part, info))
        yield part


def write_corpus(
    draft: Draft,
    info: CorpusInfo,
    shards: Iterable[Shard],
    make: Callable[[Shard], GraphTable],
    formats: Sequence[Format] = ("parquet",),
    on_shard: Callable[[Shard], None] = lambda _: None,
) -> Outcome:
    """Write all shards of a corpus and return what its manifest says about it.

    Two shards are in hand at once: while one is encoded the other is flushed to disk.
    """

    def one(shard: Shard) -> dict[str, Any]:
        facts = write_shard(draft, shard, info, lambda: (make(shard),), formats)
        on_shard(shard)
        return facts

    with ThreadPoolExecutor(max_workers=2) as pool:
        futures = [pool.submit(one, shard) for shard in shards]
        try:
            facts = [future.result() for future in futures]
        except BaseException:
            pool.shutdown(cancel_futures=True)
            raise
    return finish_corpus(draft, info, facts)


def finish_corpus(
    draft: Draft,
    info: CorpusInfo,
    facts: Sequence[Mapping[str, Any]],
    more: Mapping[str, Any] | None = None,
) -> Outcome:
    """Write the description and the environment table, and sum up the facts of all shards.

    ``more`` goes into the summary of the manifest.
    """
    groups = merge_groups(facts)
    nodes: dict[str, Any] = {}
    if info.level == "node":
        nodes = {"node_groups": merge_node_groups(facts)}
    environments = environment_rows(info, nodes.get("node_groups", groups))
    draft.write_bytes(INFO, readable_json(info))
    draft.write_bytes(ENV_TABLE, readable_json(environments))
    counts: dict[str, int] = {}
    for group in groups:
        counts[group["split"]] = counts.get(group["split"], 0) + group["count"]
    return Outcome(
        counts=counts,
        warnings=tuple(_warnings(info, environments)),
        summary={
            "name": info.name,
            "environments": environments,
            "groups": groups,
            "oddities": merge_oddities(facts),
            **nodes,
            **(more or {}),
        },
    )


def environment_rows(info: CorpusInfo, groups: Sequence[Mapping[str, Any]]) -> list[dict[str, Any]]:
    """Return one row per environment: what it means and what its training items look like.

    Items are graphs, or nodes where nodes have labels; nodes have a count and labels alone.
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
