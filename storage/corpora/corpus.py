"""The user-facing corpus: splits, environments, graph tables, PyG datasets and loaders."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator, Mapping, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Literal, overload

import numpy as np

from gsx.errors import ArtifactError, TableError
from gsx.storage.artifacts.store import Artifact, Store
from gsx.storage.corpora.corpus_base import CorpusBase, Envs, Origins, Splits
from gsx.storage.corpora.corpus_files import list_shards, read_corpus_info
from gsx.storage.corpora.corpus_writer import FOLDERS, Format, Shard
from gsx.storage.corpora.hot_cache import build_hot_cache, open_hot_cache
from gsx.storage.corpora.limits import Extent
from gsx.storage.corpora.parquet import ParquetShard
from gsx.storage.corpora.parquet_footer import ShardSchema
from gsx.storage.corpora.shared_edges import (
    PARENT_COLUMNS,
    edge_owners,
    restore_shared_edges,
    shares_parent_edges,
)
from gsx.storage.corpora.zarr_format import ZarrShard
from gsx.table import GraphTable, Values, concat
from gsx.validation import check_codes

if TYPE_CHECKING:
    import pandas
    from torch_geometric.data import Data

    from gsx.pyg import CorpusDataset
    from gsx.storage.corpora.loader import Loader

CacheUse = Literal["auto", "always", "never"]
OPEN_SHARDS = 64
"""Maximum number of open shards."""


def open_corpus(
    name: str | Path, *, store: str | Path | None = None, format: Format | None = None
) -> Corpus:
    """Open a corpus by key, key prefix, directory or URL.

    All files are verified first, unless this machine built or verified the corpus before.
    """
    opened = Store.at(store)
    artifact = opened.resolve(str(name), kind="corpus")
    return Corpus(artifact, format=format, store=opened if opened.contains(artifact) else None)


class Corpus(CorpusBase, Sequence["Data"]):
    """Graphs with labels, splits and environments; ``corpus[i]`` is a PyG ``Data``."""

    def __init__(
        self, artifact: Artifact, *, format: Format | None = None, store: Store | None = None
    ) -> None:
        self.artifact = artifact
        self.store = store
        self.info = read_corpus_info(artifact)
        self._schema = ShardSchema(self.info)
        self._shards = list_shards(artifact, format)
        self._starts = np.cumsum([0, *(rows for _, _, rows in self._shards)])
        self._hot: GraphTable | None = None
        self._edges: GraphTable | None = None
        self._group: tuple[tuple[int, int], GraphTable] | None = None
        self._opened: dict[int, ParquetShard | ZarrShard] = {}

    def __len__(self) -> int:
        return int(self._starts[-1])

    @property
    def splits(self) -> Mapping[str, int]:
        """Graphs per split."""
        counts: Counter[str] = Counter()
        for _, split, rows in self._shards:
            counts[split] += rows
        return dict(counts)

    @overload
    def __getitem__(self, index: int) -> Data: ...
    @overload
    def __getitem__(self, index: slice) -> list[Data]: ...
    def __getitem__(self, index: int | slice) -> Data | list[Data]:
        """Return graph ``index``, or a list for a slice, in the order of splits and shards."""
        from gsx.pyg import data_list, pyg_columns

        if isinstance(index, slice):
            return [self[position] for position in range(*index.indices(len(self)))]
        if not isinstance(index, int | np.integer):
            raise TypeError(
                f"a corpus index must be an integer or a slice, not {type(index).__name__}"
            )
        position = int(index) + len(self) if index < 0 else int(index)
        if not 0 <= position < len(self):
            raise IndexError(f"graph {index} is out of range for a corpus of {len(self)} graphs")
        table, row = self._locate(position)
        one = table.select(pyg_columns(self.info)).slice(row, row + 1)
        return data_list(one, num_features=self.info.num_features)[0]

    def table(
        self,
        *,
        split: str | Sequence[str] | None = None,
        env: int | Sequence[int] | None = None,
        origin: str | Sequence[str] | None = None,
        columns: Sequence[str] | None = None,
    ) -> GraphTable:
        """Return the graphs of the given splits, environments and origins as one table."""
        self.check_columns(columns or ())
        hot = self.hot(build=False)
        if hot is not None:
            rows = self.select_rows(hot, split, env, origin)
            chosen = hot if columns is None else hot.select(columns)
            if len(rows) and rows[-1] - rows[0] + 1 == len(rows):
                return chosen.slice(int(rows[0]), int(rows[-1]) + 1)
            return chosen.take(rows)
        wanted = None if columns is None else [*columns, "split", "env_id", "origin"]
        selected = [
            group.take(self.select_rows(group, split, env, origin))
            for group in self.iter_tables(split=split, columns=wanted)
        ]
        table = concat(selected) if selected else self._empty(wanted)
        return table if columns is None else table.select(columns)

    def loader(
        self,
        batch_size: int,
        *,
        split: str | Sequence[str] | None = None,
        env: int | Sequence[int] | None = None,
        origin: str | Sequence[str] | None = None,
        shuffle: bool = False,
        seed: int = 0,
        env_balanced: bool = False,
        drop_last: bool = False,
        columns: Sequence[str] = (),
        cache: CacheUse = "auto",
        rank: int | None = None,
        world_size: int | None = None,
    ) -> Loader:
        """Return an iterable of PyG batches; every pass is one epoch.

        ``shuffle`` draws a new order each epoch from ``seed``. ``env_balanced`` gives every batch
        the same number of graphs of each environment. ``columns`` lists extra columns.
        ``cache``: ``auto`` reads from the hot cache if it exists and builds it for random access,
        ``always`` builds it first, ``never`` streams the shards and shuffles within a window.

        ``origin`` selects graphs by how they came into the corpus, such as ``"source"``.
        ``rank`` and ``world_size`` (default: of ``torch.distributed``) divide every epoch among
        processes, all with the same number of batches (docs/howto/distributed-training.md).
        """
        from gsx.storage.corpora.loader import Loader

        self.check_columns(columns)
        return Loader(
            self,
            batch_size=batch_size,
            split=split,
            env=env,
            origin=origin,
            shuffle=shuffle,
            seed=seed,
            env_balanced=env_balanced,
            drop_last=drop_last,
            columns=tuple(columns),
            cache=cache,
            rank=rank,
            world_size=world_size,
        )

    def to_pyg(
        self,
        *,
        split: str | Sequence[str] | None = None,
        env: int | Sequence[int] | None = None,
        origin: str | Sequence[str] | None = None,
        columns: Sequence[str] = (),
        dense: bool = False,
    ) -> CorpusDataset:
        """Return graphs as a PyG ``InMemoryDataset``.

        Sparse features become ``torch.sparse_csr`` tensors unless ``dense`` is true.
        """
        from gsx.pyg import CorpusDataset, densify_features, pyg_columns

        self.check_columns(columns)
        names = pyg_columns(self.info, columns)
        table = self.table(split=split, env=env, origin=origin, columns=names)
        return CorpusDataset(densify_features(table, self.info) if dense else table, self.info)

    def strings(
        self, column: str, *, split: Splits = None, env: Envs = None, origin: Origins = None
    ) -> list[str]:
        """Return a graph column of text, or of categories, as one string per graph."""
        from gsx.storage.corpora.corpus_frame import strings

        return strings(self, column, split=split, env=env, origin=origin)

    def to_pandas(
        self,
        *,
        split: Splits = None,
        env: Envs = None,
        origin: Origins = None,
        columns: Sequence[str] | None = None,
    ) -> pandas.DataFrame:
        """Return one row per graph, or per node of a corpus with labelled nodes.

        Text and categories are strings, and vectors have one column per value. Without
        ``columns``, lists, features and provenance are left out.
        """
        from gsx.storage.corpora.corpus_frame import to_pandas

        return to_pandas(self, split=split, env=env, origin=origin, columns=columns)

    def hot(self, *, build: bool) -> GraphTable | None:
        """Return the hot cache of the whole corpus or None; ``build`` creates a missing cache."""
        if self._hot is None:
            digest, path = self.artifact.manifest.digest, self.artifact.location.local
            self._hot = open_hot_cache(digest, self.info, path)
            if self._hot is None and build:
                self._hot = build_hot_cache(digest, self.info, self.iter_tables(), path)
        return self._hot

    def iter_tables(
        self,
        *,
        split: str | Sequence[str] | None = None,
        columns: Sequence[str] | None = None,
    ) -> Iterator[GraphTable]:
        """Yield the corpus, or the given splits, one row group at a time."""
        for group in self.groups(split):
            yield self.read_group(group, columns)

    def graph_columns(self, shard_index: int, names: Sequence[str]) -> dict[str, Values]:
        """Return graph columns of one shard, with ``num_nodes`` and ``num_edges``."""
        shard = self._open(shard_index)
        if isinstance(shard, ParquetShard):
            values = shard.graph_columns(names)
            ptr = np.zeros(len(shard) + 1, dtype=np.int64)
            columns = {name: values[name] for name in names}
            self._checked(GraphTable(ptr, ptr, columns), shard_index)
            return values
        table = self._checked(shard.read(names), shard_index)
        sizes = {"num_nodes": table.num_nodes, "num_edges": table.num_edges}
        return {**sizes, **{name: table.graph[name] for name in names}}

    @property
    def shards(self) -> list[Shard]:
        """The shards, in corpus order."""
        totals = Counter(split for _, split, _ in self._shards)
        shards: list[Shard] = []
        start: dict[str, int] = dict.fromkeys(totals, 0)
        number: dict[str, int] = dict.fromkeys(totals, 0)
        for _, split, rows in self._shards:
            stop = start[split] + rows
            shards.append(Shard(split, number[split], totals[split], start[split], stop))
            start[split], number[split] = stop, number[split] + 1
        return shards

    def shard_unit(self, shard_index: int, file_format: Format) -> tuple[str, list[str] | None]:
        """Return path and files of a shard in a format; files are None if the format is absent."""
        unit = self.shards[shard_index].path(file_format)
        files = [
            name
            for name in self.artifact.manifest.files
            if name == unit or name.startswith(f"{unit}/")
        ]
        return unit, files or None

    def read_shard(self, shard_index: int) -> GraphTable:
        """Return one shard as stored: replicas that share edges have none."""
        return self._checked(self._open(shard_index).read(), shard_index)

    def iter_shard(self, shard_index: int) -> Iterator[GraphTable]:
        """Yield one shard as stored, one row group at a time."""
        for table in self._open(shard_index).iter_groups():
            yield self._checked(table, shard_index)

    def groups(self, split: str | Sequence[str] | None = None) -> list[tuple[int, int]]:
        """Return shard index and row-group index of every row group of the given splits."""
        names = self.check_splits(split)
        return [
            (shard_index, group)
            for shard_index, (_, name, _) in enumerate(self._shards)
            if names is None or name in names
            for group in range(len(self._open(shard_index).groups))
        ]

    def group_sizes(self) -> Iterator[tuple[int, int, int]]:
        """Yield shard index, row-group index and number of graphs of every row group."""
        for shard_index in range(len(self._shards)):
            for group, size in enumerate(self._open(shard_index).groups):
                yield shard_index, group, size

    def read_group(self, group: tuple[int, int], columns: Sequence[str] | None) -> GraphTable:
        """Return one row group, given by shard index and row-group index, with all edges."""
        shard_index, group_index = group
        if self.info.level == "graph":
            return self._read(shard_index, columns, group_index)
        wanted = None if columns is None else [*columns, *PARENT_COLUMNS]
        stored = self._read(shard_index, wanted, group_index)
        if not shares_parent_edges(stored).any():
            table = stored
        else:
            table = restore_shared_edges(stored, self._edge_owners(), self.artifact.location.url)
        return table if columns is None else table.select(columns)

    def _edge_owners(self) -> GraphTable:
        """Return all graphs that store their own edges."""
        if self._edges is None:
            names = [*PARENT_COLUMNS, *(c.name for c in self.info.columns if c.axis == "edge")]
            self._edges = edge_owners(self._read(s, names, g) for s, g in self.groups())
        return self._edges

    def _locate(self, position: int) -> tuple[GraphTable, int]:
        hot = self.hot(build=False)
        if hot is not None:
            return hot, position
        shard_index = int(np.searchsorted(self._starts, position, side="right")) - 1
        row = position - int(self._starts[shard_index])
        starts = np.cumsum([0, *self._open(shard_index).groups])
        group = int(np.searchsorted(starts, row, side="right")) - 1
        if self._group is None or self._group[0] != (shard_index, group):
            self._group = ((shard_index, group), self.read_group((shard_index, group), None))
        return self._group[1], row - int(starts[group])

    def _read(self, shard_index: int, columns: Sequence[str] | None, group: int) -> GraphTable:
        return self._checked(self._open(shard_index).read(columns, group), shard_index)

    def _checked(self, table: GraphTable, shard_index: int) -> GraphTable:
        """Return ``table`` if its codes and indices can be used."""
        try:
            check_codes(table, self.info)
        except TableError as error:
            where = f"{self.artifact.location.url}/{self._shards[shard_index][0]}"
            raise ArtifactError(f"{where}: {error}") from error
        return table

    def _open(self, shard_index: int) -> ParquetShard | ZarrShard:
        if shard_index not in self._opened:
            path, split, rows = self._shards[shard_index]
            if len(self._opened) >= OPEN_SHARDS:
                self._opened.pop(next(iter(self._opened)), None)
            is_parquet = path.startswith(FOLDERS["parquet"])
            self._opened[shard_index] = (ParquetShard if is_parquet else ZarrShard)(
                self.artifact.location,
                path,
                rows=rows,
                expected=self._schema,
                extent=lambda: Extent.of(self.summary["groups"], split),
            )
        return self._opened[shard_index]

    def _empty(self, columns: Sequence[str] | None) -> GraphTable:
        return self._open(0).read(columns, 0).slice(0, 0)
