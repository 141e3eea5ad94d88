"""How long `gsx --help` takes. Run: python bench/startup.py."""

from __future__ import annotations

import json
import platform
import statistics
import subprocess
import sys
import time
from pathlib import Path

RESULT = Path(__file__).parent / "results" / "startup.json"
BAR_SECONDS = 0.3


def seconds(*command: str) -> float:
    started = time.perf_counter()
    subprocess.run(command, check=True, capture_output=True)
    return time.perf_counter() - started


def main() -> None:
    gsx = str(Path(sys.executable).with_name("gsx"))
    runs = [(seconds(gsx, "--help"), seconds(sys.executable, "-c", "pass")) for _ in range(15)]
    help_seconds = statistics.median(run[0] for run in runs)
    python_seconds = statistics.median(run[1] for run in runs)
    result = {
        "command": "python bench/startup.py",
        "gsx_help_seconds": round(help_seconds, 4),
        "bare_python_seconds": round(python_seconds, 4),
        "bar_seconds": BAR_SECONDS,
        "python": platform.python_version(),
    }
    RESULT.write_text(json.dumps(result, indent=2) + "\n")
    print(json.dumps(result, indent=2))


if __name__ == "__main__":
    main()
