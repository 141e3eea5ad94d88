"""Pretrain the bridge model, which samples the edges between two components."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING, Any, Literal

import msgspec
import numpy as np

from gsx.errors import StageError, UsageError
from gsx.stages.stage import Progress, Stage
from gsx.storage.artifacts.digest import readable_json
from gsx.storage.artifacts.draft import Draft
from gsx.storage.artifacts.publish import StageResult
from gsx.storage.artifacts.store import Artifact
from gsx.storage.corpora.artifact_files import JsonFile, JsonFiles
from gsx.storage.corpora.corpus import Corpus
from gsx.storage.corpora.summary import BridgeQuality, Name, Number

if TYPE_CHECKING:
    from gsx.schema import CorpusInfo
    from gsx.stages.bridge.cut_dataset import CutDataset
    from gsx.stages.nn.bridge_model import BridgeShape
    from gsx.table import GraphTable

SHAPE_FILE = "model.json"
WEIGHTS_FILE = "weights.safetensors"
QUALITY_FILE = "quality.json"
HISTORY_FILE = "history.json"
NUM_FACTORS = 32
"""Terms of the inner product of a node pair."""


class BridgeConfig(msgspec.Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """Options of ``[bridge]``."""

    model: Literal["vae", "diffusion"] = "vae"
    """Kind of bridge model."""
    bridge_nodes: bool = False
    """Also learn the features of nodes that are inserted into bridges."""
    seed: int = 0
    """Root seed of the random streams for initialization, cuts and sampling."""
    epochs: int = 16
    """Largest number of epochs; each cuts graphs anew."""
    epoch_graphs: int = 8192
    """Largest number of training graphs that are cut in an epoch."""
    patience: int = 4
    """Epochs without a higher likelihood of held-out bridges after which training stops; 0 trains
    all epochs."""
    width: int = 64
    """Hidden units per layer."""
    latent: int = 16
    """Numbers in the latent of a node."""
    learning_rate: float = 5e-3
    """Learning rate of Adam."""
    attribute_weight: float = 1.0
    """The paper's alpha: weight of the attribute loss."""
    kl_weight: float = 1e-3
    """The paper's beta: weight of the KL divergence of a node's latent, per nat."""
    count_weight: float = 0.3
    """Weight of the loss of predicted numbers of bridges."""
    device: Literal["auto", "cpu", "cuda"] = "auto"
    """Device for training; ``auto`` is CUDA if available."""


def json_files() -> JsonFiles:
    """Return the types of all JSON files of a bridge model."""
    from gsx.stages.nn.bridge_model import BridgeShape

    return {
        SHAPE_FILE: JsonFile(BridgeShape),
        QUALITY_FILE: JsonFile(BridgeQuality),
        HISTORY_FILE: JsonFile(list[dict[Name, Number]]),
    }


def resolve(config: BridgeConfig) -> BridgeConfig:
    """Reject options that are out of range."""
    for name in ("epochs", "epoch_graphs", "width", "latent"):
        if getattr(config, name) < 1:
            raise UsageError(f"{name} must be at least 1; got {getattr(config, name)}")
    for name in ("patience", "attribute_weight", "kl_weight", "count_weight"):
        if not getattr(config, name) >= 0:
            raise UsageError(f"{name} must not be negative; got {getattr(config, name)}")
    if not config.learning_rate > 0:
        raise UsageError(f"learning_rate must be positive; got {config.learning_rate}")
    return config


def run(
    config: BridgeConfig, inputs: Mapping[str, Artifact], draft: Draft, progress: Progress
) -> StageResult:
    """Train on cuts of training graphs and evaluate on cuts of ``id_val`` graphs."""
    from gsx.stages.bridge.metrics import held_out_metrics
    from gsx.stages.bridge.training import BridgeTrainingOptions, train_bridge_model
    from gsx.stages.nn.bridge_model import BridgeModel
    from gsx.stages.nn.device import resolve_device

    corpus = Corpus(inputs["corpus"])
    train, held_out = (_cut_dataset(table, corpus.info) for table in _read_splits(corpus))
    device = resolve_device(config.device)
    shape = _bridge_shape(config, train)
    model = BridgeModel.with_random_weights(shape, config.seed, device)
    options = BridgeTrainingOptions(
        epochs=config.epochs,
        epoch_graphs=config.epoch_graphs,
        patience=config.patience,
        learning_rate=config.learning_rate,
        attribute_weight=config.attribute_weight,
        kl_weight=config.kl_weight,
        count_weight=config.count_weight,
        seed=config.seed,
    )
    graphs = len(train.table)
    per_epoch = min(graphs, config.epoch_graphs)
    total = config.epochs * per_epoch
    history = train_bridge_model(
        model, train, held_out, options, lambda done: progress(done * per_epoch, total)
    )
    quality = held_out_metrics(model, held_out, config.seed)
    quality["epochs"] = epochs_used(history)
    draft.write_arrays(WEIGHTS_FILE, model.weights())
    draft.write_bytes(SHAPE_FILE, readable_json(shape))
    draft.write_bytes(QUALITY_FILE, readable_json(quality))
    draft.write_bytes(HISTORY_FILE, readable_json(history))
    return StageResult(
        counts={"graphs": graphs},
        summary={"name": corpus.info.name, "quality": quality},
        device=device.type,
    )


def epochs_used(history: Sequence[Mapping[str, Any]]) -> dict[str, int]:
    """Return how many epochs were trained, and the epoch, from 1, whose weights are kept."""
    likelihoods = [row["held_out"] for row in history if row["held_out"] is not None]
    best = likelihoods.index(max(likelihoods)) + 1 if likelihoods else len(history)
    return {"trained": len(history), "kept": best}


def _read_splits(corpus: Corpus) -> tuple[GraphTable, GraphTable]:
    """Return training and held-out graphs; reject a corpus without edges to cut."""
    info = corpus.info
    if info.level != "graph":
        raise StageError(
            f"{info.name} has node labels, but splicing needs graph labels. Use `gsx train` on "
            "this corpus without a bridge model."
        )
    if info.sparse:
        raise StageError(
            f"{info.name} has sparse node features, which bridge models do not support. Prepare it "
            "with dense features."
        )
    for split in ("train", "id_val"):
        if split not in corpus.splits:
            raise StageError(
                f"{info.name} has no `{split}` graphs. Prepare the corpus with a `{split}` split."
            )
    available = {column.name for column in info.columns}
    names = ["node_feat", *({"edge_attr"} & available)]
    train = corpus.table(split="train", columns=names)
    if not train.total_edges:
        raise StageError(
            f"no training graph of {info.name} has an edge, so there is nothing to learn bridges "
            "from. Splice without bridges: `gsx generate … --bridges none`."
        )
    return train, corpus.table(split="id_val", columns=names)


def _cut_dataset(table: GraphTable, info: CorpusInfo) -> CutDataset:
    """Return graphs to cut; molecules are cut at single bonds outside rings only."""
    from gsx.stages.bridge.cut_dataset import CutDataset
    from gsx.stages.chem.splice_rules import cuttable_edges, hydrogen_column

    return CutDataset(table, cuttable_edges(table, info), hydrogen_column(info))


def _bridge_shape(config: BridgeConfig, dataset: CutDataset) -> BridgeShape:
    """Return the shape of the model, with encoding and codebooks fitted on ``dataset``."""
    from gsx.seeds import rng
    from gsx.stages.graphs.cut_frequencies import frequent_rows, largest_count
    from gsx.stages.nn.bridge_features import fit_bridge_encoding
    from gsx.stages.nn.bridge_model import BridgeShape

    train = dataset.table
    encoding = fit_bridge_encoding(train)
    stream = rng(config.seed, "bridge", "shape")
    cuts = dataset.sample_graphs(config.epoch_graphs, stream).sample_cuts(encoding, stream)
    counts = np.diff(cuts.bridge_left.ptr)
    attributes, rates = frequent_rows(cuts.bridge_attr.values)
    nodes, _ = frequent_rows(
        train.dense("node", "node_feat") if config.bridge_nodes else counts[:0, None]
    )
    return BridgeShape(
        model=config.model,
        code=encoding,
        attributes=attributes,
        attribute_rates=rates,
        largest_count=largest_count(counts),
        width=config.width,
        layers=3,
        latent=config.latent,
        terms=NUM_FACTORS,
        bridge_nodes=nodes,
    )


STAGE = Stage(
    module=__name__,
    name="bridge",
    version=2,
    kind="bridge",
    config=BridgeConfig,
    json_files=json_files,
    inputs={"corpus": "prepare"},
    resolve=resolve,
    run=run,
    one_thread=True,
    seeds=lambda config: {"bridge": config.seed},
    local_options=("device",),
)
