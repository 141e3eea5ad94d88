import json

import numpy as np
import pyarrow as pa
import pytest
import zarr
from hypothesis import given, settings
from hypothesis import strategies as st
from zarr.codecs import ZstdCodec

from gsx.errors import ArtifactError
from gsx.ragged import decode_texts
from gsx.storage.artifacts.location import Location
from gsx.storage.corpora import zarr_format
from gsx.storage.corpora.parquet import ParquetShard, write_parquet
from gsx.storage.corpora.zarr_format import ZarrShard, write_zarr
from gsx.table import rechunk
from tests.support.strategies import tables, tiny_info, tiny_table

NAME = "shard"


@pytest.fixture(scope="session")
def folder(tmp_path_factory):
    """Return a folder that all examples of a property share."""
    return tmp_path_factory.mktemp("zarr")


@pytest.fixture
def shard(tmp_path):
    """Return the path of a group with the tiny table."""
    write_zarr(tmp_path / NAME, [tiny_table()], tiny_info())
    return tmp_path / NAME


def open_shard(path, **options):
    return ZarrShard(Location.at(path.parent), path.name, **options)


def read_error(path, **options):
    """Return the error of reading a shard, without its folder."""
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
def test_both_formats_round_trip(folder, example):
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
def test_chunked_input_gives_the_same_bytes(tmp_path_factory, example, size, chunk):
    table, info = example
    root = tmp_path_factory.mktemp("parts")
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(zarr_format, "CHUNK_ROWS", chunk)
        write_zarr(root / "one", [table], info)
        write_zarr(root / "two", rechunk([table], size), info)
    assert files_of(root / "one") == files_of(root / "two")
    assert open_shard(root / "two").read().equals(table)


def test_a_table_of_many_chunks_round_trips(tmp_path, monkeypatch):
    monkeypatch.setattr(zarr_format, "CHUNK_ROWS", 4)
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


def test_files_equal_those_of_the_zarr_package(shard, tmp_path):
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


def test_attributes_describe_the_group_and_its_codes(shard):
    described = zarr.open_group(shard, mode="r").attrs["gsx"]
    columns = {column["name"]: column for column in described["columns"]}
    assert described["name"] == "tiny"
    codes = zarr.open_group(shard, mode="r")["split"][:]
    words = [columns["split"]["vocabulary"][code] for code in codes]
    assert words == ["train", "train", "ood_test"]


def test_a_shard_is_read_as_one_group(shard):
    actual = open_shard(shard)
    assert len(actual) == 3
    assert actual.groups == [3]
    assert [len(table) for table in actual.iter_groups()] == [3]


def test_some_columns_are_read_without_the_others(shard):
    table = open_shard(shard).read(["smiles", "provenance.partner"])
    assert list(table.graph) == ["provenance.partner", "smiles"]
    assert list(table.node) == []
    assert list(table.edge) == ["edge_src", "edge_dst"]
    assert decode_texts(table.lists("graph", "smiles")) == ["CCO", "é", ""]


def test_arrays_that_were_read_are_read_only(shard):
    table = open_shard(shard).read()
    assert not table.node["node_feat"].flags.writeable
    assert not table.graph["smiles"].values.flags.writeable


def test_a_missing_shard_is_refused(tmp_path):
    assert read_error(tmp_path / "gone").startswith("gone cannot be read: ")


def test_an_empty_folder_is_refused(tmp_path):
    (tmp_path / "empty").mkdir()
    assert read_error(tmp_path / "empty").startswith("empty is not a gsx Zarr group: ")


def test_a_foreign_group_is_refused(tmp_path):
    zarr.create_group(tmp_path / "other")
    assert read_error(tmp_path / "other") == (
        "other/zarr.json cannot be read: Object missing required field `gsx` - at `$.attributes`"
    )


def test_a_group_without_a_corpus_description_is_refused(shard):
    edit(shard, attributes={"gsx": {"name": "tiny"}})
    assert read_error(shard) == (
        f"{NAME}/zarr.json cannot be read: Object missing required field `outputs`"
    )


def test_a_wrong_number_of_graphs_is_refused(shard):
    assert read_error(shard, rows=4) == f"{NAME} holds 3 graphs; the manifest lists 4"


@pytest.mark.parametrize(
    ("fields", "problem"),
    [
        ({"codecs": [{"name": "bytes"}, {"name": "gzip"}]},
         "codecs ['bytes', 'gzip'], type float32 and grid 'regular'"),
        ({"codecs": [{"name": "numcodecs.pickle"}]},
         "codecs ['numcodecs.pickle'], type float32 and grid 'regular'"),
        ({"codecs": [{"name": "sharding_indexed", "configuration": {}}]},
         "codecs ['sharding_indexed'], type float32 and grid 'regular'"),
        ({"codecs": [{"name": "bytes"}, {"name": "zstd"}, {"name": "zstd"}]},
         "codecs ['bytes', 'zstd', 'zstd'], type float32 and grid 'regular'"),
        ({"codecs": [{"name": "zstd"}]}, "codecs ['zstd'], type float32 and grid 'regular'"),
        ({"codecs": []}, "codecs [], type float32 and grid 'regular'"),
        ({"data_type": "object"},
         "codecs ['bytes', 'zstd'], type object and grid 'regular'"),
        ({"chunk_grid": {"name": "rectangular", "configuration": {"chunk_shape": [4, 2]}}},
         "codecs ['bytes', 'zstd'], type float32 and grid 'rectangular'"),
    ],
)  # fmt: skip
def test_metadata_with_other_codecs_or_types_is_refused(shard, fields, problem):
    edit(shard / "node_feat", **fields)
    assert read_error(shard) == (
        f"{NAME}/node_feat/zarr.json has {problem}; "
        "gsx reads only plain numbers compressed with zstd."
    )


@pytest.mark.parametrize("name", ["spy", "node_feat2", "c", ".zmetadata"])
def test_an_array_that_the_description_does_not_list_is_refused(shard, name):
    (shard / name).mkdir()
    (shard / name / "zarr.json").write_text("{}")
    assert read_error(shard) == (f"{NAME} contains {name!r}, which its description does not list")


@pytest.mark.parametrize(
    ("fields", "place"),
    [
        ({"data_type": {"name": "numpy.datetime64"}}, "$.data_type"),
        ({"codecs": [{"name": ["bytes"]}]}, "$.codecs[0].name"),
        ({"codecs": 5}, "$.codecs"),
        ({"shape": [-1, 2]}, "$.shape[0]"),
        ({"shape": [2**70, 2]}, "$.shape[0]"),
        ({"shape": 4}, "$.shape"),
        ({"shape": []}, "$.shape"),
        ({"shape": [1, 1, 1]}, "$.shape"),
        ({"storage_transformers": [{"name": "x"}]}, "$.storage_transformers"),
        ({"chunk_key_encoding": {"name": "v2"}}, "$.chunk_key_encoding.name"),
        ({"fill_value": [[]]}, "$.fill_value"),
        ({"zarr_format": 2}, "$.zarr_format"),
        ({"node_type": "group"}, "$.node_type"),
        ({"must_understand": False}, "must_understand"),
    ],
)
def test_metadata_of_the_wrong_type_is_refused(shard, fields, place):
    edit(shard / "node_feat", **fields)
    message = read_error(shard)
    assert message.startswith(f"{NAME}/node_feat/zarr.json cannot be read: ")
    assert place in message


def test_consolidated_metadata_is_refused(shard):
    """Zarr would use it in place of the metadata of the arrays."""
    other = {"kind": "inline", "must_understand": False, "metadata": {}}
    edit(shard, consolidated_metadata=other)
    assert "unknown field `consolidated_metadata`" in read_error(shard)


@pytest.mark.parametrize(
    "text", ["", "[]", "{}", '{"node_type": "array"}', '{"node_type"', "[" * 9999, "NaN"]
)
def test_invalid_metadata_is_refused(shard, text):
    (shard / "y" / "zarr.json").write_text(text)
    assert read_error(shard).startswith(f"{NAME}/y/zarr.json cannot be read: ")


def test_oversized_metadata_is_not_read(shard, monkeypatch):
    monkeypatch.setattr(zarr_format, "MAX_METADATA_BYTES", 50)
    assert read_error(shard).endswith(
        "zarr.json is larger than the limit of 50 bytes. Nothing was read."
    )


def test_a_lost_chunk_is_refused_and_not_read_as_zeros(shard):
    (shard / "node_feat" / "c" / "0" / "0").unlink()
    assert read_error(shard) == (
        f"{NAME}/node_feat/zarr.json: chunks are missing, which Zarr would read as zeros"
    )


def test_a_lost_chunk_of_zeros_is_refused_too(shard):
    (shard / "provenance.parents.ptr" / "c" / "0").unlink()
    assert read_error(shard) == (
        f"{NAME}/provenance.parents.ptr/zarr.json: "
        "chunks are missing, which Zarr would read as zeros"
    )


def test_an_extra_file_does_not_replace_a_lost_chunk(shard):
    (shard / "y" / "c" / "0" / "0").rename(shard / "y" / "c" / "0" / "9")
    assert read_error(shard) == (
        f"{NAME}/y/zarr.json: chunks are missing, which Zarr would read as zeros"
    )


def test_a_lost_array_is_refused(shard):
    for file in sorted((shard / "label").rglob("*"), reverse=True):
        file.rmdir() if file.is_dir() else file.unlink()
    assert read_error(shard) == f"{NAME} has no array `label`"


def test_a_shape_beyond_the_stored_chunks_is_refused(shard):
    edit(shard / "label", shape=[2**40])
    assert read_error(shard) == (
        f"{NAME}/label/zarr.json: chunks are missing, which Zarr would read as zeros"
    )


def chunk_grid(*shape):
    return {"name": "regular", "configuration": {"chunk_shape": shape}}


def test_a_chunk_larger_than_its_array_is_refused(shard):
    edit(shard / "label", chunk_grid=chunk_grid(2**40))
    assert read_error(shard) == (
        f"{NAME}/label/zarr.json has chunks of shape [{2**40}] in an array of shape [3]; a chunk "
        "must be within the array"
    )


def test_more_decoded_bytes_than_the_files_allow_are_refused(shard):
    edit(shard / "label", shape=[2**40], chunk_grid=chunk_grid(2**40))
    message = read_error(shard)
    assert message.startswith(f"{NAME} would decode to 4,398,046,5")
    assert "above the limit of 805,306,368 bytes" in message
    assert "GSX_LIMIT_DECODED_BYTES" in message


def frames(*contents):
    """Return zstd frames of ``contents``, one after the other."""
    return b"".join(pa.compress(data, "zstd", asbytes=True) for data in contents)


def frame_of_unknown_size(content):
    stream = pa.BufferOutputStream()
    with pa.CompressedOutputStream(stream, "zstd") as compressed:
        compressed.write(content)
    return stream.getvalue().to_pybytes()


LABELS = np.array([0, -1, -1], dtype=np.int32).tobytes()


def test_a_chunk_is_one_frame_of_known_size(shard):
    (shard / "label" / "c" / "0").write_bytes(frames(LABELS))
    assert open_shard(shard).read().equals(tiny_table())


@pytest.mark.parametrize(
    ("data", "found"),
    [
        (frames(bytes(1 << 24)), "16,777,216 bytes"),
        (frames(LABELS[:8]), "8 bytes"),
        (frames(LABELS[:8], LABELS[8:]), "no zstd frame of known size"),
        (frames(LABELS, bytes(1 << 20)), "no zstd frame of known size"),
        (frame_of_unknown_size(LABELS), "no zstd frame of known size"),
        (b"\x50\x2a\x4d\x18\x04\0\0\0abcd" + frames(LABELS), "no zstd frame of known size"),
        (frames(LABELS)[:-1], "no zstd frame of known size"),
        (b"", "no zstd frame of known size"),
    ],
    ids=["large", "small", "two", "more", "unsized", "skippable", "short", "empty"],
)
def test_a_chunk_of_another_decoded_size_is_refused(shard, data, found):
    (shard / "label" / "c" / "0").write_bytes(data)
    assert read_error(shard) == (
        f"{NAME}/label/c/0 is damaged: a chunk of 12 bytes is expected; it holds {found}"
    )


def test_a_stored_chunk_larger_than_any_encoding_is_refused(shard):
    (shard / "label" / "c" / "0").write_bytes(bytes(2000))
    assert "larger than the limit of 1,036 bytes" in read_error(shard)


def test_an_array_with_the_wrong_dtype_is_refused(shard):
    edit(shard / "label", data_type="float32", fill_value=0.0)
    assert read_error(shard) == (
        f"{NAME}/label holds float32 rows of shape (); the group describes int32 rows of shape ()"
    )


def test_an_array_with_the_wrong_width_is_refused(shard):
    zarr.open_group(shard).create_array(
        "y", data=np.zeros((3, 4), np.float32), overwrite=True, config={"write_empty_chunks": True}
    )
    assert read_error(shard) == (
        f"{NAME}/y holds float32 rows of shape (4,); the group describes float32 rows of shape (2,)"
    )


def test_an_array_with_the_wrong_number_of_rows_is_refused(shard):
    zarr.open_group(shard).create_array(
        "label", data=np.zeros(2, np.int32), overwrite=True, config={"write_empty_chunks": True}
    )
    assert read_error(shard) == f"{NAME}: graph column `label` has 2 rows; the table has 3 graphs"


def outcome(shard):
    """Return ``refused`` or ``same``; fail on any other effect of damaged bytes."""
    try:
        table = open_shard(shard, rows=3).read()
    except ArtifactError:
        return "refused"
    assert table.equals(tiny_table())
    return "same"


def damage(shard, path, data):
    """Replace a file by ``data``, return the outcome of reading, and restore the file."""
    good = (shard / path).read_bytes()
    (shard / path).write_bytes(data)
    actual = outcome(shard)
    (shard / path).write_bytes(good)
    return actual


def flipped(data, place, bit):
    damaged = bytearray(data)
    damaged[place] ^= 1 << bit
    return bytes(damaged)


def test_a_truncated_chunk_is_refused(shard):
    chunks = {path: data for path, data in files_of(shard).items() if "/c/" in path}
    actual = {damage(shard, path, data[: len(data) // 2]) for path, data in chunks.items()}
    assert actual == {"refused"}


def test_a_damaged_value_in_any_chunk_is_refused(shard):
    chunks = {path: data for path, data in files_of(shard).items() if "/c/" in path}
    actual = {damage(shard, path, flipped(data, -6, 0)) for path, data in chunks.items()}
    assert actual == {"refused"}


def test_any_flipped_bit_is_refused_or_harmless(shard):
    random = np.random.default_rng(0)
    for path, data in files_of(shard).items():
        damage(shard, path, flipped(data, random.integers(len(data)), int(random.integers(8))))
