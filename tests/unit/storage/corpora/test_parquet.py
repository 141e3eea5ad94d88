import json

import duckdb
import msgspec
import numpy as np
import pandas as pd
import polars as pl
import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from gsx.errors import ArtifactError, TableError, UsageError
from gsx.ragged import Ragged, decode_texts
from gsx.schema import Column
from gsx.storage.artifacts.location import Location
from gsx.storage.corpora.arrow import arrow_schema, from_arrow, to_arrow
from gsx.storage.corpora.parquet import ParquetShard, write_parquet
from gsx.table import GraphTable, concat, rechunk
from tests.support.strategies import tables, tiny_info, tiny_table

NAME = "shard.parquet"


@pytest.fixture(scope="session")
def folder(tmp_path_factory):
    """Return a folder that all examples of a property share."""
    return tmp_path_factory.mktemp("parquet")


@pytest.fixture
def shard(tmp_path):
    """Return the path of a shard with the tiny table."""
    write_parquet(tmp_path / NAME, [tiny_table()], tiny_info())
    return tmp_path / NAME


def open_shard(path, **options):
    return ParquetShard(Location.at(path.parent), path.name, **options)


def read_error(path, **options):
    """Return the error of reading a shard, without its folder."""
    with pytest.raises(ArtifactError) as error:
        open_shard(path, **options).read()
    return str(error.value).removeprefix(f"{path.parent}/")


def rewrite(path, change):
    """Rewrite the tiny shard after applying ``change`` to its Arrow table."""
    pq.write_table(change(to_arrow(tiny_table(), tiny_info())), path)


def replaced(table, name, values):
    at = table.schema.get_field_index(name)
    return table.set_column(at, table.schema.field(at), pa.array(values, table.schema.types[at]))


@settings(max_examples=60)
@given(tables())
def test_a_written_shard_is_read(folder, example):
    table, info = example
    write_parquet(folder / NAME, [table], info, row_group=4)
    actual = open_shard(folder / NAME, rows=len(table))
    assert actual.info == info
    assert actual.read().equals(table)


@settings(max_examples=30)
@given(tables(min_graphs=1))
def test_row_groups_concatenate_to_the_shard(folder, example):
    table, info = example
    write_parquet(folder / NAME, [table], info, row_group=2)
    actual = open_shard(folder / NAME)
    pieces = list(actual.iter_groups())
    assert actual.groups == [len(piece) for piece in pieces]
    assert concat(pieces).equals(table)


@settings(max_examples=25)
@given(tables())
def test_equal_tables_give_equal_bytes(folder, example):
    table, info = example
    copy = table.take(np.arange(len(table)))
    for path, written in ((folder / "one", table), (folder / "two", copy)):
        write_parquet(path, [written], info)
    assert (folder / "one").read_bytes() == (folder / "two").read_bytes()


@settings(max_examples=25)
@given(tables(), st.integers(1, 4))
def test_chunked_input_gives_the_same_bytes(folder, example, size):
    table, info = example
    write_parquet(folder / "one", [table], info, row_group=3)
    write_parquet(folder / "two", rechunk([table], size), info, row_group=3)
    assert (folder / "one").read_bytes() == (folder / "two").read_bytes()


def test_a_shard_read_and_written_again_has_the_same_bytes(shard, tmp_path):
    actual = open_shard(shard)
    write_parquet(tmp_path / "again", [actual.read()], actual.info)
    assert (tmp_path / "again").read_bytes() == shard.read_bytes()


def test_writing_a_slice_writes_only_its_graphs(tmp_path):
    table, part = tiny_table(), tiny_table().slice(1, 2)
    write_parquet(tmp_path / NAME, [part], tiny_info())
    assert open_shard(tmp_path / NAME).read().equals(table.take([1]))


@settings(max_examples=30)
@given(tables(), st.integers(0, 6))
def test_a_slice_of_an_arrow_table_holds_the_graphs_of_its_rows(example, start):
    table, info = example
    arrow = to_arrow(table, info).slice(start, 3)
    assert from_arrow(arrow, info.columns, "here").equals(table.slice(start, start + 3))


def test_one_row_group_is_read_alone(tmp_path):
    write_parquet(tmp_path / NAME, [tiny_table()], tiny_info(), row_group=2)
    actual = open_shard(tmp_path / NAME)
    assert actual.groups == [2, 1]
    assert len(actual) == 3
    last = actual.read(group=1)
    assert last.graph["graph_id"].tolist() == [12]
    assert last.node_ptr.tolist() == [0, 0]


def test_row_groups_hold_4096_graphs(tmp_path):
    many = tiny_table().take(np.zeros(4097, dtype=np.int64))
    write_parquet(tmp_path / NAME, [many], tiny_info())
    assert open_shard(tmp_path / NAME).groups == [4096, 1]


def test_a_shard_without_row_groups_has_no_graphs(tmp_path):
    pq.ParquetWriter(tmp_path / NAME, arrow_schema(tiny_info())).close()
    actual = open_shard(tmp_path / NAME, rows=0)
    assert actual.groups == []
    assert actual.read().equals(tiny_table().slice(0, 0))


def test_splits_of_nodes_may_span_row_groups(tmp_path):
    """Arrow cannot read dictionary lists whose dictionaries differ between row groups."""
    split = Column(name="node_split", axis="node", dtype="int8", vocabulary=("train", "all"))
    columns = (*tiny_info().columns, split)
    info = msgspec.structs.replace(tiny_info(), columns=columns)
    codes = np.array([1, 0, 1, 1], dtype=np.int8)
    table = tiny_table().with_columns(node={"node_split": codes})
    write_parquet(tmp_path / NAME, [table], info, row_group=1)
    assert open_shard(tmp_path / NAME).read().node["node_split"].tolist() == [1, 0, 1, 1]


def test_some_columns_are_read_without_the_others(shard):
    table = open_shard(shard).read(["smiles", "provenance.partner"])
    assert list(table.graph) == ["provenance.partner", "smiles"]
    assert list(table.node) == []
    assert list(table.edge) == ["edge_src", "edge_dst"]
    assert table.num_nodes.tolist() == [3, 1, 0]
    assert decode_texts(table.lists("graph", "smiles")) == ["CCO", "é", ""]


def test_arrays_that_were_read_are_read_only(shard):
    table = open_shard(shard).read()
    assert not table.node["node_feat"].flags.writeable
    assert not table.graph["graph_id"].flags.writeable


def test_pyarrow_reads_a_shard_without_gsx(shard):
    table = pq.read_table(shard)
    assert table.column("num_nodes").to_pylist() == [3, 1, 0]
    assert table.column("node_feat").to_pylist() == [[[1, 2], [3, 4], [5, 6]], [[7, 8]], []]
    assert table.column("edge_dst").to_pylist() == [[1, 0, 2, 1], [0], []]
    assert table.column("split").to_pylist() == ["train", "train", "ood_test"]
    assert table.column("origin").to_pylist() == ["source", "featx", "source"]
    assert table.column("smiles").to_pylist() == ["CCO", "é", ""]


def test_pandas_reads_a_shard_without_gsx(shard):
    frame = pd.read_parquet(shard)
    assert [len(nodes) for nodes in frame.node_feat] == [3, 1, 0]
    assert frame.node_feat[0][2].tolist() == [5, 6]
    assert frame.split.tolist() == ["train", "train", "ood_test"]
    assert frame.origin.tolist() == ["source", "featx", "source"]
    assert frame.y[1].tolist() == [0.25, 0.75]
    assert frame.provenance[0]["partner"] == -1


def test_polars_reads_a_shard_without_gsx(shard):
    frame = pl.read_parquet(shard)
    assert frame["node_feat"].dtype == pl.List(pl.Array(pl.Float32, 2))
    assert frame["edge_src"].list.len().to_list() == [4, 1, 0]
    assert frame["node_feat"].to_list() == [[[1, 2], [3, 4], [5, 6]], [[7, 8]], []]
    assert frame["split"].cast(pl.String).to_list() == ["train", "train", "ood_test"]
    assert frame["origin"].cast(pl.String).to_list() == ["source", "featx", "source"]


def test_duckdb_reads_a_shard_without_gsx(shard):
    rows = duckdb.sql(
        f"select graph_id, split, origin, len(node_feat), edge_src, y[2], smiles from '{shard}' "
        "where split = 'train' order by graph_id"
    ).fetchall()
    assert rows == [
        (10, "train", "source", 3, [0, 1, 1, 2], 0.0, "CCO"),
        (11, "train", "featx", 1, [0], 0.75, "é"),
    ]


def test_no_column_may_hold_nulls():
    def nullable(path, kind):
        for at in range(kind.num_fields):
            field = kind.field(at)
            if field.nullable:
                yield f"{path}.{field.name}"
            yield from nullable(f"{path}.{field.name}", field.type)

    schema = arrow_schema(tiny_info())
    assert [field.name for field in schema if field.nullable] == []
    assert [path for field in schema for path in nullable(field.name, field.type)] == []


def test_sizes_follow_the_origin_and_provenance_is_one_struct():
    assert arrow_schema(tiny_info()).names == [
        "graph_id", "split", "env_id", "domain_id", "origin", "num_nodes", "num_edges",
        "node_feat", "edge_src", "edge_dst", "edge_attr", "y", "label", "provenance", "smiles",
    ]  # fmt: skip


def test_the_footer_describes_a_single_shard(shard):
    footer = json.loads(pq.read_metadata(shard).metadata[b"gsx"])
    assert footer["name"] == "tiny"
    assert footer["outputs"] == ["yes", "no"]
    assert footer["environments"][1] == {"id": 1, "name": "large", "origin": "source"}
    described = {column["name"]: column["doc"] for column in footer["columns"]}
    assert described["env_id"] == "environment; -1 = unknown"


def test_pages_are_compressed_and_only_integers_and_text_have_dictionaries(shard):
    group = pq.read_metadata(shard).row_group(0)
    columns = [group.column(at) for at in range(group.num_columns)]
    assert {column.compression for column in columns} == {"ZSTD"}
    plain = [column.path_in_schema for column in columns if not column.has_dictionary_page]
    assert plain == [
        "node_feat.list.element.list.element",
        "edge_attr.list.element.list.element",
        "y.list.element",
        "provenance.lambda",
    ]


def test_a_missing_shard_is_refused(tmp_path):
    assert read_error(tmp_path / "gone").startswith("gone cannot be read as Parquet: ")


def test_a_file_that_is_not_parquet_is_refused(tmp_path):
    (tmp_path / "text").write_text("graph_id,label\n1,2\n")
    assert read_error(tmp_path / "text").startswith("text cannot be read as Parquet: ")


def test_a_foreign_shard_is_refused(tmp_path):
    pq.write_table(pa.table({"graph_id": [1, 2]}), tmp_path / "other")
    assert read_error(tmp_path / "other") == (
        "other has no `gsx` entry in its footer: it is not a gsx shard."
    )


@pytest.mark.parametrize("footer", [b"{", b'{"name": "tiny"}', b'{"color": 1}', b"\xff", b"[]"])
def test_a_footer_without_a_corpus_description_is_refused(tmp_path, footer):
    rewrite(tmp_path / NAME, lambda table: table.replace_schema_metadata({"gsx": footer}))
    assert read_error(tmp_path / NAME).startswith(
        f"{NAME} has a `gsx` footer that cannot be read: "
    )


@pytest.mark.parametrize("field", [{"dtype": "int33"}, {"dtype": "object"}, {"width": 0}])
def test_a_footer_with_an_impossible_column_is_refused(tmp_path, field):
    description = msgspec.to_builtins(tiny_info())
    description["columns"][5].update(field)
    footer = {"gsx": msgspec.json.encode(description)}
    rewrite(tmp_path / NAME, lambda table: table.replace_schema_metadata(footer))
    assert read_error(tmp_path / NAME).startswith(
        f"{NAME} has a `gsx` footer that cannot be read: "
    )


@pytest.mark.parametrize(
    "change",
    [
        lambda table: table.drop_columns(["label"]),
        lambda table: table.set_column(0, "graph_id", table.column(0).cast("int32")),
        lambda table: table.append_column("more", table.column(0)),
        lambda table: table.set_column(0, "id", table.column(0)),
    ],
    ids=["dropped", "other type", "added", "renamed"],
)
def test_columns_that_the_footer_does_not_describe_are_refused(tmp_path, change):
    rewrite(tmp_path / NAME, change)
    assert read_error(tmp_path / NAME) == f"{NAME} has columns that do not match its footer."


def test_words_outside_the_vocabulary_are_refused(tmp_path):
    def rename(table):
        return replaced(table, "split", ["train", "dev", "dev"])

    rewrite(tmp_path / NAME, rename)
    assert read_error(tmp_path / NAME) == (
        f"{NAME}: column `split` holds ['dev'], which its vocabulary lacks"
    )


def test_text_columns_may_be_plain_strings():
    arrow = to_arrow(tiny_table(), tiny_info())
    plain = arrow.set_column(1, "split", arrow.column("split").cast(pa.string()))
    assert from_arrow(plain, tiny_info().columns, "here").equals(tiny_table())


def test_nulls_are_refused():
    arrow = to_arrow(tiny_table(), tiny_info())
    holes = arrow.set_column(0, "graph_id", pa.array([10, None, 12]))
    with pytest.raises(ArtifactError) as error:
        from_arrow(holes, tiny_info().columns, "here")
    assert str(error.value) == "here: column `graph_id` holds nulls"


def test_lists_that_disagree_with_the_number_of_nodes_are_refused(tmp_path):
    rewrite(tmp_path / NAME, lambda table: replaced(table, "num_nodes", [3, 0, 1]))
    assert (
        read_error(tmp_path / NAME) == f"{NAME}: list lengths of `node_feat` do not match num_nodes"
    )


def test_edges_that_leave_their_graph_are_refused(tmp_path):
    rewrite(tmp_path / NAME, lambda table: replaced(table, "edge_dst", [[1, 0, 2, 9], [0], []]))
    assert read_error(tmp_path / NAME) == (
        f"{NAME}: graph 10: edge 3 has edge_dst 9, but the graph has 3 nodes "
        "(1 such edges in total)"
    )


def test_text_that_is_not_utf8_is_refused(tmp_path):
    text = Ragged(np.array([0, 1, 2, 2]), np.array([0xC3, 0xA9], dtype=np.uint8))
    write_parquet(tmp_path / NAME, [tiny_table().with_columns(graph={"smiles": text})], tiny_info())
    assert read_error(tmp_path / NAME).startswith(f"{NAME} is damaged: ")


def test_a_wrong_number_of_graphs_is_refused(shard):
    assert read_error(shard, rows=4) == f"{NAME} holds 3 graphs; the manifest lists 4"


def test_inconsistent_row_groups_are_refused(shard, monkeypatch):
    monkeypatch.setattr(ParquetShard, "groups", [1])
    assert read_error(shard) == (
        f"{NAME} is damaged: its row groups hold 1 graphs, its footer lists 3"
    )


def test_a_row_group_above_the_limit_is_refused_with_the_variable_that_raises_it(
    shard, monkeypatch
):
    monkeypatch.setenv("GSX_LIMIT_DECODED_BYTES", "100")
    message = read_error(shard)
    assert message.startswith(f"{NAME}: row group 0 would decode to 2,")
    assert message.endswith(
        "above the limit of 100 bytes for a file of this size, this schema and this manifest. "
        "Nothing was read. If you trust its sender, set GSX_LIMIT_DECODED_BYTES, for "
        "example to 16G."
    )
    monkeypatch.setenv("GSX_LIMIT_DECODED_BYTES", "1M")
    assert open_shard(shard).read().equals(tiny_table())


@pytest.mark.parametrize("text", ["many", "-1", "0", "1.5G", "1GB"])
def test_an_invalid_limit_is_refused(shard, monkeypatch, text):
    monkeypatch.setenv("GSX_LIMIT_DECODED_BYTES", text)
    with pytest.raises(UsageError, match="is not a number of bytes such as 16G"):
        open_shard(shard)


def test_more_values_than_32_bit_offsets_allow_are_not_written(tmp_path):
    many = np.array([0, 2**31])
    one = GraphTable(many, np.array([0, 0]), edge=tiny_table().slice(2, 3).edge)
    one = one.with_columns(graph=tiny_table().slice(0, 1).graph, node={"node_feat": np.zeros(2)})
    with pytest.raises(TableError) as error:
        write_parquet(tmp_path / NAME, [one], tiny_info())
    assert str(error.value) == (
        "a shard holds 2147483648 values in one column, more than 32-bit list offsets allow. "
        "Use smaller shards (`--shard-graphs`)."
    )


def outcome(path, data):
    """Return ``refused`` or ``same``; fail on any other effect of damaged bytes."""
    path.write_bytes(data)
    try:
        table = open_shard(path, rows=3).read()
    except ArtifactError:
        return "refused"
    assert table.equals(tiny_table())
    return "same"


def test_a_truncated_shard_is_refused_wherever_it_was_cut(shard, tmp_path):
    data = shard.read_bytes()
    lengths = [*range(0, len(data), 97), *range(len(data) - 12, len(data))]
    assert {outcome(tmp_path / "cut", data[:length]) for length in lengths} == {"refused"}


def last_bytes(path):
    """Yield the end of the last page of every column."""
    group = pq.read_metadata(path).row_group(0)
    for column in (group.column(at) for at in range(group.num_columns)):
        pages = column.has_dictionary_page and column.dictionary_page_offset
        yield (pages or column.data_page_offset) + column.total_compressed_size - 1


def test_a_damaged_byte_in_any_column_is_refused(shard, tmp_path):
    data = shard.read_bytes()
    for place in last_bytes(shard):
        damaged = bytearray(data)
        damaged[place] ^= 0b100
        assert outcome(tmp_path / "flipped", damaged) == "refused"


def test_any_flipped_bit_is_refused_or_harmless(shard, tmp_path):
    data = shard.read_bytes()
    footer = len(data) - 8 - int.from_bytes(data[-8:-4], "little")
    random = np.random.default_rng(0)
    places = [*range(0, footer, 4), *random.integers(footer, len(data), 300)]
    for place in places:
        damaged = bytearray(data)
        damaged[place] ^= 1 << int(random.integers(8))
        outcome(tmp_path / "flipped", damaged)


def test_overwritten_stretches_are_refused_or_harmless(shard, tmp_path):
    data = shard.read_bytes()
    random = np.random.default_rng(1)
    for _ in range(150):
        start, length = int(random.integers(len(data) - 64)), int(random.integers(2, 64))
        damaged = bytearray(data)
        damaged[start : start + length] = random.bytes(length)
        outcome(tmp_path / "overwritten", damaged)
