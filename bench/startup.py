"""Measure the start-up time of the command line: ``python bench/startup.py``.

Seconds of ``gsx --help``, median of 15 runs, in turn with a Python process that does nothing.
"""

from __future__ import annotations

import statistics
import subprocess
import sys
from pathlib import Path

from lib import harness

NAME = "startup"
ROUNDS, BAR_SECONDS = 15, 0.3


def main(arguments: list[str] | None = None) -> None:
    options = harness.argument_parser(__doc__).parse_args(arguments)
    gsx = str(Path(sys.executable).with_name("gsx"))
    seconds = harness.interleave(
        {"gsx": lambda: run(gsx, "--help"), "python": lambda: run(sys.executable, "-c", "pass")},
        ROUNDS,
    )
    result: harness.Result = {
        "command": harness.command_line(NAME),
        "gsx_help_seconds": round(statistics.median(seconds["gsx"]), 4),
        "bare_python_seconds": round(statistics.median(seconds["python"]), 4),
        "bar_seconds": BAR_SECONDS,
        **harness.versions(),
    }
    harness.write_result(NAME, result, dry_run=options.dry_run)
    print(harness.as_json(result))
    harness.require(harness.at_most(result, {"gsx_help_seconds": BAR_SECONDS}))


def run(*command: str) -> None:
    subprocess.run(command, check=True, capture_output=True)


if __name__ == "__main__":
    main()
