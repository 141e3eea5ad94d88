"""Pieces by the truth: an extractor artifact that Motif's ``node_truth`` fills.

For comparison alone: it shows what learned pieces cost. Nothing else may read the truth.
"""

from __future__ import annotations

from pathlib import Path

import numpy as np
from safetensors.numpy import save_file

from gsx.storage.corpus import Corpus
from gsx.storage.draft import Draft
from gsx.storage.manifest import Parent
from gsx.storage.publish import Identity, Outcome, build
from gsx.storage.store import Store


def true_pieces(key: str) -> str:
    """Publish the true pieces of a Motif corpus beside learned ones and return their key."""
    store = Store.at(None)
    corpus = Corpus(store.resolve(key, kind="corpus"))
    manifest = corpus.artifact.manifest

    def produce(draft: Draft) -> Outcome:
        train = corpus.table(split="train", columns=["graph_id", "node_truth"])
        causal = train.dense("node", "node_truth").astype(np.uint8)
        arrays = {
            "graph_id": train.dense("graph", "graph_id"),
            "node_ptr": train.node_ptr,
            "causal": causal,
            "environmental": 1 - causal,
        }

        def save(path: Path) -> None:
            save_file(arrays, path)

        draft.write("pieces.safetensors", save)
        return Outcome(
            counts={"graphs": len(train)}, summary={"name": f"{corpus.info.name}, true pieces"}
        )

    identity = Identity(
        kind="extractor",
        stage="oracle",
        stage_version=1,
        config={"pieces": "node_truth"},
        parents=(
            Parent(role="corpus", kind=manifest.kind, key=manifest.key, digest=manifest.digest),
        ),
    )
    return build(store, identity, produce).artifact.key
