"""Loaders of several ranks, and loaders that continue in the middle of an epoch."""

import itertools
import json
import time

import numpy as np
import pytest

from gsx.errors import UsageError
from gsx.storage.artifacts.location import Location
from gsx.storage.artifacts.verification_cache import mark_verified
from gsx.storage.artifacts.verify_files import read_manifest
from gsx.storage.corpora import shard_stream
from gsx.storage.corpora.corpus import open_corpus
from gsx.storage.corpora.loader import STATE_VERSION

KINDS = [
    {"cache": "never"},
    {"cache": "never", "shuffle": True},
    {"cache": "never", "shuffle": True, "env": [0, 2]},
    {"cache": "always"},
    {"cache": "always", "shuffle": True},
    {"cache": "always", "env": [0, 2], "shuffle": True},
    {"cache": "always", "env_balanced": True, "split": "train"},
]


@pytest.fixture
def corpus(motif_path):
    location = Location.at(motif_path)
    mark_verified(location, read_manifest(location))
    return open_corpus(motif_path)


def ids(batches):
    return [graph_id for batch in batches for graph_id in batch.graph_id.tolist()]


def loaders(corpus, size, world_size, **options):
    return [
        corpus.loader(size, rank=rank, world_size=world_size, **options)
        for rank in range(world_size)
    ]


@pytest.mark.parametrize("options", KINDS[:6])
@pytest.mark.parametrize(("size", "world_size"), [(16, 2), (7, 3), (1, 4), (200, 2), (13, 5)])
def test_ranks_share_an_epoch_without_repeated_or_lost_graphs(corpus, options, size, world_size):
    one = sorted(ids(corpus.loader(64, **options)))
    ranks = loaders(corpus, size, world_size, **options)
    for _ in range(2):
        batches = [list(loader) for loader in ranks]
        assert {len(of_rank) for of_rank in batches} == {len(ranks[0])}
        assert sorted(ids(itertools.chain(*batches))) == one


@pytest.mark.parametrize("options", [KINDS[3], KINDS[4], KINDS[6]])
def test_ranks_with_a_cache_read_the_order_of_one_process(corpus, options):
    one = ids(corpus.loader(15, **options))
    steps = zip(*loaders(corpus, 15, 4, **options), strict=True)
    assert ids(itertools.chain(*steps)) == one


def test_balanced_batches_of_ranks_have_all_environments(corpus):
    for loader in loaders(corpus, 30, 3, split="train", env_balanced=True):
        assert [np.bincount(batch.env_id).tolist() for batch in loader] == [[10, 10, 10]] * 2


def test_streaming_ranks_read_their_own_row_groups_only(corpus, monkeypatch):
    reads = []
    read_group = type(corpus).read_group

    def record(self, group, columns):
        reads[-1].add(group)
        return read_group(self, group, columns)

    monkeypatch.setattr(type(corpus), "read_group", record)
    for loader in loaders(corpus, 16, 3, cache="never"):
        reads.append(set())
        list(loader)
    first, second, third = reads
    assert len(first & second) <= 1
    assert len(second & third) <= 1
    assert not first & third


def test_dropping_the_last_batch_leaves_full_batches_on_all_ranks(corpus):
    for cache in ("never", "always"):
        ranks = loaders(corpus, 16, 3, drop_last=True, cache=cache)
        sizes = [[batch.num_graphs for batch in loader] for loader in ranks]
        assert sizes == [[16] * 6] * 3
        assert [len(loader) for loader in ranks] == [6, 6, 6]


def test_more_ranks_than_graphs_are_refused(corpus):
    loader = corpus.loader(4, split="id_val", rank=30, world_size=31)
    with pytest.raises(UsageError, match="30 graphs cannot be shared among 31 ranks"):
        next(iter(loader))


@pytest.mark.parametrize("options", KINDS)
@pytest.mark.parametrize("world_size", [1, 2])
@pytest.mark.parametrize("delivered", [0, 1, 3, 9])
def test_a_loader_continues_in_the_middle_of_an_epoch(corpus, options, world_size, delivered):
    rank = {"rank": world_size - 1, "world_size": world_size}
    whole = corpus.loader(9, **options, **rank)
    expected = [[batch.graph_id.tolist() for batch in whole] for _ in range(3)]

    stopped = corpus.loader(9, **options, **rank)
    list(stopped)
    start = [b.graph_id.tolist() for b in itertools.islice(stopped, delivered)]
    state = json.loads(json.dumps(stopped.state_dict()))

    resumed = corpus.loader(9, **options, **rank)
    resumed.load_state_dict(state)
    assert resumed.state_dict() == state
    rest = [batch.graph_id.tolist() for batch in resumed]
    if delivered == 0:  # no batch was read, so the second epoch has not begun
        assert rest == expected[1]
    else:
        assert start + rest == expected[1]
    assert [batch.graph_id.tolist() for batch in resumed] == expected[2]


def test_the_state_after_the_last_batch_is_the_start_of_the_next_epoch(corpus):
    loader = corpus.loader(64, split="train")
    for _batch in loader:
        state = loader.state_dict()
    assert (state["epoch"], state["batches"]) == (1, 0)
    assert loader.state_dict() == state


def test_setting_the_epoch_starts_at_its_first_batch(corpus):
    loader = corpus.loader(64, shuffle=True)
    first = ids(loader)
    next(iter(loader))
    loader.epoch = 0
    assert (loader.state_dict()["epoch"], loader.state_dict()["batches"]) == (0, 0)
    assert ids(loader) == first


def test_the_state_is_the_same_on_all_ranks(corpus):
    ranks = loaders(corpus, 16, 3, shuffle=True)
    for batches in itertools.islice(zip(*ranks, strict=True), 2):
        assert len(batches) == 3
    states = [loader.state_dict() for loader in ranks]
    assert states[0] == states[1] == states[2]
    ranks[2].load_state_dict(states[0])


def test_resuming_a_stream_reads_no_row_group_twice(corpus, monkeypatch):
    loader = corpus.loader(16, cache="never", shuffle=True)
    for _batch in itertools.islice(loader, 8):
        pass
    reads = []
    monkeypatch.setattr(
        shard_stream.ShardStream,
        "_read",
        lambda self, piece: reads.append(piece) or corpus.read_group(piece.group, self.names),
    )
    resumed = corpus.loader(16, cache="never", shuffle=True)
    resumed.load_state_dict(loader.state_dict())
    next(iter(resumed))
    assert len(reads) <= shard_stream.SHUFFLE_GROUPS + shard_stream.PREFETCH + 1


@pytest.mark.parametrize(
    ("change", "text"),
    [
        ({"version": STATE_VERSION + 1}, "not a state of a loader of this version"),
        ({"corpus": "sha256:0"}, "the state is of another corpus: sha256:0"),
        ({"epoch": -1}, "must be natural numbers; got -1"),
        ({"batches": 1.5}, r"must be natural numbers; got 1\.5"),
        ({"batches": 100}, "after batch 100, but an epoch has 5 batches"),
    ],
)
def test_a_state_that_does_not_fit_is_refused(corpus, change, text):
    loader = corpus.loader(64)
    with pytest.raises(UsageError, match=text):
        loader.load_state_dict({**loader.state_dict(), **change})
    with pytest.raises(UsageError, match="not a state of a loader"):
        loader.load_state_dict({})


def test_a_state_of_another_order_is_refused_with_the_difference(corpus):
    state = corpus.loader(64, shuffle=True).state_dict()
    with pytest.raises(UsageError) as error:
        corpus.loader(32, shuffle=True, seed=1).load_state_dict(state)
    assert str(error.value) == (
        "the state is of a loader with another order: batch_size=64 (now 32), seed=0 (now 1). "
        "Use the same options"
    )


def test_a_position_late_in_an_epoch_is_reached_at_once(corpus):
    loader = corpus.loader(1, shuffle=True, split="train")
    state = loader.state_dict()
    loader.load_state_dict({**state, "batches": 178})
    started = time.perf_counter()
    assert len(list(loader)) == 2
    assert time.perf_counter() - started < 1
