"""Coverage beyond the training distribution: sizes, degrees, features, scaffolds, embeddings."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import numpy as np

from gsx.ragged import Array, Ragged, concat_ragged, decode_texts, row_indices
from gsx.schema import CorpusInfo
from gsx.stages.graphs.statistics import share_outside
from gsx.stages.report.graph_embedding import embed, nearest_distances, project_to_plane
from gsx.stages.report.sample import GraphColumns, Sample
from gsx.stages.report.shift_data import FeatureShift, feature_shifts
from gsx.storage.corpora.corpus import Corpus

TRAIN_SCAFFOLDS, OTHER_SCAFFOLDS = 6000, 600
"""Numbers of training molecules, and of molecules of each other group, with computed scaffolds."""


def size_rows(columns: GraphColumns) -> list[dict[str, Any]]:
    """Return one row per group: graph sizes and shares outside the training range."""
    train = columns.nodes[columns.groups["train"]] if "train" in columns.groups else columns.nodes
    low, high = int(train.min()), int(train.max())
    table_rows = []
    for name, rows in columns.groups.items():
        nodes = columns.nodes[rows]
        outside = share_outside(nodes, low, high)
        table_rows.append(
            {
                "group": name,
                "graphs": len(rows),
                "min": int(nodes.min()),
                "median": float(np.median(nodes)),
                "max": int(nodes.max()),
                "degree": float((columns.edges[rows] / np.maximum(nodes, 1)).mean()),
                **outside,
            }
        )
    return table_rows


def embed_sample(sample: Sample) -> tuple[dict[str, Array], list[dict[str, Any]]]:
    """Return 2-D positions of sampled graphs by group, and distances of groups to training graphs.

    Embeddings need no trained network; see ``graph_embedding``.
    """
    groups = sample.groups
    vectors = embed(sample.table.take(np.concatenate(list(groups.values()))))
    ends = np.cumsum([len(rows) for rows in groups.values()])
    return project_groups(dict(zip(groups, np.split(vectors, ends[:-1]), strict=True)))


def project_groups(
    vectors: Mapping[str, Array],
) -> tuple[dict[str, Array], list[dict[str, Any]]]:
    """Return 2-D positions of vectors by group, and distances of held-out groups to training.

    A distance is the median over a group of the distance to the nearest training vector, in the
    standardized space before projection. Of source and augmented vectors, equal numbers are used,
    because the nearest of more vectors is nearer. ``nearer`` is the fraction of a group whose
    nearest augmented vector is nearer than the nearest source vector.
    """
    names = list(vectors)
    owner = np.repeat(
        np.arange(len(names)), [len(group_vectors) for group_vectors in vectors.values()]
    )
    is_train = (
        owner == names.index("train") if "train" in names else np.ones(len(owner), dtype=bool)
    )
    scaled, positions = project_to_plane(np.concatenate(list(vectors.values())), is_train)
    points = {name: positions[owner == number] for number, name in enumerate(names)}
    rows = []
    if "train" in names:
        train = scaled[is_train]
        augmented = scaled[owner == names.index("augmented")] if "augmented" in names else None
        if augmented is not None:
            size = min(len(train), len(augmented))
            train, augmented = (_thin(vectors, size) for vectors in (train, augmented))
        for number, name in enumerate(names):
            if name in ("train", "augmented"):
                continue
            group = scaled[owner == number]
            to_source = nearest_distances(group, train)
            row = {"group": name, "to_source": float(np.median(to_source))}
            if augmented is not None:
                to_augmented = nearest_distances(group, augmented)
                row["to_augmented"] = float(np.median(to_augmented))
                row["nearer"] = float(
                    np.mean((to_augmented < to_source) + 0.5 * (to_augmented == to_source))
                )
            rows.append(row)
    return points, rows


def _thin(vectors: Array, size: int) -> Array:
    """Return ``size`` vectors at equal distances in their order."""
    return vectors[np.linspace(0, len(vectors) - 1, size).astype(np.int64)]


def node_feature_shifts(info: CorpusInfo, sample: Sample) -> list[FeatureShift]:
    """Return the node features that shift most between groups of sampled graphs."""
    if not any(column.name == "node_feat" for column in info.columns):
        return []
    tables = {name: sample.table.take(rows) for name, rows in sample.groups.items()}
    return feature_shifts(
        {name: table.dense("node", "node_feat") for name, table in tables.items()}, info
    )


def graph_feature_means(info: CorpusInfo, sample: Sample) -> Mapping[str, Array]:
    """Return the mean over nodes and features of every sampled graph; empty for integers."""
    column = next((column for column in info.columns if column.name == "node_feat"), None)
    if column is None or not column.dtype.startswith("float"):
        return {}
    means = {}
    for name, rows in sample.groups.items():
        table = sample.table.take(rows)
        mean = table.dense("node", "node_feat").mean(axis=1, dtype=np.float64)
        total = np.bincount(row_indices(table.node_ptr), mean, minlength=len(table))
        means[name] = total / np.maximum(table.num_nodes, 1)
    all_means = np.concatenate(list(means.values()))
    return means if np.ptp(all_means) > 0 else {}


def scaffold_rows(corpus: Corpus, columns: GraphColumns) -> list[dict[str, Any]]:
    """Return, per group, the share of molecules whose scaffold no training molecule has.

    Scaffolds are computed for ``TRAIN_SCAFFOLDS`` training molecules and for ``OTHER_SCAFFOLDS``
    molecules of each other group.
    """
    if not any(column.name == "smiles" for column in corpus.info.columns):
        return []
    from gsx.stages.chem.smiles_reader import read_molecules

    smiles = [
        corpus.graph_columns(shard_index, ["smiles"])["smiles"]
        for shard_index in range(len(corpus.shards))
    ]
    texts = concat_ragged([texts for texts in smiles if isinstance(texts, Ragged)])
    scaffolds = {}
    for name, rows in columns.groups.items():
        max_molecules = TRAIN_SCAFFOLDS if name == "train" else OTHER_SCAFFOLDS
        sampled = rows[
            np.linspace(0, len(rows) - 1, min(max_molecules, len(rows))).astype(np.int64)
        ]
        scaffolds[name] = read_molecules(decode_texts(texts.take(sampled))).scaffolds
    train_scaffolds = set(scaffolds.get("train", ()))
    return [
        {
            "group": name,
            "graphs": len(group_scaffolds),
            "distinct": len(set(group_scaffolds)),
            "unseen": float(np.mean([text not in train_scaffolds for text in group_scaffolds])),
            "known_from": len(scaffolds["train"]),
        }
        for name, group_scaffolds in scaffolds.items()
        if name != "train" and group_scaffolds
    ]
