"""Score a trained classifier on a corpus: per split, per environment, per size."""

from __future__ import annotations

from typing import Any

import msgspec
import numpy as np
import torch

from gsx.columns import SPLITS
from gsx.errors import ArtifactError, StageError
from gsx.ragged import Array
from gsx.stages.learning.fit import laid_out, logits_of
from gsx.stages.learning.lesson import check_corpus, check_metric, read_split, shape_of
from gsx.stages.learning.metrics import score
from gsx.stages.nets.backbones import Backbone, BackboneShape
from gsx.storage.corpus import Corpus
from gsx.storage.store import Artifact
from gsx.table import GraphTable

BUCKETS = 4
"""Sizes a split is cut into, with about as many graphs each."""
LARGEST_FILE = 1 << 30


class Description(msgspec.Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """What ``model.json`` holds."""

    task: str
    shape: BackboneShape


def load(model: Artifact, weights: str, device: torch.device) -> tuple[Description, Backbone]:
    """Build the network of an artifact and give it the weights of one of its files."""
    from safetensors import SafetensorError
    from safetensors.numpy import load as read

    if weights not in model.manifest.files:
        have = ", ".join(name for name in model.manifest.files if name.endswith(".safetensors"))
        raise ArtifactError(f"{model.place.url} holds no `{weights}`; it has {have}.")
    try:
        data = model.place.read_bytes("model.json", limit=LARGEST_FILE)
        description = msgspec.json.decode(data, type=Description)
        net = Backbone(description.shape, 0.0, torch.Generator())
        found = read(model.place.read_bytes(weights, limit=LARGEST_FILE))
        net.load_state_dict({name: torch.from_numpy(value) for name, value in found.items()})
    except (msgspec.MsgspecError, SafetensorError, RuntimeError) as error:
        raise ArtifactError(
            f"the weights in {model.place.url} are not those its description asks for, as if "
            f"another gsx had written them. Train it again: `gsx train`. ({error})"
        ) from error
    return description, net.to(device)


def evaluate(model: Artifact, corpus: Corpus, weights: str, device: torch.device) -> dict[str, Any]:
    """Return the scores of a model on all splits of a corpus, with what they are made of."""
    info = corpus.info
    check_corpus(info)
    description, net = load(model, weights, device)
    check_fits(description, corpus)
    names = {environment.id: environment.name for environment in info.environments}
    splits, environments, sizes = {}, [], []
    for split in sorted(corpus.splits, key=SPLITS.index):
        table = read_split(corpus, split)
        y = table.dense("graph", "y")
        check_metric(info, split, y)
        logits = logits_of(net, list(laid_out(table, description.shape, device)))

        def part(chosen: Array, logits: Array = logits, y: Array = y) -> dict[str, Any]:
            found = score(info.metric, info.task, logits[chosen], y[chosen])
            return {"graphs": int(chosen.sum()), "score": found}

        splits[split] = part(np.ones(len(table), dtype=bool))
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
