"""Run ``augment`` and read the graphs that it added."""

from gsx.schema import ORIGINS
from gsx.storage.corpora.corpus import Corpus
from tests.support.run_stages import run_stage

ORIGIN = {"drop-node": "dropnode", "drop-edge": "dropedge", "mask-feature": "maskfeature",
          "g-mixup": "g_mixup"}  # fmt: skip


def augment(built, method, folder=None, **options):
    """Augment the corpus ``built["prepare"]`` in the store ``built["folder"]`` or ``folder``."""
    inputs = {"prepare": built["prepare"]}
    return run_stage(folder or built["folder"], "augment", {"method": method, **options}, inputs)


def augmented_graphs(artifact, method):
    """Return the training graphs that a method added to a corpus."""
    table = Corpus(artifact).table(split="train")
    return table.filter(table.dense("graph", "origin") == ORIGINS.index(ORIGIN[method]))
