import threading
from itertools import pairwise

import numpy as np
import pytest
import torch

from gsx.errors import UsageError
from gsx.pyg import collate, data_list, pyg_columns
from gsx.storage.artifacts.location import Location
from gsx.storage.artifacts.verification_cache import mark_verified
from gsx.storage.artifacts.verify_files import read_manifest
from gsx.storage.corpora.corpus import open_corpus
from gsx.storage.corpora.hot_cache import cached_digests
from gsx.storage.corpora.loader import _balance

SPLIT_SIZES = {"train": 180, "id_val": 30, "id_test": 30, "ood_val": 30, "ood_test": 30}


@pytest.fixture
def verified_path(motif_path):
    """Return the path of the corpus, marked as verified in the cache of this test."""
    location = Location.at(motif_path)
    mark_verified(location, read_manifest(location))
    return motif_path


@pytest.fixture
def corpus(verified_path):
    return open_corpus(verified_path)


@pytest.fixture(params=["parquet", "zarr"])
def either(verified_path, request):
    """Return the same corpus in each format."""
    return open_corpus(verified_path, format=request.param)


def ids(batches):
    return [graph_id for batch in batches for graph_id in batch.graph_id.tolist()]


def assert_same(batch, expected):
    assert set(batch.keys()) == set(expected.keys())
    for key, value in expected._store.items():
        same = torch.equal if isinstance(value, torch.Tensor) else list.__eq__
        assert same(batch[key], value), key


def assert_batches(batches, table, size, names):
    """Compare batches with slices of ``table`` of ``size`` graphs."""
    expected = [
        collate(table.select(names).slice(start, start + size))
        for start in range(0, len(table), size)
    ]
    for batch, other in zip(batches, expected, strict=True):
        assert_same(batch, other)


@pytest.mark.parametrize("cache", ["never", "always", "auto"])
def test_batches_follow_the_order_of_the_corpus(either, motif_table, cache):
    batches = list(either.loader(64, cache=cache))
    assert_batches(batches, motif_table, 64, pyg_columns(either.info))


@pytest.mark.parametrize("size", [1, 7, 16, 25, 70, 180, 1000])
def test_batches_cross_the_borders_of_row_groups_and_shards(corpus, motif_table, size):
    batches = list(corpus.loader(size, cache="never"))
    assert_batches(batches, motif_table, size, pyg_columns(corpus.info))


def test_the_corpus_of_these_tests_has_several_shards_and_row_groups(corpus):
    assert [len(part) for part in corpus.iter_tables(split="train")] == [
        16, 16, 16, 16, 6, 16, 16, 16, 16, 6, 16, 16, 8,
    ]  # fmt: skip


def test_extra_columns_are_added_by_name(either, motif_table):
    extra = ("motif_id", "node_truth", "provenance.stream")
    batches = list(either.loader(50, columns=extra, cache="never"))
    assert batches[0].motif_id.tolist() == motif_table.graph["motif_id"][:50].tolist()
    assert_batches(batches, motif_table, 50, pyg_columns(either.info, extra))


def test_cache_never_builds_no_cache_and_always_builds_one(corpus):
    list(corpus.loader(64, cache="never", shuffle=True))
    list(corpus.loader(64))
    assert cached_digests() == []
    list(corpus.loader(64, cache="always"))
    assert cached_digests() == [corpus.artifact.manifest.digest]


def test_shuffling_builds_a_cache_unless_disabled(corpus):
    list(corpus.loader(64, shuffle=True))
    assert cached_digests() == [corpus.artifact.manifest.digest]


@pytest.mark.parametrize("cache", ["never", "always"])
@pytest.mark.parametrize("split", ["train", "ood_test", ["ood_test", "id_val"]])
def test_a_loader_of_splits_yields_only_their_graphs(corpus, motif_table, split, cache):
    names = [split] if isinstance(split, str) else split
    vocabulary = corpus.info.column("split").vocabulary
    codes = [vocabulary.index(name) for name in names]
    expected = motif_table.filter(np.isin(motif_table.graph["split"], codes))
    batches = list(corpus.loader(33, split=split, cache=cache))
    assert_batches(batches, expected, 33, pyg_columns(corpus.info))


@pytest.mark.parametrize("cache", ["never", "always"])
@pytest.mark.parametrize("env", [1, [0, 2], np.int64(2), -1])
def test_a_loader_of_environments_yields_only_their_graphs(corpus, motif_table, env, cache):
    expected = motif_table.filter(np.isin(motif_table.graph["env_id"], env))
    batches = list(corpus.loader(20, env=env, cache=cache))
    assert_batches(batches, expected, 20, pyg_columns(corpus.info))


@pytest.mark.parametrize("cache", ["never", "always"])
def test_splits_and_environments_narrow_each_other(corpus, cache):
    assert list(corpus.loader(8, split="ood_test", env=0, cache=cache)) == []
    actual = list(corpus.loader(8, split="id_val", env=0, cache=cache))
    assert all(180 <= graph_id < 210 for graph_id in ids(actual))


@pytest.mark.parametrize("cache", ["never", "always"])
def test_a_shuffled_epoch_has_every_graph_once(either, cache):
    actual = ids(either.loader(37, shuffle=True, cache=cache))
    assert sorted(actual) == list(range(300))
    assert actual != list(range(300))


@pytest.mark.parametrize("cache", ["never", "always"])
def test_the_same_seed_gives_the_same_order_in_a_new_loader(corpus, cache):
    first, second = (
        [ids(loader) for _ in range(2)]
        for loader in (corpus.loader(37, shuffle=True, seed=3, cache=cache) for _ in range(2))
    )
    assert first == second


@pytest.mark.parametrize("cache", ["never", "always"])
def test_another_seed_gives_another_order(corpus, cache):
    orders = [ids(corpus.loader(37, shuffle=True, seed=seed, cache=cache)) for seed in (0, 1)]
    assert orders[0] != orders[1]


@pytest.mark.parametrize("cache", ["never", "always"])
def test_every_epoch_has_another_order_and_may_be_repeated(corpus, cache):
    loader = corpus.loader(37, shuffle=True, cache=cache)
    first, second = ids(loader), ids(loader)
    assert first != second
    loader.epoch = 0
    assert ids(loader) == first
    assert ids(loader) == second


def test_both_formats_have_one_shuffled_order_from_the_cache(verified_path):
    orders = [
        ids(open_corpus(verified_path, format=form).loader(37, shuffle=True))
        for form in ("parquet", "zarr")
    ]
    assert orders[0] == orders[1]


def test_a_streamed_shuffle_mixes_graphs_of_many_row_groups(corpus):
    batch = next(iter(corpus.loader(32, split="train", shuffle=True, cache="never")))
    borders = np.cumsum([16, 16, 16, 16, 6, 16, 16, 16, 16, 6, 16, 16])
    assert len(set(np.searchsorted(borders, batch.graph_id.numpy(), side="right").tolist())) >= 3


@pytest.mark.parametrize("cache", ["never", "always"])
def test_a_shuffled_batch_holds_whole_graphs(corpus, motif_table, cache):
    for batch in corpus.loader(37, split="train", shuffle=True, cache=cache):
        expected = motif_table.select(pyg_columns(corpus.info)).take(batch.graph_id.numpy())
        assert_same(batch, collate(expected))


def test_shuffled_environments_are_filtered_first(corpus, motif_table):
    expected = np.flatnonzero(motif_table.graph["env_id"] == 1).tolist()
    for cache in ("never", "always"):
        actual = ids(corpus.loader(16, env=1, shuffle=True, cache=cache))
        assert sorted(actual) == expected


@pytest.mark.parametrize(
    ("size", "drop_last", "batches", "last"),
    [(64, False, 5, 44), (64, True, 4, 64), (300, True, 1, 300), (301, True, 0, None)],
)
@pytest.mark.parametrize("cache", ["never", "always"])
def test_a_last_smaller_batch_is_dropped_on_demand(corpus, size, drop_last, batches, last, cache):
    loader = corpus.loader(size, drop_last=drop_last, cache=cache)
    actual = list(loader)
    assert len(actual) == len(loader) == batches
    assert (actual[-1].num_graphs if actual else None) == last


def test_the_length_is_known_without_reading(corpus):
    assert len(corpus.loader(50)) == 6
    assert len(corpus.loader(50, split="train")) == 4
    assert len(corpus.loader(50, split=["id_val", "id_test"])) == 2
    assert cached_digests() == []


def test_the_length_counts_the_graphs_of_an_environment(corpus, motif_table):
    count = int((motif_table.graph["env_id"][:180] == 2).sum())
    assert len(corpus.loader(7, split="train", env=2)) == -(-count // 7)


def test_balanced_batches_contain_environments_equally_often(corpus):
    loader = corpus.loader(30, split="train", env_balanced=True)
    counts = [np.bincount(batch.env_id).tolist() for batch in loader]
    assert counts == [[10, 10, 10]] * 6


def test_balanced_batches_that_cannot_be_equal_differ_by_one(corpus):
    batches = list(corpus.loader(50, split="train", env_balanced=True))
    assert [np.bincount(batch.env_id).tolist() for batch in batches] == [
        [17, 17, 16],
        [17, 17, 16],
        [17, 17, 16],
        [10, 10, 10],
    ]


def test_balanced_epochs_differ_and_follow_the_seed(corpus):
    loader = corpus.loader(30, split="train", env_balanced=True, seed=5)
    first, second = ids(loader), ids(loader)
    assert first != second
    assert ids(corpus.loader(30, split="train", env_balanced=True, seed=5)) == first
    assert ids(corpus.loader(30, split="train", env_balanced=True, seed=6)) != first


def test_a_small_environment_repeats_only_when_it_is_exhausted():
    env = np.array([0] * 8 + [1] * 2)
    rows = _balance(env, np.arange(10), 4, np.random.default_rng(0))
    assert env[rows].tolist() == [0, 1, 0, 1, 0, 1, 0, 1, 0, 1]
    small = rows[1::2].tolist()
    assert sorted(small[:2]) == sorted(small[2:4]) == [8, 9]
    assert len(set(rows[::2].tolist())) == 5


def test_balancing_may_be_limited_to_some_environments(corpus):
    loader = corpus.loader(20, split="train", env=[0, 2], env_balanced=True)
    assert {tuple(np.bincount(batch.env_id)) for batch in loader if len(batch) == 20} == {
        (10, 0, 10)
    }


@pytest.mark.parametrize(
    ("form", "options"),
    [
        ("parquet", {"cache": "never"}),
        ("parquet", {"cache": "never", "shuffle": True}),
        ("zarr", {"cache": "never"}),
        ("zarr", {"cache": "never", "shuffle": True}),
        ("parquet", {"cache": "always"}),
        ("parquet", {"cache": "always", "shuffle": True}),
        ("parquet", {"cache": "always", "env_balanced": True}),
    ],
)
def test_editing_a_batch_changes_neither_the_corpus_nor_another_batch(verified_path, form, options):
    corpus = open_corpus(verified_path, format=form)
    loader = corpus.loader(8, split="id_val", columns=("provenance.lambda",), **options)
    untouched = [batch.clone() for batch in loader]
    loader.epoch = 0
    edited = []
    for batch in loader:
        assert_unspoiled(batch, untouched[len(edited)])
        for value in batch._store.values():
            if isinstance(value, torch.Tensor):
                value.fill_(-7)
        edited.append(batch)
    loader.epoch = 0
    for batch, expected in zip(loader, untouched, strict=True):
        assert_unspoiled(batch, expected)
    assert all((batch.x == -7).all() for batch in edited)


def assert_unspoiled(batch, expected):
    for key, value in expected._store.items():
        torch.testing.assert_close(batch[key], value, rtol=0, atol=0, equal_nan=True)


def test_editing_a_single_graph_does_not_change_the_corpus(either):
    expected = either[5].x.clone()
    either[5].x.fill_(-7)
    assert torch.equal(either[5].x, expected)


def test_stopping_an_epoch_early_leaves_no_thread(corpus):
    before = threading.active_count()
    batches = iter(corpus.loader(16, cache="never"))
    next(batches)
    batches.close()
    assert threading.active_count() == before


def test_a_graph_of_a_corpus_is_found_by_its_index(either, motif_table):
    table = motif_table.select(pyg_columns(either.info))
    for number in (0, 15, 16, 69, 70, 179, 180, 299):
        expected = data_list(table.slice(number, number + 1))[0]
        assert_same(either[number], expected)
    assert either[-1].graph_id.tolist() == [299]


def test_a_graph_is_read_from_the_cache_if_it_exists(corpus, monkeypatch):
    corpus.hot(build=True)
    monkeypatch.setattr(corpus, "read_group", None)
    assert corpus[200].graph_id.tolist() == [200]


@pytest.mark.parametrize("number", [300, -301])
def test_a_graph_beyond_the_end_is_refused(corpus, number):
    with pytest.raises(IndexError) as error:
        corpus[number]
    assert str(error.value) == f"graph {number} is out of range for a corpus of 300 graphs"


def test_a_corpus_has_no_other_index_than_integers_and_slices(corpus):
    with pytest.raises(TypeError) as error:
        corpus["train"]
    assert str(error.value) == "a corpus index must be an integer or a slice, not str"


def test_a_corpus_counts_its_graphs_by_split(corpus):
    assert len(corpus) == 300
    assert corpus.splits == SPLIT_SIZES
    assert repr(corpus) == (
        f"Corpus(motif-size {corpus.key[:12]}: "
        "train 180, id_val 30, id_test 30, ood_val 30, ood_test 30)"
    )


@pytest.mark.parametrize("hot", [False, True])
def test_a_table_of_a_corpus_holds_the_selected_graphs_and_columns(either, motif_table, hot):
    either.hot(build=hot)
    assert either.table().equals(motif_table)
    assert either.table(split="id_val").equals(motif_table.slice(180, 210))
    chosen = either.table(split="train", env=0, columns=["label"])
    expected = motif_table.slice(0, 180)
    expected = expected.filter(expected.graph["env_id"] == 0).select(["label"])
    assert chosen.equals(expected)
    assert len(either.table(split="ood_test", env=0)) == 0


def test_a_corpus_of_many_shards_keeps_few_of_them_open(corpus, motif_table, monkeypatch):
    monkeypatch.setattr("gsx.storage.corpora.corpus.OPEN_SHARDS", 2)
    assert corpus.table().equals(motif_table)
    assert len(corpus._opened) == 2


def test_a_pyg_dataset_of_a_corpus_has_the_graphs_of_a_split(corpus):
    graphs = corpus.to_pyg(split="id_test", columns=["motif_id"])
    assert len(graphs) == 30
    assert [int(data.graph_id) for data in graphs] == list(range(210, 240))
    assert (graphs.num_classes, graphs.num_features) == (3, 1)
    assert graphs[0].motif_id.shape == (1,)


@pytest.mark.parametrize(
    ("options", "text"),
    [
        ({"split": "training"}, "no split `training` in this corpus. Did you mean `train`?"),
        ({"split": ["train", "all"]},
         "no split `all` in this corpus. Known: `id_test`, `id_val`, `ood_test`, `ood_val`, "
         "`train`."),
        ({"env": 7}, "no environment 7 in this corpus; it has [0, 1, 2]"),
        ({"env": [0, 3]}, "no environment 3 in this corpus; it has [0, 1, 2]"),
        ({"columns": ["motif"]}, "no column `motif` in this corpus. Did you mean `motif_id`?"),
    ],
)  # fmt: skip
@pytest.mark.parametrize("view", ["loader", "to_pyg", "table"])
def test_unknown_splits_environments_and_columns_are_refused_with_a_suggestion(
    corpus, view, options, text
):
    arguments = (8,) if view == "loader" else ()
    with pytest.raises(UsageError) as error:
        getattr(corpus, view)(*arguments, **options)
    assert str(error.value) == text


@pytest.mark.parametrize("view", ["loader", "to_pyg"])
def test_a_column_that_pyg_cannot_hold_is_refused(corpus, view):
    arguments = (8,) if view == "loader" else ()
    with pytest.raises(UsageError, match=r"column `provenance\.parents` is ragged"):
        getattr(corpus, view)(*arguments, columns=["provenance.parents"])


@pytest.mark.parametrize(
    ("size", "options", "text"),
    [
        (0, {}, "batch_size must be at least 1; got 0"),
        (-3, {}, "batch_size must be at least 1; got -3"),
        (8, {"cache": "yes"}, "cache must be `auto`, `always` or `never`; got 'yes'"),
        (8, {"cache": "never", "env_balanced": True},
         'env_balanced needs random access; use `cache="auto"`'),
    ],
)  # fmt: skip
def test_invalid_loader_options_are_refused(corpus, size, options, text):
    with pytest.raises(UsageError) as error:
        corpus.loader(size, **options)
    assert str(error.value) == text


def test_a_batch_too_small_for_all_environments_is_refused(corpus):
    with pytest.raises(UsageError) as error:
        list(corpus.loader(2, split="train", env_balanced=True))
    assert str(error.value) == (
        "a batch of 2 cannot contain all 3 environments; increase the batch size"
    )


def test_rebatching_accepts_tables_of_any_length(corpus, monkeypatch, motif_table):
    """Row groups may be empty after filtering, or shorter or longer than a batch."""
    cuts = [0, 0, 3, 3, 40, 41, 180]
    parts = [motif_table.slice(a, b).select(pyg_columns(corpus.info)) for a, b in pairwise(cuts)]
    monkeypatch.setattr(corpus, "groups", lambda split: list(range(len(parts))))
    monkeypatch.setattr(corpus, "read_group", lambda part, columns: parts[part])
    batches = list(corpus.loader(20, split="train", cache="never"))
    assert_batches(batches, motif_table.slice(0, 180), 20, pyg_columns(corpus.info))
