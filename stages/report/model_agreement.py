"""A classifier as a second opinion: which labels it tells, and where it sees graphs and nodes.

It is asked and never trained, on one thread: the same model and corpus give the same figures.
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
from gsx.stages.report.coverage import laid_flat
from gsx.stages.report.model_results import HERE, title_of
from gsx.stages.report.node_data import NodeFacts, NodeSample, Replica, replaced_edges
from gsx.stages.report.sample import GROUPS, Facts, Sample
from gsx.stages.train.data import check_corpus, is_undirected
from gsx.stages.train.evaluate import check_model_fits, load_model
from gsx.stages.train.evaluator import evaluation_batches
from gsx.stages.train.metrics import is_better, score
from gsx.stages.train.node_data import NodeGraphs, read_node_graphs, whole_graph_batch
from gsx.storage.artifacts.store import Artifact
from gsx.storage.corpora.corpus import Corpus
from gsx.table import GraphTable

WEIGHTS = ("weights.safetensors", "weights-id.safetensors", "weights-last.safetensors")
"""Files of weights, best rule of selection first."""
CPU = torch.device("cpu")


@dataclass(frozen=True, slots=True, kw_only=True, eq=False)
class Teacher:
    """A classifier that is asked."""

    artifact: Artifact
    net: Network
    where: str
    """What it was trained on."""
    learned_these: bool
    """Whether it has learned from the very labels it is asked about."""


@dataclass(frozen=True, slots=True, kw_only=True, eq=False)
class Opinion:
    """What a classifier makes of a corpus."""

    name: str
    key: str
    where: str
    learned_these: bool
    rows: Sequence[Mapping[str, Any]]
    """Per group, and per environment of what was made: how often labels are told alike."""
    points: Mapping[str, Array]
    """``[G, 2]`` places of items in its own space, by group."""
    near: Sequence[Mapping[str, Any]]
    """How near held-out items are to what is trained on, in that space."""


def find(
    corpus: Corpus,
    models: Sequence[tuple[str, Artifact]],
    given: tuple[str, Artifact] | None,
    *,
    made: bool,
) -> tuple[Teacher | None, list[str]]:
    """Return the classifier that was named, or the best of those that never saw what was made.

    ``made`` says whether the corpus holds items that were made from others. Best is by OOD
    validation, then by key. Those that cannot be asked are passed over, and the reasons returned.
    """
    if given is not None:
        return _teacher(corpus, *given, made=made), []
    rows = [(where, each) for where, each in models if not _learned(where, each, made=made)]
    passed: list[str] = []
    for where, artifact in sorted(rows, key=lambda row: _rank(row[1])):
        try:
            return _teacher(corpus, where, artifact, made=made), passed
        except (ArtifactError, StageError) as error:
            passed.append(f"{artifact.key[:12]}: {error}")
    return None, passed


def _rank(artifact: Artifact) -> tuple[float, str]:
    quality = artifact.manifest.summary.get("quality", {})
    value = quality.get("selection", {}).get("ood_val", {}).get("ood_val")
    if value is None:
        return np.inf, artifact.key
    return (value if is_better(quality["metric"], 0, 1) else -value), artifact.key


def _learned(where: str, artifact: Artifact, *, made: bool) -> bool:
    config = artifact.manifest.config
    every = config.get("origins") is None or set(config["origins"]) != {"source"}
    return made and where == HERE and bool(config.get("augmented", True)) and every


def _teacher(corpus: Corpus, where: str, artifact: Artifact, *, made: bool) -> Teacher:
    model = Artifact.open(artifact.location)  # weights are read only from what was verified
    weights = next((name for name in WEIGHTS if name in model.manifest.files), WEIGHTS[0])
    description, net = load_model(model, weights, CPU)
    check_corpus(corpus.info, description.shape.backbone)
    check_model_fits(description, corpus)
    net.eval()
    learned = _learned(where, artifact, made=made)
    alone = made and where == HERE and not learned
    words = f"{where}, source alone" if alone else where
    return Teacher(artifact=model, net=net, where=words, learned_these=learned)


def ask(teacher: Teacher, corpus: Corpus, facts: Facts, sample: Sample) -> Opinion:
    """Ask about the graphs that were drawn of every group."""
    info = corpus.info
    groups = sample.groups
    every = np.concatenate(list(groups.values()))
    seen, logits = _told(teacher.net, sample.table.take(every), info)
    owner = np.repeat(np.arange(len(groups)), [len(rows) for rows in groups.values()])
    rows = sample.rows[every]
    parts = _parts(info, groups, owner, facts.env[rows])
    return opinion(teacher, info, seen, logits, facts.y[rows], parts, (list(groups), owner))


def ask_nodes(teacher: Teacher, corpus: Corpus, facts: NodeFacts, sample: NodeSample) -> Opinion:
    """Ask about the sampled nodes of every group, moved ones in the replica they are of."""
    graphs = read_node_graphs(corpus)
    names = [name for name in GROUPS if name in sample.nodes]
    found = [_told_nodes(teacher.net, graphs, facts, sample, name) for name in names]
    owner = np.repeat(np.arange(len(names)), [len(sample.nodes[name]) for name in names])
    env = np.concatenate([sample.env[name] for name in names])
    y = np.concatenate([sample.y[name] for name in names])
    groups = {name: sample.nodes[name] for name in names}
    parts = _parts(corpus.info, groups, owner, env)
    seen, logits = (np.concatenate(each) for each in zip(*found, strict=True))
    return opinion(teacher, corpus.info, seen, logits, y, parts, (names, owner))


def opinion(
    teacher: Teacher,
    info: CorpusInfo,
    seen: Array,
    logits: Array,
    y: Array,
    parts: Iterator[tuple[str, str, Array]],
    groups: tuple[Sequence[str], Ints],
) -> Opinion:
    """Compare what was told with labels, part by part, and lay what was seen flat."""
    names, owner = groups
    rows = [
        {"group": group, "name": name, "items": int(inside.sum())}
        | agreement(info, logits[inside], y[inside])
        for group, name, inside in parts
    ]
    points, near = laid_flat({name: seen[owner == number] for number, name in enumerate(names)})
    return Opinion(
        name=title_of(teacher.artifact.manifest.config),
        key=teacher.artifact.key,
        where=teacher.where,
        learned_these=teacher.learned_these,
        rows=rows,
        points=points,
        near=near,
    )


def _parts(
    info: CorpusInfo, groups: Mapping[str, Ints], owner: Ints, env: Ints
) -> Iterator[tuple[str, str, Array]]:
    """Yield group, name and rows of what is compared: groups, made ones by environment."""
    names = {environment.id: environment.name for environment in info.environments}
    for number, group in enumerate(groups):
        inside = owner == number
        if group != "augmented":
            yield group, GROUPS[group], inside
            continue
        for id_ in np.unique(env[inside]).tolist():
            yield group, f"synthetic: {names.get(id_, 'unknown')}", inside & (env == id_)


def agreement(info: CorpusInfo, logits: Array, y: Array) -> dict[str, float | None]:
    """Return how often the likeliest answer is that of the label, and how much belief is shared.

    Where a label is torn between classes either counts. ``score`` is that of hard labels.
    """
    if info.task == "regression":
        off = np.abs(logits - y)[~np.isnan(y)]
        return {"off": float(off.mean()) if len(off) else None}
    if info.task == "classification":
        known = ~np.isnan(y).any(axis=1)
        belief, label = softmax(logits[known].astype(np.float64), axis=1), y[known]
        told = np.take_along_axis(label, belief.argmax(axis=1)[:, None], axis=1)[:, 0]
        same = told >= label.max(axis=1, initial=0) - 1e-6
        shared = np.minimum(belief, label).sum(axis=1)
        hard = known & (np.nan_to_num(y).max(axis=1, initial=0) == 1)
    else:
        known = ~np.isnan(y)
        belief, label = expit(logits[known].astype(np.float64)), y[known]
        same = ((belief > 0.5) == (label > 0.5)) | (label == 0.5)
        shared = 1 - np.abs(belief - label)
        hard = (~known | (y == np.round(y))).all(axis=1)
    return {
        "same": float(same.mean()) if len(same) else None,
        "shared": float(shared.mean()) if len(shared) else None,
        "score": score(info.metric, info.task, logits[hard], y[hard]) if hard.any() else None,
    }


@torch.no_grad()
def _told(net: Network, table: GraphTable, info: CorpusInfo) -> tuple[Array, Array]:
    """Return what a network sees of graphs, ``[G, width]``, and its logits ``[G, C]``."""
    assert isinstance(net, Backbone)  # `check_corpus` has refused networks of nodes
    table = sort_edges(table)
    require_both_ways(table, info)
    with one_thread():
        found = [net(batch) for batch in evaluation_batches(table, net.shape, CPU)]
    seen = torch.cat([features for features, _ in found]).numpy()
    return seen.astype(np.float64), torch.cat([logits for _, logits in found]).numpy()


@torch.no_grad()
def _told_nodes(
    net: Network, graphs: NodeGraphs, facts: NodeFacts, sample: NodeSample, group: str
) -> tuple[Array, Array]:
    nodes = sample.nodes[group]
    if group != "augmented":
        with one_thread():
            seen, logits = net(whole_graph_batch(graphs, nodes, CPU))
        return seen.numpy().astype(np.float64), logits.numpy()
    parts = []
    for number, replica in enumerate(facts.replicas):
        features = _replaced(graphs.features, replica)
        adjacency = graphs.adjacency if replica.edges is None else _own_links(facts, replica)
        moved = replace(graphs, adjacency=adjacency, features=features)
        with one_thread():
            parts.append(net(whole_graph_batch(moved, nodes[sample.replica == number], CPU)))
    seen, logits = (torch.cat(each).numpy() for each in zip(*parts, strict=True))
    return seen.astype(np.float64), logits


def _own_links(facts: NodeFacts, replica: Replica) -> Adjacency:
    """Return the links of all nodes with those of one replica in their place."""
    src, dst = replaced_edges(facts, replica)
    order = np.lexsort((dst, src))
    return adjacency_from_edges(src[order], dst[order], facts.table.total_nodes)


def _replaced(features: Features, replica: Replica) -> Features:
    """Return features of all nodes with those of one replica in their place."""
    if not isinstance(features, csr_matrix):
        found = features.copy()
        found[replica.nodes] = replica.features
        return found
    first, last = int(replica.nodes[0]), int(replica.nodes[-1]) + 1
    parts = [features[:first], replica.features.astype(features.dtype), features[last:]]
    return vstack(parts, format="csr")


def require_both_ways(table: GraphTable, info: CorpusInfo) -> None:
    """Refuse directed graphs, which networks would read as if they were not; edges are sorted."""
    if not is_undirected(table):
        raise StageError(
            f"{info.name} has edges without their way back, which no classifier of gsx reads. "
            "Write the report without one: `--no-models`."
        )
