"""Measure the compiled loops beside their twins in NumPy; writes bench/results/loops.json.

Graphs are those of fsmotif-size-color. ``gather`` takes graphs in random order, 4,096 and 256 at a
time, ``hash`` and ``move`` work on the blocks that a generation has, ``generate`` is a whole one,
from reading the source to publishing. Times are processor times, medians over turns in which both
alternate; memory is as a process of Python has it.
"""

from __future__ import annotations

import json
import statistics
import tempfile
from contextlib import ExitStack, contextmanager
from pathlib import Path
from unittest import mock

import numpy as np
from featx import BLOCK_GRAPHS, GRAPHS, alternately, generate, parse_config, source

from gsx import ragged
from gsx.seeds import rng
from gsx.stages.extrapolating.build import plan_extrapolation
from gsx.stages.extrapolating.plan import with_environment
from gsx.stages.kernels import moving, wl
from gsx.storage.corpus import Corpus

RESULT = Path(__file__).parent / "results" / "loops.json"
REPEATS = 9
BARS = {"gather_4096": 2, "gather_256": 1.5, "hash": 1.5, "move": 2.5, "generate": 1.05}


@contextmanager
def numpy_alone():
    with ExitStack() as stack:
        for module in (ragged, moving, wl):
            stack.enter_context(mock.patch.object(module, "loops", None))
        yield


def main() -> None:
    with tempfile.TemporaryDirectory() as folder:
        store = Path(folder) / "store"
        made = source(store, "once")
        seconds = {**kernels(made), "generate": generations(store, made)}
    ratios = {name: round(each["numpy"] / each["loops"], 2) for name, each in seconds.items()}
    result = {
        "command": "python bench/loops.py",
        "graphs": GRAPHS,
        "times_numpy": ratios,
        "seconds": {
            name: {how: round(value, 5) for how, value in each.items()}
            for name, each in seconds.items()
        },
    }
    RESULT.write_text(json.dumps(result, indent=2) + "\n")
    print(json.dumps(result))
    missed = [name for name, bar in BARS.items() if ratios[name] < bar]
    if missed:
        raise SystemExit(f"loops gain less than they should: {', '.join(missed)}")


def kernels(made: dict) -> dict[str, dict[str, float]]:
    info = Corpus(made["prepare"]).info
    config = parse_config("generate", {"featx": True, "options": "000", "count": GRAPHS}, "bench")
    given = {"corpus": made["prepare"], "mask": made["mask"]}
    extrapolation = plan_extrapolation(
        config,
        given,
        with_environment(info, towards=False),
        np.zeros(0, dtype=np.uint64),
        spliced=(),
        before=0,
        first_id=0,
    )
    train, rules = extrapolation.train, extrapolation.mover.rules
    order = rng(0, "bench").permutation(len(train))
    large, small = (np.array_split(order, len(order) // size) for size in (BLOCK_GRAPHS, 256))
    blocks = [
        extrapolation.bases(start, min(start + BLOCK_GRAPHS, GRAPHS))
        for start in range(0, GRAPHS, BLOCK_GRAPHS)
    ]

    def move() -> None:
        for block in blocks:
            own = block.dense("node", "node_feat")
            partner = np.arange(len(block))
            rules.move_runs(own, own, partner, rules.strengths(len(block), rng(0)), block.node_ptr)

    works = {
        "gather_4096": lambda: [train.take(rows) for rows in large],
        "gather_256": lambda: [train.take(rows) for rows in small],
        "hash": lambda: [wl.wl_hashes(block) for block in blocks],
        "move": move,
    }

    def twin(work):
        def by_numpy():
            with numpy_alone():
                return work()

        return by_numpy

    both = {(name, "loops"): work for name, work in works.items()}
    times = alternately({**both, **{(name, "numpy"): twin(work) for name, work in works.items()}})
    return {name: {how: times[name, how] for how in ("loops", "numpy")} for name in works}


def generations(store: Path, made: dict) -> dict[str, float]:
    times: dict[str, list[float]] = {"loops": [], "numpy": []}
    for repeat in range(2 * REPEATS):
        how = ("loops", "numpy")[repeat % 2]
        with numpy_alone() if how == "numpy" else ExitStack():
            seconds, _ = generate(store, made, augmented_only=True, count=GRAPHS, seed=repeat)
        times[how].append(seconds)
    return {how: statistics.median(each) for how, each in times.items()}


if __name__ == "__main__":
    main()
