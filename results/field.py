"""Run every method the paper compares with: ``python results/field.py [DATASET …]``.

Writes ``results/field/<dataset>/<method>-<seed>.json``, one file per run, and skips what is there:
stop it at any time, start it again, or twice (``--part 0/2`` and ``--part 1/2``). ``--methods a,b``
runs some only. All methods of a dataset have the same network and make as many steps; what a paper
tunes has one value here, that of ``gsx``'s defaults, except where a line below says otherwise.

Raw files are found through ``GSX_RAW_DATA``; motif and cbas-color need none.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass

import measured
from measured import gsx
from runs import FOLDER, missing

PLACE = FOLDER / "field"
GRAPH_LEARNERS = (
    *("erm", "irm", "vrex", "groupdro", "coral", "dann", "flag", "mixup", "lisa"),
    *("dir", "gil", "ciga", "lisa-subgraph"),
)
NODE_LEARNERS = (
    *("erm", "irm", "vrex", "groupdro", "coral", "dann", "flag", "mixup", "lisa"),
    *("eerm", "srgnn"),
)
AUGMENTERS = ("drop-node", "drop-edge", "mask-feature", "g-mixup")
SMALL = ("--num-graphs", "3000")


@dataclass(frozen=True)
class Task:
    """A dataset, how all methods are trained on it, and what ours make."""

    train: tuple[str, ...]
    graphs: int
    """Training graphs; 0 where nodes have labels: there an epoch has as many steps anyway."""
    epochs: int
    """Epochs of methods that learn from the source alone."""
    prepare: tuple[str, ...] = ()
    paper: tuple[str, ...] = ()
    """Options of ``gsx generate`` that follow the paper."""
    ours: tuple[str, ...] = ()
    """Those of the extension."""
    domain: tuple[str, ...] = ()
    """Options of ``gsx pretrain mask``."""
    replicas: int = 4
    moves: bool = False
    """Whether graphs have features that FeatX can move; those of Motif are all alike."""


@dataclass(frozen=True)
class Method:
    """What is done before training, and the words of ``gsx train``."""

    augment: tuple[str, ...] = ()
    generate: tuple[str, ...] = ()
    share: float = 0.0
    """New graphs per training graph."""
    train: tuple[str, ...] = ()


MOTIF = ("--average", "0.999")
VIRTUAL = ("--backbone", "vgin", "--dropout", "0.3", "--average", "0.99")
WHOLE = ("--options", "001", "--f", "2..4", "--ratio", "1")
GROWN = ("--options", "010", "--f", "1", "--ports", "own", "--ratio", "2")
TASKS: Mapping[str, Task] = {
    "motif-size": Task(
        MOTIF, 1800, 40, SMALL, WHOLE, (*GROWN, "--grow", "2", "--chords", "0.05")
    ),
    "motif-base": Task(
        MOTIF, 1800, 40, SMALL, WHOLE, (*GROWN, "--grow", "1", "--fragments", "3")
    ),
    "nci1-size": Task(
        VIRTUAL, 1942, 12, (), WHOLE,
        ("--options", "001", "--f", "2..3", "--ratio", "1", "--labels", "any"), moves=True,
    ),
    "dd-size": Task(
        VIRTUAL, 533, 10, (), WHOLE,
        ("--options", "001", "--f", "2..4", "--ratio", "1", "--partners", "same-class",
         "--balanced"), moves=True,
    ),
    "cbas-color": Task(
        ("--width", "128", "--learning-rate", "3e-3", "--batch-size", "1000"), 0, 100,
        domain=("--domain", "0..1"), replicas=16,
    ),
    "webkb-university": Task(("--width", "128", "--batch-size", "1000"), 0, 60, replicas=16),
}  # fmt: skip


def methods(dataset: str) -> dict[str, Method]:
    """Return all methods that apply to a dataset."""
    task = TASKS[dataset]
    learners = GRAPH_LEARNERS if task.graphs else NODE_LEARNERS
    found = {name: Method(train=("--learner", name)) for name in learners}
    if not task.graphs:
        repeated = ("--replicas", str(task.replicas))
        found["mask-feature"] = Method(("mask-feature", *repeated))
        found["featx"] = Method((), ("--featx", "--featx-rounds", "3", *repeated))
        found["drop-edge"] = Method(("drop-edge", *repeated))
        return found
    for name in AUGMENTERS:
        found[name] = Method((name,), share=0.2 if name == "g-mixup" else 1.0)
    found["g-splice"] = Method((), task.paper, 1.0)
    found["g-splice+r"] = Method((), task.paper, 1.0, ("--learner", "vrex"))
    found["g-splice-x"] = Method((), task.ours, float(task.ours[task.ours.index("--ratio") + 1]))
    if task.moves:
        found["featx"] = Method((), ("--featx",), 1.0)
        found["g-splice+featx"] = Method((), (*task.paper, "--featx"), 3.0)
    return found


def main() -> None:
    """Run every method on every dataset with every seed."""
    for dataset, method, seed in missing(list(TASKS), methods, PLACE):
        run(dataset, method, seed)


def run(name: str, method: str, seed: int) -> None:
    """Make the corpus of a method and train on it."""
    task, how = TASKS[name], methods(name)[method]
    corpus = gsx("prepare", name, *task.prepare)["key"]
    seeded = ("--seed", str(seed))
    if how.augment:
        corpus = gsx("augment", corpus, *how.augment, *seeded)["key"]
    if how.generate:
        corpus = gsx("generate", corpus, *how.generate, *_needed(corpus, task, how), *seeded)["key"]
    epochs = max(round(task.epochs / (1 + how.share)), 1)
    words = (*task.train, *how.train, "--epochs", str(epochs), "--method", method, *seeded)
    print(name, method, seed, flush=True)
    where = ("--results", str(PLACE.relative_to(FOLDER.parent)))
    measured.run("train", corpus[:12], *words, *where)


def _needed(corpus: str, task: Task, how: Method) -> list[str]:
    """Return the words that name what a corpus is made with."""
    words = []
    if "--featx" in how.generate:
        words += ["--mask", gsx("pretrain", "mask", corpus, *task.domain)["key"]]
    if "--options" in how.generate:
        words += ["--bridge", gsx("pretrain", "bridge", corpus)["key"]]
        if how.generate[1] != "001":
            words += ["--extractor", gsx("pretrain", "extract", corpus)["key"]]
    return words


if __name__ == "__main__":
    main()
