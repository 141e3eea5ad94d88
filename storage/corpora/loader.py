"""PyG batches from a corpus: sliced from the hot cache, or streamed from shards with prefetch."""

from __future__ import annotations

from collections import deque
from collections.abc import Callable, Iterable, Iterator, Sequence
from concurrent.futures import Future, ThreadPoolExecutor
from dataclasses import dataclass, field
from functools import partial
from typing import TYPE_CHECKING, TypeVar

import numpy as np

from gsx.errors import UsageError
from gsx.pyg import collate, pyg_columns
from gsx.ragged import Ints
from gsx.seeds import rng
from gsx.storage.corpora.hot_cache import PackedGraphs
from gsx.table import GraphTable, concat

if TYPE_CHECKING:
    from torch_geometric.data import Batch

    from gsx.storage.corpora.corpus import CacheUse, Corpus

WINDOW_BATCHES = 16
"""Batches gathered at once in random order."""
SHUFFLE_GROUPS = 4
"""Row groups in one shuffle window when shards are streamed in random order."""
PREFETCH = 1
"""Row groups read, or windows gathered, ahead of use."""

_Item = TypeVar("_Item")
_Result = TypeVar("_Result")


@dataclass
class Loader:
    """An iterable of PyG batches; iterate again for the next epoch."""

    corpus: Corpus
    batch_size: int
    split: str | Sequence[str] | None = None
    env: int | Sequence[int] | None = None
    shuffle: bool = False
    seed: int = 0
    env_balanced: bool = False
    drop_last: bool = False
    columns: tuple[str, ...] = ()
    cache: CacheUse = "auto"
    epoch: int = 0
    """The next epoch; set it to repeat or skip epochs."""
    _graphs: int | None = field(default=None, init=False)

    def __post_init__(self) -> None:
        if self.batch_size < 1:
            raise UsageError(f"batch_size must be at least 1; got {self.batch_size}")
        if self.env_balanced and self.cache == "never":
            raise UsageError('env_balanced needs random access; use `cache="auto"`')
        if self.cache not in ("auto", "always", "never"):
            raise UsageError(f"cache must be `auto`, `always` or `never`; got {self.cache!r}")
        self.corpus.check_splits(self.split)
        self.corpus.check_envs(self.env)
        self._names()

    def __len__(self) -> int:
        """Return the number of batches in one epoch."""
        graphs = self._count()
        return graphs // self.batch_size if self.drop_last else -(-graphs // self.batch_size)

    def __iter__(self) -> Iterator[Batch]:
        epoch, self.epoch = self.epoch, self.epoch + 1
        table = self._table()
        batches = self._stream(epoch) if table is None else self._from_cache(table, epoch)
        width = self.corpus.info.num_features
        for batch in batches:
            if len(batch) == self.batch_size or not self.drop_last:
                yield collate(batch, num_features=width)

    def _table(self) -> GraphTable | None:
        if self.cache == "never":
            return None
        random_access = self.shuffle or self.env_balanced
        return self.corpus.hot(build=self.cache == "always" or random_access)

    def _names(self) -> list[str]:
        return pyg_columns(self.corpus.info, self.columns)

    def _count(self) -> int:
        if self._graphs is None:
            if self.env is None:
                names = self.corpus.check_splits(self.split)
                counts = self.corpus.splits
                self._graphs = sum(n for k, n in counts.items() if names is None or k in names)
            else:
                table = self.corpus.table(split=self.split, env=self.env, columns=["env_id"])
                self._graphs = len(table)
        return self._graphs

    def _from_cache(self, table: GraphTable, epoch: int) -> Iterator[GraphTable]:
        rows = self.corpus.select_rows(table, self.split, self.env)
        chosen = table.select(self._names())
        if self.env_balanced:
            stream = rng(self.seed, "loader", "balanced", epoch)
            rows = _balance(table.dense("graph", "env_id"), rows, self.batch_size, stream)
        elif self.shuffle:
            rng(self.seed, "loader", "shuffle", epoch).shuffle(rows)
        elif len(rows) and rows[-1] - rows[0] + 1 == len(rows):
            for start in range(int(rows[0]), int(rows[-1]) + 1, self.batch_size):
                yield chosen.slice(start, min(start + self.batch_size, int(rows[-1]) + 1))
            return
        step = self.batch_size * WINDOW_BATCHES
        windows = (rows[first : first + step] for first in range(0, len(rows), step))
        packed = PackedGraphs(chosen)
        for gathered in _prefetch(packed.gather, windows):
            window = packed.unpack(gathered)
            for start in range(0, len(window), self.batch_size):
                yield window.slice(start, start + self.batch_size)

    def _stream(self, epoch: int) -> Iterator[GraphTable]:
        groups = self.corpus.groups(self.split)
        if self.shuffle:
            rng(self.seed, "loader", "groups", epoch).shuffle(groups)
        names = self._names()
        read = [*names, "env_id"] if self.env is not None else names
        tables = _prefetch(partial(self.corpus.read_group, columns=read), groups)
        if self.env is not None:
            tables = (t.take(self.corpus.select_rows(t, None, self.env)).select(names)
                      for t in tables)  # fmt: skip
        if self.shuffle:
            tables = _shuffle_windows(tables, self.seed, epoch)
        return _rebatch(tables, self.batch_size)


def _prefetch(function: Callable[[_Item], _Result], items: Iterable[_Item]) -> Iterator[_Result]:
    """Yield ``function(item)`` in order, computed ahead of use in a background thread."""
    pending: deque[Future[_Result]] = deque()
    with ThreadPoolExecutor(max_workers=1) as pool:
        try:
            for item in items:
                pending.append(pool.submit(function, item))
                if len(pending) > PREFETCH:
                    yield pending.popleft().result()
            while pending:
                yield pending.popleft().result()
        finally:
            for future in pending:
                future.cancel()


def _rebatch(tables: Iterator[GraphTable], size: int) -> Iterator[GraphTable]:
    """Yield tables of ``size`` graphs from tables of any length; the last one may be smaller."""
    rest: GraphTable | None = None
    for table in tables:
        start = 0
        if rest is not None:
            start = min(size - len(rest), len(table))
            rest = concat([rest, table.slice(0, start)])
            if len(rest) < size:
                continue
            yield rest
            rest = None
        full = start + (len(table) - start) // size * size
        for first in range(start, full, size):
            yield table.slice(first, first + size)
        if full < len(table):
            rest = table.slice(full, len(table))
    if rest is not None:
        yield rest


def _shuffle_windows(tables: Iterator[GraphTable], seed: int, epoch: int) -> Iterator[GraphTable]:
    """Shuffle graphs within windows of ``SHUFFLE_GROUPS`` row groups."""
    window: list[GraphTable] = []
    number = 0
    for table in tables:
        window.append(table)
        if len(window) == SHUFFLE_GROUPS:
            yield _shuffle(window, seed, epoch, number)
            window, number = [], number + 1
    if window:
        yield _shuffle(window, seed, epoch, number)


def _shuffle(window: Sequence[GraphTable], seed: int, epoch: int, number: int) -> GraphTable:
    table = concat(window)
    return table.take(rng(seed, "loader", "window", epoch, number).permutation(len(table)))


def _balance(env: Ints, rows: Ints, size: int, stream: np.random.Generator) -> Ints:
    """Resample ``rows`` so that every batch contains each environment equally often.

    The number of rows stays the same. Small environments repeat, each time in a new order.
    """
    present = np.unique(env[rows])
    if len(present) > size:
        raise UsageError(
            f"a batch of {size} cannot contain all {len(present)} environments; "
            "increase the batch size"
        )
    env_index = np.arange(len(rows)) % size % len(present)
    balanced = np.empty(len(rows), dtype=np.int64)
    for index, env_id in enumerate(present):
        members = rows[env[rows] == env_id]
        positions = np.flatnonzero(env_index == index)
        repeats = -(-len(positions) // len(members))
        order = np.concatenate([stream.permutation(members) for _ in range(repeats)])
        balanced[positions] = order[: len(positions)]
    return balanced
