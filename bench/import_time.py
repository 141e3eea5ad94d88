"""Measure the time of ``import gsx``: ``python bench/import_time.py``.

Milliseconds of the import in a new process, median of 21 runs, and the number of modules that it
loads. The same for the first use of a function, which imports the engine.
"""

from __future__ import annotations

import statistics
import sys

from lib import harness

NAME = "import_time"
ROUNDS, BAR_MS = 21, 50.0
CODE = """
import json, sys, time
before = len(sys.modules)
started = time.perf_counter()
{statement}
elapsed = time.perf_counter() - started
print(json.dumps({{
    "ms": 1000 * elapsed,
    "modules": len(sys.modules) - before,
    "libraries": [n for n in ("numpy", "pandas", "pyarrow", "torch", "zarr") if n in sys.modules],
}}))
"""
STATEMENTS = {
    "import gsx": "import gsx",
    "all functions": "import gsx; [getattr(gsx, name) for name in dir(gsx) if name != 'Corpus']",
    "gsx.Corpus": "import gsx; gsx.Corpus",
}


def main(arguments: list[str] | None = None) -> None:
    options = harness.argument_parser(__doc__).parse_args(arguments)
    runs: dict[str, list[harness.Result]] = {name: [] for name in STATEMENTS}
    for _ in range(ROUNDS):
        for name, statement in STATEMENTS.items():
            command = [sys.executable, "-c", CODE.format(statement=statement)]
            runs[name].append(harness.run_json(command))
    figures = {
        name: {
            "ms": round(statistics.median(run["ms"] for run in measured), 2),
            "slowest_ms": round(max(run["ms"] for run in measured), 2),
            "modules": measured[0]["modules"],
            "libraries": measured[0]["libraries"],
        }
        for name, measured in runs.items()
    }
    result: harness.Result = {
        "command": harness.command_line(NAME),
        "rounds": ROUNDS,
        "runs": figures,
        "bar_ms": BAR_MS,
        **harness.versions(),
        "machine": harness.machine(),
        "load_average": harness.load_average(),
    }
    harness.write_result(NAME, result, dry_run=options.dry_run)
    print(harness.as_json(result))
    harness.require(
        harness.at_most({"import gsx": figures["import gsx"]["ms"]}, {"import gsx": BAR_MS})
    )


if __name__ == "__main__":
    main()
