"""`make corpora` builds missing corpora and reports if nothing is missing."""

import os
import re
import shutil
import subprocess
import sys
import time
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[2]
pytestmark = pytest.mark.timeout(900)


@pytest.fixture
def make(tmp_path):
    """A function that runs make in this repository with a prepared virtual environment."""
    if shutil.which("make") is None:
        pytest.skip("make is not installed")
    venv = tmp_path / "venv"
    (venv / "bin").mkdir(parents=True)
    (venv / "bin" / "python").symlink_to(sys.executable)
    gsx = venv / "bin" / "gsx"
    gsx.write_text(f'#!/bin/sh\nexec {sys.executable} -m gsx "$@"\n')
    gsx.chmod(0o755)
    (venv / ".ready").touch()
    env = {key: value for key, value in os.environ.items() if not key.startswith("MAKE")}

    def run(*words):
        started = time.perf_counter()
        completed = subprocess.run(
            ["make", "-C", ROOT, f"VENV={venv}", f"GSX_STORE={tmp_path / 'store'}", *words],
            capture_output=True,
            text=True,
            check=False,
            env={**env, "PYTHONPATH": str(ROOT)},
        )
        assert completed.returncode == 0, completed.stderr
        return completed.stdout, time.perf_counter() - started

    return run, tmp_path / "store"


def test_a_second_run_builds_nothing_and_is_fast(make):
    run, store = make
    words = (
        "-j2", "corpora", "DATASETS=motif-size motif-base",
        "GENERATE=--num-graphs 60 --options 001 --bridges none --count 20",
    )  # fmt: skip
    first, _ = run(*words)
    assert re.search(r"^motif-size: .*/corpus/[0-9a-f]{32}$", first, flags=re.M)
    assert f"2 corpora are in {store}" in first
    assert "nothing was missing" not in first
    manifests = sorted(store.glob("corpus/*/manifest.json"))
    times = [path.stat().st_mtime_ns for path in manifests]
    second, seconds = run(*words)
    assert f"2 corpora are in {store}; nothing was missing" in second
    assert "motif-size:" not in second
    assert seconds < 2 or os.getloadavg()[0] > 2
    assert [path.stat().st_mtime_ns for path in manifests] == times


def test_only_a_removed_corpus_is_built_again(make):
    run, _ = make
    words = (
        "corpora", "DATASETS=motif-size motif-base",
        "GENERATE=--num-graphs 60 --options 001 --bridges none --count 20",
    )  # fmt: skip
    first, _ = run(*words)
    path = re.search(r"^motif-size: (.*)$", first, flags=re.M)[1]
    shutil.rmtree(path)
    again, _ = run(*words)
    assert f"motif-size: {path}" in again
    assert "motif-base:" not in again
    assert Path(path, "manifest.json").exists()
