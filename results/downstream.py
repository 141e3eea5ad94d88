"""Train classifiers without and with spliced corpora: ``python results/downstream.py [DATASET …]``.

Writes ``results/<dataset>/<method>-<seed>.json``, one file per run, and skips what is there: stop
it at any time, start it again, or twice (``--part 0/2`` and ``--part 1/2``) to use two cores.
Corpora and models are found again in the store by their keys. ``--methods a,b`` runs some only.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass

import measured
from measured import gsx
from oracle import true_pieces
from runs import FOLDER, missing


@dataclass(frozen=True)
class Method:
    """How graphs are made, and how a classifier learns from them."""

    generate: tuple[str, ...] = ()
    """Options of ``gsx generate``; none trains on the source graphs alone."""
    train: tuple[str, ...] = ()
    prepare: tuple[str, ...] = ()
    """Options of ``gsx prepare``."""
    oracle: bool = False
    """Whether causal pieces are the true ones, which shows what the extractor costs."""
    average: str = "0.999"
    """How slowly the mean of the weights that is scored follows them."""


Methods = Callable[[str], dict[str, Method]]
"""All methods of a dataset by name."""


def paper(code: str, *more: str) -> tuple[str, ...]:
    """Return options as in the paper: f up to 4, coefficients 0 and 1."""
    return ("--options", code, "--f", "2..4", "--ratio", "1", *more)


GAMMA = "1"
"""Weight of VREx. GOOD has 1 for motif-size and 100 for motif-base, with 200 epochs at 1e-3; here
100 keeps the network from learning anything (``results/motif-base/vrex-100-*.json``)."""
BEST = {"motif-size": "001", "motif-base": "011"}
"""Options the paper found best for these datasets."""
GROWN = {
    "motif-size": ("--ratio", "3", "--grow", "2", "--chords", "0.05"),
    "motif-base": ("--ratio", "1", "--grow", "1", "--fragments", "3"),
}
"""Our extension: surroundings that grow beyond training sizes, or within them from fragments."""
LONG = {
    "motif-size": {18_000: "160", 72_000: "40"},
    "motif-base": {18_000: "40", 36_000: "20"},
}
"""Epochs that make as many steps as those of the extension, by training graphs."""
BATCH = {"motif-size": ("--batch-size", "256"), "motif-base": ()}


def methods(dataset: str) -> dict[str, Method]:
    """Return all methods by name; what matters most comes first."""
    vrex = ("--learner", "vrex", "--penalty", GAMMA)
    best = BEST[dataset]
    grown = ("--options", "010", "--f", "1", *GROWN[dataset], "--ports", "own")

    def long(graphs: int) -> tuple[str, ...]:
        return ("--epochs", LONG[dataset][graphs], *BATCH[dataset])

    size = dataset == "motif-size"
    return {
        "erm": Method(),
        "g-splice-x": Method(grown, long(72_000 if size else 36_000)),
        "g-splice": Method(paper(best)),
        "vrex": Method((), vrex),
        "g-splice+r": Method(paper(best), vrex),
        "g-splice-x-true-pieces": Method(grown, long(72_000 if size else 36_000), oracle=True),
        "erm-long": Method((), long(18_000)),
        "g-splice-random": Method(paper(best, "--bridges", "random")),
        "g-splice-1": Method(paper("100")),
        "g-splice-2": Method(paper("010")),
        "g-splice-3": Method(paper("001")),
        "g-splice-123": Method(paper("111")),
    }


def main(datasets: list[str], methods: Methods) -> None:
    """Run every method on every dataset with every seed."""
    for dataset, name, seed in missing(datasets, methods):
        run(dataset, name, methods(dataset)[name], seed)


def run(dataset: str, name: str, method: Method, seed: int) -> None:
    """Make the corpus of a method and train on it."""
    corpus = gsx("prepare", dataset, *method.prepare)["key"]
    if method.generate:
        pieces = true_pieces(corpus) if method.oracle else gsx("pretrain", "extract", corpus)["key"]
        needed = ["--bridge", gsx("pretrain", "bridge", corpus)["key"]]
        if method.generate[1] != "001":
            needed += ["--extractor", pieces]
        if method.generate[1] == "100":
            needed = needed[2:]
        made = gsx("generate", corpus, *method.generate, *needed, "--seed", str(seed))
        corpus = made["key"]
    told = ["--method", name, "--results", FOLDER.name, "--seed", str(seed)]
    told += ["--average", method.average]
    print(dataset, name, seed, flush=True)
    measured.run("train", corpus[:12], *method.train, *told)


if __name__ == "__main__":
    main(list(BEST), methods)
