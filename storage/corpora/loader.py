"""PyG batches from a corpus: sliced from the hot cache, or streamed from shards with prefetch."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any

import numpy as np

from gsx.errors import UsageError
from gsx.pyg import collate, pyg_columns
from gsx.ragged import Ints
from gsx.seeds import rng
from gsx.storage.corpora.epoch_plan import EpochPlan, Ranks
from gsx.storage.corpora.hot_cache import PackedGraphs
from gsx.storage.corpora.shard_stream import Group, ShardStream, count_graphs, prefetch
from gsx.table import GraphTable

if TYPE_CHECKING:
    from torch_geometric.data import Batch

    from gsx.storage.corpora.corpus import CacheUse, Corpus

WINDOW_BATCHES = 16
"""Batches gathered at once in random order."""
STATE_VERSION = 1


@dataclass
class Loader:
    """An iterable of PyG batches; iterate again for the next epoch.

    ``state_dict`` and ``load_state_dict`` save and restore the position within an epoch.
    """

    corpus: Corpus
    batch_size: int
    split: str | Sequence[str] | None = None
    env: int | Sequence[int] | None = None
    origin: str | Sequence[str] | None = field(default=None, kw_only=True)
    shuffle: bool = False
    seed: int = 0
    env_balanced: bool = False
    drop_last: bool = False
    columns: tuple[str, ...] = ()
    cache: CacheUse = "auto"
    rank: int | None = None
    world_size: int | None = None
    """The processes that share every epoch; by default those of ``torch.distributed``."""
    epoch: int = 0
    """The next epoch; set it to repeat or skip epochs."""
    ranks: Ranks = field(init=False)
    _first: tuple[int, int] = field(default=(0, 0), init=False)
    """An epoch and its first batch that is not yet read; other epochs start at batch 0."""
    _counts: dict[Group, int] | None = field(default=None, init=False)
    _graphs: int | None = field(default=None, init=False)

    def __post_init__(self) -> None:
        if self.batch_size < 1:
            raise UsageError(f"batch_size must be at least 1; got {self.batch_size}")
        if self.env_balanced and self.cache == "never":
            raise UsageError('env_balanced needs random access; use `cache="auto"`')
        if self.cache not in ("auto", "always", "never"):
            raise UsageError(f"cache must be `auto`, `always` or `never`; got {self.cache!r}")
        self.ranks = Ranks.resolve(self.rank, self.world_size)
        self.corpus.check_splits(self.split)
        self.corpus.check_envs(self.env)
        self.corpus.check_origins(self.origin)
        self._names()

    def __len__(self) -> int:
        """Return the number of batches in one epoch, of this rank."""
        return self._plan().num_batches

    def __iter__(self) -> Iterator[Batch]:
        epoch, self.epoch = self.epoch, self.epoch + 1
        first = self._first[1] if self._first[0] == epoch else 0
        self._first = (epoch, first)
        table = self._table()
        batches = self._stream(epoch, first) if table is None else self._rows(table, epoch, first)
        width = self.corpus.info.num_features
        for number, batch in enumerate(batches, start=first + 1):
            if len(batch) >= self.batch_size or not self.drop_last:
                self._first = (epoch, number)
                yield collate(batch, num_features=width)
        self._first = (self.epoch, 0)

    def state_dict(self) -> dict[str, Any]:
        """Return the position after the last batch that was yielded, as plain JSON values.

        It is the same on every rank, so that one rank can save it for all.
        """
        epoch, batches = self._first
        if epoch not in (self.epoch, self.epoch - 1):  # the user has set another epoch
            epoch, batches = self.epoch, 0
        if batches and batches == len(self):
            epoch, batches = epoch + 1, 0
        return {
            "version": STATE_VERSION,
            "corpus": self.corpus.artifact.manifest.digest,
            "order": self._order(),
            "epoch": epoch,
            "batches": batches,
        }

    def load_state_dict(self, state: Mapping[str, Any]) -> None:
        """Continue after the last batch of a saved state, without a repeated or lost graph."""
        missing = {"version", "corpus", "order", "epoch", "batches"} - state.keys()
        if missing or state["version"] != STATE_VERSION:
            raise UsageError(
                "this is not a state of a loader of this version of gsx; save it again with "
                "`loader.state_dict()`"
            )
        if state["corpus"] != self.corpus.artifact.manifest.digest:
            raise UsageError(
                f"the state is of another corpus: {state['corpus'][:19]}, but this loader reads "
                f"{self.corpus.artifact.manifest.digest[:19]}. Open the corpus of the state"
            )
        order = self._order()
        different = sorted(
            name
            for name in order.keys() | state["order"].keys()
            if order.get(name) != state["order"].get(name)
        )
        if different:
            options = ", ".join(
                f"{name}={state['order'].get(name)!r} (now {order.get(name)!r})"
                for name in different
            )
            raise UsageError(
                f"the state is of a loader with another order: {options}. Use the same options"
            )
        epoch, batches = state["epoch"], state["batches"]
        for value in (epoch, batches):
            if type(value) is not int or value < 0:
                raise UsageError(f"epoch and batches must be natural numbers; got {value!r}")
        if batches > len(self):
            raise UsageError(
                f"the state is after batch {batches}, but an epoch has {len(self)} batches"
            )
        self.epoch, self._first = epoch, (epoch, batches)

    def _order(self) -> dict[str, Any]:
        """Return the options that define which graphs a batch has."""
        env = self.corpus.check_envs(self.env)
        origin = self.corpus.check_origins(self.origin)
        return {
            "batch_size": self.batch_size,
            "split": self.corpus.check_splits(self.split),
            "env": env,
            "shuffle": self.shuffle,
            "seed": self.seed,
            "env_balanced": self.env_balanced,
            "drop_last": self.drop_last,
            "streamed": self.cache == "never",
            "world_size": self.ranks.world_size,
            **({} if origin is None else {"origin": origin}),
        }

    def _table(self) -> GraphTable | None:
        if self.cache == "never":
            return None
        # Ranks agree on an order only if all of them read it from the cache.
        random_access = self.shuffle or self.env_balanced or self.ranks.world_size > 1
        return self.corpus.hot(build=self.cache == "always" or random_access)

    def _names(self) -> list[str]:
        return pyg_columns(self.corpus.info, self.columns)

    def _plan(self) -> EpochPlan:
        return EpochPlan(
            graphs=self._count(),
            batch_size=self.batch_size,
            drop_last=self.drop_last,
            ranks=self.ranks,
            interleaved=self.cache != "never",
        )

    def _count(self) -> int:
        if self._graphs is None:
            if self.env is None and self.origin is None:
                names = self.corpus.check_splits(self.split)
                counts = self.corpus.splits
                self._graphs = sum(n for k, n in counts.items() if names is None or k in names)
            else:
                table = self.corpus.table(
                    split=self.split, env=self.env, origin=self.origin, columns=["env_id"]
                )
                self._graphs = len(table)
        return self._graphs

    def _rows(self, table: GraphTable, epoch: int, first: int) -> Iterator[GraphTable]:
        """Yield the batches of this rank from the hot cache."""
        rows = self.corpus.select_rows(table, self.split, self.env, self.origin)
        self._graphs = len(rows)
        plan = self._plan()
        bounds = [plan.bounds(step) for step in range(first, plan.num_batches)]
        chosen = table.select(self._names())
        if self.env_balanced:
            stream = rng(self.seed, "loader", "balanced", epoch)
            rows = _balance(table.dense("graph", "env_id"), rows, self.batch_size, stream)
        elif self.shuffle:
            rng(self.seed, "loader", "shuffle", epoch).shuffle(rows)
        elif len(rows) and rows[-1] - rows[0] + 1 == len(rows):
            for start, stop in bounds:
                yield chosen.slice(int(rows[0]) + start, int(rows[0]) + stop)
            return
        packed = PackedGraphs(chosen)
        windows = [bounds[i : i + WINDOW_BATCHES] for i in range(0, len(bounds), WINDOW_BATCHES)]
        window_rows = (
            np.concatenate([rows[start:stop] for start, stop in window]) for window in windows
        )
        for window, gathered in zip(windows, prefetch(packed.gather, window_rows), strict=True):
            unpacked, position = packed.unpack(gathered), 0
            for start, stop in window:
                yield unpacked.slice(position, position + stop - start)
                position += stop - start

    def _stream(self, epoch: int, first: int) -> Iterator[GraphTable]:
        """Yield the batches of this rank from the shards."""
        stream = ShardStream(
            corpus=self.corpus,
            split=self.split,
            env=self.env,
            origin=self.origin,
            names=self._names(),
            batch_size=self.batch_size,
            shuffle=self.shuffle,
            seed=self.seed,
            epoch=epoch,
        )
        if self.ranks.world_size == 1 and first == 0:
            return stream.all_batches()
        if self._counts is None:
            self._counts = count_graphs(self.corpus, self.split, self.env, self.origin)
        self._graphs = sum(self._counts.values())
        return stream.batches(self._plan(), first, self._counts)


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
