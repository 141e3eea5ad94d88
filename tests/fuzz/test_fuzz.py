"""Hostile inputs that once failed, and a few new ones of every target."""

import json
import subprocess
import sys
from pathlib import Path

import pytest

REGRESSIONS = sorted((Path(__file__).parent / "regressions").glob("*.json"))
ROOT = Path(__file__).parents[2]
SEED, INPUTS = 1, 8


def test_stored_and_new_hostile_inputs_are_handled(tmp_path):
    command = [
        sys.executable, "-m", "tests.fuzz", "--light", "--no-minimize", "--out", tmp_path,
        "--minutes", "5", "--seed", str(SEED), "--inputs", str(INPUTS), "--replay", *REGRESSIONS,
    ]  # fmt: skip
    done = subprocess.run(command, cwd=ROOT, capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stdout + done.stderr
    assert f"{len(REGRESSIONS)} cases" in done.stdout
    summary = json.loads((tmp_path / "summary.json").read_text())["targets"]
    assert {figures["inputs"] for figures in summary.values()} == {INPUTS}


@pytest.mark.parametrize("path", REGRESSIONS, ids=lambda path: path.stem)
def test_a_stored_case_is_small_and_complete(path):
    content = json.loads(path.read_text())
    assert content.keys() == {"failure", "operation", "detail", "seed", "index", "case"}
    assert path.stat().st_size < 10_000
