"""Graphs streamed from the shards of a corpus, in order or shuffled within windows."""

from __future__ import annotations

from collections import deque
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from concurrent.futures import Future, ThreadPoolExecutor
from dataclasses import dataclass
from itertools import repeat
from typing import TYPE_CHECKING, TypeVar

from gsx.seeds import rng
from gsx.storage.corpora.corpus_base import selection_columns
from gsx.storage.corpora.epoch_plan import EpochPlan
from gsx.table import GraphTable, concat

if TYPE_CHECKING:
    from gsx.storage.corpora.corpus import Corpus

SHUFFLE_GROUPS = 4
"""Row groups in one shuffle window."""
PREFETCH = 1
"""Row groups read, or windows gathered, ahead of use."""

Group = tuple[int, int]
"""Shard index and row-group index."""
_Item = TypeVar("_Item")
_Result = TypeVar("_Result")


@dataclass(frozen=True, slots=True)
class Piece:
    """Chosen graphs ``start`` to ``stop`` of a row group; without ``stop``, all of them."""

    group: Group
    start: int = 0
    stop: int | None = None

    def __len__(self) -> int:
        assert self.stop is not None
        return self.stop - self.start


@dataclass(frozen=True, slots=True)
class ShardStream:
    """One epoch of the graphs of some splits and environments."""

    corpus: Corpus
    split: str | Sequence[str] | None
    env: int | Sequence[int] | None
    origin: str | Sequence[str] | None
    names: Sequence[str]
    """Columns to read."""
    batch_size: int
    shuffle: bool
    seed: int
    epoch: int

    def all_batches(self) -> Iterator[GraphTable]:
        """Yield all graphs in batches; the last one may be smaller."""
        tables = prefetch(self._read, map(Piece, self._groups()))
        if self.shuffle:
            tables = self._shuffled(tables, 0)
        return rebatch(tables, repeat(self.batch_size))

    def batches(
        self, plan: EpochPlan, first: int, counts: Mapping[Group, int]
    ) -> Iterator[GraphTable]:
        """Yield the batches of a rank from number ``first`` on.

        ``counts`` has the number of chosen graphs of every row group. Row groups that are not
        needed are not read.
        """
        bounds = [plan.bounds(step) for step in range(first, plan.num_batches)]
        if not bounds:
            return
        start, stop = plan.part
        pieces = list(_pieces(self._groups(), counts, start, stop))
        number, skipped = 0, bounds[0][0] - start
        step = SHUFFLE_GROUPS if self.shuffle else 1
        while (size := sum(map(len, pieces[:step]))) <= skipped:
            pieces, number, skipped = pieces[step:], number + 1, skipped - size
        tables = prefetch(self._read, pieces)
        if self.shuffle:
            rank = () if plan.ranks.world_size == 1 else (plan.ranks.rank, plan.ranks.world_size)
            tables = self._shuffled(tables, number, *rank)
        yield from rebatch(_skip(tables, skipped), (last - first for first, last in bounds))

    def _groups(self) -> list[Group]:
        groups = self.corpus.groups(self.split)
        if self.shuffle:
            rng(self.seed, "loader", "groups", self.epoch).shuffle(groups)
        return groups

    def _read(self, piece: Piece) -> GraphTable:
        extra = selection_columns(self.env, self.origin)
        table = self.corpus.read_group(piece.group, [*self.names, *extra])
        if extra:
            rows = self.corpus.select_rows(table, None, self.env, self.origin)
            table = table.take(rows).select(self.names)
        return table if piece.stop is None else table.slice(piece.start, piece.stop)

    def _shuffled(
        self, tables: Iterator[GraphTable], number: int, *rank: int
    ) -> Iterator[GraphTable]:
        """Shuffle graphs within windows of row groups; the first window has this number."""
        window: list[GraphTable] = []
        for table in tables:
            window.append(table)
            if len(window) == SHUFFLE_GROUPS:
                yield self._shuffle(window, number, *rank)
                window, number = [], number + 1
        if window:
            yield self._shuffle(window, number, *rank)

    def _shuffle(self, window: Sequence[GraphTable], number: int, *rank: int) -> GraphTable:
        table = concat(window)
        stream = rng(self.seed, "loader", "window", self.epoch, number, *rank)
        return table.take(stream.permutation(len(table)))


def count_graphs(
    corpus: Corpus,
    split: str | Sequence[str] | None,
    env: int | Sequence[int] | None,
    origin: str | Sequence[str] | None,
) -> dict[Group, int]:
    """Return the number of selected graphs in every row group of some splits."""
    groups = corpus.groups(split)
    columns = selection_columns(env, origin)
    if not columns:
        sizes = {(shard, group): size for shard, group, size in corpus.group_sizes()}
        return {group: sizes[group] for group in groups}
    tables = prefetch(lambda group: corpus.read_group(group, columns), groups)
    return {
        group: len(corpus.select_rows(table, None, env, origin))
        for group, table in zip(groups, tables, strict=True)
    }


def prefetch(function: Callable[[_Item], _Result], items: Iterable[_Item]) -> Iterator[_Result]:
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


def rebatch(tables: Iterator[GraphTable], sizes: Iterable[int]) -> Iterator[GraphTable]:
    """Yield tables of the given sizes from tables of any length; what is left comes last."""
    remaining = iter(sizes)
    size = next(remaining)
    parts: list[GraphTable] = []
    needed = size
    for table in tables:
        start = 0
        while len(table) - start >= needed > 0:
            parts.append(table.slice(start, start + needed))
            yield parts[0] if len(parts) == 1 else concat(parts)
            start += needed
            parts, needed = [], next(remaining, 0)
        if needed == 0:
            return
        if start < len(table):
            parts.append(table.slice(start, len(table)))
            needed -= len(parts[-1])
    if parts:
        yield concat(parts)


def _pieces(
    groups: Iterable[Group], counts: Mapping[Group, int], start: int, stop: int
) -> Iterator[Piece]:
    """Yield the pieces of row groups at the positions ``start`` to ``stop`` of an order.

    Row groups without chosen graphs have empty pieces, because windows count row groups.
    """
    position = 0
    for group in groups:
        first, last = max(start - position, 0), min(stop - position, counts[group])
        if first < last or (counts[group] == 0 and start <= position < stop):
            yield Piece(group, first, last)
        position += counts[group]


def _skip(tables: Iterator[GraphTable], count: int) -> Iterator[GraphTable]:
    """Leave out the first graphs."""
    for table in tables:
        if count < len(table):
            yield table.slice(count, len(table))
        count = max(count - len(table), 0)
