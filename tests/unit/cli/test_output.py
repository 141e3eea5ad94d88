"""Everything that commands print is printable: control characters, line breaks, passwords."""

import contextlib
import io
import json
import logging
import re
import subprocess
import sys
import warnings
from pathlib import Path

import click
import pytest

from gsx.cli import output
from gsx.cli.main import cli
from gsx.errors import StoreError
from gsx.storage.artifacts.publish import build_artifact
from gsx.storage.artifacts.store import Store
from gsx.text_table import MAX_CELL_WIDTH
from tests.support.artifacts import gsx, identity, write_files
from tests.support.hostile_text import TEXTS

ROOT = Path(__file__).parents[3]


def captured(function, *arguments, **options):
    out = io.StringIO()
    with contextlib.redirect_stdout(out), contextlib.redirect_stderr(out):
        function(*arguments, **options)
    return out.getvalue()


def require_printable(text):
    assert all(character.isprintable() for character in text.replace("\n", "")), text


@pytest.mark.parametrize("text", TEXTS)
def test_a_printed_line_stays_one_line(text):
    for function in (output.echo, output.notify):
        printed = captured(function, f"name {text}")
        require_printable(printed)
        assert printed.count("\n") == 1


@pytest.mark.parametrize("text", TEXTS)
def test_an_error_cannot_print_another_message(text):
    printed = captured(output.echo_error, f"Error: {text}: damaged.\nGet it again.")
    require_printable(printed)
    assert all(line.startswith("  ") for line in printed.splitlines()[1:])


def test_a_table_has_one_line_per_row():
    rows = [(text, 1) for text in TEXTS]
    lines = output.format_table(rows, ("NA\x1bME", "COUNT"))
    assert len(lines) == len(rows) + 1
    require_printable("".join(lines))
    assert max(map(len, lines)) < MAX_CELL_WIDTH + 20


def test_json_is_printable_and_unchanged():
    document = {text: [text, 1.5] for text in TEXTS}
    printed = captured(output.print_json, document)
    require_printable(printed)
    assert json.loads(printed) == document
    assert captured(output.print_json, ["\udc80"]) == '["\\udc80"]\n'


def test_other_output_of_the_process_is_printable():
    def print_all():
        with output.printable_streams():
            sys.stdout.write("a\x1b[2J\n")
            sys.stderr.writelines(["b\u202e\n", warnings.formatwarning("c\x1b", Warning, "f", 1)])
            logger = logging.getLogger("test-output")
            handler = logging.StreamHandler()
            logger.addHandler(handler)
            logger.error("d\x9b")
            logger.removeHandler(handler)

    printed = captured(print_all)
    require_printable(printed)
    assert len(re.findall(r"\\x1b|\\x9b|\\u202e", printed)) == 4


def test_output_that_the_terminal_cannot_encode_is_escaped():
    binary = io.BytesIO()
    terminal = io.TextIOWrapper(binary, "latin-1", write_through=True)
    output.PrintableStream(terminal).write("é…")
    assert binary.getvalue() == "é\\u2026".encode("latin-1")


@pytest.fixture
def failing(monkeypatch):
    """A command that raises an error."""
    errors = []

    @click.command("fail")
    def fail():
        raise errors[0]

    monkeypatch.setitem(cli.commands, "fail", fail)
    return errors


def test_a_traceback_is_printable(failing):
    failing.append(ZeroDivisionError("\x1b[2Jbug"))
    result = gsx("fail")
    assert result.code == 1
    assert "ZeroDivisionError: \\x1b[2Jbug" in result.err
    require_printable(result.err)


def test_an_error_of_the_system_is_no_bug(failing):
    failing.append(OSError(18, "Invalid cross-device link", "a\x1b"))
    result = gsx("fail")
    assert (result.code, result.out) == (3, "")
    assert result.err.startswith("Error: a\\x1b: Invalid cross-device link. Nothing incomplete")


def test_passwords_in_urls_are_not_printed(failing):
    failing.append(StoreError("cannot access https://me:secret@host/a?token=secret&x=secret"))
    assert gsx("fail").err == "Error: cannot access https://***@host/a?token=***&x=***\n"


def test_usage_errors_are_printable(tmp_path):
    for words in (("\x1b[2J",), ("show", "a\x1b\nError: b"), ("ls", "--\x1b"), ("verify", "\x9b")):
        result = gsx(*words, "--store", tmp_path)
        assert result.code in (2, 3)
        require_printable(result.err)
        assert "\nError: b" not in result.err


def test_names_of_artifacts_are_printable(tmp_path):
    name = "x\x1b[2J\nok  everything\u202e"
    built = build_artifact(
        Store.at(tmp_path), identity(), write_files(summary={"name": name}, warnings=(name,))
    ).artifact
    for words in (("ls",), ("show", built.key), ("verify", "--all"), ("lineage", built.key)):
        result = gsx(*words, "--store", tmp_path)
        assert result.code == 0
        require_printable(result.out)
        assert not [line for line in result.out.splitlines() if line.startswith("ok  every")]


def test_commands_print_through_one_module():
    """Nothing else in the package prints, except code that runs in other processes."""
    printing = re.compile(r"\bclick\.s?echo\(|(?<![\w.])print\(|\bsys\.std(out|err)\.write\(")
    allowed = {"cli/demo.py", "cli/output.py", "stages/export/templates/load_pyg.py"}
    found = {
        path.relative_to(ROOT).as_posix()
        for folder in ("cli", "pipeline", "stages", "storage")
        for path in (ROOT / folder).rglob("*.py")
        if printing.search(path.read_text(encoding="utf-8"))
    }
    assert found <= allowed


def test_a_process_prints_printable_text(tmp_path):
    completed = subprocess.run(
        [sys.executable, "-m", "gsx", "show", "\x1b[2Ja\u202e", "--store", tmp_path],
        capture_output=True, text=True, check=False, cwd=ROOT,
    )  # fmt: skip
    assert completed.returncode == 3
    require_printable(completed.stderr)
