"""Which features shift most between groups of nodes, and how their values are spread."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass

import numpy as np
from scipy.sparse import csr_matrix

from gsx.ragged import Array, Ints
from gsx.schema import CorpusInfo
from gsx.stages.graphs.node_features import Features

SHOWN_FEATURES = 9
SHIFTS = 0.05
"""Total variation from which a feature is worth a picture."""
FEW_KINDS = 64
"""Kinds of values up to which each has a bin of its own."""


@dataclass(frozen=True, slots=True, kw_only=True, eq=False)
class Shift:
    """One feature in every group."""

    name: str
    words: bool
    """Whether its values are codes of words, not numbers."""
    far: Mapping[str, float]
    """Total variation between the nodes of training and those of every other group."""
    values: Mapping[str, Array]


def shifts(values: Mapping[str, Features], info: CorpusInfo) -> list[Shift]:
    """Return the features whose means are furthest from those of training, furthest first.

    Where features are few all are there. Sparse rows stay sparse until a feature is chosen.
    """
    if "train" not in values:
        return []
    column = None if info.sparse else info.column("node_feat")
    named = (column.features if column is not None else None) or ()
    found = []
    for place in _furthest(values)[:SHOWN_FEATURES].tolist():
        mine = {name: _column(each, place) for name, each in values.items()}
        edges = _bins(np.concatenate(list(mine.values())))
        if len(edges) < 3:
            continue
        found.append(
            Shift(
                name=named[place].name if named else f"feature {place}",
                words=bool(named),
                far=_variation(mine, edges),
                values=mine,
            )
        )
    return found


def _furthest(values: Mapping[str, Features]) -> Ints:
    """Return features by how many deviations of training lie between means, then by number.

    What was made and what is held out take turns: what moved need not be what shifts.
    """
    means = {name: np.asarray(each.mean(axis=0)).ravel() for name, each in values.items()}
    train = values["train"]
    squares = (
        train.multiply(train) if isinstance(train, csr_matrix) else np.square(train, dtype="f8")
    )
    spread = np.sqrt(np.maximum(np.asarray(squares.mean(axis=0)).ravel() - means["train"] ** 2, 0))

    def ranked(names: Iterable[str]) -> Ints:
        apart = np.max([np.abs(means[name] - means["train"]) for name in names], axis=0)
        return np.argsort(-np.round(apart / np.maximum(spread, 1e-3), 6), kind="stable")

    held_out = ranked(name for name in values if name != "augmented")
    if "augmented" not in values:
        return held_out
    both = np.stack([ranked(["augmented"]), held_out], axis=1).ravel()
    return np.array(list(dict.fromkeys(both.tolist())))


def _column(features: Features, place: int) -> Array:
    rows = features[:, [place]]
    plain = rows.toarray() if isinstance(rows, csr_matrix) else rows
    return np.asarray(plain[:, 0], dtype=np.float64)


def _variation(values: Mapping[str, Array], edges: Array) -> dict[str, float]:
    shares = {
        name: np.histogram(each, edges)[0] / max(len(each), 1) for name, each in values.items()
    }
    return {
        name: float(np.abs(share - shares["train"]).sum() / 2)
        for name, share in shares.items()
        if name != "train"
    }


def _bins(values: Array) -> Array:
    kinds = np.unique(values)
    if len(kinds) <= FEW_KINDS:
        return np.concatenate([kinds - 1e-6, [kinds[-1] + 1]])
    return np.unique(np.quantile(values, np.linspace(0, 1, 33)))


def plots(found: Sequence[Shift], most: int = 4) -> list[Shift]:
    """Return the features whose values are worth a picture: numbers that shift somewhere."""
    return [
        each for each in found if not each.words and max(each.far.values(), default=0) > SHIFTS
    ][:most]
