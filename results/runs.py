"""Which runs of a results script are missing, by what was typed."""

from __future__ import annotations

import argparse
import sys
from collections.abc import Callable, Iterable, Iterator
from pathlib import Path

FOLDER = Path(__file__).parent
SEEDS = (0, 1, 2)


def missing(
    datasets: list[str], methods: Callable[[str], Iterable[str]], folder: Path = FOLDER
) -> Iterator[tuple[str, str, int]]:
    """Yield dataset, method and seed of every run without a file; methods in their order.

    Reads the command line: datasets, ``--methods a,b`` and ``--part 0/2``.
    """
    parser = argparse.ArgumentParser(description=sys.modules["__main__"].__doc__)
    parser.add_argument("datasets", nargs="*", default=datasets)
    parser.add_argument("--methods", default="")
    parser.add_argument("--part", default="0/1")
    given = parser.parse_args()
    part, parts = map(int, given.part.split("/"))
    wanted = set(filter(None, given.methods.split(",")))
    names = {dataset: list(methods(dataset)) for dataset in given.datasets}
    runs = [
        (dataset, names[dataset][place], seed)
        for place in range(max(map(len, names.values())))
        for seed in SEEDS
        for dataset in given.datasets
        if place < len(names[dataset]) and (not wanted or names[dataset][place] in wanted)
    ]
    for dataset, name, seed in runs[part::parts]:
        if not (folder / dataset / f"{name}-{seed}.json").exists():
            yield dataset, name, seed
