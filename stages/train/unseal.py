"""Score the sealed predictions of all runs of a comparison at once."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np

from gsx.errors import ArtifactError, UsageError
from gsx.stages.train.data import TEST
from gsx.stages.train.metrics import score
from gsx.stages.train.predictions import PREDICTIONS, read_labels, require_finite
from gsx.stages.train.result_documents import MODEL_KEYS, require_fields
from gsx.stages.train.results_table import result_files, result_json
from gsx.storage.artifacts.atomic_files import atomic_write
from gsx.storage.artifacts.digest import canonical_json, sha256_bytes
from gsx.storage.artifacts.store import Artifact
from gsx.storage.corpora.artifact_files import read_arrays
from gsx.storage.corpora.corpus import Corpus


def unseal_results(
    folder: Path, resolve: Callable[[str, str], Artifact], time: str
) -> list[tuple[Path, dict[str, Any]]]:
    """Score all sealed runs of a folder, write the scores into their result files, return both.

    ``resolve`` returns the artifact of a key and a kind. All predictions are scored before the
    first file is written. A folder is unsealed once: runs after test scores are known are not
    blind.
    """
    files, _ = result_files(folder)
    opened = [document for _, document in files if "unsealed" in document]
    sealed = [(path, document) for path, document in files if document.get("sealed")]
    if not sealed:
        raise UsageError(
            f"{folder} has no sealed results. Write some with `gsx train … --seal --results "
            f"{folder} --method NAME`."
        )
    if opened:
        raise UsageError(
            f"{folder} has {len(opened)} results that were unsealed at "
            f"{opened[0]['unsealed']['time']}, and {len(sealed)} sealed ones. Put runs that "
            "follow known test scores into another folder."
        )
    for path, document in sealed:
        require_fields(path, document, *MODEL_KEYS, "scores")
        if path.is_symlink() or (path.parent != folder and path.parent.is_symlink()):
            raise UsageError(
                f"{path} is behind a symbolic link, so it may belong to another comparison. "
                "Nothing was unsealed. Replace the link by the files."
            )
    scores = [
        test_scores(
            resolve(document["model_key"], "model"), resolve(document["corpus_key"], "corpus")
        )
        for _, document in sealed
    ]
    keys = sorted(document["model_key"] for _, document in sealed)
    record = {"time": time, "runs": len(sealed), "models": sha256_bytes(canonical_json(keys))}
    written = []
    for (path, document), values in zip(sealed, scores, strict=True):
        rule = document["selection"]
        rules = {**document["scores"], rule: {**document["scores"].get(rule, {}), **values}}
        document = {name: value for name, value in document.items() if name != "sealed"}
        document |= {**values, "scores": rules, "unsealed": record}
        atomic_write(path, result_json(document))
        written.append((path, document))
    return written


def test_scores(model: Artifact, corpus_artifact: Artifact) -> dict[str, float | None]:
    """Return the scores of the sealed predictions of a model on the test splits of its corpus."""
    if PREDICTIONS not in model.manifest.files:
        raise ArtifactError(
            f"{model.location.url} has no file `{PREDICTIONS}`. Train it with `gsx train --seal`."
        )
    if [parent.key for parent in model.manifest.parents] != [corpus_artifact.key]:
        raise ArtifactError(
            f"{model.location.url} was not trained on corpus {corpus_artifact.key[:12]}. Get the "
            "corpus that its manifest names."
        )
    corpus = Corpus(corpus_artifact)
    scores: dict[str, float | None] = {}
    for split, logits in read_arrays(model.location, PREDICTIONS).items():
        y = read_labels(corpus, split) if split in TEST else np.zeros((0, 0))
        if y.shape != logits.shape:
            raise ArtifactError(
                f"{model.location.url}/{PREDICTIONS}: `{split}` has the shape {logits.shape}, its "
                f"labels {y.shape}. Train the model again with `--force`."
            )
        values = require_finite(logits)
        scores[split] = score(corpus.info.metric, corpus.info.task, values, y)
    return scores
