"""Rules for outcomes: exceptions, exit codes and output."""

from __future__ import annotations

import csv
import io
import json
import os
import re
import sys
import traceback
from collections.abc import Callable, Iterator
from contextlib import redirect_stderr, redirect_stdout
from dataclasses import dataclass
from pathlib import Path
from unittest import mock

from gsx.errors import GsxError
from tests.fuzz.sandbox import SECRET, Box, walk

REPOSITORY = Path(__file__).parents[2]
COPIES = ("pulled", "pushed", "trusted")
"""Folders with copies of received files, which are not rewritten."""
ALLOWED = (0, 2, 3, 4, 5)
_CONTROL = re.compile(r"[\x00-\x08\x0b-\x1f\x7f-\x9f\u202a-\u202e\u2066-\u2069]")
_FORMULA = re.compile(r"^[=+@-]\s*CANARY")
_HTML = re.compile(r"<(script|img)[^>&]*>?[^<]{0,20}CANARY-HTML", re.IGNORECASE)


@dataclass
class Outcome:
    """Result of one operation: ``accepted``, ``refused`` or a failure with its class."""

    kind: str
    detail: str = ""
    code: int = 0


def run_gsx(*words: object) -> Outcome:
    """Run a command in this process."""
    from gsx.cli.main import main

    out, err = (io.TextIOWrapper(io.BytesIO(), encoding="utf-8") for _ in range(2))
    code: object = 0
    arguments = mock.patch.object(sys, "argv", ["gsx", *map(str, words)])
    with arguments, redirect_stdout(out), redirect_stderr(err):
        try:
            main()
        except SystemExit as end:
            code = end.code or 0
    texts = []
    for stream in (out, err):
        stream.flush()
        texts.append(stream.buffer.getvalue().decode("utf-8", "replace"))
    if "Traceback (most recent" in texts[1]:
        return Outcome("traceback", f"{_last_error(texts[1])} at {printed_place(texts[1])}")
    if code not in ALLOWED:
        return Outcome("exit code", f"{code}: {texts[1][-200:]}")
    found = _CONTROL.search("".join(texts).replace("\n", "").replace("\t", ""))
    if found and "--json" not in words:
        return Outcome("control character in output", repr(found[0]))
    if SECRET.decode() in "".join(texts):
        return Outcome("secret in output", "")
    return Outcome("accepted" if code == 0 else "refused", texts[1][:300], int(code))


def attempt(operation: Callable[[], Outcome | None]) -> Outcome:
    """Run an operation; expected errors are refusals, all others are failures."""
    try:
        return operation() or Outcome("accepted")
    except GsxError as error:
        if error.exit_code == 1:
            return Outcome("exit code", f"1: {error}")
        return Outcome("refused", str(error)[:300], error.exit_code)
    except MemoryError as error:
        return Outcome("traceback", f"MemoryError at {place(error)}")
    except Exception as error:
        return Outcome("traceback", f"{type(error).__name__} at {place(error)}: {str(error)[:200]}")


def place(error: BaseException) -> str:
    """Return file, line and function of the innermost frame in the product's code."""
    innermost = "?"
    for frame in traceback.extract_tb(error.__traceback__):
        path = Path(frame.filename)
        if path.is_relative_to(REPOSITORY) and not path.is_relative_to(REPOSITORY / "tests"):
            name = path.resolve().relative_to(REPOSITORY)
            innermost = f"{name}:{frame.lineno} {frame.name}"
    return innermost


def printed_place(text: str) -> str:
    """Return file, line and function of the last frame of the product's code in a printed stack."""
    innermost = "?"
    for file, line, function in re.findall(r'File "([^"]+)", line (\d+),? in (\S+)', text):
        path = Path(file).resolve()
        inside = path.is_relative_to(REPOSITORY) and "site-packages" not in path.parts
        if inside and not path.is_relative_to(REPOSITORY / "tests"):
            innermost = f"{path.relative_to(REPOSITORY)}:{line} {function}"
    return innermost


def _last_error(text: str) -> str:
    """Return the name of the last exception in a printed stack."""
    names = re.findall(r"^([A-Za-z_][\w.]*)(?::|$)", text, flags=re.MULTILINE)
    return names[-1].rsplit(".", 1)[-1] if names else "?"


def written_files(box: Box) -> Iterator[tuple[str, str]]:
    """Yield failures in files that operations wrote: secrets, and text that is not escaped."""
    for folder in (box.store, box.out, box.cache):
        for path in walk(folder):
            if path.is_symlink() or not path.is_file() or not os.access(path, os.R_OK):
                continue
            data = path.read_bytes() if path.stat().st_size < 1 << 24 else b""
            name = path.name if folder == box.out else f"{folder.name}/{path.name}"
            if SECRET in data:
                yield "secret in a file", re.sub(r"[0-9a-f]{8,}", "#", name)
            if folder == box.out and path.relative_to(folder).parts[0] not in COPIES:
                yield from _check_escapes(path, data)


def _check_escapes(path: Path, data: bytes) -> Iterator[tuple[str, str]]:
    text = data.decode("utf-8", "replace")
    if path.suffix in (".html", ".svg", ".md") and _HTML.search(text):
        yield "HTML is not escaped", path.name
    if path.suffix in (".csv", ".tsv") and "CANARY" in text:
        for row in csv.reader(io.StringIO(text)):
            if any(_FORMULA.match(cell) for cell in row):
                yield "formula in CSV", path.name
                return
    if path.suffix in (".md", ".yaml", ".csv", ".smi", ".sdf", ".txt") and _CONTROL.search(
        text.replace("\n", "").replace("\r", "").replace("\t", "")
    ):
        yield "control character in a file", path.name
    try:
        if path.suffix == ".json":
            json.loads(text)
        if path.suffix == ".yaml":
            import yaml

            yaml.safe_load(text)
        if path.name == "README.md" and text.startswith("---\n"):
            import yaml

            yaml.safe_load(text.split("\n---", 1)[0][4:])
    except (ValueError, RecursionError, ImportError) as error:
        yield f"invalid {path.suffix[1:]}", f"{path.name}: {type(error).__name__}"
    except Exception as error:
        yield f"invalid {path.suffix[1:]}", f"{path.name}: {type(error).__name__}"
