"""Train classifiers without and with moved features: ``python results/featx.py [DATASET …]``.

Writes ``results/<dataset>/<method>-<seed>.json``, one file per run, and skips what is there: stop
it at any time, start it again, or twice (``--part 0/2`` and ``--part 1/2``) to use two cores.
Corpora, masks and models are found again in the store by their keys. ``--methods a,b`` runs some
only. What a mask chose goes into ``results/mask/<dataset>-0.json``.

Raw files are looked for in ``GSX_RAW_DATA``; cbas-color and fsmotif need none.
"""

from __future__ import annotations

from dataclasses import dataclass

import measured
from measured import gsx, measure
from runs import FOLDER, missing

COLORS = ("--domain", "0..1")
"""Red, green, blue and opacity lie in [0, 1], whatever training shows."""
ANYWHERE = ("--featx-rounds", "3")
"""One partner leads along a line between two colors; three reach the whole cube of colors."""
RANKED = ("--featx-partner", "ranked", "--featx-ends", "mirror", "--featx-rounds", "3",
          "--featx-scale", "0.25")  # fmt: skip
"""Ours: brightness, which is in every color of a digit, stays in order."""
DEEPER = ("--average", "0.999", "--layers", "4")
"""The first layer sums raw colors, so only the others can count neighbors whatever the color."""


@dataclass(frozen=True)
class Dataset:
    """How a dataset is prepared and trained on; all methods of it are trained alike."""

    train: tuple[str, ...]
    prepare: tuple[str, ...] = ()
    domain: tuple[str, ...] = ()
    """Options of ``gsx pretrain mask``."""
    move: tuple[str, ...] = ()
    """Options of ``gsx generate --featx``."""
    graphs: int = 0
    """Training graphs an epoch of ERM goes over; 0 where nodes have labels: there an epoch has as
    many steps whatever is learned from."""
    epochs: int = 0
    """Epochs of ERM; others make as many steps."""
    splice: tuple[str, ...] = ()
    """Options of ``gsx generate`` that splice, where structure shifts too."""
    bridge: tuple[str, ...] = ()
    """Options of ``gsx pretrain bridge``."""
    spliced: int = 0
    """Graphs they make; FeatX moves as many of the source, and each of them."""
    ratio: int = 0
    """Moved graphs per source graph, which then are learned from alone, as in the paper; 0 for one
    each, beside the source."""
    extended: tuple[str, ...] = ()
    """Options of ``featx-x``, the extension, where it is tried."""


DATASETS = {
    "cbas-color": Dataset(
        ("--preset", "paper", "--epochs", "200", "--learning-rate", "3e-3", "--batch-size", "1000"),
        domain=COLORS,
        move=("--replicas", "16", *ANYWHERE),
    ),
    "webkb-university": Dataset(
        ("--preset", "paper", "--batch-size", "4096"), move=("--replicas", "16")
    ),
    "webkb-aligned": Dataset(
        ("--preset", "paper", "--batch-size", "4096"), move=("--replicas", "16")
    ),
    "twitch-language": Dataset(
        ("--batch-size", "2048", "--epochs", "30"), move=("--replicas", "4")
    ),
    "coauthor-cs-word": Dataset(
        ("--batch-size", "2048", "--epochs", "30"), move=("--replicas", "4")
    ),
    "cmnist-color": Dataset(
        ("--backbone", "gin", "--average", "0.999", "--layers", "4"),
        domain=COLORS,
        graphs=42_000,
        epochs=16,
        ratio=2,
        extended=RANKED,
    ),
    "fsmotif-size-color": Dataset(
        (*DEEPER, "--batch-size", "256", "--learning-rate", "2e-2"),
        domain=COLORS,
        move=ANYWHERE,
        graphs=1800,
        epochs=2320,
        splice=("--options", "010", "--f", "1", "--ratio", "20", "--grow", "2", "--chords", "0.05",
                "--ports", "own"),
        bridge=("--epochs", "100"),
        spliced=36_000,
    ),
    "fsmotif-base-color": Dataset(
        DEEPER,
        domain=COLORS,
        move=ANYWHERE,
        graphs=1800,
        epochs=160,
        splice=("--options", "010", "--f", "1", "--ratio", "2", "--grow", "1", "--fragments", "3",
                "--ports", "own"),
        spliced=3600,
    ),
}  # fmt: skip
"""Those of nodes are trained as the ERM runs that were there before."""
ABLATIONS = {
    "featx": (),
    "featx-all": ("--featx-features", "all"),
    "featx-interpolate": ("--featx-direction", "interpolate"),
    "featx-all-interpolate": ("--featx-features", "all", "--featx-direction", "interpolate"),
}


def methods(name: str) -> dict[str, tuple[tuple[str, ...], int]]:
    """Return, per method, the options of ``gsx generate`` and the graphs of an epoch."""
    dataset = DATASETS[name]
    plain = dataset.graphs
    found: dict[str, tuple[tuple[str, ...], int]] = {"erm": ((), plain)}
    if dataset.splice:
        spliced = plain + dataset.spliced
        both = spliced + 2 * dataset.spliced
        found["g-splice-x+featx"] = (("--featx", *dataset.move, *dataset.splice), both)
        found["featx"] = (("--featx", *dataset.move), 2 * plain)
        found["g-splice-x"] = (dataset.splice, spliced)
        return found
    ways = dict(ABLATIONS)
    if dataset.extended:
        ways["featx-x"] = dataset.extended
    more = ("--ratio", str(dataset.ratio)) if dataset.ratio else ()
    graphs = plain * (dataset.ratio or 2)
    for method, options in ways.items():
        found[method] = (("--featx", *dataset.move, *more, *options), graphs)
    return found


def main() -> None:
    """Run every method on every dataset with every seed."""
    for dataset, method, seed in missing(list(DATASETS), methods):
        run(dataset, method, seed)


def run(name: str, method: str, seed: int) -> None:
    """Make the corpus of a method and train on it."""
    dataset = DATASETS[name]
    options, graphs = methods(name)[method]
    corpus = gsx("prepare", name, *dataset.prepare)["key"]
    if options:
        needed = []
        if "--featx" in options:
            path = FOLDER / "mask" / f"{name}-0.json"
            mask = measure(path, name, "mask", list(dataset.domain), list(dataset.prepare))
            needed += ["--mask", mask["key"]]
        if "--options" in options:
            needed += ["--extractor", gsx("pretrain", "extract", corpus)["key"]]
            needed += ["--bridge", gsx("pretrain", "bridge", corpus, *dataset.bridge)["key"]]
        corpus = gsx("generate", corpus, *options, *needed, "--seed", str(seed))["key"]
    words = list(dataset.train)
    if options and dataset.ratio:
        words += ["--origin", "featx"]
    if graphs:
        words += ["--epochs", str(max(round(dataset.epochs * dataset.graphs / graphs), 1))]
    words += ["--method", method, "--results", FOLDER.name, "--seed", str(seed)]
    print(name, method, seed, flush=True)
    measured.run("train", corpus[:12], *words)


if __name__ == "__main__":
    main()
