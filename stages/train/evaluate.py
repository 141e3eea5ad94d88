"""Evaluate trained models on a corpus: per split, per environment and per graph size."""

from __future__ import annotations

import statistics
from collections.abc import Callable, Mapping, Sequence
from typing import Any

import msgspec
import numpy as np
import torch

from gsx.errors import ArtifactError, StageError
from gsx.ragged import Array
from gsx.schema import SPLITS, CorpusInfo
from gsx.stages.nn.batches import BackboneShape
from gsx.stages.nn.build_network import Network, load_network
from gsx.stages.nn.gcn import GCN
from gsx.stages.train.classical import (
    ClassicalDescription,
    ClassicalModel,
    check_classical_fits,
    restore_classical,
)
from gsx.stages.train.confidence_intervals import bootstrap_interval, t_interval
from gsx.stages.train.config import CLASSICAL
from gsx.stages.train.data import check_corpus, graph_backbone_shape, read_split
from gsx.stages.train.metrics import DIGITS, score, undefined_reason
from gsx.stages.train.node_data import (
    NodeGraphs,
    node_backbone_shape,
    read_node_graphs,
)
from gsx.stages.train.predictions import all_node_logits, graph_predictor, require_finite
from gsx.storage.artifacts.store import Artifact
from gsx.storage.corpora.artifact_files import read_arrays, read_json
from gsx.storage.corpora.corpus import Corpus
from gsx.storage.corpora.summary import TrainingOptions, read_options
from gsx.table import GraphTable

SIZE_RANGES = 4
"""Number of size ranges per split, with about equally many graphs each."""


class Description(msgspec.Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """Content of ``model.json``."""

    task: str
    shape: BackboneShape


def load_model(model: Artifact, weights: str, device: torch.device) -> tuple[Description, Network]:
    """Return the network of an artifact with the weights of one of its files."""
    if is_classical(model):
        raise StageError(
            f"{model.location.url} is a linear model, but a network is needed. Train one with "
            "`gsx train --backbone gin`."
        )
    arrays = _read_weights(model, weights)
    description = read_json(model.location, "model.json", Description)
    return description, load_network(description.shape, arrays, model.location.url).to(device)


def is_classical(model: Artifact) -> bool:
    """Return whether an artifact is a linear model of fixed features."""
    return read_options(model.manifest, TrainingOptions)["backbone"] in CLASSICAL


def load_classical(model: Artifact, weights: str) -> ClassicalModel:
    """Return the linear model of an artifact."""
    arrays = _read_weights(model, weights)
    description = read_json(model.location, "model.json", ClassicalDescription)
    return restore_classical(description, arrays, model.location.url)


def _read_weights(model: Artifact, weights: str) -> dict[str, Array]:
    if weights not in model.manifest.files:
        available = [name for name in model.manifest.files if name.endswith(".safetensors")]
        raise ArtifactError(
            f"{model.location.url} has no file `{weights}`. Its weight files are: "
            f"{', '.join(available)}."
        )
    return read_arrays(model.location, weights)


def evaluate(model: Artifact, corpus: Corpus, weights: str, device: torch.device) -> dict[str, Any]:
    """Return the scores of a model on all splits of a corpus.

    Splits on which the metric is undefined have a reason instead of a score.
    """
    info = corpus.info
    if is_classical(model):
        return _require_score(info, _evaluate_classical(load_classical(model, weights), corpus))
    description, network = load_model(model, weights, device)
    check_corpus(info, description.shape.backbone)
    check_model_fits(description, corpus)
    if isinstance(network, GCN):
        return _require_score(info, evaluate_nodes(network, corpus, device))
    return _require_score(info, _evaluate_graphs(graph_predictor(network, device), corpus))


def _evaluate_classical(model: ClassicalModel, corpus: Corpus) -> dict[str, Any]:
    check_corpus(corpus.info, model.shape.kind)
    check_classical_fits(model, corpus)
    if corpus.info.level == "node":
        logits = all_node_logits(model, corpus, torch.device("cpu"))
        return _score_nodes(logits, read_node_graphs(corpus), corpus.info)
    extra = ("smiles",) if model.shape.kind == "morgan" else ()
    return _evaluate_graphs(model.predict, corpus, extra)


def _evaluate_graphs(
    predict: Callable[[GraphTable], Array], corpus: Corpus, extra_columns: Sequence[str] = ()
) -> dict[str, Any]:
    info = corpus.info
    names = {environment.id: environment.name for environment in info.environments}
    splits, environments, sizes = {}, [], []
    for split in sorted(corpus.splits, key=SPLITS.index):
        table = read_split(corpus, split, extra_columns)
        y = table.dense("graph", "y")
        logits = require_finite(predict(table))

        def subset_score(selected: Array, logits: Array = logits, y: Array = y) -> dict[str, Any]:
            value = score(info.metric, info.task, logits[selected], y[selected])
            return {"graphs": int(selected.sum()), "score": value}

        splits[split] = subset_score(np.ones(len(table), dtype=bool)) | {
            "interval": bootstrap_interval(info.metric, info.task, logits, y, split),
            "undefined": undefined_reason(info.metric, info.task, y),
        }
        env = table.dense("graph", "env_id")
        environments += [
            {"split": split, "env_id": int(id_), "name": names.get(int(id_), "unknown")}
            | subset_score(env == id_)
            for id_ in np.unique(env)
        ]
        sizes += [
            {"split": split, "min_nodes": low, "max_nodes": high}
            | subset_score((table.num_nodes >= low) & (table.num_nodes <= high))
            for low, high in size_ranges(table)
        ]
    return {
        "metric": info.metric,
        "splits": splits,
        "environments": environments,
        "sizes": sizes,
    }


def evaluate_nodes(network: GCN, corpus: Corpus, device: torch.device) -> dict[str, Any]:
    """Return the scores of a node-level model on the source graphs of a corpus.

    One forward pass covers the whole graph. There are no size ranges.
    """
    logits = all_node_logits(network, corpus, device)
    return _score_nodes(logits, read_node_graphs(corpus), corpus.info)


def _score_nodes(logits: Array, graphs: NodeGraphs, info: CorpusInfo) -> dict[str, Any]:
    """Return the scores of the logits ``[N, C]`` of all source nodes."""
    names = {environment.id: environment.name for environment in info.environments}
    splits, environments = {}, []
    require_finite(logits)
    for code, split in enumerate(SPLITS[:-1]):
        inside = graphs.split == code
        if not inside.any():
            continue
        y = graphs.y[inside]
        splits[split] = {
            "nodes": int(inside.sum()),
            "score": score(info.metric, info.task, logits[inside], y),
            "interval": bootstrap_interval(info.metric, info.task, logits[inside], y, split),
            "undefined": undefined_reason(info.metric, info.task, y),
        }
        for id_ in np.unique(graphs.env[inside]).tolist():
            selected = inside & (graphs.env == id_)
            environments.append(
                {
                    "split": split,
                    "env_id": id_,
                    "name": names.get(id_, "unknown"),
                    "nodes": int(selected.sum()),
                    "score": score(info.metric, info.task, logits[selected], graphs.y[selected]),
                }
            )
    return {"metric": info.metric, "splits": splits, "environments": environments, "sizes": []}


def _require_score(info: CorpusInfo, scores: dict[str, Any]) -> dict[str, Any]:
    """Raise a ``StageError`` if the metric is undefined on every split."""
    splits = scores["splits"]
    if all(row["undefined"] for row in splits.values()):
        reasons = "; ".join(f"`{split}`: {row['undefined']}" for split, row in splits.items())
        raise StageError(
            f"{info.metric} is undefined on every split of {info.name} ({reasons}). Evaluate a "
            "corpus with labels of several classes."
        )
    return scores


def aggregate_models(evaluations: Sequence[Mapping[str, Any]]) -> dict[str, Any]:
    """Return mean, standard deviation and interval over models evaluated on one corpus."""
    first = evaluations[0]
    return {
        "metric": first["metric"],
        "splits": {
            split: _aggregate_row(row, [other["splits"][split]["score"] for other in evaluations])
            for split, row in first["splits"].items()
        },
        **{
            section: [
                _aggregate_row(row, [other[section][number]["score"] for other in evaluations])
                for number, row in enumerate(first[section])
            ]
            for section in ("environments", "sizes")
        },
    }


def _aggregate_row(row: Mapping[str, Any], scores: Sequence[float | None]) -> dict[str, Any]:
    """Return a row with statistics over models; undefined scores do not count."""
    defined = [score for score in scores if score is not None]
    shared = {name: value for name, value in row.items() if name not in ("score", "interval")}
    return shared | {
        "scores": list(scores),
        "mean": round(statistics.fmean(defined), DIGITS) if defined else None,
        "std": round(statistics.stdev(defined), DIGITS) if len(defined) > 1 else None,
        "interval": t_interval(defined),
    }


def size_ranges(table: GraphTable) -> list[tuple[int, int]]:
    """Return inclusive ranges of node counts with about equally many graphs each."""
    sizes = np.sort(table.num_nodes)
    if not len(sizes):
        return []
    positions = np.arange(1, SIZE_RANGES) * len(sizes) // SIZE_RANGES
    starts = np.unique([sizes[0], *sizes[positions]])
    ends = [*(starts[1:] - 1), sizes[-1]]
    return [(int(low), int(high)) for low, high in zip(starts, ends, strict=True)]


def check_model_fits(description: Description, corpus: Corpus) -> None:
    """Raise a ``StageError`` if a corpus has other features or labels than the training corpus."""
    trained, info = description.shape, corpus.info
    if trained.backbone == "gcn":
        expected = node_backbone_shape(info, trained.width, trained.layers)
    else:
        expected = graph_backbone_shape(info, trained.backbone, trained.width, trained.layers)
    differences = [
        f"{name.replace('_', ' ')}: {_text(getattr(trained, name))} in the model, "
        f"{_text(getattr(expected, name))} in the corpus"
        for name in ("features", "words", "edge_features", "edge_words", "outputs")
        if getattr(trained, name) != getattr(expected, name)
    ]
    if description.task != info.task:
        differences.append(f"task: {description.task} in the model, {info.task} in the corpus")
    if differences:
        raise StageError(
            f"the model does not fit {info.name} ({'; '.join(differences)}). Evaluate it on a "
            "corpus of the dataset it was trained on."
        )


def _text(value: object) -> str:
    return "/".join(map(str, value)) or "none" if isinstance(value, tuple) else str(value)
