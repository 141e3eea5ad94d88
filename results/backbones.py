"""Ask what scores on nci1-size owe to the network: ``python results/backbones.py``.

The field is compared with a virtual node there. These are the same methods at the same cost with
plain GIN, which takes the mean over nodes: ``results/controls/gin/nci1-size``, one file per run;
what is there is skipped.
"""

from __future__ import annotations

import measured
from field import TASKS, methods
from measured import gsx
from runs import FOLDER, missing

PLACE = FOLDER / "controls" / "gin"
DATASET = "nci1-size"
METHODS = ("erm", "irm", "vrex", "groupdro", "mixup", "drop-edge", "mask-feature")
PLAIN = ("--backbone", "gin", "--dropout", "0.3", "--average", "0.99")


def main() -> None:
    """Run every method with every seed."""
    task = TASKS[DATASET]
    for name, method, seed in missing([DATASET], lambda _: METHODS, PLACE):
        how, seeded = methods(name)[method], ("--seed", str(seed))
        corpus = gsx("prepare", name)["key"]
        if how.augment:
            corpus = gsx("augment", corpus, *how.augment, *seeded)["key"]
        epochs = max(round(task.epochs / (1 + how.share)), 1)
        words = (*PLAIN, *how.train, "--epochs", str(epochs), "--method", method, *seeded)
        where = ("--results", str(PLACE.relative_to(FOLDER.parent)))
        print(name, method, seed, flush=True)
        measured.run("train", corpus[:12], *words, *where)


if __name__ == "__main__":
    main()
