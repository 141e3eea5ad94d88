import json

import numpy as np
import pytest
import zarr
from hypothesis import given, settings
from hypothesis import strategies as st
from zarr.codecs import ZstdCodec

from gsx.errors import ArtifactError
from gsx.ragged import decode_texts
from gsx.storage.artifacts.location import Location
from gsx.storage.corpora import zarr_format as zarr3
from gsx.storage.corpora.parquet import ParquetShard, write_parquet
from gsx.storage.corpora.zarr_format import ZarrShard, write_zarr
from gsx.table import rechunk
from tests.support.strategies import tables, tiny_info, tiny_table

NAME = "shard"


@pytest.fixture(scope="session")
def folder(tmp_path_factory):
    """A folder that many examples of one property may share."""
    return tmp_path_factory.mktemp("zarr")


@pytest.fixture
def shard(tmp_path):
    """The path of a group that holds the tiny table."""
    write_zarr(tmp_path / NAME, [tiny_table()], tiny_info())
    return tmp_path / NAME


def open_shard(path, **options):
    return ZarrShard(Location.at(path.parent), path.name, **options)


def refused(path, **options):
    """Return why a shard is refused, without its folder."""
    with pytest.raises(ArtifactError) as error:
        open_shard(path, **options).read()
    return str(error.value).removeprefix(f"{path.parent}/")


def edit(path, **fields):
    """Change fields of the metadata of an array or group."""
    metadata = json.loads((path / "zarr.json").read_text())
    (path / "zarr.json").write_text(json.dumps(metadata | fields))


def files_of(path):
    return {
        file.relative_to(path).as_posix(): file.read_bytes()
        for file in sorted(path.rglob("*"))
        if file.is_file()
    }


@settings(max_examples=12)
@given(tables())
def test_both_formats_give_back_what_was_written(folder, example):
    table, info = example
    write_zarr(folder / NAME, [table], info)
    write_parquet(folder / "shard.parquet", [table], info)
    group = open_shard(folder / NAME, rows=len(table))
    file = ParquetShard(Location.at(folder), "shard.parquet")
    assert group.info == file.info == info
    assert group.read().equals(table)
    assert group.read().equals(file.read())


@settings(max_examples=5)
@given(tables())
def test_equal_tables_give_equal_bytes(tmp_path_factory, example):
    table, info = example
    root = tmp_path_factory.mktemp("bytes")
    write_zarr(root / "one", [table], info)
    write_zarr(root / "two", [table.take(np.arange(len(table)))], info)
    assert files_of(root / "one") == files_of(root / "two")


@settings(max_examples=12)
@given(tables(), st.integers(1, 4), st.integers(2, 6))
def test_graphs_that_come_in_parts_give_the_same_bytes(tmp_path_factory, example, size, chunk):
    table, info = example
    root = tmp_path_factory.mktemp("parts")
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(zarr3, "CHUNK_ROWS", chunk)
        write_zarr(root / "one", [table], info)
        write_zarr(root / "two", rechunk([table], size), info)
    assert files_of(root / "one") == files_of(root / "two")
    assert open_shard(root / "two").read().equals(table)


def test_a_table_of_many_chunks_comes_back(tmp_path, monkeypatch):
    monkeypatch.setattr(zarr3, "CHUNK_ROWS", 4)
    table = tiny_table().take([0, 1, 2, 0, 0])
    write_zarr(tmp_path / NAME, [table], tiny_info())
    chunks = (tmp_path / NAME / "node_feat" / "c").iterdir()
    assert sorted(chunk.name for chunk in chunks) == ["0", "1", "2"]
    assert open_shard(tmp_path / NAME).read().equals(table)


def test_zarr_reads_a_shard_without_gsx(shard):
    group = zarr.open_group(shard, mode="r")
    assert group["node_ptr"][:].tolist() == [0, 3, 4, 4]
    assert group["node_feat"][:].tolist() == [[1, 2], [3, 4], [5, 6], [7, 8]]
    assert bytes(group["smiles"][:]).decode() == "CCOé"
    assert group["smiles.ptr"][:].tolist() == [0, 3, 5, 5]


def test_files_are_those_that_zarr_itself_writes(shard, tmp_path):
    group = zarr.create_group(tmp_path / "other")
    group.attrs.update(zarr.open_group(shard, mode="r").attrs)
    for name, array in zarr.open_group(shard, mode="r").arrays():
        written = group.create_array(
            name,
            shape=array.shape,
            dtype=array.dtype,
            chunks=array.chunks,
            compressors=ZstdCodec(level=1, checksum=True),
            fill_value=0,
            config={"write_empty_chunks": True},
        )
        written[...] = array[...]
    assert files_of(shard) == files_of(tmp_path / "other")


def test_attributes_explain_the_group_and_its_codes(shard):
    described = zarr.open_group(shard, mode="r").attrs["gsx"]
    columns = {column["name"]: column for column in described["columns"]}
    assert described["name"] == "tiny"
    codes = zarr.open_group(shard, mode="r")["split"][:]
    words = [columns["split"]["vocabulary"][code] for code in codes]
    assert words == ["train", "train", "ood_test"]


def test_a_shard_is_read_as_one_group(shard):
    found = open_shard(shard)
    assert len(found) == 3
    assert found.groups == [3]
    assert [len(table) for table in found.iter_groups()] == [3]


def test_some_columns_are_read_without_the_others(shard):
    table = open_shard(shard).read(["smiles", "provenance.partner"])
    assert list(table.graph) == ["provenance.partner", "smiles"]
    assert list(table.node) == []
    assert list(table.edge) == ["edge_src", "edge_dst"]
    assert decode_texts(table.lists("graph", "smiles")) == ["CCO", "é", ""]


def test_what_is_read_cannot_be_edited(shard):
    table = open_shard(shard).read()
    assert not table.node["node_feat"].flags.writeable
    assert not table.graph["smiles"].values.flags.writeable


def test_a_missing_shard_is_refused(tmp_path):
    assert refused(tmp_path / "gone").startswith("gone cannot be read: ")


def test_an_empty_folder_is_refused(tmp_path):
    (tmp_path / "empty").mkdir()
    assert refused(tmp_path / "empty").startswith("empty is not a gsx Zarr group: ")


def test_a_foreign_group_is_refused(tmp_path):
    zarr.create_group(tmp_path / "other")
    assert refused(tmp_path / "other") == "other is not a gsx Zarr group: 'gsx'"


def test_a_group_that_describes_no_corpus_is_refused(shard):
    edit(shard, attributes={"gsx": {"name": "tiny"}})
    assert refused(shard) == (
        f"{NAME} is not a gsx Zarr group: Object missing required field `outputs`"
    )


def test_another_number_of_graphs_than_the_manifest_says_is_refused(shard):
    assert refused(shard, rows=4) == f"{NAME} holds 3 graphs; the manifest lists 4"


@pytest.mark.parametrize(
    ("fields", "found"),
    [
        ({"codecs": [{"name": "bytes"}, {"name": "gzip"}]},
         "codecs ['bytes', 'gzip'], type float32 and grid 'regular'"),
        ({"codecs": [{"name": "numcodecs.pickle"}]},
         "codecs ['numcodecs.pickle'], type float32 and grid 'regular'"),
        ({"codecs": [{"name": "sharding_indexed", "configuration": {}}]},
         "codecs ['sharding_indexed'], type float32 and grid 'regular'"),
        ({"codecs": [{"name": ["bytes"]}]},
         "codecs [\"['bytes']\"], type float32 and grid 'regular'"),
        ({"data_type": "object"},
         "codecs ['bytes', 'zstd'], type object and grid 'regular'"),
        ({"data_type": {"name": "numpy.datetime64"}},
         "codecs ['bytes', 'zstd'], type {'name': 'numpy.datetime64'} and grid 'regular'"),
        ({"chunk_grid": {"name": "rectangular"}},
         "codecs ['bytes', 'zstd'], type float32 and grid 'rectangular'"),
    ],
)  # fmt: skip
def test_metadata_that_asks_for_more_than_compressed_numbers_is_refused(shard, fields, found):
    edit(shard / "node_feat", **fields)
    assert refused(shard) == (
        f"{NAME}/node_feat/zarr.json asks for {found}; "
        "gsx reads only plain numbers compressed with zstd."
    )


def test_an_array_nobody_reads_is_checked_all_the_same(shard):
    zarr.open_group(shard).create_array("spy", shape=1, dtype="int8", compressors=None)
    edit(shard / "spy", codecs=[{"name": "numcodecs.pickle"}])
    with pytest.raises(ArtifactError, match=r"spy/zarr.json has codecs"):
        open_shard(shard)


@pytest.mark.parametrize("text", ["", "[]", "{}", '{"node_type": "array"}', '{"node_type"'])
def test_metadata_that_is_none_is_refused(shard, text):
    (shard / "y" / "zarr.json").write_text(text)
    assert refused(shard).startswith(f"{NAME}/y/zarr.json is not Zarr v3 metadata: ")


def test_metadata_of_any_length_is_not_read(shard, monkeypatch):
    monkeypatch.setattr(zarr3, "MAX_METADATA_BYTES", 50)
    assert refused(shard).endswith("zarr.json is larger than the limit of 50 bytes. Nothing was read.")


def test_a_lost_chunk_is_refused_and_not_read_as_zeros(shard):
    (shard / "node_feat" / "c" / "0" / "0").unlink()
    assert refused(shard) == (
        f"{NAME}/node_feat/zarr.json: chunks are missing, which Zarr would read as zeros"
    )


def test_a_lost_chunk_of_zeros_is_refused_too(shard):
    (shard / "provenance.parents.ptr" / "c" / "0").unlink()
    assert refused(shard) == (
        f"{NAME}/provenance.parents.ptr/zarr.json: "
        "chunks are missing, which Zarr would read as zeros"
    )


def test_a_stranger_does_not_stand_in_for_a_lost_chunk(shard):
    (shard / "y" / "c" / "0" / "0").rename(shard / "y" / "c" / "0" / "9")
    assert refused(shard) == (
        f"{NAME}/y/zarr.json: chunks are missing, which Zarr would read as zeros"
    )


def test_a_lost_array_is_refused(shard):
    for file in sorted((shard / "label").rglob("*"), reverse=True):
        file.rmdir() if file.is_dir() else file.unlink()
    assert refused(shard) == f"{NAME} has no array `label`"


def test_an_array_that_would_fill_the_memory_is_refused(shard):
    edit(shard / "label", shape=[2**40])
    assert refused(shard) == (
        f"{NAME}/label/zarr.json would decompress to {2**42} bytes, above the limit of {8 << 30}"
    )


def test_an_array_of_another_type_than_described_is_refused(shard):
    edit(shard / "label", data_type="float32", fill_value=0.0)
    assert refused(shard) == (
        f"{NAME}/label holds float32 rows of shape (); the group describes int32 rows of shape ()"
    )


def test_an_array_of_another_width_than_described_is_refused(shard):
    zarr.open_group(shard).create_array(
        "y", data=np.zeros((3, 4), np.float32), overwrite=True, config={"write_empty_chunks": True}
    )
    assert refused(shard) == (
        f"{NAME}/y holds float32 rows of shape (4,); the group describes float32 rows of shape (2,)"
    )


def test_an_array_with_other_rows_than_its_table_is_refused(shard):
    edit(shard / "label", shape=[2])
    assert refused(shard) == (f"{NAME}: graph column `label` has 2 rows; the table has 3 graphs")


def outcome(shard):
    """Return ``refused`` or ``same``; anything else that may come of damaged bytes fails."""
    try:
        table = open_shard(shard, rows=3).read()
    except ArtifactError:
        return "refused"
    assert table.equals(tiny_table())
    return "same"


def damage(shard, path, data):
    """Return what comes of ``data`` in the place of a file, which is then mended."""
    good = (shard / path).read_bytes()
    (shard / path).write_bytes(data)
    found = outcome(shard)
    (shard / path).write_bytes(good)
    return found


def flipped(data, place, bit):
    damaged = bytearray(data)
    damaged[place] ^= 1 << bit
    return bytes(damaged)


def test_a_truncated_chunk_is_refused(shard):
    chunks = {path: data for path, data in files_of(shard).items() if "/c/" in path}
    found = {damage(shard, path, data[: len(data) // 2]) for path, data in chunks.items()}
    assert found == {"refused"}


def test_a_damaged_value_in_any_chunk_is_refused(shard):
    chunks = {path: data for path, data in files_of(shard).items() if "/c/" in path}
    found = {damage(shard, path, flipped(data, -6, 0)) for path, data in chunks.items()}
    assert found == {"refused"}


def test_a_flipped_bit_is_refused_or_harmless_wherever_it_is(shard):
    random = np.random.default_rng(0)
    for path, data in files_of(shard).items():
        damage(shard, path, flipped(data, random.integers(len(data)), int(random.integers(8))))
