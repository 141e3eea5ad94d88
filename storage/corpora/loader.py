"""PyG batches from a corpus: by slicing the hot cache, or by streaming shards ahead of use."""

from __future__ import annotations

from collections import deque
from collections.abc import Callable, Iterable, Iterator, Sequence
from concurrent.futures import Future, ThreadPoolExecutor
from dataclasses import dataclass, field
from functools import partial
from typing import TYPE_CHECKING, TypeVar

import numpy as np

from gsx.errors import UsageError
from gsx.pyg import collate, columns_of
from gsx.ragged import Ints
from gsx.seeds import rng
from gsx.storage.corpora.hot_cache import GraphRows
from gsx.table import GraphTable, concat

if TYPE_CHECKING:
    from torch_geometric.data import Batch

    from gsx.storage.corpora.corpus import CacheUse, Corpus

WINDOW_BATCHES = 16
"""Batches gathered at once when order is not that of the cache."""
SHUFFLE_GROUPS = 4
"""Row groups mixed with each other when shards are streamed in random order."""
READ_AHEAD = 1
"""Row groups read, or windows gathered, while a batch is in use."""

_Part = TypeVar("_Part")
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
    """The next epoch; set it to repeat or to skip one."""
    _graphs: int | None = field(default=None, init=False)

    def __post_init__(self) -> None:
        if self.batch_size < 1:
            raise UsageError(f"batch_size must be at least 1; got {self.batch_size}")
        if self.env_balanced and self.cache == "never":
            raise UsageError("env_balanced needs random access; leave `cache` at `auto`")
        if self.cache not in ("auto", "always", "never"):
            raise UsageError(f"cache must be `auto`, `always` or `never`; got {self.cache!r}")
        self.corpus.check_splits(self.split)
        self.corpus.check_envs(self.env)
        self._names()

    def __len__(self) -> int:
        """Batches of one epoch."""
        graphs = self._count()
        return graphs // self.batch_size if self.drop_last else -(-graphs // self.batch_size)

    def __iter__(self) -> Iterator[Batch]:
        epoch, self.epoch = self.epoch, self.epoch + 1
        table = self._table()
        batches = self._stream(epoch) if table is None else self._from_cache(table, epoch)
        width = self.corpus.info.num_features
        for part in batches:
            if len(part) == self.batch_size or not self.drop_last:
                yield collate(part, num_features=width)

    def _table(self) -> GraphTable | None:
        if self.cache == "never":
            return None
        order_matters = self.shuffle or self.env_balanced
        return self.corpus.hot(build=self.cache == "always" or order_matters)

    def _names(self) -> list[str]:
        return columns_of(self.corpus.info, self.columns)

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
            rows = _balanced(table.dense("graph", "env_id"), rows, self.batch_size,
                             rng(self.seed, "loader", "balanced", epoch))  # fmt: skip
        elif self.shuffle:
            rng(self.seed, "loader", "shuffle", epoch).shuffle(rows)
        elif len(rows) and rows[-1] - rows[0] + 1 == len(rows):
            for start in range(int(rows[0]), int(rows[-1]) + 1, self.batch_size):
                yield chosen.slice(start, min(start + self.batch_size, int(rows[-1]) + 1))
            return
        step = self.batch_size * WINDOW_BATCHES
        windows = (rows[first : first + step] for first in range(0, len(rows), step))
        packed = GraphRows(chosen)
        for gathered in _ahead(packed.gather, windows):
            window = packed.unpack(gathered)
            for start in range(0, len(window), self.batch_size):
                yield window.slice(start, start + self.batch_size)

    def _stream(self, epoch: int) -> Iterator[GraphTable]:
        parts = self.corpus.groups(self.split)
        if self.shuffle:
            rng(self.seed, "loader", "groups", epoch).shuffle(parts)
        names = self._names()
        read = [*names, "env_id"] if self.env is not None else names
        tables = _ahead(partial(self.corpus.read_group, columns=read), parts)
        if self.env is not None:
            tables = (t.take(self.corpus.select_rows(t, None, self.env)).select(names)
                      for t in tables)  # fmt: skip
        if self.shuffle:
            tables = _mixed(tables, self.seed, epoch)
        return _rebatch(tables, self.batch_size)


def _ahead(work: Callable[[_Part], _Result], parts: Iterable[_Part]) -> Iterator[_Result]:
    """Yield the results of ``work`` in order, made by a thread that is a few parts ahead."""
    waiting: deque[Future[_Result]] = deque()
    with ThreadPoolExecutor(max_workers=1) as pool:
        try:
            for part in parts:
                waiting.append(pool.submit(work, part))
                if len(waiting) > READ_AHEAD:
                    yield waiting.popleft().result()
            while waiting:
                yield waiting.popleft().result()
        finally:
            for future in waiting:
                future.cancel()


def _rebatch(tables: Iterator[GraphTable], size: int) -> Iterator[GraphTable]:
    """Cut tables of any length into tables of ``size`` graphs, the last one smaller."""
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


def _mixed(tables: Iterator[GraphTable], seed: int, epoch: int) -> Iterator[GraphTable]:
    """Shuffle graphs inside windows of a few row groups."""
    window: list[GraphTable] = []
    number = 0
    for table in tables:
        window.append(table)
        if len(window) == SHUFFLE_GROUPS:
            yield _shuffled(window, seed, epoch, number)
            window, number = [], number + 1
    if window:
        yield _shuffled(window, seed, epoch, number)


def _shuffled(window: Sequence[GraphTable], seed: int, epoch: int, number: int) -> GraphTable:
    table = concat(window)
    return table.take(rng(seed, "loader", "window", epoch, number).permutation(len(table)))


def _balanced(env: Ints, rows: Ints, size: int, stream: np.random.Generator) -> Ints:
    """Return as many rows as given, every batch holding the environments in equal parts.

    Small environments are repeated, each time in a new order.
    """
    present = np.unique(env[rows])
    if len(present) > size:
        raise UsageError(
            f"a batch of {size} cannot hold all {len(present)} environments; use a larger batch"
        )
    turn = np.arange(len(rows)) % size % len(present)
    chosen = np.empty(len(rows), dtype=np.int64)
    for number, env_id in enumerate(present):
        members = rows[env[rows] == env_id]
        places = np.flatnonzero(turn == number)
        repeats = -(-len(places) // len(members))
        order = np.concatenate([stream.permutation(members) for _ in range(repeats)])
        chosen[places] = order[: len(places)]
    return chosen
