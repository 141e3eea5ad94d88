import errno
import json
import shutil
import threading

import msgspec
import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from gsx.errors import ArtifactError, StoreError
from gsx.storage.corpora import hot_cache
from gsx.storage.corpora.corpus import open_corpus
from gsx.storage.corpora.hot_cache import (
    PackedGraphs,
    build_hot_cache,
    cached_digests,
    hot_cache_dir,
    open_hot_cache,
)
from tests.support.strategies import tables, tiny_info, tiny_table

DIGEST = "ab" * 32


def build_tiny():
    return build_hot_cache(DIGEST, tiny_info(), [tiny_table()])


def no_tables():
    """Fail the test if the shards of a corpus are read."""
    pytest.fail("the cache was built again")
    yield


def everything(table):
    """Yield every array of a table."""
    yield from (table.node_ptr, table.edge_ptr)
    for axis in ("graph", "node", "edge"):
        for values in table.columns(axis).values():
            yield from (values,) if isinstance(values, np.ndarray) else (values.ptr, values.values)


@settings(max_examples=25)
@given(tables(), st.integers(0, 6))
def test_a_cache_equals_the_tables_it_was_built_from(example, cut):
    table, info = example
    shutil.rmtree(hot_cache_dir(DIGEST), ignore_errors=True)
    assert build_hot_cache(DIGEST, info, [table.slice(0, cut), table.slice(cut, 6)]).equals(table)


@settings(max_examples=50)
@given(tables(min_graphs=1), st.data())
def test_gathering_packed_graphs_equals_take(example, data):
    table, _ = example
    rows = np.array(data.draw(st.lists(st.integers(0, len(table) - 1), max_size=8)), dtype=np.int64)
    packed = PackedGraphs(table)
    assert packed.unpack(packed.gather(rows)).equals(table.take(rows))


@settings(max_examples=20)
@given(tables(min_graphs=2))
def test_graphs_of_a_slice_are_packed_without_the_rest(example):
    table, _ = example
    part = table.slice(1, len(table))
    packed = PackedGraphs(part)
    assert packed.unpack(packed.gather(np.arange(len(part)))).equals(part)


def test_the_cache_of_a_corpus_holds_the_content_of_its_shards(motif_path, motif_table):
    corpus = open_corpus(motif_path)
    assert corpus.hot(build=True).equals(motif_table)
    assert cached_digests() == [corpus.artifact.manifest.digest]


def test_both_formats_of_a_corpus_have_one_cache(motif_path, monkeypatch):
    first = open_corpus(motif_path, format="parquet").hot(build=True)
    second = open_corpus(motif_path, format="zarr")
    monkeypatch.setattr(second, "iter_tables", no_tables)
    assert second.hot(build=True).equals(first)


def test_without_a_cache_there_is_nothing_to_open():
    assert open_hot_cache(DIGEST, tiny_info()) is None
    assert cached_digests() == []


def test_a_cache_is_stored_under_its_digest(tmp_path, monkeypatch):
    monkeypatch.setenv("GSX_CACHE", str(tmp_path))
    build_tiny()
    assert hot_cache_dir(DIGEST) == tmp_path / "hot" / DIGEST
    assert cached_digests() == [DIGEST]


def test_a_cache_is_built_once():
    build_tiny()
    assert build_hot_cache(DIGEST, tiny_info(), no_tables()).equals(tiny_table())
    assert open_hot_cache(DIGEST, tiny_info()).equals(tiny_table())


def test_values_are_memory_mapped_and_read_only():
    values = build_tiny().node["node_feat"]
    assert isinstance(values.base, np.memmap)
    with pytest.raises(ValueError, match="read-only"):
        values[0] = 0


def test_two_concurrent_builders_build_once():
    built = []

    def build():
        def read():
            built.append(threading.get_ident())
            yield tiny_table()

        assert build_hot_cache(DIGEST, tiny_info(), read()).equals(tiny_table())

    threads = [threading.Thread(target=build) for _ in range(4)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert len(built) == 1


def edit_index(change):
    path = hot_cache_dir(DIGEST) / "index.json"
    index = json.loads(path.read_text())
    change(index)
    path.write_text(json.dumps(index))


def set_array(name, **fields):
    return lambda index: index["arrays"][name].update(fields)


def file_of(name):
    """Return the file of an array, or the index."""
    names = {"index.json": "index.json", **hot_cache._file_names(tiny_info())}
    return hot_cache_dir(DIGEST) / names[name]


def cut(name):
    file_of(name).write_bytes(file_of(name).read_bytes()[:-2])


def flip(name):
    data = bytearray(file_of(name).read_bytes())
    data[0] ^= 1
    file_of(name).write_bytes(data)


def put(name, *counts):
    file_of(name).write_bytes(np.array(counts, dtype=np.int64).tobytes())


@pytest.mark.parametrize(
    "damage",
    [
        lambda: cut("node_feat"),
        lambda: cut("index.json"),
        lambda: file_of("y").unlink(),
        lambda: file_of("smiles.ptr").unlink(),
        lambda: (hot_cache_dir(DIGEST) / "index.json").write_text('{"version": 1}'),
        lambda: edit_index(lambda index: index.update(version=1)),
        lambda: edit_index(lambda index: index["arrays"].pop("label")),
        lambda: edit_index(lambda index: index["arrays"].update(more=index["arrays"]["y"])),
        lambda: edit_index(set_array("label", dtype="<i9")),
        lambda: edit_index(set_array("label", dtype="<f4")),
        lambda: edit_index(set_array("y", shape=[2, 3])),
        lambda: edit_index(set_array("label", shape=[])),
        lambda: flip("node"),
        lambda: flip("edge"),
        lambda: flip("smiles.ptr"),
        lambda: put("node", 8, -4, 0),
        lambda: put("edge", -1, 6, 0),
        lambda: put("smiles.ptr", 6, -1, 0),
        lambda: put("node", 2**62, 2**62, 2**63 - 1),
        lambda: put("edge", 2**63 - 1, 2**63 - 1, 7),
        lambda: put("smiles.ptr", 2**63 - 1, 2**63 - 1, 7),
        lambda: put("node", 2**63 - 1, 0, 0),
        lambda: (put("edge", 5, 0), edit_index(set_array("edge", shape=[2]))),
        lambda: edit_index(set_array("label", shape=[-3])),
        lambda: edit_index(set_array("label", shape=[2**70])),
        lambda: edit_index(lambda index: index.update(arrays={"../x": index["arrays"]["y"]})),
        lambda: file_of("index.json").write_text("[" * 100_000),
        lambda: file_of("index.json").write_bytes(b"\xff"),
        lambda: (file_of("index.json").unlink(), file_of("index.json").mkdir()),
    ],
    ids=[
        "cut values", "cut index", "lost values", "lost lengths", "empty index", "other version",
        "lost array", "extra array", "no type", "other type", "other shape", "no shape",
        "nodes do not add up", "edges do not add up", "lists do not add up",
        "negative nodes", "negative edges", "negative lengths", "nodes overflow", "edges overflow",
        "lengths overflow", "huge graph", "fewer graphs with edges", "negative shape",
        "huge shape", "path", "nested index", "index is no text", "index is a folder",
    ],
)  # fmt: skip
def test_a_damaged_cache_is_removed_and_built_again(damage):
    build_tiny()
    damage()
    assert open_hot_cache(DIGEST, tiny_info()) is None
    assert not hot_cache_dir(DIGEST).exists()
    assert build_tiny().equals(tiny_table())


def test_a_corpus_with_a_damaged_cache_is_read_from_its_shards(motif_path, motif_table):
    digest = open_corpus(motif_path).artifact.manifest.digest
    open_corpus(motif_path).hot(build=True)
    (hot_cache_dir(digest) / "0003.bin").write_bytes(b"")
    assert open_corpus(motif_path).table().equals(motif_table)
    assert open_corpus(motif_path).hot(build=True).equals(motif_table)


def test_files_of_a_cache_are_numbered():
    build_tiny()
    names = sorted(path.name for path in hot_cache_dir(DIGEST).iterdir())
    assert names == [*(f"{number:04}.bin" for number in range(len(names) - 1)), "index.json"]


def test_a_cache_of_other_columns_is_not_used():
    build_tiny()
    fewer = msgspec.structs.replace(tiny_info(), columns=tiny_info().columns[:-1])
    assert open_hot_cache(DIGEST, fewer) is None


def test_a_build_that_fails_leaves_nothing_behind():
    def read():
        yield tiny_table()
        raise ArtifactError("shard 2 is damaged")

    with pytest.raises(ArtifactError, match="shard 2 is damaged"):
        build_hot_cache(DIGEST, tiny_info(), read())
    assert [path.name for path in hot_cache_dir(DIGEST).parent.iterdir() if path.is_dir()] == []
    assert build_tiny().equals(tiny_table())


def test_a_full_disk_is_explained(monkeypatch):
    def full(*_):
        raise OSError(errno.ENOSPC, "No space left on device")

    monkeypatch.setattr(hot_cache._Writer, "append", full)
    with pytest.raises(StoreError) as error:
        build_tiny()
    assert str(error.value) == (
        f"no space left on {hot_cache_dir(DIGEST)}. The corpus itself is untouched.\n"
        "Free some space (`gsx gc` lists what can be deleted), then run the command again."
    )


def test_an_unreadable_cache_is_reported_with_its_path(monkeypatch):
    monkeypatch.setattr(hot_cache, "open_hot_cache", lambda digest, info, corpus: None)
    with pytest.raises(ArtifactError) as error:
        build_tiny()
    assert str(error.value) == (
        f"the cache at {hot_cache_dir(DIGEST)} cannot be read; delete it and try again"
    )
