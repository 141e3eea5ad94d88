"""Text of unknown origin keeps its content and its place in every format."""

import re

import pytest
import yaml
from markdown_it import MarkdownIt

from gsx import escape
from tests.support.hostile_text import TEXTS

MARKDOWN = MarkdownIt("commonmark").enable(["table", "strikethrough"])


def plain(token):
    """Return the text of an inline token, which must contain neither markup nor links."""
    assert {child.type for child in token.children} <= {"text", "text_special"}, token.children
    return "".join(child.content for child in token.children)


@pytest.mark.parametrize("text", TEXTS)
@pytest.mark.parametrize(("before", "kind"), [("", "paragraph"), ("# ", "heading")])
def test_markdown_text_is_text(text, before, kind):
    tokens = MARKDOWN.parse(f"{before}x {escape.markdown_text(text)} x\n\nnext\n")
    assert [token.type for token in tokens[:3]] == [f"{kind}_open", "inline", f"{kind}_close"]
    assert plain(tokens[1]) == f"x {escape.one_line(text)} x"
    assert len(tokens) == 6


@pytest.mark.parametrize("text", [text for text in TEXTS if text.strip()])
def test_markdown_text_at_the_start_of_a_line(text):
    for before, closing in (("", 3), ("- ", 7)):
        tokens = MARKDOWN.parse(f"{before}{escape.markdown_text(text)}\n")
        assert len(tokens) == closing
        assert plain(next(t for t in tokens if t.type == "inline")) == escape.one_line(text)


@pytest.mark.parametrize("text", TEXTS)
def test_markdown_cells_and_code(text):
    cells = (escape.markdown_text(text), escape.markdown_code(text), "last")
    tokens = MARKDOWN.parse(f"| a | b | c |\n|---|---|---|\n| {' | '.join(cells)} |\n")
    row = [token for token in tokens if token.type == "inline"][3:]
    assert len(row) == 3
    assert plain(row[0]) == escape.one_line(text)
    (code,) = row[1].children
    assert code.type == "code_inline"
    assert code.content.strip() == escape.one_line(text).replace("|", "¦")
    assert row[2].content == "last"


def test_ordinary_markdown_is_unchanged():
    text = "Graphs of 10 to 20 nodes (see https://host/a_b-c); env_id, v1.0: 5 % + 3"
    assert escape.markdown_text(text) == text


@pytest.mark.parametrize("text", TEXTS)
def test_yaml_is_read_back(text):
    document = {"name": text, "list": [text, {"a": text, "b": [text]}], "map": {text[:90]: text},
                "empty": [], "number": 5, "flag": True}  # fmt: skip
    written = escape.yaml_document(document)
    assert yaml.safe_load(written) == document
    assert "\n---" not in written


def test_yaml_without_surrogates():
    assert yaml.safe_load(escape.yaml_document({"a": "x\udc80"})) == {"a": "x\ufffd"}


@pytest.mark.parametrize("text", TEXTS)
def test_spreadsheets_run_no_text(text):
    cell = escape.spreadsheet_text(text)
    assert cell in (text, f"'{text}")
    runs = re.match("[=+@\t\r\n\uff1d\uff0b\uff0d\uff20-]", cell) is not None
    assert runs == (cell in ("-1.5", "+1"))


@pytest.mark.parametrize("text", ["-1", "+1.5e-3", "-.5", "a=b", "C=C", "", "'=1"])
def test_numbers_and_ordinary_cells_are_unchanged(text):
    assert escape.spreadsheet_text(text) == text


def test_column_and_property_names_are_distinct():
    columns = escape.column_names([*TEXTS, *TEXTS], taken=["y_"], prefix="y_")
    assert len(set(columns)) == 2 * len(TEXTS)
    assert all(re.fullmatch(r"y_\w{0,110}", name) for name in columns)
    properties = escape.sdf_property_names([*TEXTS, "_Name", "env_id"], taken=["env_id"])
    assert len(set(properties) | {"env_id"}) == len(TEXTS) + 3
    assert not [name for name in properties if re.search(r"[<>\n]|^_", name)]


@pytest.mark.parametrize("text", TEXTS)
def test_folder_names_are_plain(text):
    assert re.fullmatch(r"[A-Za-z0-9][\w-]*", escape.folder_name(text, "default"), re.ASCII)


@pytest.mark.parametrize("name", ["..", ".", "a/b", "a\\b", "CON", "com1", ".hidden", "-x", "é"])
def test_names_that_are_paths_or_reserved_are_replaced(name):
    assert escape.folder_name(name, "default") == "default"
    assert escape.folder_name("motif-size", "default") == "motif-size"


@pytest.mark.parametrize(
    ("url", "redacted"),
    [
        ("http://me:secret@host/a", "http://***@host/a"),
        ("cannot open https://me:p@ss@host:80/a: no", "cannot open https://***@host:80/a: no"),
        ("s3://key:secret@bucket/a", "s3://***@bucket/a"),
        ("https://host/a?X-Amz-Signature=s&b=1#t=2", "https://host/a?X-Amz-Signature=***&b=***#t=***"),
        ("(url='https://host/a?token=s')", "(url='https://host/a?token=***')"),
        ("s3://bucket/a, me@host, a?b=c", "s3://bucket/a, me@host, a?b=c"),
    ],
)  # fmt: skip
def test_urls_are_redacted(url, redacted):
    assert escape.redact_urls(url) == redacted
