"""The types of the API: overloads and options, checked by mypy."""

import subprocess
import sys
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[3]
CALLS = Path(__file__).with_name("typed_calls.py")


def mypy(path):
    return subprocess.run(
        [sys.executable, "-m", "mypy", "--strict", "--config-file", "pyproject.toml", path],
        cwd=ROOT, capture_output=True, text=True, check=False,
    )  # fmt: skip


@pytest.mark.slow
def test_calls_have_the_promised_types():
    result = mypy(CALLS)
    assert result.returncode == 0, result.stdout


@pytest.mark.slow
def test_wrong_calls_are_found(tmp_path):
    path = tmp_path / "wrong.py"
    path.write_text(
        "import gsx\n"
        "gsx.prepare('motif-size', num_graph=3)\n"
        "gsx.train('key', epochs='ten')\n"
        "gsx.trian('key')\n"
    )
    lines = [line for line in mypy(path).stdout.splitlines() if "error:" in line]
    assert list(dict.fromkeys(line.split(":")[1] for line in lines)) == ["2", "3", "4"]
