"""Types of ``statistics.json``, of graphs and of labelled nodes."""

from __future__ import annotations

from typing import Any, Literal, NotRequired, TypedDict

from gsx.limits import STATISTICS_BYTES
from gsx.schema import Task
from gsx.storage.corpora.artifact_files import JsonFile
from gsx.storage.corpora.quality_types import Count, Score
from gsx.storage.corpora.summary import EnvId, Name, Split
from gsx.storage.corpora.target_statistics import TargetStatistics

STATISTICS = "statistics.json"


class Distribution(TypedDict):
    """Distribution of a number."""

    mean: Score
    std: Score
    quantiles: tuple[Score, Score, Score, Score, Score, Score, Score]


class GraphRow(TypedDict):
    """Statistics of the graphs of a split, of a split and a domain, or of an environment."""

    graphs: Count
    nodes: Distribution
    mean_degree: Distribution
    max_degree: Count
    labels: list[Count]


class SplitRow(GraphRow):
    """Statistics of the graphs of a split, or of a split and a domain."""

    split: Split
    domain_id: NotRequired[int]
    features: NotRequired[FeatureRow]


class EnvironmentRow(GraphRow):
    """Statistics of the training graphs of an environment."""

    env_id: EnvId


class Outside(TypedDict):
    """Shares of graphs below and above the sizes of training graphs."""

    below: Score
    above: Score


class Shift(TypedDict):
    """Distance of a split from training."""

    domains_of_training: Score
    distance: Score
    distance_by_chance: Score
    none: bool


class Repeated(TypedDict):
    """Items of a split that equal a training item."""

    share: Score
    with_another_label: Count


class FeatureRow(TypedDict, total=False):
    """Means of the first features, or the share of nodes with categories that training lacks."""

    mean: list[Score]
    std: list[Score]
    nodes_with_unseen_words: Score


class Definitions(TypedDict):
    """Names that the numbers refer to; documents before version 4 of the stage have none."""

    task: NotRequired[Task]
    outputs: NotRequired[list[Name]]
    domain: NotRequired[Name]
    domains: NotRequired[list[Name]]
    feature_names: NotRequired[list[Name]]
    targets: NotRequired[dict[Split, list[TargetStatistics]]]
    """Statistics of targets that class counts do not describe, per split."""


class GraphStatistics(Definitions):
    """Statistics of a corpus of labelled graphs."""

    groups: list[SplitRow]
    splits: list[SplitRow]
    environments: list[EnvironmentRow]
    outside_training_sizes: dict[Split, Outside]
    shift: dict[Split, Shift]
    equal_to_training: dict[Split, Repeated]


class NodeRow(TypedDict):
    """Statistics of the labelled nodes of a split or of an environment."""

    nodes: Count
    degree: Distribution
    features_present: Distribution
    labels: list[Count]


class NodeSplitRow(NodeRow):
    """Statistics of the labelled nodes of a split."""

    split: Split
    edges_to_training: Score
    features: NotRequired[FeatureRow]


class NodeEnvironmentRow(NodeRow):
    """Statistics of the training nodes of an environment."""

    env_id: EnvId


class NodeStatistics(Definitions):
    """Statistics of a corpus of labelled nodes."""

    level: Literal["node"]
    splits: list[NodeSplitRow]
    environments: list[NodeEnvironmentRow]
    shift: dict[Split, Shift]
    equal_to_training: dict[Split, Repeated]
    class_numbering: dict[Split, dict[str, Any]]
    equal_environments: list[dict[str, Score]]


STATISTICS_FILE = JsonFile(NodeStatistics, GraphStatistics, limit=STATISTICS_BYTES)
"""One row per split and domain, so the file may be large."""
