"""Publish Motif's true causal subgraphs as an extractor artifact.

``python -m experiments.ground_truth_extractor KEY --json`` prints the key of the artifact. The
comparison with learned subgraphs shows the cost of the extractor. Nothing else reads the truth.
"""

from __future__ import annotations

import json
import sys
from pathlib import Path

import numpy as np
from safetensors.numpy import save_file

from gsx.storage.artifacts.draft import Draft
from gsx.storage.artifacts.manifest import Parent
from gsx.storage.artifacts.publish import Identity, StageResult, build_artifact
from gsx.storage.artifacts.store import Store
from gsx.storage.corpora.corpus import Corpus


def publish_ground_truth(store: Store, key: str) -> str:
    """Publish the causal subgraphs in ``node_truth`` of a Motif corpus; return the new key."""
    corpus = Corpus(store.resolve(key, kind="corpus"))
    manifest = corpus.artifact.manifest

    def produce(draft: Draft) -> StageResult:
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

        draft.write("subgraphs.safetensors", save)
        return StageResult(
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
    return build_artifact(store, identity, produce).artifact.key


if __name__ == "__main__":
    print(json.dumps({"key": publish_ground_truth(Store.at(None), sys.argv[1])}))
