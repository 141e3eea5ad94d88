"""Where the items of a raw file go: splits, environments, domains and the columns that say so."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass

import numpy as np

from gsx.columns import ORIGINS, SPLITS, Environment
from gsx.provenance import source_provenance
from gsx.ragged import Array, Ints
from gsx.table import GraphTable, Values

Key = int | float | str
"""What items are sorted by."""


@dataclass(frozen=True, slots=True, eq=False)
class Domains:
    """The domain of every item."""

    keys: Sequence[Key]
    """What each domain stands for, in ascending order."""
    number: Ints
    """``[n]`` domain of every item, a place in ``keys``."""


def domains_of(keys: Sequence[Key]) -> Domains:
    """Give every item the number of its key among the distinct keys in ascending order."""
    known = sorted(set(keys))
    rank = {key: number for number, key in enumerate(known)}
    return Domains(known, np.array([rank[key] for key in keys], dtype=np.int64))


def name_environments(
    env_id: Ints, domain: Ints, say: Callable[[int, int], str]
) -> tuple[Environment, ...]:
    """Name every environment after the lowest and the highest domain of its items."""
    found = []
    for number in range(int(env_id.max(initial=-1)) + 1):
        inside = domain[env_id == number]
        found.append(Environment(id=number, name=say(int(inside.min()), int(inside.max()))))
    return tuple(found)


def placed_columns(
    graph_id: Ints, split: Ints, env_id: Ints, domain: Ints, y: Array, label: Array
) -> dict[str, Values]:
    """Return the graph columns every corpus has; only training and held-out graphs have ``env_id``.

    All are ``[G]``, but ``y``, which is ``[G, C]``.
    """
    return {
        "graph_id": graph_id.astype(np.int64),
        "split": split.astype(np.int8),
        "env_id": env_id.astype(np.int32),
        "domain_id": domain.astype(np.int32),
        "origin": np.full(len(graph_id), ORIGINS.index("source"), dtype=np.int8),
        "y": y.astype(np.float32),
        "label": label.astype(np.int32),
        **source_provenance(len(graph_id)),
    }


def builder(table: GraphTable) -> Callable[[str, int, int], GraphTable]:
    """Return what gives graphs ``start:stop`` of a split of ``table``."""
    split = table.dense("graph", "split")

    def build(name: str, start: int, stop: int) -> GraphTable:
        return table.take(np.flatnonzero(split == SPLITS.index(name))[start:stop])

    return build
