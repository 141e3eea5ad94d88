"""Limits have one naming scheme, one table in SECURITY.md, and are named in their errors."""

import re
from pathlib import Path

import pytest

from gsx import limits
from gsx.errors import UsageError
from gsx.limits import LIMITS, Limit, Timeout

ROOT = Path(__file__).parents[3]
CODE = [
    path
    for folder in ("gsx", "storage", "stages", "pipeline", "cli")
    for path in sorted((ROOT / folder).glob("**/*.py"))
    if path != ROOT / "gsx" / "limits.py"
]
DOCS = [*ROOT.glob("*.md"), *sorted((ROOT / "docs").rglob("*.md"))]
NAMES = {value: name for name, value in vars(limits).items() if isinstance(value, Limit | Timeout)}


def test_all_limits_are_listed():
    assert sorted(NAMES.values()) == sorted(NAMES[limit] for limit in LIMITS)


def test_the_table_in_security_md_lists_every_limit_with_its_default():
    text = (ROOT / "SECURITY.md").read_text()
    rows = re.findall(r"^\| .* \| (.*) \| `(GSX_(?:LIMIT|TIMEOUT)_\w+)` \|$", text, re.MULTILINE)
    assert [variable for _, variable in rows] == [limit.variable for limit in LIMITS]
    for (default, variable), limit in zip(rows, LIMITS, strict=True):
        assert default.startswith(str(limit)), variable


def test_no_page_names_another_limit():
    known = {limit.variable for limit in LIMITS}
    for path in DOCS:
        named = set(re.findall(r"\bGSX_(?:LIMIT|TIMEOUT|MAX)_\w+", path.read_text()))
        assert named <= known, path


@pytest.mark.parametrize("limit", LIMITS, ids=lambda limit: limit.variable)
def test_a_limit_is_checked_and_its_error_names_the_variable(limit):
    name = NAMES[limit]
    code = "\n".join(path.read_text() for path in CODE)
    passed_on = rf"\blimit(: [\w |]+)? ?= ?{name}\b"  # to a function that checks it
    assert re.search(rf"\b{name}\.value\b|{passed_on}", code)
    assert re.search(rf"\b{name}\.(advice|variable)\b|{passed_on}", code)


def test_a_variable_replaces_a_limit(monkeypatch):
    monkeypatch.setenv("GSX_LIMIT_COLUMNS", "5")
    monkeypatch.setenv("GSX_LIMIT_DECODED_BYTES", "3k")
    monkeypatch.setenv("GSX_TIMEOUT_LIST", "0.5")
    assert (limits.COLUMNS.value, limits.DECODED_BYTES.value) == (5, 3 << 10)
    assert limits.LIST.value == 0.5
    monkeypatch.setenv("GSX_LIMIT_COLUMNS", "")
    assert limits.COLUMNS.value == limits.COLUMNS.default


@pytest.mark.parametrize(
    ("limit", "settings"),
    [
        (limits.COLUMNS, ["-1", "x", "1e3", "9" * 19, "²"]),
        (limits.DECODED_BYTES, ["0", "-1", "1.5G", "1GB", "x", "9" * 30]),
        (limits.HTTP, ["0", "-1", "x", "nan", "inf"]),
    ],
)
def test_an_invalid_setting_is_an_error(monkeypatch, limit, settings):
    for setting in settings:
        monkeypatch.setenv(limit.variable, setting)
        with pytest.raises(UsageError, match=limit.variable):
            assert limit.value
