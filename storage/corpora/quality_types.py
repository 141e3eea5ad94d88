"""Types of parts of quality metrics in summaries."""

from __future__ import annotations

from typing import Annotated, Literal, NotRequired, TypedDict

from msgspec import Meta

Count = Annotated[int, Meta(ge=0, le=1 << 53)]
Score = Annotated[float, Meta(ge=-1e300, le=1e300)]
Interval = Annotated[list[Score], Meta(min_length=2, max_length=2)] | None
"""A 95 % interval; None if its score is undefined."""


class CausalSubgraphCounts(TypedDict):
    """Causal subgraphs with a label: all, too small ones, distinct ones, and label conflicts."""

    subgraphs: Count
    too_small: Count
    distinct: Count
    in_conflict: Count
    distinct_in_conflict: Count


class MoleculeQuality(TypedDict):
    """Components left out because RDKit rejects them or SMILES cannot describe them."""

    components_left_out: NotRequired[Count]


class HeldOutComparison(TypedDict):
    """Intervals of label predictions from causal subgraphs, from the rest and from whole graphs."""

    graphs: Count
    measure: Literal["balanced_accuracy", "roc_auc", "r2"]
    chance: Score
    subgraph: Interval
    rest: Interval
    whole: Interval
    difference: Interval
    """Of the score of the subgraph minus that of the rest."""
