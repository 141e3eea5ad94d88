"""Compare two corpora: shared graphs, and distances between their distributions."""

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
    """Compared properties of every graph, ``[G]`` each."""

    split: Ints
    nodes: Ints
    degree: Array
    label: Ints
    hash: Hashes


def compare(left: Corpus, right: Corpus) -> dict[str, Any]:
    """Return counts, shared graphs and total variation distances, overall and per split.

    Graphs are equal if their Weisfeiler-Lehman hashes are, which cover structure, node features and
    edge attributes. Distances are 0 for equal and 1 for disjoint distributions.
    """
    ours, theirs = _read(left), _read(right)
    codes = sorted({*np.unique(ours.split).tolist(), *np.unique(theirs.split).tolist()})
    return {
        "all": _row(ours, theirs, None),
        "splits": {SPLITS[code]: _row(ours, theirs, code) for code in codes},
    }


def _read(corpus: Corpus) -> _Graphs:
    available = {column.name for column in corpus.info.columns}
    names = [name for name in ("split", "label", "node_feat", "edge_attr") if name in available]
    blocks: list[tuple[Array, ...]] = [
        (
            table.dense("graph", "split").astype(np.int64),
            table.num_nodes,
            mean_degrees(table),
            table.dense("graph", "label").astype(np.int64),
            wl_hashes(table),
        )
        for table in corpus.iter_tables(columns=names)
    ]
    return _Graphs(*map(np.concatenate, zip(*blocks, strict=True)))


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
    """Return the total variation distance of two samples; None if one is empty."""
    if not len(left) or not len(right):
        return None
    both = np.concatenate([left, right])
    kinds = np.unique(both)
    if len(kinds) > BINS:
        edges = np.unique(np.quantile(both, np.linspace(0, 1, BINS + 1)))
        left, right = (np.searchsorted(edges, values, side="right") for values in (left, right))
        kinds = np.unique(np.concatenate([left, right]))
    shares = [np.bincount(np.searchsorted(kinds, values), minlength=len(kinds)) / len(values)
              for values in (left, right)]  # fmt: skip
    return round(float(np.abs(shares[0] - shares[1]).sum() / 2), 6)
