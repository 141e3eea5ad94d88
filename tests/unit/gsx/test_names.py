import msgspec
import pytest

from gsx.errors import SchemaError
from gsx.names import MAX_COLUMNS, MAX_NAME, check_column_names, check_texts


@pytest.mark.parametrize("name", ["graph_id", "provenance.parents", "X2", "a" * 64, "motif_id"])
def test_words_with_an_optional_tail_are_column_names(name):
    check_column_names([name])


@pytest.mark.parametrize(
    "name",
    ["", "/home/u/.bashrc", "../x", "a/b", "a\\b", ".hidden", "a.", "a.b.c", "a-b", "_a", "2a",
     "a b", "é", "a\n", "a\x00", "a" * 65, "\uff41", "a\u202eb", "node_ptr", "edge_ptr",
     "zarr.json", "num_nodes", "NUM_EDGES", "smiles.ptr", "smiles.PTR", "c", "C", "nul",
     "edge_index", "batch"],
)  # fmt: skip
def test_paths_reserved_words_and_other_characters_are_not_column_names(name):
    with pytest.raises(SchemaError, match=r"not a column name|reserved name"):
        check_column_names([name])


@pytest.mark.parametrize("names", [("smiles", "smiles"), ("smiles", "SMILES"), ("a.b", "a")])
def test_column_names_differ_in_more_than_case_and_do_not_nest(names):
    with pytest.raises(SchemaError, match=r"listed twice|cannot have the fields"):
        check_column_names(names)


def test_the_number_of_columns_is_bounded():
    with pytest.raises(SchemaError, match="at most 512"):
        check_column_names([f"a{number}" for number in range(MAX_COLUMNS + 1)])


@pytest.mark.parametrize(
    "text", ["", "Größe", "分子", "🧪", "👩\u200d🔬", "<b>", "C/C=C\\C", "a" * MAX_NAME]
)
def test_free_text_in_any_script_is_accepted(text):
    check_texts("the output", ("other", text))


@pytest.mark.parametrize(
    ("text", "problem"),
    [
        ("a\x1b[2J", "contains the control character U+001B"),
        ("a\x00", "contains the control character U+0000"),
        ("a\tb", "contains the control character U+0009"),
        ("a\x85", "contains the control character U+0085"),
        ("a\u2028b", "contains the control character U+2028"),
        ("a\u202eb", "contains the control character U+202E"),
        ("a\u2066b", "contains the control character U+2066"),
        ("\ufeffname", "contains the control character U+FEFF"),
        ("\ud800", "contains the control character U+D800"),
        ("a\nb", "contains the control character U+000A"),
        ("e\u0301", "normalization form C"),
        ("a" * (MAX_NAME + 1), "the limit is 4,096"),
    ],
)
def test_text_that_changes_its_surroundings_is_refused(text, problem):
    with pytest.raises(SchemaError) as error:
        check_texts("the output", ("other", text))
    assert str(error.value).startswith("the output `")
    assert problem in str(error.value)
    assert str(error.value).isprintable()


def test_descriptions_may_have_lines():
    check_texts("the description", ("one\ntwo",), lines=True)
    with pytest.raises(SchemaError):
        check_texts("the description", ("one\r\ntwo",), lines=True)


def test_a_decoder_reports_the_place_of_a_bad_name():
    from gsx.schema import Column

    data = b'[{"name": "../x", "axis": "graph", "dtype": "int8"}]'
    with pytest.raises(msgspec.ValidationError, match=r"not a column name.* at `\$\[0\]`"):
        msgspec.json.decode(data, type=tuple[Column, ...])
