"""Pretrain the extractor: which connected piece of every training graph carries its label.

Writes the networks, the pieces of all training graphs, and how good they are. Truth about the
pieces, where a corpus knows it, is used for the report alone; nothing is learned or chosen by it.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING, Any, Literal

import msgspec
import numpy as np

from gsx.errors import StageError, UsageError
from gsx.stages.chem.features import molecular
from gsx.stages.stage import Progress, Stage
from gsx.storage.artifacts.digest import readable_json
from gsx.storage.artifacts.draft import Draft
from gsx.storage.artifacts.publish import Outcome
from gsx.storage.artifacts.store import Artifact
from gsx.storage.corpora.corpus import Corpus

if TYPE_CHECKING:
    import torch

    from gsx.ragged import Array
    from gsx.schema import CorpusInfo
    from gsx.stages.extract.data import Extraction, Lesson, Pieces
    from gsx.table import GraphTable

PIECES = "pieces.safetensors"


class ExtractConfig(msgspec.Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """Options of ``[extract]``."""

    extractor: Literal["posterior", "pair"] = "posterior"
    """How pieces are found: by what sets of nodes tell, or by the paper's pair learning."""
    seed: int = 0
    """Root of the random streams that initialize and shuffle."""
    width: int = 64
    """Units of every layer."""
    node_epochs: int = 8
    """Passes over graphs, of every network that sees whole graphs."""
    set_epochs: int = 4
    """Passes over sets of nodes; ``posterior`` alone."""
    largest_piece: int = 12
    """Nodes at which a piece stops growing; ``posterior`` alone."""
    environment_weight: float = 0.5
    """What a node's knowledge of the environment costs; ``posterior`` alone."""
    largest_weight: float = 50.0
    """How much more often a graph may be drawn whose label surprises for its size and degrees;
    1 draws all alike; ``posterior`` alone."""
    size_penalty: float = 0.5
    """What keeping a whole graph costs, in nats; ``pair`` alone."""
    partners: int = 8
    """Pairs of partners whose scores are averaged; ``pair`` alone."""
    device: Literal["auto", "cpu", "cuda"] = "auto"
    """Where to compute; ``auto`` takes a GPU where there is one."""


def resolve(config: ExtractConfig) -> ExtractConfig:
    """Refuse numbers that cannot work."""
    for name in ("width", "node_epochs", "set_epochs", "largest_weight", "partners"):
        if getattr(config, name) < 1:
            raise UsageError(f"{name} must be at least 1; got {getattr(config, name)}")
    if config.largest_piece < 2:
        raise UsageError(f"largest_piece must be at least 2; got {config.largest_piece}")
    return config


def run(
    config: ExtractConfig, inputs: Mapping[str, Artifact], draft: Draft, progress: Progress
) -> Outcome:
    """Learn from the training split alone, and cut every graph of it."""
    from gsx.stages.nn.training_loop import one_thread

    with one_thread():
        return _run(config, inputs, draft, progress)


def _run(
    config: ExtractConfig, inputs: Mapping[str, Artifact], draft: Draft, progress: Progress
) -> Outcome:
    from gsx.stages.extract.data import lesson_of
    from gsx.stages.extract.metrics import truth_quality
    from gsx.stages.nn.device import device_named

    corpus = Corpus(inputs["corpus"])
    train = _read(corpus)
    lesson = lesson_of(train, corpus.info)
    device = device_named(config.device)

    def seen(epochs: int, total: int) -> None:
        progress(epochs * len(lesson), total * len(lesson))

    extraction = _extract(config, lesson, device, seen)
    pieces, quality = extraction.pieces, dict(extraction.quality)
    arrays = {
        "graph_id": train.dense("graph", "graph_id"),
        "node_ptr": lesson.graphs.node_ptr,
        "score": pieces.score.astype(np.float32),
        "causal": pieces.causal.astype(np.uint8),
        "environmental": pieces.environmental.astype(np.uint8),
    }
    draft.write(PIECES, partial(_save, arrays))
    for name, weights in extraction.weights.items():
        draft.write(f"{name}.safetensors", partial(_save, weights))
    if "node_truth" in train.node:
        truth = train.dense("node", "node_truth") == 1
        apart = pieces.environmental_score
        apart = -pieces.score if apart is None else apart
        quality["causal"] = truth_quality(lesson, pieces.score, pieces.causal, truth)
        quality["environmental"] = truth_quality(lesson, apart, pieces.environmental, ~truth)
    if molecular(corpus.info):
        quality["scaffold"] = _scaffold_quality(train, pieces)
    draft.write_bytes("quality.json", readable_json(quality))
    draft.write_bytes("history.json", readable_json(extraction.history))
    return Outcome(
        counts={"graphs": len(train)},
        summary={"name": corpus.info.name, "quality": quality},
        device=device.type,
    )


def _extract(
    config: ExtractConfig,
    lesson: Lesson,
    device: torch.device,
    seen: Callable[[int, int], None],
) -> Extraction:
    """Run the extractor the config names."""
    from gsx.stages.extract import pair_extractor as pair
    from gsx.stages.extract import posterior_extractor as posterior
    from gsx.stages.extract.posterior_training import PosteriorOptions

    if config.extractor == "pair":
        pair_options = pair.PairOptions(
            width=config.width,
            epochs=config.node_epochs,
            size_penalty=config.size_penalty,
            partners=config.partners,
        )
        return pair.extract(lesson, pair_options, seed=config.seed, device=device, progress=seen)
    options = PosteriorOptions(
        width=config.width,
        whole_epochs=config.node_epochs,
        node_epochs=config.node_epochs,
        set_epochs=config.set_epochs,
        largest_piece=config.largest_piece,
        environment_weight=config.environment_weight,
        largest_weight=config.largest_weight,
    )
    return posterior.extract(lesson, options, seed=config.seed, device=device, progress=seen)


def _scaffold_quality(train: GraphTable, pieces: Pieces) -> dict[str, Any]:
    """Return how much of the pieces of molecules is Murcko scaffold, and how much they hold."""
    from gsx.stages.chem.fragments import scaffold_atoms

    scaffold = scaffold_atoms(train)
    env = np.repeat(train.dense("graph", "env_id"), train.num_nodes)

    def share(part: Array, whole: Array) -> float:
        return round(float((part & whole).sum() / max(whole.sum(), 1)), 6)

    def of(atoms: Array) -> dict[str, float]:
        return {
            "share_of_atoms": share(scaffold, atoms),
            "share_of_causal": share(scaffold, pieces.causal & atoms),
            "share_of_environmental": share(scaffold, pieces.environmental & atoms),
            "held_by_environmental": share(pieces.environmental, scaffold & atoms),
            "causal_share": share(pieces.causal, atoms),
        }

    per_env = [{"env_id": int(number), **of(env == number)} for number in np.unique(env)]
    return {**of(np.ones(train.total_nodes, dtype=bool)), "per_environment": per_env}


def _with_units(table: GraphTable, info: CorpusInfo) -> GraphTable:
    """Say which atoms of molecules must stay together: rings and multiple bonds are not cut."""
    if not molecular(info) or "unit" in table.node:
        return table
    from gsx.stages.chem.fragments import local_units

    return table.with_columns(node={"unit": local_units(table)})


def _save(arrays: Mapping[str, Array], path: Path) -> None:
    from safetensors.numpy import save_file

    save_file({name: np.ascontiguousarray(values) for name, values in arrays.items()}, path)


def _read(corpus: Corpus) -> GraphTable:
    """Return the training graphs; refuse a corpus nothing can be learned from."""
    info: CorpusInfo = corpus.info
    if info.level != "graph":
        raise StageError(
            f"{info.name} labels nodes; extractors work on labelled graphs. `gsx train` learns "
            "from it as it is."
        )
    if info.sparse:
        raise StageError(f"{info.name} has sparse node features, which extractors do not read yet.")
    if "train" not in corpus.splits:
        raise StageError(f"{info.name} has no `train` graphs; prepare it with that split.")
    known = {column.name for column in info.columns}
    names = ["graph_id", "y", "label", "env_id", "node_feat"]
    names += sorted({"node_truth", "edge_attr", "unit"} & known)
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
    return _with_units(train, info)


STAGE = Stage(
    module=__name__,
    name="extract",
    version=4,
    kind="extractor",
    config=ExtractConfig,
    inputs={"corpus": "prepare"},
    resolve=resolve,
    run=run,
    seeds=lambda config: {"extract": config.seed},
    places=("device",),
)
