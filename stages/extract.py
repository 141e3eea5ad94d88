"""Pretrain the extractor: which connected piece of every training graph carries its label.

Writes the networks, the pieces of all training graphs, and how good they are. Truth about the
pieces, where a corpus knows it, is used for the report alone; nothing is learned or chosen by it.
"""

from __future__ import annotations

from collections.abc import Mapping
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING, Any, Literal

import msgspec
import numpy as np

from gsx.errors import StageError, UsageError
from gsx.stages.stage import Progress, Stage
from gsx.storage.corpus import Corpus
from gsx.storage.digest import readable_json
from gsx.storage.draft import Draft
from gsx.storage.publish import Outcome
from gsx.storage.store import Artifact

if TYPE_CHECKING:
    from gsx.columns import CorpusInfo
    from gsx.table import GraphTable

PIECES = "pieces.safetensors"
SIZE_COSTS = (0.3, 0.2, 0.15, 0.1, 0.07, 0.05, 0.03, 0.02, 0.01)
"""What a node of a piece may cost; the held-out labels choose among them."""


class ExtractConfig(msgspec.Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """Options of ``[extract]``."""

    extractor: Literal["posterior"] = "posterior"
    """How pieces are found."""
    seed: int = 0
    """Root of the random streams that initialize and shuffle."""
    width: int = 64
    """Units of every layer."""
    node_epochs: int = 8
    set_epochs: int = 4
    largest_piece: int = 12
    """Nodes at which a piece stops growing."""
    environment_weight: float = 0.5
    """What a node's knowledge of the environment costs."""


def resolve(config: ExtractConfig) -> ExtractConfig:
    """Refuse numbers that cannot work."""
    for name in ("width", "node_epochs", "set_epochs"):
        if getattr(config, name) < 1:
            raise UsageError(f"{name} must be at least 1; got {getattr(config, name)}")
    if config.largest_piece < 2:
        raise UsageError(f"largest_piece must be at least 2; got {config.largest_piece}")
    return config


def run(
    config: ExtractConfig, inputs: Mapping[str, Artifact], draft: Draft, progress: Progress
) -> Outcome:
    """Train on the training split, choose the size cost on ``id_val``, cut every training graph."""
    from gsx.stages.extractors.lesson import one_thread

    with one_thread():
        return _run(config, inputs, draft, progress)


def _run(
    config: ExtractConfig, inputs: Mapping[str, Artifact], draft: Draft, progress: Progress
) -> Outcome:
    import torch
    from safetensors.numpy import save_file

    from gsx.stages.extractors import posterior
    from gsx.stages.extractors.lesson import lesson_of
    from gsx.stages.extractors.quality import size_cost_by_held_out, told_by_pieces, truth_quality
    from gsx.stages.kernels.subgraphs import largest_component

    corpus = Corpus(inputs["corpus"])
    train, held_out = _read(corpus)
    lesson, held = lesson_of(train, corpus.info), lesson_of(held_out, corpus.info)
    options = posterior.PosteriorOptions(
        width=config.width,
        node_epochs=config.node_epochs,
        set_epochs=config.set_epochs,
        largest_piece=config.largest_piece,
        environment_weight=config.environment_weight,
    )
    device = torch.device("cuda" if torch.cuda.is_available() else "cpu")

    def seen(epochs: int, total: int) -> None:
        progress(epochs * len(lesson), total * len(lesson))

    model = posterior.fit(lesson, options, seed=config.seed, device=device, progress=seen)
    cost, trials = size_cost_by_held_out(model, held, SIZE_COSTS)
    score, candidates = posterior.find_candidates(model, lesson)
    causal = posterior.choose(lesson.graphs, candidates, cost)
    environmental = largest_component(lesson.graphs, ~causal)

    def save(path: Path) -> None:
        arrays = {
            "graph_id": train.dense("graph", "graph_id"),
            "node_ptr": lesson.graphs.node_ptr,
            "score": score.astype(np.float32),
            "causal": causal.astype(np.uint8),
            "environmental": environmental.astype(np.uint8),
        }
        save_file({name: np.ascontiguousarray(values) for name, values in arrays.items()}, path)

    draft.write(PIECES, save)
    for name, net in (("nodes", model.nodes), ("sets", model.sets)):
        weights = {key: value.cpu().numpy() for key, value in net.state_dict().items()}
        draft.write(f"{name}.safetensors", partial(_save_weights, weights))
    quality: dict[str, Any] = {
        "size_cost": cost,
        "size_cost_trials": trials,
        "label_told_on_id_val": told_by_pieces(model, held, cost),
    }
    if "node_truth" in train.node:
        truth = train.dense("node", "node_truth") == 1
        quality["causal"] = truth_quality(lesson, score, causal, truth)
        quality["environmental"] = truth_quality(lesson, -score, environmental, ~truth)
    draft.write_bytes("quality.json", readable_json(quality))
    draft.write_bytes("history.json", readable_json(model.history))
    return Outcome(
        counts={"graphs": len(train)},
        summary={"name": corpus.info.name, "device": device.type, "quality": quality},
    )


def _save_weights(weights: dict[str, Any], path: Path) -> None:
    from safetensors.numpy import save_file

    save_file(weights, path)


def _read(corpus: Corpus) -> tuple[GraphTable, GraphTable]:
    """Return training and held-out graphs; refuse a corpus nothing can be learned from."""
    info: CorpusInfo = corpus.info
    if info.level != "graph":
        raise StageError(f"{info.name} labels nodes; extractors work on labelled graphs.")
    if info.sparse:
        raise StageError(f"{info.name} has sparse node features, which extractors do not read yet.")
    for split in ("train", "id_val"):
        if split not in corpus.splits:
            raise StageError(f"{info.name} has no `{split}` graphs; prepare it with that split.")
    known = {column.name for column in info.columns}
    names = ["graph_id", "y", "label", "env_id", "node_feat", *({"node_truth"} & known)]
    train = corpus.table(split="train", columns=names)
    env = train.dense("graph", "env_id")
    if (env < 0).any() or len(np.unique(env)) < 2:
        raise StageError(
            f"{info.name} has {len(np.unique(env[env >= 0]))} known environment(s) among its "
            "training graphs; an extractor needs two or more to tell a cause from a surrounding. "
            "Prepare the corpus with environments."
        )
    if len(np.unique(train.dense("graph", "y"), axis=0)) < 2:
        raise StageError(f"all training graphs of {info.name} have one label: nothing to extract.")
    if not train.total_edges:
        raise StageError(f"no training graph of {info.name} has an edge; pieces cannot grow.")
    return train, corpus.table(split="id_val", columns=names)


STAGE = Stage(
    name="extract",
    version=1,
    kind="extractor",
    config=ExtractConfig,
    inputs={"corpus": "prepare"},
    resolve=resolve,
    run=run,
    seeds=lambda config: {"extract": config.seed},
    sources=(
        "gsx.stages.extract",
        "gsx.stages.extractors.lesson",
        "gsx.stages.extractors.posterior",
        "gsx.stages.kernels.subgraphs",
        "gsx.stages.kernels.walks",
        "gsx.stages.nets.gin",
        "gsx.stages.nets.labels",
    ),
)
