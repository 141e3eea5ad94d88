import msgspec
import pytest
from hypothesis import given

from gsx.errors import SchemaError
from gsx.schema import (
    Column,
    CorpusInfo,
    Environment,
    Feature,
    check_standard_columns,
)
from tests.support.strategies import tables, tiny_info

replace = msgspec.structs.replace


def error_of(make):
    with pytest.raises(SchemaError) as error:
        make()
    return str(error.value)


@given(tables())
def test_the_schema_of_every_valid_table_is_accepted(example):
    _, info = example
    assert check_standard_columns(info) is info
    assert msgspec.json.decode(msgspec.json.encode(info), type=CorpusInfo) == info


@pytest.mark.parametrize(
    ("fields", "problem"),
    [
        ({"dtype": "int33"}, "column `weight` has the type 'int33'; known: text, int8, "),
        ({"dtype": "object"}, "has the type 'object'"),
        ({"dtype": "bool"}, "has the type 'bool'"),
        ({"dtype": "datetime64[ns]"}, "has the type"),
        ({"width": 0}, "has width 0; it must be in 1..1048576. If nodes have no features, use a "),
        ({"width": -1}, "has width -1"),
        ({"width": 2**70}, f"has width {2**70}"),
        ({"dtype": "text"}, "holds text, so it must be a ragged column of graphs"),
        ({"dtype": "text", "ragged": True}, "holds text, so it must be a ragged column of graphs"),
        ({"dtype": "float32", "vocabulary": ("a",)}, "its type must be an integer, not float32"),
        ({"vocabulary": ("a", "a")}, "lists a category twice"),
        ({"vocabulary": ("a\x07",)}, "U+0007"),
        ({"vocabulary": tuple(map(str, range(128)))}, "has 128 categories; maximum is 127"),
        ({"vocabulary": ("a",), "width": 2}, "it must hold one value per row"),
        ({"vocabulary": ("a",), "ragged": True}, "it must hold one value per row"),
        ({"width": 2, "features": (Feature(name="f", words=("a",)),)},
         "has width 2, but category names for 1 features"),
        ({"doc": "\u202e"}, "U+202E"),
        ({"name": "../x"}, "`../x` is not a column name"),
    ],
)  # fmt: skip
def test_impossible_columns_cannot_be_made(fields, problem):
    made = {"name": "weight", "axis": "node", "dtype": "int8", **fields}
    assert problem in error_of(lambda: Column(**made))


@pytest.mark.parametrize(
    ("fields", "problem"),
    [
        ({"name": "a\x1b[0m"}, "the name of the corpus `a\\x1b[0m` contains"),
        ({"outputs": ("a", "b\n")}, "the output `b\\n` contains the control character U+000A"),
        ({"domain": "e\u0301"}, "the domain `e\\u0301` is not in Unicode normalization form C"),
        ({"domains": ("a" * 65_537,)}, "has 65,537 characters; the limit is 65,536"),
        ({"environments": (Environment(id=0, name="\x9b"),)}, "the environment `\\x9b` contains"),
        ({"environments": (Environment(id=1, name="a"), Environment(id=0, name="b"))},
         "environment ids must be consecutive from 0; found 1, 0"),
        ({"licence": "\x00"}, "the description, licence or citation"),
        ({"num_features": 0}, "a corpus needs at least 1 feature; found 0"),
        ({"columns": (*tiny_info().columns, Column(name="Y", axis="graph", dtype="int8"))},
         "column `Y` is listed twice"),
    ],
)  # fmt: skip
def test_a_corpus_cannot_have_impossible_names_or_numbers(fields, problem):
    assert problem in error_of(lambda: replace(tiny_info(), **fields))


def test_the_origin_of_an_environment_lists_operations():
    Environment(id=0, name="a", origin="g_inv_env g_whole")
    assert "unknown origin `magic`" in error_of(lambda: Environment(id=0, name="", origin="magic"))


def columns(**changes):
    """Return the columns of the tiny corpus, some of them changed, or removed with None."""
    kept = [column for column in tiny_info().columns if changes.get(column.name, True) is not None]
    return tuple(replace(column, **changes.get(column.name, {})) for column in kept)


@pytest.mark.parametrize(
    ("fields", "problem"),
    [
        ({"columns": columns(y=None)}, "the standard column `y` is missing"),
        ({"columns": columns(env_id=None)}, "the standard column `env_id` is missing"),
        ({"columns": columns(node_feat=None)}, "the standard column `node_feat` is missing"),
        ({"columns": columns(edge_dst=None)}, "the standard column `edge_dst` is missing"),
        ({"columns": columns(graph_id={"dtype": "int32"})},
         "column `graph_id` has the dtype 'int32'; expected 'int64'"),
        ({"columns": columns(edge_src={"axis": "node"})},
         "column `edge_src` has the axis 'node'; expected 'edge'"),
        ({"columns": columns(y={"width": 3})}, "column `y` has the width 3; expected 2"),
        ({"outputs": ("a", "b", "c")}, "column `y` has the width 2; expected 3"),
        ({"outputs": ()}, "a corpus needs at least 1 output"),
        ({"num_features": 3}, "column `node_feat` has the width 2; expected 3"),
        ({"columns": columns(edge_attr={"width": None})},
         "column `edge_attr` has the width None; expected 1"),
        ({"columns": columns(split={"vocabulary": ("train",)})}, "column `split` has the vocabula"),
        ({"columns": columns(origin={"vocabulary": ()})}, "column `origin` has the vocabulary ()"),
        ({"level": "node"}, "the standard column `node_y` is missing"),
    ],
)  # fmt: skip
def test_a_received_corpus_has_the_standard_columns(fields, problem):
    info = replace(tiny_info(), **fields)
    assert problem in error_of(lambda: check_standard_columns(info))
