"""Agreement of a trained reference model with the labels of a corpus, and its embeddings.

The model is evaluated on one thread, so the same model and corpus give the same numbers.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Any

import numpy as np
import torch
from scipy.sparse import csr_matrix, vstack
from scipy.special import expit, softmax

from gsx.errors import ArtifactError, StageError
from gsx.ragged import Array, Ints
from gsx.schema import CorpusInfo
from gsx.stages.graphs.graphsaint import Adjacency, adjacency_from_edges
from gsx.stages.graphs.node_features import Features
from gsx.stages.graphs.subgraphs import sort_edges
from gsx.stages.nn.backbones import Backbone
from gsx.stages.nn.build_network import Network
from gsx.stages.nn.training_loop import one_thread
from gsx.stages.report.agreement_measures import MEASURES, TIE, agreement_measure, chance_of
from gsx.stages.report.coverage import project_groups
from gsx.stages.report.model_results import THIS_CORPUS, model_title
from gsx.stages.report.node_data import NodeColumns, NodeSample, Replica, replaced_edges
from gsx.stages.report.sample import GROUPS, GraphColumns, Sample
from gsx.stages.train.data import check_corpus, is_undirected
from gsx.stages.train.evaluate import check_model_fits, load_model
from gsx.stages.train.evaluator import evaluation_batches
from gsx.stages.train.metrics import is_better, score
from gsx.stages.train.node_data import NodeGraphs, read_node_graphs, whole_graph_batch
from gsx.stages.train.stage import WEIGHTS
from gsx.storage.artifacts.store import Artifact
from gsx.storage.corpora.corpus import Corpus
from gsx.storage.corpora.summary import (
    TrainingOptions,
    model_scores,
    read_options,
    selected_rule,
)
from gsx.table import GraphTable

CPU = torch.device("cpu")


@dataclass(frozen=True, slots=True, kw_only=True, eq=False)
class ReferenceModel:
    """A trained classifier that is compared with the labels."""

    artifact: Artifact
    net: Network
    trained_on: str
    """Name of its training corpus."""
    trained_on_these: bool
    """Whether it was trained on the labels that it is compared with."""


@dataclass(frozen=True, slots=True, kw_only=True, eq=False)
class ModelAgreement:
    """Agreement of a classifier with the labels of a corpus."""

    name: str
    key: str
    trained_on: str
    trained_on_these: bool
    measure: str
    """Name of the measure ``agreement`` of the rows."""
    chance: float
    """Its value for predictions that ignore the graph."""
    rows: Sequence[Mapping[str, Any]]
    """Agreement per group, and per environment of augmented items."""
    points: Mapping[str, Array]
    """``[G, 2]`` projected embeddings of items, by group."""
    distances: Sequence[Mapping[str, Any]]
    """Distances of held-out groups to training items in embedding space."""


def find_reference_model(
    corpus: Corpus,
    models: Sequence[tuple[str, Artifact]],
    named: tuple[str, Artifact] | None,
    *,
    has_augmented: bool,
) -> tuple[ReferenceModel | None, list[str]]:
    """Return the named classifier, or the best one that was not trained on augmented items.

    ``has_augmented`` is true if the corpus has augmented items. The best classifier has the best
    OOD validation score; ties are broken by key. Return also why classifiers were skipped.
    """
    if named is not None:
        return _load_reference_model(corpus, *named, has_augmented=has_augmented), []
    candidates = [
        (trained_on, artifact)
        for trained_on, artifact in models
        if not _trained_on_augmented(trained_on, artifact, has_augmented=has_augmented)
    ]
    skipped: list[str] = []
    for trained_on, artifact in sorted(candidates, key=lambda row: _selection_rank(row[1])):
        try:
            return _load_reference_model(
                corpus, trained_on, artifact, has_augmented=has_augmented
            ), skipped
        except (ArtifactError, StageError) as error:
            skipped.append(f"{artifact.key[:12]}: {error}")
    return None, skipped


def _selection_rank(artifact: Artifact) -> tuple[float, str]:
    quality = model_scores(artifact.manifest)
    value = quality["selection"].get(selected_rule(quality), {}).get("ood_val")
    if value is None:
        return np.inf, artifact.key
    return (value if is_better(quality["metric"], 0, 1) else -value), artifact.key


def _trained_on_augmented(trained_on: str, artifact: Artifact, *, has_augmented: bool) -> bool:
    config = read_options(artifact.manifest, TrainingOptions)
    all_origins = set(config.get("origins") or ()) != {"source"}
    return (
        has_augmented
        and trained_on == THIS_CORPUS
        and bool(config.get("augmented", True))
        and all_origins
    )


def _load_reference_model(
    corpus: Corpus, trained_on: str, artifact: Artifact, *, has_augmented: bool
) -> ReferenceModel:
    verified = Artifact.open(artifact.location)  # opens and verifies the files
    weights = WEIGHTS[selected_rule(model_scores(verified.manifest))]
    description, net = load_model(verified, weights, CPU)
    check_corpus(corpus.info, description.shape.backbone)
    check_model_fits(description, corpus)
    net.eval()
    trained_on_augmented = _trained_on_augmented(trained_on, artifact, has_augmented=has_augmented)
    source_only = has_augmented and trained_on == THIS_CORPUS and not trained_on_augmented
    corpus_text = f"{trained_on}, source only" if source_only else trained_on
    return ReferenceModel(
        artifact=verified, net=net, trained_on=corpus_text, trained_on_these=trained_on_augmented
    )


def graph_agreement(
    model: ReferenceModel, corpus: Corpus, columns: GraphColumns, sample: Sample
) -> ModelAgreement:
    """Compare predictions with labels for the sampled graphs of every group."""
    info = corpus.info
    groups = sample.groups
    sample_rows = np.concatenate(list(groups.values()))
    embeddings, logits = _predict_graphs(model.net, sample.table.take(sample_rows), info)
    owner = np.repeat(np.arange(len(groups)), [len(rows) for rows in groups.values()])
    rows = sample.rows[sample_rows]
    compared = _compared_rows(info, groups, owner, columns.env[rows])
    return compare_with_labels(
        model, info, embeddings, logits, columns.y[rows], compared, (list(groups), owner)
    )


def node_agreement(
    model: ReferenceModel, corpus: Corpus, columns: NodeColumns, sample: NodeSample
) -> ModelAgreement:
    """Compare predictions with labels for the sampled nodes; augmented nodes in their replica."""
    graphs = read_node_graphs(corpus)
    names = [name for name in GROUPS if name in sample.nodes]
    predictions = [_predict_nodes(model.net, graphs, columns, sample, name) for name in names]
    owner = np.repeat(np.arange(len(names)), [len(sample.nodes[name]) for name in names])
    env = np.concatenate([sample.env[name] for name in names])
    y = np.concatenate([sample.y[name] for name in names])
    groups = {name: sample.nodes[name] for name in names}
    compared = _compared_rows(corpus.info, groups, owner, env)
    embeddings, logits = (np.concatenate(arrays) for arrays in zip(*predictions, strict=True))
    return compare_with_labels(model, corpus.info, embeddings, logits, y, compared, (names, owner))


def compare_with_labels(
    model: ReferenceModel,
    info: CorpusInfo,
    embeddings: Array,
    logits: Array,
    y: Array,
    compared: Iterator[tuple[str, str, Array]],
    groups: tuple[Sequence[str], Ints],
) -> ModelAgreement:
    """Compute the agreement per row set, and project the embeddings."""
    names, owner = groups
    rows = [
        {"group": group, "name": name, "items": int(mask.sum())}
        | agreement(info, logits[mask], y[mask])
        for group, name, mask in compared
    ]
    points, distances = project_groups(
        {name: embeddings[owner == number] for number, name in enumerate(names)}
    )
    return ModelAgreement(
        name=model_title(model.artifact.manifest.config),
        key=model.artifact.key,
        trained_on=model.trained_on,
        trained_on_these=model.trained_on_these,
        measure=MEASURES[info.task],
        chance=chance_of(info.task, len(info.outputs)),
        rows=rows,
        points=points,
        distances=distances,
    )


def _compared_rows(
    info: CorpusInfo, groups: Mapping[str, Ints], owner: Ints, env: Ints
) -> Iterator[tuple[str, str, Array]]:
    """Yield group, name and mask per compared set: groups; augmented items per environment."""
    names = {environment.id: environment.name for environment in info.environments}
    for number, group in enumerate(groups):
        mask = owner == number
        if group != "augmented":
            yield group, GROUPS[group], mask
            continue
        for id_ in np.unique(env[mask]).tolist():
            yield group, f"generated: {names.get(id_, 'unknown')}", mask & (env == id_)


def agreement(info: CorpusInfo, logits: Array, y: Array) -> dict[str, float | None]:
    """Return agreement, probability overlap and metric of predictions with labels.

    ``agreement`` is the measure of ``agreement_measures``. ``same`` is the share of items whose
    most likely class has the largest label probability, so any of several equally likely classes
    counts. ``shared`` is the mean overlap of predicted and label probabilities. ``score`` is the
    metric on hard labels. For regression, ``off`` is the mean absolute difference.
    """
    measured = {"agreement": agreement_measure(info.task, logits, y)}
    if info.task == "regression":
        differences = np.abs(logits - y)[~np.isnan(y)]
        return {**measured, "off": float(differences.mean()) if len(differences) else None}
    if info.task == "classification":
        labelled = ~np.isnan(y).any(axis=1)
        probability, label = softmax(logits[labelled].astype(np.float64), axis=1), y[labelled]
        label_of_prediction = np.take_along_axis(
            label, probability.argmax(axis=1)[:, None], axis=1
        )[:, 0]
        agrees = label_of_prediction >= label.max(axis=1, initial=0) - TIE
        overlap = np.minimum(probability, label).sum(axis=1)
        hard = labelled & (np.nan_to_num(y).max(axis=1, initial=0) == 1)
    else:
        labelled = ~np.isnan(y)
        probability, label = expit(logits[labelled].astype(np.float64)), y[labelled]
        agrees = ((probability > 0.5) == (label > 0.5)) | (label == 0.5)
        overlap = 1 - np.abs(probability - label)
        hard = (~labelled | (y == np.round(y))).all(axis=1)
    return {
        **measured,
        "same": float(agrees.mean()) if len(agrees) else None,
        "shared": float(overlap.mean()) if len(overlap) else None,
        "score": score(info.metric, info.task, logits[hard], y[hard]) if hard.any() else None,
    }


@torch.no_grad()
def _predict_graphs(net: Network, table: GraphTable, info: CorpusInfo) -> tuple[Array, Array]:
    """Return embeddings ``[G, width]`` and logits ``[G, C]`` of graphs."""
    assert isinstance(net, Backbone)  # `check_corpus` refuses node networks
    table = sort_edges(table)
    require_undirected(table, info)
    with one_thread():
        outputs = [net(batch) for batch in evaluation_batches(table, net.shape, CPU)]
    embeddings = torch.cat([features for features, _ in outputs]).numpy()
    return embeddings.astype(np.float64), torch.cat([logits for _, logits in outputs]).numpy()


@torch.no_grad()
def _predict_nodes(
    net: Network, graphs: NodeGraphs, columns: NodeColumns, sample: NodeSample, group: str
) -> tuple[Array, Array]:
    nodes = sample.nodes[group]
    if group != "augmented":
        with one_thread():
            embeddings, logits = net(whole_graph_batch(graphs, nodes, CPU))
        return embeddings.numpy().astype(np.float64), logits.numpy()
    outputs = []
    for replica_index, replica in enumerate(columns.replicas):
        features = _with_replica_features(graphs.features, replica)
        adjacency = (
            graphs.adjacency if replica.edges is None else _replica_adjacency(columns, replica)
        )
        replica_graphs = replace(graphs, adjacency=adjacency, features=features)
        with one_thread():
            outputs.append(
                net(whole_graph_batch(replica_graphs, nodes[sample.replica == replica_index], CPU))
            )
    embeddings, logits = (torch.cat(tensors).numpy() for tensors in zip(*outputs, strict=True))
    return embeddings.astype(np.float64), logits


def _replica_adjacency(columns: NodeColumns, replica: Replica) -> Adjacency:
    """Return the adjacency of all nodes, with the edges of one replica in place of its source."""
    src, dst = replaced_edges(columns, replica)
    order = np.lexsort((dst, src))
    return adjacency_from_edges(src[order], dst[order], columns.table.total_nodes)


def _with_replica_features(features: Features, replica: Replica) -> Features:
    """Return the features of all nodes, with those of one replica in place of its source."""
    if not isinstance(features, csr_matrix):
        replaced = features.copy()
        replaced[replica.nodes] = replica.features
        return replaced
    first, last = int(replica.nodes[0]), int(replica.nodes[-1]) + 1
    blocks = [features[:first], replica.features.astype(features.dtype), features[last:]]
    return vstack(blocks, format="csr")


def require_undirected(table: GraphTable, info: CorpusInfo) -> None:
    """Raise ``StageError`` for directed graphs, which networks cannot read; edges are sorted."""
    if not is_undirected(table):
        raise StageError(
            f"{info.name} has directed edges, which the classifiers of gsx cannot read. Write the "
            "report without classifiers: `--no-models`."
        )
