"""Pretrain the extractor, which finds the causal subgraph of every training graph.

Writes the networks, the causal and environmental subgraphs of all training graphs, and their
quality. Ground truth, if the corpus has it, is used for reported metrics only.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import TYPE_CHECKING, Any, Literal

import msgspec
import numpy as np

from gsx.errors import StageError, UsageError
from gsx.stages.chem.features import is_molecular
from gsx.stages.stage import Progress, Stage
from gsx.storage.artifacts.digest import readable_json
from gsx.storage.artifacts.draft import Draft
from gsx.storage.artifacts.publish import StageResult
from gsx.storage.artifacts.store import Artifact
from gsx.storage.corpora.artifact_files import JsonFile
from gsx.storage.corpora.corpus import Corpus
from gsx.storage.corpora.summary import EpochLoss, ExtractorQuality

if TYPE_CHECKING:
    import torch

    from gsx.ragged import Array
    from gsx.schema import CorpusInfo
    from gsx.stages.extract.data import ExtractedSubgraphs, Extraction, ExtractorData
    from gsx.table import GraphTable

SUBGRAPHS_FILE = "subgraphs.safetensors"
QUALITY_FILE = "quality.json"
HISTORY_FILE = "history.json"
MAX_SAMPLES = 64
"""Maximum number of sampled subgraphs per graph."""
JSON_FILES = {QUALITY_FILE: JsonFile(ExtractorQuality), HISTORY_FILE: JsonFile(list[EpochLoss])}


class ExtractConfig(msgspec.Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """Options of ``[extract]``."""

    extractor: Literal["posterior", "pair"] = "posterior"
    """Kind of extractor: label posteriors of node sets, or the paper's pair learning."""
    seed: int = 0
    """Root seed of the random streams for initialization and sampling."""
    width: int = 64
    """Hidden units per layer."""
    node_epochs: int = 8
    """Epochs of the networks that are trained on whole graphs."""
    set_epochs: int = 4
    """Epochs of the network on node sets (``posterior``)."""
    max_causal_nodes: int = 12
    """Maximum number of nodes of a causal subgraph (``posterior``)."""
    environment_weight: float = 0.5
    """Penalty of a node's information about the environment, per nat (``posterior``)."""
    largest_weight: float = 50.0
    """Maximum sampling weight of graphs whose label is rare for their size and degrees; 1 draws all
    graphs equally often (``posterior``)."""
    size_penalty: float = 0.5
    """Penalty in nats for keeping a whole graph (``pair``)."""
    partners: int = 8
    """Pairs of partners over which node scores are averaged (``pair``)."""
    subgraph_samples: int = 0
    """Subgraphs to sample from every graph with the node scores as probabilities, as in the paper
    (``pair``). Splicing then uses the samples; with 0 it uses the subgraph above a threshold."""
    device: Literal["auto", "cpu", "cuda"] = "auto"
    """Device for training; ``auto`` is CUDA if available."""


def resolve(config: ExtractConfig) -> ExtractConfig:
    """Reject options that are out of range."""
    for name in ("width", "node_epochs", "set_epochs", "largest_weight", "partners"):
        if getattr(config, name) < 1:
            raise UsageError(f"{name} must be at least 1; got {getattr(config, name)}")
    if config.max_causal_nodes < 2:
        raise UsageError(f"max_causal_nodes must be at least 2; got {config.max_causal_nodes}")
    if not 0 <= config.subgraph_samples <= MAX_SAMPLES:
        raise UsageError(
            f"subgraph_samples must be in 0..{MAX_SAMPLES}; got {config.subgraph_samples}"
        )
    if config.subgraph_samples and config.extractor != "pair":
        raise UsageError(
            "subgraph_samples needs node probabilities, which only the pair extractor learns. Use "
            "`extractor = pair`."
        )
    return config


def run(
    config: ExtractConfig, inputs: Mapping[str, Artifact], draft: Draft, progress: Progress
) -> StageResult:
    """Train on the training split and write the subgraphs of all its graphs."""
    from gsx.stages.extract.data import build_extractor_data
    from gsx.stages.extract.metrics import ground_truth_metrics
    from gsx.stages.nn.device import resolve_device

    corpus = Corpus(inputs["corpus"])
    train = read_training_graphs(corpus)
    data = build_extractor_data(train, corpus.info)
    device = resolve_device(config.device)

    def report_epochs(epochs: int, total: int) -> None:
        progress(epochs * len(data), total * len(data))

    extraction = _extract(config, data, device, report_epochs)
    subgraphs, quality = extraction.subgraphs, dict(extraction.quality)
    arrays = {
        "graph_id": train.dense("graph", "graph_id"),
        "node_ptr": data.graphs.node_ptr,
        "score": subgraphs.score.astype(np.float32),
        "causal": subgraphs.causal.astype(np.uint8),
        "environmental": subgraphs.environmental.astype(np.uint8),
    }
    for name in ("causal_samples", "environmental_samples"):
        samples = getattr(subgraphs, name)
        if samples is not None:
            arrays[name] = samples.astype(np.uint8)
    draft.write_arrays(SUBGRAPHS_FILE, arrays)
    for name, weights in extraction.weights.items():
        draft.write_arrays(f"{name}.safetensors", weights)
    if "node_truth" in train.node:
        truth = train.dense("node", "node_truth") == 1
        env_score = subgraphs.environmental_score
        env_score = -subgraphs.score if env_score is None else env_score
        quality["causal"] = ground_truth_metrics(data, subgraphs.score, subgraphs.causal, truth)
        quality["environmental"] = ground_truth_metrics(
            data, env_score, subgraphs.environmental, ~truth
        )
    if is_molecular(corpus.info):
        quality["scaffold"] = _scaffold_quality(train, subgraphs)
    draft.write_bytes(QUALITY_FILE, readable_json(quality))
    draft.write_bytes(HISTORY_FILE, readable_json(extraction.history))
    return StageResult(
        counts={"graphs": len(train)},
        summary={"name": corpus.info.name, "quality": quality},
        device=device.type,
    )


def _extract(
    config: ExtractConfig,
    data: ExtractorData,
    device: torch.device,
    progress: Callable[[int, int], None],
) -> Extraction:
    """Run the extractor of the config."""
    from gsx.stages.extract import pair_extractor, posterior_extractor
    from gsx.stages.extract.posterior_training import PosteriorOptions

    if config.extractor == "pair":
        pair_options = pair_extractor.PairOptions(
            width=config.width,
            epochs=config.node_epochs,
            size_penalty=config.size_penalty,
            partners=config.partners,
            subgraph_samples=config.subgraph_samples,
        )
        return pair_extractor.extract(
            data, pair_options, seed=config.seed, device=device, progress=progress
        )
    options = PosteriorOptions(
        width=config.width,
        whole_epochs=config.node_epochs,
        node_epochs=config.node_epochs,
        set_epochs=config.set_epochs,
        max_subgraph_nodes=config.max_causal_nodes,
        environment_weight=config.environment_weight,
        max_weight=config.largest_weight,
    )
    return posterior_extractor.extract(
        data, options, seed=config.seed, device=device, progress=progress
    )


def _scaffold_quality(train: GraphTable, subgraphs: ExtractedSubgraphs) -> dict[str, Any]:
    """Return the overlap of subgraphs of molecules with Murcko scaffolds, per environment too."""
    from gsx.stages.chem.fragments import scaffold_atoms

    scaffold = scaffold_atoms(train)
    env = np.repeat(train.dense("graph", "env_id"), train.num_nodes)

    def share(subset: Array, whole: Array) -> float:
        return round(float((subset & whole).sum() / max(whole.sum(), 1)), 6)

    def shares(atoms: Array) -> dict[str, float]:
        return {
            "share_of_atoms": share(scaffold, atoms),
            "share_of_causal": share(scaffold, subgraphs.causal & atoms),
            "share_of_environmental": share(scaffold, subgraphs.environmental & atoms),
            "scaffold_atoms_in_environmental": share(subgraphs.environmental, scaffold & atoms),
            "causal_share": share(subgraphs.causal, atoms),
        }

    per_env = [{"env_id": int(number), **shares(env == number)} for number in np.unique(env)]
    return {**shares(np.ones(train.total_nodes, dtype=bool)), "per_environment": per_env}


def _with_units(table: GraphTable, info: CorpusInfo) -> GraphTable:
    """Add units to molecules: atoms of rings and multiple bonds, which no subgraph divides."""
    if not is_molecular(info) or "unit" in table.node:
        return table
    from gsx.stages.chem.fragments import local_units

    return table.with_columns(node={"unit": local_units(table)})


def read_training_graphs(corpus: Corpus) -> GraphTable:
    """Return the training graphs; reject a corpus that no extractor can be trained on."""
    info: CorpusInfo = corpus.info
    if info.level != "graph":
        raise StageError(
            f"{info.name} has node labels, but extractors need graph labels. Use `gsx train` on "
            "this corpus without an extractor."
        )
    if info.sparse:
        raise StageError(
            f"{info.name} has sparse node features, which extractors do not support. Prepare it "
            "with dense features."
        )
    if "train" not in corpus.splits:
        raise StageError(
            f"{info.name} has no `train` graphs. Prepare the corpus with a `train` split."
        )
    available = {column.name for column in info.columns}
    names = ["graph_id", "y", "label", "env_id", "node_feat"]
    names += sorted({"node_truth", "edge_attr", "unit"} & available)
    train = corpus.table(split="train", columns=names)
    env = train.dense("graph", "env_id")
    if (env < 0).any() or len(np.unique(env)) < 2:
        raise StageError(
            f"{info.name} has {len(np.unique(env[env >= 0]))} known environment(s) among its "
            "training graphs, but an extractor needs at least two to separate causal from "
            "environmental subgraphs. Prepare the corpus with environments."
        )
    if len(np.unique(train.dense("graph", "y"), axis=0)) < 2:
        raise StageError(
            f"all training graphs of {info.name} have the same label, so there is no causal "
            "subgraph to extract. Prepare the corpus with at least two labels."
        )
    if not train.total_edges:
        raise StageError(
            f"no training graph of {info.name} has an edge, so subgraphs cannot grow. Use another "
            "corpus."
        )
    return _with_units(train, info)


STAGE = Stage(
    module=__name__,
    name="extract",
    version=6,
    kind="extractor",
    config=ExtractConfig,
    json_files=lambda: JSON_FILES,
    inputs={"corpus": "prepare"},
    resolve=resolve,
    run=run,
    one_thread=True,
    seeds=lambda config: {"extract": config.seed},
    local_options=("device",),
    added_options={"subgraph_samples": 0},
)
