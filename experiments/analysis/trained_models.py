"""Predictions of the models named in result files, read from the store (``GSX_STORE``)."""

from __future__ import annotations

import json
from collections.abc import Iterator, Sequence
from typing import Any

import torch

from experiments.suite import RESULTS
from gsx.ragged import Array
from gsx.stages.train.evaluate import load_model
from gsx.stages.train.evaluator import evaluation_batches, predict_logits
from gsx.storage.artifacts.store import Store
from gsx.storage.corpora.corpus import Corpus
from gsx.table import GraphTable

CPU = torch.device("cpu")


def result_files(datasets: Sequence[str]) -> Iterator[tuple[str, dict[str, Any]]]:
    """Yield name (``dataset/method-seed``) and content of the result files of datasets."""
    for dataset in datasets:
        for path in sorted((RESULTS / dataset).glob("*.json")):
            yield f"{dataset}/{path.stem}", json.loads(path.read_text(encoding="utf-8"))


def corpus_of(store: Store, result: dict[str, Any]) -> Corpus:
    """Open the corpus a result was trained on."""
    return Corpus(store.resolve(result["corpus_key"]))


def predict(store: Store, result: dict[str, Any], table: GraphTable) -> Array:
    """Return the logits ``[graphs, outputs]`` of a result's model at the selected epoch."""
    description, network = load_model(
        store.resolve(result["model_key"]), "weights.safetensors", CPU
    )
    batches = list(evaluation_batches(table, description.shape, CPU))
    return predict_logits(network, batches)  # type: ignore[arg-type] # graph labels only
