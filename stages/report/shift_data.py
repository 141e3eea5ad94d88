"""Shift of node features between groups, as total variation of their histograms."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass

import numpy as np
from scipy.sparse import csr_matrix

from gsx.ragged import Array, Ints
from gsx.schema import CorpusInfo
from gsx.stages.graphs.node_features import Features

SHOWN_FEATURES = 9
MIN_SHIFT = 0.05
"""Smallest total variation of a feature that is plotted."""
MAX_DISTINCT = 64
"""Largest number of distinct values that get one bin each."""


@dataclass(frozen=True, slots=True, kw_only=True, eq=False)
class FeatureShift:
    """Values of one feature in every group."""

    name: str
    categorical: bool
    """Whether the values are category codes."""
    total_variation: Mapping[str, float]
    """Total variation distance to source training nodes, by group."""
    values: Mapping[str, Array]
    named_by_user: bool = False
    """Whether the name is that of a column of a user's table, which is shown as it is."""

    @property
    def label(self) -> str:
        """Name of the feature inside of a text."""
        return self.name if self.named_by_user else self.name.replace("_", " ")

    @property
    def title(self) -> str:
        """Name of the feature as a heading."""
        return self.label if self.named_by_user else self.label.capitalize()


def feature_shifts(values: Mapping[str, Features], info: CorpusInfo) -> list[FeatureShift]:
    """Return the features whose means differ most from source training, largest difference first.

    Sparse features stay sparse until a feature is selected.
    """
    if "train" not in values:
        return []
    column = None if info.sparse else info.column("node_feat")
    names = () if column is None else column.value_names
    shifts = []
    for index in _rank_by_shift(values)[:SHOWN_FEATURES].tolist():
        column_values = {name: _column(features, index) for name, features in values.items()}
        edges = _bins(np.concatenate(list(column_values.values())))
        if len(edges) < 3:
            continue
        shifts.append(
            FeatureShift(
                name=names[index] if names else f"feature {index}",
                categorical=bool(column is not None and column.features),
                total_variation=_total_variation(column_values, edges),
                values=column_values,
                named_by_user=bool(column is not None and column.names),
            )
        )
    return shifts


def _rank_by_shift(values: Mapping[str, Features]) -> Ints:
    """Return feature indices by standardized mean difference, then by index.

    Ranks of augmented and of held-out groups are interleaved, because extrapolated features need
    not be the features that shift.
    """
    means = {name: np.asarray(features.mean(axis=0)).ravel() for name, features in values.items()}
    train = values["train"]
    squares = (
        train.multiply(train) if isinstance(train, csr_matrix) else np.square(train, dtype="f8")
    )
    deviation = np.sqrt(
        np.maximum(np.asarray(squares.mean(axis=0)).ravel() - means["train"] ** 2, 0)
    )

    def ranked(names: Iterable[str]) -> Ints:
        difference = np.max([np.abs(means[name] - means["train"]) for name in names], axis=0)
        return np.argsort(-np.round(difference / np.maximum(deviation, 1e-3), 6), kind="stable")

    held_out = ranked(name for name in values if name != "augmented")
    if "augmented" not in values:
        return held_out
    interleaved = np.stack([ranked(["augmented"]), held_out], axis=1).ravel()
    return np.array(list(dict.fromkeys(interleaved.tolist())))


def _column(features: Features, index: int) -> Array:
    rows = features[:, [index]]
    dense = rows.toarray() if isinstance(rows, csr_matrix) else rows
    return np.asarray(dense[:, 0], dtype=np.float64)


def _total_variation(values: Mapping[str, Array], edges: Array) -> dict[str, float]:
    shares = {
        name: np.histogram(group_values, edges)[0] / max(len(group_values), 1)
        for name, group_values in values.items()
    }
    return {
        name: float(np.abs(share - shares["train"]).sum() / 2)
        for name, share in shares.items()
        if name != "train"
    }


def _bins(values: Array) -> Array:
    distinct = np.unique(values)
    if len(distinct) <= MAX_DISTINCT:
        return np.concatenate([distinct - 1e-6, [distinct[-1] + 1]])
    return np.unique(np.quantile(values, np.linspace(0, 1, 33)))


def features_to_plot(shifts: Sequence[FeatureShift], max_plots: int = 4) -> list[FeatureShift]:
    """Return numerical features whose total variation exceeds ``MIN_SHIFT`` in some group."""
    return [
        shift
        for shift in shifts
        if not shift.categorical and max(shift.total_variation.values(), default=0) > MIN_SHIFT
    ][:max_plots]
