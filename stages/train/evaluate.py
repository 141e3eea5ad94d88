"""Score trained classifiers on a corpus: per split, per environment, per size."""

from __future__ import annotations

import statistics
from collections.abc import Mapping, Sequence
from typing import Any

import msgspec
import numpy as np
import torch

from gsx.errors import ArtifactError, StageError
from gsx.ragged import Array
from gsx.schema import SPLITS, CorpusInfo
from gsx.stages.nn.backbones import BackboneShape
from gsx.stages.nn.build_network import GraphNetwork, Network, empty
from gsx.stages.nn.gcn import GCN
from gsx.stages.train.confidence_intervals import bootstrap, t_interval
from gsx.stages.train.data import check_corpus, read_split, shape_of
from gsx.stages.train.evaluator import laid_out, logits_of
from gsx.stages.train.metrics import DIGITS, score, why_undefined
from gsx.stages.train.node_data import layout, node_logits, node_shape, read_graphs
from gsx.storage.artifacts.store import Artifact
from gsx.storage.corpora.corpus import Corpus
from gsx.table import GraphTable

BUCKETS = 4
"""Sizes a split is cut into, with about as many graphs each."""
LARGEST_FILE = 1 << 30


class Description(msgspec.Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """What ``model.json`` holds."""

    task: str
    shape: BackboneShape


def load(model: Artifact, weights: str, device: torch.device) -> tuple[Description, Network]:
    """Build the network of an artifact and give it the weights of one of its files."""
    from safetensors import SafetensorError
    from safetensors.numpy import load as read

    if weights not in model.manifest.files:
        have = ", ".join(name for name in model.manifest.files if name.endswith(".safetensors"))
        raise ArtifactError(f"{model.place.url} holds no `{weights}`; it has {have}.")
    try:
        data = model.place.read_bytes("model.json", limit=LARGEST_FILE)
        description = msgspec.json.decode(data, type=Description)
        net = empty(description.shape)
        found = read(model.place.read_bytes(weights, limit=LARGEST_FILE))
        net.load_state_dict({name: torch.from_numpy(value) for name, value in found.items()})
    except (msgspec.MsgspecError, SafetensorError, RuntimeError) as error:
        raise ArtifactError(
            f"the weights in {model.place.url} are not those its description asks for, as if "
            f"another gsx had written them. Train it again: `gsx train`. ({error})"
        ) from error
    return description, net.to(device)


def evaluate(model: Artifact, corpus: Corpus, weights: str, device: torch.device) -> dict[str, Any]:
    """Return the scores of a model on all splits of a corpus, with what they are made of.

    A split on which the metric means nothing says why, and has no score.
    """
    info = corpus.info
    description, net = load(model, weights, device)
    check_corpus(info, description.shape.backbone)
    check_fits(description, corpus)
    if isinstance(net, GCN):
        return _require_score(info, evaluate_nodes(net, corpus, device))
    return _require_score(info, _evaluate_graphs(net, corpus, device))


def _evaluate_graphs(net: GraphNetwork, corpus: Corpus, device: torch.device) -> dict[str, Any]:
    info = corpus.info
    names = {environment.id: environment.name for environment in info.environments}
    splits, environments, sizes = {}, [], []
    for split in sorted(corpus.splits, key=SPLITS.index):
        table = read_split(corpus, split)
        y = table.dense("graph", "y")
        logits = logits_of(net, list(laid_out(table, net.shape, device)))

        def part(chosen: Array, logits: Array = logits, y: Array = y) -> dict[str, Any]:
            found = score(info.metric, info.task, logits[chosen], y[chosen])
            return {"graphs": int(chosen.sum()), "score": found}

        splits[split] = part(np.ones(len(table), dtype=bool)) | {
            "interval": bootstrap(info.metric, info.task, logits, y, split),
            "undefined": why_undefined(info.metric, info.task, y),
        }
        env = table.dense("graph", "env_id")
        environments += [
            {"split": split, "env_id": int(id_), "name": names.get(int(id_), "hidden")}
            | part(env == id_)
            for id_ in np.unique(env)
        ]
        sizes += [
            {"split": split, "min_nodes": low, "max_nodes": high}
            | part((table.num_nodes >= low) & (table.num_nodes <= high))
            for low, high in buckets(table)
        ]
    return {
        "metric": info.metric,
        "splits": splits,
        "environments": environments,
        "sizes": sizes,
    }


def evaluate_nodes(net: GCN, corpus: Corpus, device: torch.device) -> dict[str, Any]:
    """Return the scores of a model of nodes on the source graphs of a corpus; nodes have no size.

    The whole graph is read at once.
    """
    info = corpus.info
    names = {environment.id: environment.name for environment in info.environments}
    graphs = read_graphs(corpus)
    logits = node_logits(net, layout(graphs, np.arange(graphs.links.nodes), device))
    splits, environments = {}, []
    for code, split in enumerate(SPLITS[:-1]):
        inside = graphs.split == code
        if not inside.any():
            continue
        y = graphs.y[inside]
        splits[split] = {
            "nodes": int(inside.sum()),
            "score": score(info.metric, info.task, logits[inside], y),
            "interval": bootstrap(info.metric, info.task, logits[inside], y, split),
            "undefined": why_undefined(info.metric, info.task, y),
        }
        for id_ in np.unique(graphs.env[inside]).tolist():
            part = inside & (graphs.env == id_)
            environments.append(
                {
                    "split": split,
                    "env_id": id_,
                    "name": names.get(id_, "hidden"),
                    "nodes": int(part.sum()),
                    "score": score(info.metric, info.task, logits[part], graphs.y[part]),
                }
            )
    return {"metric": info.metric, "splits": splits, "environments": environments, "sizes": []}


def _require_score(info: CorpusInfo, found: dict[str, Any]) -> dict[str, Any]:
    """Refuse a corpus on which the metric means nothing at all."""
    splits = found["splits"]
    if all(row["undefined"] for row in splits.values()):
        told = "; ".join(f"`{split}`: {row['undefined']}" for split, row in splits.items())
        raise StageError(f"{info.metric} is undefined on every split of {info.name} ({told}).")
    return found


def over_models(found: Sequence[Mapping[str, Any]]) -> dict[str, Any]:
    """Return what the evaluations of several models on one corpus have in common."""
    first = found[0]
    return {
        "metric": first["metric"],
        "splits": {
            split: _spread(row, [each["splits"][split]["score"] for each in found])
            for split, row in first["splits"].items()
        },
        **{
            part: [
                _spread(row, [each[part][number]["score"] for each in found])
                for number, row in enumerate(first[part])
            ]
            for part in ("environments", "sizes")
        },
    }


def _spread(row: Mapping[str, Any], scores: Sequence[float | None]) -> dict[str, Any]:
    """Return a row with the mean over models, its spread and its interval; no score is no mean."""
    known = [score for score in scores if score is not None]
    same = {name: value for name, value in row.items() if name not in ("score", "interval")}
    return same | {
        "scores": list(scores),
        "mean": round(statistics.fmean(known), DIGITS) if known else None,
        "std": round(statistics.stdev(known), DIGITS) if len(known) > 1 else None,
        "interval": t_interval(known),
    }


def buckets(table: GraphTable) -> list[tuple[int, int]]:
    """Cut the sizes of graphs into ranges, ends included, with about as many graphs each."""
    sizes = np.sort(table.num_nodes)
    if not len(sizes):
        return []
    places = np.arange(1, BUCKETS) * len(sizes) // BUCKETS
    starts = np.unique([sizes[0], *sizes[places]])
    ends = [*(starts[1:] - 1), sizes[-1]]
    return [(int(low), int(high)) for low, high in zip(starts, ends, strict=True)]


def check_fits(description: Description, corpus: Corpus) -> None:
    """Refuse a corpus whose graphs or labels are of another kind than those learned from."""
    learned = description.shape
    if learned.backbone == "gcn":
        found = node_shape(corpus.info, learned.width, learned.layers)
    else:
        found = shape_of(corpus.info, learned.backbone, learned.width, learned.layers)
    differ = [
        f"{name.replace('_', ' ')}: {_short(getattr(learned, name))} learned, "
        f"{_short(getattr(found, name))} in the corpus"
        for name in ("features", "words", "edge_features", "edge_words", "outputs")
        if getattr(learned, name) != getattr(found, name)
    ]
    if description.task != corpus.info.task:
        differ.append(f"task: {description.task} learned, {corpus.info.task} in the corpus")
    if differ:
        raise StageError(
            f"the model does not fit {corpus.info.name} ({'; '.join(differ)}). Evaluate it on a "
            "corpus of the dataset it was trained on."
        )


def _short(value: object) -> str:
    return "/".join(map(str, value)) or "none" if isinstance(value, tuple) else str(value)
