"""Compare two corpora: how many graphs they share, and how far their splits lie apart."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import numpy as np

from gsx.ragged import Array, Ints
from gsx.schema import SPLITS
from gsx.stages.graphs.statistics import mean_degrees
from gsx.stages.graphs.wl_hash import Hashes, wl_hashes
from gsx.storage.corpora.corpus import Corpus

BINS = 32


@dataclass(frozen=True, slots=True, eq=False)
class _Graphs:
    """What is compared of every graph, ``[G]`` each."""

    split: Ints
    nodes: Ints
    degree: Array
    label: Ints
    hash: Hashes


def compare(left: Corpus, right: Corpus) -> dict[str, Any]:
    """Return, in all and per split, counts, shared graphs and total variations.

    Graphs are the same when their Weisfeiler-Lehman hashes are: structure, node features and edge
    attributes, whatever the order of nodes. Distances are 0 for equal and 1 for disjoint spreads.
    """
    ours, theirs = _read(left), _read(right)
    codes = sorted({*np.unique(ours.split).tolist(), *np.unique(theirs.split).tolist()})
    return {
        "all": _row(ours, theirs, None),
        "splits": {SPLITS[code]: _row(ours, theirs, code) for code in codes},
    }


def _read(corpus: Corpus) -> _Graphs:
    known = {column.name for column in corpus.info.columns}
    names = [name for name in ("split", "label", "node_feat", "edge_attr") if name in known]
    parts: list[tuple[Array, ...]] = [
        (
            table.dense("graph", "split").astype(np.int64),
            table.num_nodes,
            mean_degrees(table),
            table.dense("graph", "label").astype(np.int64),
            wl_hashes(table),
        )
        for table in corpus.iter_tables(columns=names)
    ]
    return _Graphs(*map(np.concatenate, zip(*parts, strict=True)))


def _row(left: _Graphs, right: _Graphs, split: int | None) -> dict[str, Any]:
    a = np.flatnonzero((left.split == split) if split is not None else left.split >= 0)
    b = np.flatnonzero((right.split == split) if split is not None else right.split >= 0)
    shared = int(np.isin(left.hash[a], right.hash[b]).sum())
    back = int(np.isin(right.hash[b], left.hash[a]).sum())
    return {
        "left": len(a),
        "right": len(b),
        "left_found_in_right": shared,
        "right_found_in_left": back,
        "distance": {
            "size": _distance(left.nodes[a], right.nodes[b]),
            "degree": _distance(left.degree[a], right.degree[b]),
            "label": _distance(left.label[a], right.label[b]),
        },
    }


def _distance(left: Array, right: Array) -> float | None:
    """Return the total variation between two spreads; None where one of them is empty."""
    if not len(left) or not len(right):
        return None
    both = np.concatenate([left, right])
    kinds = np.unique(both)
    if len(kinds) > BINS:
        edges = np.unique(np.quantile(both, np.linspace(0, 1, BINS + 1)))
        left, right = (np.searchsorted(edges, each, side="right") for each in (left, right))
        kinds = np.unique(np.concatenate([left, right]))
    shares = [np.bincount(np.searchsorted(kinds, each), minlength=len(kinds)) / len(each)
              for each in (left, right)]  # fmt: skip
    return round(float(np.abs(shares[0] - shares[1]).sum() / 2), 6)
