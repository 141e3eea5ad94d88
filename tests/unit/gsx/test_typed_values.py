"""Typed decoding from several threads."""

import re
import subprocess
import sys
from pathlib import Path

import msgspec
import pytest

from gsx import typed_values

ROOT = Path(__file__).parents[3]
PACKAGES = ("gsx", "cli", "pipeline", "stages", "storage")

DECODE_FROM_THREADS = """
import sys
import threading

import msgspec

from gsx import typed_values

sys.setswitchinterval(1e-6)
document = msgspec.json.encode({"inner": {f"field_{i}": i for i in range(30)}})
values = []


def decode(start, outer):
    start.wait()
    values.append(typed_values.FUNCTION)


for _ in range(100):
    inner = msgspec.defstruct("Inner", [(f"field_{i}", int) for i in range(30)])
    outer = msgspec.defstruct("Outer", [("inner", inner)])
    start = threading.Barrier(4)
    threads = [threading.Thread(target=decode, args=(start, outer)) for _ in range(4)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
print(sum(value.inner.field_29 for value in values))
"""


@pytest.mark.parametrize(
    "function",
    [
        "decode_json(document, outer)",
        "decode_msgpack(msgspec.msgpack.encode(msgspec.json.decode(document)), outer)",
        "convert(msgspec.json.decode(document), outer)",
    ],
)
def test_threads_that_use_a_type_for_the_first_time_do_not_crash(function):
    """msgspec alone ends the process with a segmentation fault here."""
    program = DECODE_FROM_THREADS.replace("FUNCTION", function)
    done = subprocess.run(
        [sys.executable, "-c", program], capture_output=True, text=True, check=False
    )
    assert (done.returncode, done.stdout) == (0, f"{29 * 400}\n"), done.stderr


def test_errors_are_those_of_msgspec():
    with pytest.raises(msgspec.ValidationError, match="Expected `int`"):
        typed_values.decode_json(b'{"a": "b"}', dict[str, int])
    with pytest.raises(msgspec.ValidationError, match="Expected `int`"):
        typed_values.convert({"a": "b"}, dict[str, int])


def test_the_package_has_no_other_way_to_decode_into_types():
    direct = re.compile(r"msgspec\.(convert|(json|msgpack)\.(decode|Decoder))\b")
    users = {
        path.relative_to(ROOT).as_posix()
        for package in PACKAGES
        for path in (ROOT / package).rglob("*.py")
        if direct.search(path.read_text(encoding="utf-8"))
    }
    assert users == {"gsx/typed_values.py"}
