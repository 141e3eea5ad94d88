"""Pretrain the bridge generator: which nodes of two components an edge joins, and how many do."""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path
from typing import TYPE_CHECKING, Literal

import msgspec
import numpy as np

from gsx.errors import StageError, UsageError
from gsx.stages.stage import Progress, Stage
from gsx.storage.artifacts.digest import readable_json
from gsx.storage.artifacts.draft import Draft
from gsx.storage.artifacts.publish import Outcome
from gsx.storage.artifacts.store import Artifact
from gsx.storage.corpora.corpus import Corpus

if TYPE_CHECKING:
    from gsx.ragged import Array
    from gsx.schema import CorpusInfo
    from gsx.stages.bridge.cut_dataset import CutLesson
    from gsx.stages.nn.bridge_model import BridgeShape
    from gsx.table import GraphTable

SHAPE = "model.json"
WEIGHTS = "weights.safetensors"
CODEBOOK = 64
"""Rows of attributes, or of features of bridge nodes, told apart."""
COUNT_QUANTILE = 0.999
LARGEST_COUNT = 32
TERMS = 32


class BridgeConfig(msgspec.Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """Options of ``[bridge]``."""

    model: Literal["vae", "diffusion"] = "vae"
    """How bridges are drawn."""
    bridge_nodes: bool = False
    """Also learn the features of nodes to put into bridges."""
    seed: int = 0
    """Root of the random streams that initialize, cut and shuffle."""
    epochs: int = 16
    width: int = 64
    latent: int = 16
    learning_rate: float = 5e-3
    attribute_weight: float = 1.0
    """Alpha of the paper: what a wrong attribute costs."""
    kl_weight: float = 1e-3
    """Beta of the paper: what a nat of a node's latent costs."""
    count_weight: float = 0.3
    device: Literal["auto", "cpu", "cuda"] = "auto"
    """Where to compute; ``auto`` takes a GPU where there is one."""


def resolve(config: BridgeConfig) -> BridgeConfig:
    """Refuse numbers that cannot work."""
    for name in ("epochs", "width", "latent"):
        if getattr(config, name) < 1:
            raise UsageError(f"{name} must be at least 1; got {getattr(config, name)}")
    for name in ("attribute_weight", "kl_weight", "count_weight"):
        if not getattr(config, name) >= 0:
            raise UsageError(f"{name} must not be negative; got {getattr(config, name)}")
    if not config.learning_rate > 0:
        raise UsageError(f"learning_rate must be positive; got {config.learning_rate}")
    return config


def run(
    config: BridgeConfig, inputs: Mapping[str, Artifact], draft: Draft, progress: Progress
) -> Outcome:
    """Learn on cuts of training graphs; score cuts of ``id_val`` graphs."""
    from gsx.stages.nn.training_loop import one_thread

    with one_thread():
        return _run(config, inputs, draft, progress)


def _run(
    config: BridgeConfig, inputs: Mapping[str, Artifact], draft: Draft, progress: Progress
) -> Outcome:
    from safetensors.numpy import save_file

    from gsx.stages.bridge.metrics import held_out_quality
    from gsx.stages.bridge.training import FitOptions, fit
    from gsx.stages.nn.bridge_model import BridgeModel
    from gsx.stages.nn.device import device_named

    corpus = Corpus(inputs["corpus"])
    train, held = (_lesson(table, corpus.info) for table in _read(corpus))
    device = device_named(config.device)
    shape = _shape(config, train)
    model = BridgeModel.fresh(shape, config.seed, device)
    options = FitOptions(
        epochs=config.epochs,
        learning_rate=config.learning_rate,
        attribute_weight=config.attribute_weight,
        kl_weight=config.kl_weight,
        count_weight=config.count_weight,
        seed=config.seed,
    )
    graphs = len(train.table)
    total = config.epochs * graphs
    history = fit(model, train, options, lambda done: progress(done * graphs, total))
    quality = held_out_quality(model, held, config.seed)
    weights = model.weights()

    def save(path: Path) -> None:
        save_file(weights, path)

    draft.write(WEIGHTS, save)
    draft.write_bytes(SHAPE, readable_json(shape))
    draft.write_bytes("quality.json", readable_json(quality))
    draft.write_bytes("history.json", readable_json(history))
    return Outcome(
        counts={"graphs": graphs},
        summary={"name": corpus.info.name, "quality": quality},
        device=device.type,
    )


def _read(corpus: Corpus) -> tuple[GraphTable, GraphTable]:
    """Return training and held-out graphs; refuse a corpus without anything to cut."""
    info = corpus.info
    if info.level != "graph":
        raise StageError(
            f"{info.name} labels nodes; graphs are spliced only where graphs have labels. "
            "`gsx train` learns from it as it is."
        )
    if info.sparse:
        raise StageError(f"{info.name} has sparse node features, which bridge models do not read.")
    for split in ("train", "id_val"):
        if split not in corpus.splits:
            raise StageError(f"{info.name} has no `{split}` graphs; prepare it with that split.")
    known = {column.name for column in info.columns}
    names = ["node_feat", *({"edge_attr"} & known)]
    train = corpus.table(split="train", columns=names)
    if not train.total_edges:
        raise StageError(
            f"no training graph of {info.name} has an edge, so there is nothing to learn bridges "
            "from. Splice without bridges: `gsx generate … --bridges none`."
        )
    return train, corpus.table(split="id_val", columns=names)


def _lesson(table: GraphTable, info: CorpusInfo) -> CutLesson:
    """Say how graphs may be cut: molecules only at single bonds outside rings."""
    from gsx.stages.bridge.cut_dataset import CutLesson
    from gsx.stages.chem.splice_rules import hydrogen_column, may_cut

    return CutLesson(table, may_cut(table, info), hydrogen_column(info))


def _shape(config: BridgeConfig, lesson: CutLesson) -> BridgeShape:
    from gsx.seeds import rng
    from gsx.stages.nn.bridge_features import learn_code
    from gsx.stages.nn.bridge_model import BridgeShape

    train = lesson.table
    code = learn_code(train)
    cut = lesson.cut(code, rng(config.seed, "bridge", "shape"))
    counts = np.diff(cut.bridge_left.ptr)
    attributes, rates = frequent_rows(cut.bridge_attr.values)
    nodes, _ = frequent_rows(
        train.dense("node", "node_feat") if config.bridge_nodes else counts[:0, None]
    )
    largest = int(np.quantile(counts, COUNT_QUANTILE)) if len(counts) else 1
    return BridgeShape(
        model=config.model,
        code=code,
        attributes=attributes,
        attribute_rates=rates,
        largest_count=min(max(largest, 1), LARGEST_COUNT),
        width=config.width,
        layers=3,
        latent=config.latent,
        terms=TERMS,
        bridge_nodes=nodes,
    )


def frequent_rows(values: Array) -> tuple[tuple[tuple[float, ...], ...], tuple[float, ...]]:
    """Return the most frequent rows, at most ``CODEBOOK``, and the share of each among them."""
    if not values.size:
        return (), ()
    rows, counts = np.unique(values, axis=0, return_counts=True)
    top = np.lexsort((np.arange(len(rows)), -counts))[:CODEBOOK]
    share = counts[top] / counts[top].sum()
    return tuple(tuple(map(float, rows[t])) for t in top), tuple(share.tolist())


STAGE = Stage(
    module=__name__,
    name="bridge",
    version=1,
    kind="bridge",
    config=BridgeConfig,
    inputs={"corpus": "prepare"},
    resolve=resolve,
    run=run,
    seeds=lambda config: {"bridge": config.seed},
    places=("device",),
)
