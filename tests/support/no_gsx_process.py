"""Run code in a process that cannot import gsx, as a recipient of exported files would."""

import os
import subprocess
import sys

BLOCK_GSX = (
    "import sys, warnings\n"
    "class NoGsx:\n"
    "    def find_spec(self, name, path=None, target=None):\n"
    "        if name.split('.')[0] == 'gsx': raise ImportError('gsx is not installed here')\n"
    "sys.meta_path.insert(0, NoGsx())\n"
    "sys.path.insert(0, '.')\n"
)
END = "\nimport os, sys\nsys.stdout.flush()\nsys.stderr.flush()\nos._exit(0)\n"
"""Arrow and torch can abort when the interpreter ends on a busy machine, so it does not end."""


def run_without_gsx(code, cwd, *, strict=True):
    """Run ``code`` in ``cwd`` without gsx; with ``strict``, warnings are errors."""
    env = {
        **{name: value for name, value in os.environ.items() if name != "PYTHONPATH"},
        "HF_HOME": str(cwd / ".." / "hf"),
        "HF_HUB_OFFLINE": "1",
        "HF_DATASETS_DISABLE_PROGRESS_BARS": "1",
    }
    options = ["-W", "error"] if strict else []
    result = subprocess.run(
        [sys.executable, *options, "-c", BLOCK_GSX + code + END],
        cwd=cwd,
        env=env,
        capture_output=True,
        text=True,
        check=False,
    )
    assert result.returncode == 0, result.stderr
    return result
