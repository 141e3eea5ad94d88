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
from gsx.storage.artifacts.publish import StageResult
from gsx.storage.artifacts.store import Artifact
from gsx.storage.corpora.corpus import Corpus

if TYPE_CHECKING:
    from gsx.ragged import Array
    from gsx.schema import CorpusInfo
    from gsx.stages.bridge.cut_dataset import CutDataset
    from gsx.stages.nn.bridge_model import BridgeShape
    from gsx.table import GraphTable

SHAPE_FILE = "model.json"
WEIGHTS_FILE = "weights.safetensors"
CODEBOOK_SIZE = 64
"""Rows of attributes, or of features of bridge nodes, told apart."""
COUNT_QUANTILE = 0.999
MAX_COUNT = 32
NUM_FACTORS = 32


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
) -> StageResult:
    """Learn on cuts of training graphs; score cuts of ``id_val`` graphs."""
    from safetensors.numpy import save_file

    from gsx.stages.bridge.metrics import held_out_metrics
    from gsx.stages.bridge.training import BridgeTrainingOptions, train_bridge_model
    from gsx.stages.nn.bridge_model import BridgeModel
    from gsx.stages.nn.device import resolve_device

    corpus = Corpus(inputs["corpus"])
    train, held = (_cut_dataset(table, corpus.info) for table in _read_splits(corpus))
    device = resolve_device(config.device)
    shape = _shape(config, train)
    model = BridgeModel.with_random_weights(shape, config.seed, device)
    options = BridgeTrainingOptions(
        epochs=config.epochs,
        learning_rate=config.learning_rate,
        attribute_weight=config.attribute_weight,
        kl_weight=config.kl_weight,
        count_weight=config.count_weight,
        seed=config.seed,
    )
    graphs = len(train.table)
    total = config.epochs * graphs
    history = train_bridge_model(model, train, options, lambda done: progress(done * graphs, total))
    quality = held_out_metrics(model, held, config.seed)
    weights = model.weights()

    def save(path: Path) -> None:
        save_file(weights, path)

    draft.write(WEIGHTS_FILE, save)
    draft.write_bytes(SHAPE_FILE, readable_json(shape))
    draft.write_bytes("quality.json", readable_json(quality))
    draft.write_bytes("history.json", readable_json(history))
    return StageResult(
        counts={"graphs": graphs},
        summary={"name": corpus.info.name, "quality": quality},
        device=device.type,
    )


def _read_splits(corpus: Corpus) -> tuple[GraphTable, GraphTable]:
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


def _cut_dataset(table: GraphTable, info: CorpusInfo) -> CutDataset:
    """Say how graphs may be cut: molecules only at single bonds outside rings."""
    from gsx.stages.bridge.cut_dataset import CutDataset
    from gsx.stages.chem.splice_rules import cuttable_edges, hydrogen_column

    return CutDataset(table, cuttable_edges(table, info), hydrogen_column(info))


def _shape(config: BridgeConfig, lesson: CutDataset) -> BridgeShape:
    from gsx.seeds import rng
    from gsx.stages.nn.bridge_features import fit_bridge_encoding
    from gsx.stages.nn.bridge_model import BridgeShape

    train = lesson.table
    code = fit_bridge_encoding(train)
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
        largest_count=min(max(largest, 1), MAX_COUNT),
        width=config.width,
        layers=3,
        latent=config.latent,
        terms=NUM_FACTORS,
        bridge_nodes=nodes,
    )


def frequent_rows(values: Array) -> tuple[tuple[tuple[float, ...], ...], tuple[float, ...]]:
    """Return the most frequent rows, at most ``CODEBOOK_SIZE``, and the share of each among them."""
    if not values.size:
        return (), ()
    rows, counts = np.unique(values, axis=0, return_counts=True)
    top = np.lexsort((np.arange(len(rows)), -counts))[:CODEBOOK_SIZE]
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
    one_thread=True,
    seeds=lambda config: {"bridge": config.seed},
    local_options=("device",),
)
