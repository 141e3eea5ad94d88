"""How far a corpus reaches outside its training graphs: sizes, degrees, features, surroundings."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import numpy as np

from gsx.ragged import Array, Ragged, concat_ragged, decode_texts, row_indices
from gsx.schema import CorpusInfo
from gsx.stages.graphs.statistics import share_outside
from gsx.stages.report.graph_embedding import embed, nearest, plane_of
from gsx.stages.report.sample import Facts, Sample
from gsx.stages.report.shift_data import Shift, shifts
from gsx.storage.corpora.corpus import Corpus

TRAIN_SCAFFOLDS, MOST_SCAFFOLDS = 6000, 600
"""Molecules of training, and of each other group, whose scaffold is worked out."""


def sizes(facts: Facts) -> list[dict[str, Any]]:
    """Return one row per group: how large its graphs are, and how many are out of range."""
    train = facts.nodes[facts.groups["train"]] if "train" in facts.groups else facts.nodes
    low, high = int(train.min()), int(train.max())
    found = []
    for name, rows in facts.groups.items():
        nodes = facts.nodes[rows]
        far = share_outside(nodes, low, high)
        found.append(
            {
                "group": name,
                "graphs": len(rows),
                "min": int(nodes.min()),
                "median": float(np.median(nodes)),
                "max": int(nodes.max()),
                "degree": float((facts.edges[rows] / np.maximum(nodes, 1)).mean()),
                **far,
            }
        )
    return found


def surroundings(sample: Sample) -> tuple[dict[str, Array], list[dict[str, Any]]]:
    """Return places of sampled graphs in a plane, and how near each group is to what is trained on.

    No network is asked: graphs are the surroundings of their nodes.
    """
    groups = sample.groups
    vectors = embed(sample.table.take(np.concatenate(list(groups.values()))))
    ends = np.cumsum([len(rows) for rows in groups.values()])
    return laid_flat(dict(zip(groups, np.split(vectors, ends[:-1]), strict=True)))


def laid_flat(
    vectors: Mapping[str, Array],
) -> tuple[dict[str, Array], list[dict[str, Any]]]:
    """Return the places of vectors in a plane by group, and how near each is to training.

    Distances are those of the space before it was flattened.
    """
    names = list(vectors)
    owner = np.repeat(np.arange(len(names)), [len(each) for each in vectors.values()])
    known = owner == names.index("train") if "train" in names else np.ones(len(owner), dtype=bool)
    scaled, flat = plane_of(np.concatenate(list(vectors.values())), known)
    points = {name: flat[owner == number] for number, name in enumerate(names)}
    rows = []
    if "train" in names:
        source = scaled[known]
        extra = scaled[owner == names.index("augmented")] if "augmented" in names else None
        for number, name in enumerate(names):
            if name in ("train", "augmented"):
                continue
            mine = scaled[owner == number]
            row = {"group": name, "to_source": float(np.median(nearest(mine, source)))}
            if extra is not None:
                row["to_augmented"] = float(np.median(nearest(mine, extra)))
            rows.append(row)
    return points, rows


def features(info: CorpusInfo, sample: Sample) -> list[Shift]:
    """Return the features of nodes that shift most between groups of sampled graphs."""
    if not any(column.name == "node_feat" for column in info.columns):
        return []
    tables = {name: sample.table.take(rows) for name, rows in sample.groups.items()}
    return shifts({name: each.dense("node", "node_feat") for name, each in tables.items()}, info)


def feature_means(info: CorpusInfo, sample: Sample) -> Mapping[str, Array]:
    """Return the mean of all features of every sampled graph, where features are real numbers."""
    column = next((column for column in info.columns if column.name == "node_feat"), None)
    if column is None or not column.dtype.startswith("float"):
        return {}
    found = {}
    for name, rows in sample.groups.items():
        table = sample.table.take(rows)
        mean = table.dense("node", "node_feat").mean(axis=1, dtype=np.float64)
        total = np.bincount(row_indices(table.node_ptr), mean, minlength=len(table))
        found[name] = total / np.maximum(table.num_nodes, 1)
    every = np.concatenate(list(found.values()))
    return found if np.ptp(every) > 0 else {}


def scaffolds(corpus: Corpus, facts: Facts) -> list[dict[str, Any]]:
    """Return, per group, how many molecules have a scaffold that training molecules lack.

    Some thousand training molecules stand for all, some hundred of each other group.
    """
    if not any(column.name == "smiles" for column in corpus.info.columns):
        return []
    from gsx.stages.chem.smiles_reader import read_molecules

    parts = [corpus.graph_columns(each, ["smiles"])["smiles"] for each in range(len(corpus.shards))]
    texts = concat_ragged([part for part in parts if isinstance(part, Ragged)])
    found = {}
    for name, rows in facts.groups.items():
        most = TRAIN_SCAFFOLDS if name == "train" else MOST_SCAFFOLDS
        some = rows[np.linspace(0, len(rows) - 1, min(most, len(rows))).astype(np.int64)]
        found[name] = read_molecules(decode_texts(texts.take(some))).scaffolds
    known = set(found.get("train", ()))
    return [
        {
            "group": name,
            "graphs": len(each),
            "distinct": len(set(each)),
            "unseen": float(np.mean([scaffold not in known for scaffold in each])),
            "known_from": len(found["train"]),
        }
        for name, each in found.items()
        if name != "train" and each
    ]
