"""Parquet files that claim or hide sizes are refused before Arrow allocates memory for them."""

import io
import re
import subprocess
import sys
from itertools import pairwise

import msgspec
import numpy as np
import pyarrow.parquet as pq
import pytest

from gsx.errors import ArtifactError
from gsx.ragged import encode_texts, pointers
from gsx.storage.artifacts.location import Location
from gsx.storage.corpora import parquet_footer, parquet_pages
from gsx.storage.corpora.arrow import to_arrow
from gsx.storage.corpora.parquet import ParquetShard, write_parquet
from gsx.storage.corpora.parquet_footer import ShardSchema
from gsx.storage.corpora.parquet_pages import (
    Chunk,
    check_pages,
    parse_page_header,
    read_page_header,
)
from tests.support import parquet_files as files
from tests.support.strategies import tiny_info, tiny_table

NAME = "shard.parquet"
ZERO = bytes(4)
MANY = 1 << 30


@pytest.fixture
def data(tmp_path):
    """Return the bytes of a shard with the tiny table."""
    write_parquet(tmp_path / NAME, [tiny_table()], tiny_info())
    return (tmp_path / NAME).read_bytes()


def read(folder, data):
    (folder / NAME).write_bytes(data)
    return ParquetShard(Location.at(folder), NAME, rows=3).read()


def read_error(folder, data):
    """Return the error of a local shard; a remote one must have the same."""
    with pytest.raises(ArtifactError) as error:
        read(folder, data)
    remote = remote_location(data)
    with pytest.raises(ArtifactError) as remote_error:
        ParquetShard(remote, NAME, rows=3).read()
    message = str(error.value).removeprefix(f"{folder}/")
    assert str(remote_error.value).removeprefix(f"{remote.url}/") == message
    return message


def remote_location(data):
    """Return a location outside of this machine's file system that holds a shard."""
    location = Location.at("memory://hostile-parquet")
    location.fs.pipe_file(location.path(NAME), data)
    return location


def test_a_remote_shard_is_decoded_from_the_bytes_that_were_checked(data, tmp_path, monkeypatch):
    """No byte is requested twice: a server could send other pages the second time."""
    reads = []

    class Server(io.BytesIO):
        def read(self, size=-1):
            reads.append((self.tell(), size))
            return super().read(size)

    location = remote_location(data)
    monkeypatch.setattr(location.fs, "open", lambda path, mode: Server(data))
    shard = ParquetShard(location, NAME, rows=3)
    del reads[:]
    assert shard.read().equals(read(tmp_path, data))
    starts = sorted(reads)
    assert starts
    assert all(a + size <= b for (a, size), (b, _) in pairwise(starts))


def edges(values):
    """Return the pages of a list column with ``values`` equal values in three graphs."""
    repetition = [(1, 0), (values - 3, 1), (1, 0), (1, 0)]
    page = files.run_page(values, repetition, [(values - 1, 1), (1, 0)])
    return [files.dictionary_page(ZERO, 1), page]


def test_the_unchanged_footer_is_rewritten_byte_by_byte(data):
    footer, end = files.read_footer(data)
    assert files.write_footer(data[:end], footer) == data


def test_a_run_of_equal_values_is_read(data, tmp_path):
    """Shows that the hostile files below differ from this one only in what they claim."""
    pages = edges(6)
    changed = data
    for name in ("edge_src", "edge_dst"):
        changed = files.replace_chunk(changed, name, pages, values=6)
    table = read(tmp_path, changed)
    assert table.edge["edge_src"].tolist() == [0, 0, 0, 0, 0]


def test_a_declared_bomb_is_refused_when_the_file_is_opened(data, tmp_path):
    message = read_error(tmp_path, files.replace_chunk(data, "edge_src", edges(MANY), values=MANY))
    assert message.startswith(f"{NAME}: row group 0 would decode to 8,58")
    assert "above the limit of 536,870,912 bytes" in message


def test_many_row_groups_of_allowed_size_are_refused(data, tmp_path):
    footer, end = files.read_footer(data)
    kind, (inner, groups) = footer[4]
    column = files.column_metadata(footer, "edge_src")
    column.set(5, 60_000_000)
    footer[4] = (kind, (inner, groups * 10))
    footer.set(3, 30)
    (tmp_path / NAME).write_bytes(files.write_footer(data[:end], footer))
    with pytest.raises(ArtifactError, match=r"would decode to 4,8.* limit of 4,294,967,296 bytes"):
        ParquetShard(Location.at(tmp_path), NAME)


@pytest.mark.parametrize("values", [5, 6, MANY // 2])
def test_a_footer_that_hides_values_is_refused(data, tmp_path, values, monkeypatch):
    monkeypatch.setenv("GSX_LIMIT_DECODED_BYTES", "64G")
    changed = files.replace_chunk(data, "edge_src", edges(MANY), values=values)
    assert read_error(tmp_path, changed).startswith(
        f"{NAME} is damaged: the pages of `edge_src` declare {MANY} values and "
    )


def test_a_footer_that_hides_the_size_of_pages_is_refused(data, tmp_path):
    pages = [files.dictionary_page(bytes(1 << 24), 1 << 22), edges(6)[1]]
    changed = files.replace_chunk(data, "edge_src", pages, values=6, honest=False, uncompressed=100)
    assert re.search(
        r"`edge_src` declare 6 values and 16777\d\d\d bytes, its footer 6 values and 100 bytes",
        read_error(tmp_path, changed),
    )


def test_a_dictionary_with_more_words_than_bytes_is_refused(data, tmp_path):
    pages = [files.dictionary_page(ZERO, MANY), edges(6)[1]]
    changed = files.replace_chunk(data, "edge_src", pages, values=6)
    assert "the pages of `edge_src` declare 0 values" in read_error(tmp_path, changed)


def test_a_column_of_scalars_has_one_value_per_graph(data, tmp_path):
    footer, end = files.read_footer(data)
    files.column_metadata(footer, "label").set(5, MANY)
    assert read_error(tmp_path, files.write_footer(data[:end], footer)) == (
        f"{NAME} is damaged: its footer lists 3 graphs and {MANY} values of `label` in row group 0."
    )


@pytest.mark.parametrize(("field", "value"), [(5, -1), (6, -1), (7, -5), (9, -1), (9, 1 << 40)])
def test_negative_or_distant_pages_are_refused(data, tmp_path, field, value):
    footer, end = files.read_footer(data)
    column = files.column_metadata(footer, "node_feat")
    column.set(field, value)
    assert "damaged" in read_error(tmp_path, files.write_footer(data[:end], footer))


@pytest.mark.parametrize("field", [2, 3])
@pytest.mark.parametrize("value", [-1, 0, 3, 1 << 30, -(1 << 31), (1 << 31) - 1])
def test_a_page_header_with_another_size_is_refused(data, tmp_path, field, value):
    pages = edges(6)
    pages[1][0].set(field, value)
    changed = files.replace_chunk(data, "edge_src", pages, values=6, honest=False, uncompressed=99)
    assert "is damaged" in read_error(tmp_path, changed)


def test_a_repeated_word_is_not_written_out(tmp_path):
    """A dictionary of one long word, and 4096 rows that refer to it."""
    rows, word = 4096, b"C" * (1 << 20)
    table = tiny_table().slice(2, 3).take(np.zeros(rows, dtype=np.int64))
    table = table.with_columns(
        graph={"graph_id": np.arange(rows), "smiles": encode_texts(["C"] * rows)}
    )
    write_parquet(tmp_path / NAME, [table], tiny_info())
    pages = [
        files.dictionary_page(len(word).to_bytes(4, "little") + word, 1),
        files.run_page(rows),
    ]
    changed = files.replace_chunk((tmp_path / NAME).read_bytes(), "smiles", pages, values=rows)
    (tmp_path / NAME).write_bytes(changed)
    with pytest.raises(ArtifactError, match=r"column `smiles` would decode to 4,294,967,296 bytes"):
        ParquetShard(Location.at(tmp_path), NAME).read()


def test_texts_in_plain_pages_are_read(tmp_path):
    """A dictionary page is full after 1 MiB; the remaining words are stored in plain pages."""
    texts = [f"{number:05} " + "x" * 500 for number in range(3000)]
    table = tiny_table().slice(2, 3).take(np.zeros(3000, dtype=np.int64))
    table = table.with_columns(graph={"graph_id": np.arange(3000), "smiles": encode_texts(texts)})
    write_parquet(tmp_path / NAME, [table], tiny_info(), row_group=2500)
    shard = ParquetShard(Location.at(tmp_path), NAME)
    assert shard.read().equals(table)
    assert shard.graph_columns(["smiles"])["smiles"].equals(encode_texts(texts))


@pytest.mark.parametrize(
    ("tail", "problem"),
    [
        (b"\xff\xff\xff\x7fPAR1", "has a footer of 2,147,483,647 bytes, above the limit of "),
        (b"\x00\x00\x00\x00PAR1", "cannot be read as Parquet"),
        (b"\x10\x00\x00\x00PARE", "has no footer"),
    ],
)
def test_an_impossible_footer_is_refused(data, tmp_path, tail, problem):
    assert problem in read_error(tmp_path, data[:-8] + tail)


def test_a_footer_above_the_limit_is_refused(data, tmp_path, monkeypatch):
    monkeypatch.setattr(parquet_footer, "MAX_FOOTER_BYTES", 1000)
    monkeypatch.setattr(parquet_footer, "MAX_INFO_BYTES", 0)
    assert "above the limit of 1,000 bytes. Nothing was read" in read_error(tmp_path, data)


def test_a_list_of_too_many_row_groups_is_refused(data, tmp_path):
    footer, end = files.read_footer(data)
    kind, (inner, groups) = footer[4]
    empty = files.Fields({1: (files.LIST, (files.STRUCT, [])), 2: groups[0][2], 3: groups[0][3]})
    footer[4] = (kind, (inner, [empty] * (parquet_footer.MAX_LIST_ITEMS + 1)))
    assert "cannot be read as Parquet" in read_error(
        tmp_path, files.write_footer(data[:end], footer)
    )


@pytest.mark.parametrize(
    ("change", "equal"),
    [
        ({"description": "Augmented."}, True),
        ({"environments": tiny_info().environments[:1]}, True),
        ({"environments": tiny_info().environments[:1] * 0}, True),
        ({"outputs": ("no", "yes")}, False),
        ({"name": "other"}, False),
        ({"domains": ("a",)}, False),
        ({"columns": tiny_info().columns[:-1]}, False),
    ],
)
def test_the_schema_of_a_shard_agrees_with_that_of_the_corpus(tmp_path, change, equal):
    info = msgspec.structs.replace(tiny_info(), **change)
    table = tiny_table()
    if "columns" in change:
        table = table.select([column.name for column in info.columns])
    write_parquet(tmp_path / NAME, [table], info)
    expected = ShardSchema(tiny_info())
    if equal:
        shard = ParquetShard(Location.at(tmp_path), NAME, expected=expected)
        assert shard.info is expected.info
        assert shard.read().equals(tiny_table())
        return
    with pytest.raises(ArtifactError, match=r"describes another corpus|has no column b'smiles'"):
        ParquetShard(Location.at(tmp_path), NAME, expected=expected)


def test_columns_are_compared_with_the_description_of_the_corpus(tmp_path):
    """The footer repeats corpus.json, but the file lacks the labels."""
    pq.write_table(to_arrow(tiny_table(), tiny_info()).drop_columns(["y"]), tmp_path / NAME)
    with pytest.raises(ArtifactError, match="has columns that do not match its footer"):
        ParquetShard(Location.at(tmp_path), NAME, expected=ShardSchema(tiny_info()))


def test_every_header_of_a_shard_is_parsed(data):
    footer, _ = files.read_footer(data)
    for chunk in footer.value(4)[1][0].value(1)[1]:
        metadata = chunk.value(3)
        at = min(metadata.value(9), metadata.value(11) if 11 in metadata else metadata.value(9))
        end, fields, values = parse_page_header(data, at)
        header, expected_end = files.decode_struct(data, at)
        assert end == expected_end
        assert {n: header.value(n) for n in (2, 3)} == {n: fields[n] for n in (2, 3)}
        assert values == header.value(fields[0]).value(1)
        assert read_page_header(data, at) == (end, fields[3], fields[2], values, fields[0] == 7)


@pytest.mark.parametrize("number", [5, 7, 8])
@pytest.mark.parametrize("value", [-(1 << 31), -1, 0, 1, 63, 64, 200, 1 << 20, (1 << 31) - 1])
def test_both_parsers_of_headers_agree(number, value):
    inner = {1: (files.I32, value), 2: (files.I32, 0)}
    if number == 5:
        inner |= {3: (files.I32, 3), 4: (files.I32, value), 5: (files.STRUCT, files.Fields())}
    fields = {
        1: (files.I32, {5: 0, 7: 2, 8: 3}[number]),
        2: (files.I32, value),
        3: (files.I32, 5),
        4: (files.I32, value),
    }
    for header in (fields, {n: fields[n] for n in (1, 2, 3)}):
        header = files.Fields({**header, number: (files.STRUCT, files.Fields(inner))})
        data = b"before" + files.encode_struct(header) + b"after"
        end, parsed, values = parse_page_header(data, 6)
        assert data[end:] == b"after"
        assert (parsed[2], parsed[3], values) == (value, 5, value)
        assert read_page_header(data, 6) == (end, 5, value, value, number == 7)


@pytest.mark.parametrize("number", [5, 7, 8])
@pytest.mark.parametrize("kind", [-1, 0, 1, 2, 3, 4])
def test_a_page_of_another_type_than_its_description_is_refused(number, kind):
    fields = {1: (files.I32, kind), 2: (files.I32, 9), 3: (files.I32, 5), 4: (files.I32, 6)}
    inner = {1: (files.I32, 1), 2: (files.I32, 0), 3: (files.I32, 3), 4: (files.I32, 3)}
    header = files.Fields({**fields, number: (files.STRUCT, files.Fields(inner))})
    data = files.encode_struct(header)
    if {5: 0, 7: 2, 8: 3}[number] == kind:
        assert read_page_header(data, 0) == (len(data), 5, 9, 1, number == 7)
        return
    with pytest.raises(ValueError, match="type differs"):
        read_page_header(data, 0)


def test_random_bytes_are_no_page_header():
    random = np.random.default_rng(0)
    for size in [*range(40), 300]:
        for _ in range(60):
            content = random.bytes(size)
            chunk = Chunk("x", 0, size, 1, 1)
            with pytest.raises(ArtifactError):
                check_pages(chunk, lambda start, length, c=content: c[start : start + length], "f")


def test_pages_of_long_chunks_are_read_one_header_at_a_time(monkeypatch, tmp_path):
    monkeypatch.setattr(parquet_pages, "MAX_HEADER_BYTES", 256)
    rows = 4096
    table = tiny_table().slice(0, 1).take(np.zeros(rows, dtype=np.int64))
    table = table.with_columns(graph={"graph_id": np.arange(rows) * 999_983})
    write_parquet(tmp_path / NAME, [table], tiny_info())
    shard = ParquetShard(Location.at(tmp_path), NAME)
    assert shard.read().equals(table)
    assert pointers([3] * rows).tolist() == shard.read().node_ptr.tolist()


MEASURE = """
import sys
from gsx.errors import ArtifactError
from gsx.storage.artifacts.run_record import peak_memory_mib
from gsx.storage.artifacts.location import Location
from gsx.storage.corpora.parquet import ParquetShard

for name in sys.argv[2:]:
    try:
        ParquetShard(Location.at(sys.argv[1]), name).read()
        print("read", end=" ")
    except ArtifactError:
        print("refused", end=" ")
    print(int(peak_memory_mib()))
"""


def test_hostile_files_need_less_than_a_gigabyte_more_than_honest_ones(data, tmp_path):
    limit = 512 << 20
    most = (limit - 100_000) // 8
    hostile = {
        "declared": files.replace_chunk(data, "edge_src", edges(MANY), values=MANY),
        "hidden": files.replace_chunk(data, "edge_src", edges(MANY), values=5),
        "allowed": files.replace_chunk(data, "edge_src", edges(most), values=most),
    }
    (tmp_path / "honest").write_bytes(data)
    for name, content in hostile.items():
        assert len(content) < 20_000
        (tmp_path / name).write_bytes(content)
    result = subprocess.run(
        [sys.executable, "-c", MEASURE, tmp_path, "honest", *hostile],
        capture_output=True,
        text=True,
        check=True,
    )
    lines = [line.split() for line in result.stdout.splitlines()]
    assert [outcome for outcome, _ in lines] == ["read", "refused", "refused", "refused"]
    first, *others = (int(mebibytes) for _, mebibytes in lines)
    assert max(others) - first < 1000
