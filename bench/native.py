"""Measure the compiled loops, compared with their NumPy versions: ``python bench/native.py``.

Graphs are those of fsmotif-size-color. ``gather`` takes graphs in random order, 4,096 and 256 at a
time. ``hash`` and ``move`` work on the blocks of a generation. ``generate`` is a whole generation,
from reading the source to publishing. Times are medians of CPU times; both versions alternate.
Memory is allocated with the default settings of a Python process.
"""

from __future__ import annotations

import json
import statistics
import tempfile
import time
from collections.abc import Callable, Iterator
from contextlib import ExitStack, contextmanager
from pathlib import Path
from types import ModuleType
from unittest import mock

import numpy as np
from lib import harness
from lib.feature_extrapolation import (
    BLOCK_GRAPHS,
    GRAPHS,
    ROUNDS,
    blocks,
    generate,
    plan_in_memory,
    prepare_source,
)
from lib.stages import Artifacts

from gsx import ragged
from gsx._native import MODULES
from gsx.seeds import rng
from gsx.stages.generate.featx import feature_extrapolation
from gsx.stages.graphs import wl_hash

NAME = "native"
GENERATIONS = 9
MODULES_WITH_LOOPS = (ragged, feature_extrapolation, wl_hash)
BARS = {"gather_4096": 2, "gather_256": 1.5, "hash": 1.5, "move": 2.5, "generate": 1.05}


def main(arguments: list[str] | None = None) -> None:
    options = harness.argument_parser(__doc__).parse_args(arguments)
    with tempfile.TemporaryDirectory() as folder:
        store = Path(folder) / "store"
        inputs = prepare_source(store, "once")
        seconds = {**measure_loops(inputs), "generate": measure_generation(store, inputs)}
    ratios = {name: round(pair["numpy"] / pair["loops"], 2) for name, pair in seconds.items()}
    result = {
        "command": harness.command_line(NAME),
        "graphs": GRAPHS,
        "times_numpy": ratios,
        "seconds": {
            name: {version: round(value, 5) for version, value in pair.items()}
            for name, pair in seconds.items()
        },
    }
    harness.write_result(NAME, result, dry_run=options.dry_run)
    print(json.dumps(result))
    harness.require(harness.at_least(ratios, BARS))


@contextmanager
def without_compiled_loops() -> Iterator[None]:
    """Use the NumPy versions."""
    with ExitStack() as stack:
        for module in MODULES_WITH_LOOPS:
            stack.enter_context(mock.patch.object(module, extension_name(module), None))
        yield


def extension_name(module: ModuleType) -> str:
    """Return the name under which a module imports its compiled loops."""
    for name, value in vars(module).items():
        if isinstance(value, ModuleType) and value.__name__ in MODULES:
            return name
    raise SystemExit(
        f"{module.__name__}: no compiled loops. Install a C compiler, run `make setup`."
    )


def measure_loops(inputs: Artifacts) -> dict[str, dict[str, float]]:
    """Return the median CPU seconds of each loop, compiled (``loops``) and in NumPy."""
    extrapolation = plan_in_memory(inputs)
    train, parameters = extrapolation.train, extrapolation.extrapolator.parameters
    order = rng(0, "bench").permutation(len(train))
    large, small = (np.array_split(order, len(order) // size) for size in (BLOCK_GRAPHS, 256))
    tables = [extrapolation.bases(start, stop) for start, stop in blocks()]

    def move() -> None:
        for table in tables:
            features = table.dense("node", "node_feat")
            partners = np.arange(len(table))
            strengths = parameters.draw_strengths(len(table), rng(0))
            feature_extrapolation.extrapolate_runs(
                features, features, partners, strengths, table.node_ptr, parameters.wrap_around
            )

    works: dict[str, Callable[[], object]] = {
        "gather_4096": lambda: [train.take(rows) for rows in large],
        "gather_256": lambda: [train.take(rows) for rows in small],
        "hash": lambda: [wl_hash.wl_hashes(table) for table in tables],
        "move": move,
    }

    def in_numpy(work: Callable[[], object]) -> Callable[[], object]:
        def run() -> object:
            with without_compiled_loops():
                return work()

        return run

    seconds = harness.interleave(
        {
            **{f"{name} loops": work for name, work in works.items()},
            **{f"{name} numpy": in_numpy(work) for name, work in works.items()},
        },
        ROUNDS,
        time.process_time,
    )
    return {
        name: {
            version: statistics.median(seconds[f"{name} {version}"])
            for version in ("loops", "numpy")
        }
        for name in works
    }


def measure_generation(store: Path, inputs: Artifacts) -> dict[str, float]:
    """Return the median CPU seconds of a whole generation, compiled and in NumPy."""
    seconds: dict[str, list[float]] = {"loops": [], "numpy": []}
    for seed in range(2 * GENERATIONS):
        version = ("loops", "numpy")[seed % 2]
        with without_compiled_loops() if version == "numpy" else ExitStack():
            elapsed, _ = generate(store, inputs, augmented_only=True, count=GRAPHS, seed=seed)
        seconds[version].append(elapsed)
    return {version: statistics.median(values) for version, values in seconds.items()}


if __name__ == "__main__":
    main()
