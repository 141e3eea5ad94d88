"""Types of the summary of a manifest, by kind of artifact.

A summary is for display: it is not needed to read data, and a sender can put anything there. It is
checked when it is read. Fields that are not listed here are kept and shown as they are.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Annotated, Any, Literal, NotRequired, TypedDict, TypeVar, cast

from msgspec import Meta

from gsx.errors import ArtifactError
from gsx.schema import SPLITS, CorpusInfo, Metric
from gsx.storage.artifacts.manifest import Manifest
from gsx.storage.corpora.artifact_files import convert
from gsx.storage.corpora.quality_types import (
    CausalSubgraphCounts,
    Count,
    HeldOutComparison,
    MoleculeQuality,
    Score,
)

EnvId = Annotated[int, Meta(ge=-1, le=1 << 31)]
Number = Score | None
Name = Annotated[str, Meta(max_length=65_536)]
Split = Literal["train", "id_val", "id_test", "ood_val", "ood_test", "all"]


class NodeGroup(TypedDict):
    """Labelled nodes of a split and an environment."""

    split: Split
    env_id: EnvId
    count: Count
    labels: list[Count]


class GraphGroup(NodeGroup):
    """Graphs of a split and an environment."""

    nodes: Count
    edges: Count
    min_nodes: Count
    max_nodes: Count
    sizes: list[Count]


class EnvironmentRow(TypedDict):
    """An environment with the statistics of its training graphs or nodes, if there are any."""

    id: Count
    name: Name
    origin: Name
    count: NotRequired[Count]
    labels: NotRequired[list[Count]]
    nodes: NotRequired[Count]
    edges: NotRequired[Count]
    min_nodes: NotRequired[Count]
    max_nodes: NotRequired[Count]
    sizes: NotRequired[list[Count]]


class CorpusSummary(TypedDict):
    """Summary of a corpus."""

    name: Name
    environments: list[EnvironmentRow]
    groups: list[GraphGroup]
    oddities: dict[Name, Count]
    node_groups: NotRequired[list[NodeGroup]]
    quality: NotRequired[dict[str, Any]]


class OptionQuality(TypedDict):
    """Quality of the graphs of one splicing option."""

    molecules: NotRequired[MoleculeQuality]

    label_conflicts: NotRequired[Count]
    """Further labels of graphs that occur with more than one label."""
    contradicts_training: NotRequired[Count]
    """Graphs that equal a training graph with another label."""
    causal_subgraphs: NotRequired[CausalSubgraphCounts]
    graphs: Annotated[int, Meta(ge=1, le=1 << 53)]
    distinct: Count
    overlap_with_held_out: Count
    min_nodes: Count
    max_nodes: Count
    smaller_than_training: float
    larger_than_training: float
    bridges_per_joint: Number
    rejected: dict[Name, Count]


class FeatxQuality(TypedDict, total=False):
    """Quality of extrapolated graphs, or of replicas."""

    extrapolated_features: Count
    unchanged: Count
    graphs: Count
    of: dict[Name, Count]
    distinct: Count
    same_as_training: Count
    overlap_with_held_out: Count
    replicas: Count
    extrapolated_nodes: Count
    rejected: dict[Name, Count]


class AugmentQuality(TypedDict, total=False):
    """Quality of augmented graphs, or of replicas."""

    method: Name
    graphs: Count
    distinct: Count
    same_as_training: Count
    overlap_with_held_out: Count
    rejected: dict[Name, Count]


class SubgraphScores(TypedDict, total=False):
    """Metrics of subgraphs, over all graphs or in one environment."""

    env_id: EnvId
    iou: Number
    exact: Number
    node_auc: Number
    subgraph: Number
    rest: Number
    whole: Number
    causal_share: Number
    share_of_causal: Number
    share_of_environmental: Number


class EnvironmentScores(SubgraphScores):
    """Metrics of subgraphs in one environment."""

    env_id: EnvId  # type: ignore[misc]


class GroupedScores(SubgraphScores, total=False):
    """Metrics over all graphs, and per environment."""

    per_environment: list[EnvironmentScores]


class ExtractorQuality(TypedDict, total=False):
    """Quality of an extractor."""

    causal: GroupedScores
    held_out_scores: SubgraphScores
    held_out_comparison: HeldOutComparison
    held_out_scores_per_environment: list[EnvironmentScores]
    scaffold: GroupedScores


class Accuracy(TypedDict, total=False):
    """Accuracy, and that of the most frequent value."""

    accuracy: Number
    most_frequent: Number


class EpochsUsed(TypedDict):
    """Epochs that were trained, and the epoch, from 1, whose weights are kept."""

    trained: Count
    kept: Count


class BridgeQuality(TypedDict, total=False):
    """Quality of a bridge model."""

    epochs: EpochsUsed

    edge_auc: Number
    edge_auc_same_degrees: Number
    count: Accuracy


class MaskSummary(TypedDict, total=False):
    """Summary of a feature mask."""

    description: Name
    feature_ranges: list[Name]


class MaskTruth(TypedDict, total=False):
    """Selected features against those of the ground truth."""

    precision: Number
    recall: Number


class MaskQuality(TypedDict, total=False):
    """Quality of a feature mask."""

    truth: MaskTruth


class ModelQuality(TypedDict):
    """Scores of a trained model."""

    metric: Metric
    selected: NotRequired[Name]
    """Rule that selects the epoch to report; models of older versions have none."""
    chosen: NotRequired[dict[Name, str | float]]
    """Hyper-parameters of a linear model, chosen by validation unless they were given."""
    selection: dict[Name, dict[Name, Number]]
    """Selection rule → its epoch, and the scores of all splits in that epoch."""


class EpochLoss(TypedDict):
    """Mean loss of an epoch of one network."""

    net: Name
    epoch: Count
    loss: Score


class MaskHistory(TypedDict):
    """Losses of the networks that compare masks, and the candidates of the search."""

    losses: list[dict[Name, Score]]
    trials: list[dict[Name, Score]]


class MaskFeatures(TypedDict):
    """Names of the features by role."""

    description: Name
    non_causal: list[Name]
    kept: list[Name]
    constant: list[Name]


class DifferenceRow(TypedDict):
    """Difference of a recipe to no augmentation, with its interval."""

    mean: Score
    low: Score
    high: Score
    probability: Score


class RecipeRow(TypedDict):
    """Result of one recipe."""

    name: Name
    screen: DifferenceRow | None
    confirmed: DifferenceRow | None


class Recommendation(TypedDict):
    """Summary of a recommendation."""

    choice: Name
    reason: Name
    decided_by: Name
    metric: Metric
    validation: Name
    threshold: Number
    recipes: list[RecipeRow]


class TrainingOptions(TypedDict):
    """Options of `train` that reports show."""

    learner: Name
    backbone: Name
    epochs: Count
    seed: NotRequired[int]
    origins: NotRequired[list[Name] | None]
    augmented: NotRequired[bool]


_QUALITY: Mapping[str, Any] = {
    "extractor": ExtractorQuality,
    "bridge": BridgeQuality,
    "mask": MaskQuality,
    "model": ModelQuality,
}
"""Type of the quality of every kind but corpora."""
_T = TypeVar("_T")


def summary_name(manifest: Manifest) -> str:
    """Return the name of the dataset in a summary, or the empty string."""
    return _checked(manifest, manifest.summary.get("name", ""), Name, "name")


def check_summary(manifest: Manifest) -> None:
    """Raise ArtifactError if the summary cannot be displayed."""
    summary_name(manifest)
    if manifest.kind == "recommendation":
        recommendation_summary(manifest)
    elif manifest.kind == "corpus":
        corpus_summary(manifest)
    else:
        read_quality(manifest)


def corpus_summary(manifest: Manifest, info: CorpusInfo | None = None) -> CorpusSummary:
    """Return the summary of a corpus; with ``info`` it must agree with the description."""
    summary = _checked(manifest, manifest.summary, CorpusSummary)
    read_quality(manifest)
    if info is not None:
        classes = len(info.outputs) if info.task == "classification" else 2
        groups: list[NodeGroup] = [*summary["groups"], *summary.get("node_groups", ())]
        names = [environment.name for environment in info.environments]
        if (
            [row["name"] for row in summary["environments"]] != names
            or [row["id"] for row in summary["environments"]] != list(range(len(names)))
            or any(group["env_id"] >= len(names) for group in groups)
            or any(len(group["labels"]) != classes for group in groups)
            or any(sum(group["labels"]) > group["count"] for group in groups)
            or (info.level == "node") != ("node_groups" in summary)
        ):
            raise ArtifactError(
                f"{_where(manifest)}: its environments and label counts do not agree with "
                "corpus.json. Get the artifact from its source again."
            )
    return summary


def read_quality(manifest: Manifest) -> dict[str, Any]:
    """Return the quality metrics of an artifact; empty if it has none."""
    quality = _checked(manifest, manifest.summary.get("quality", {}), dict[str, Any], "quality")
    if manifest.kind == "corpus":
        for name, row in quality.items():
            type_ = _corpus_quality(name)
            if type_ is not None:
                _checked(manifest, row, type_, f"quality.{name}")
    elif quality and manifest.kind in _QUALITY:
        _checked(manifest, quality, _QUALITY[manifest.kind], "quality")
    return quality


def mask_summary(manifest: Manifest) -> MaskSummary:
    """Return the summary of a feature mask."""
    return _checked(manifest, manifest.summary, MaskSummary)


def recommendation_summary(manifest: Manifest) -> Recommendation:
    """Return the summary of a recommendation."""
    value = manifest.summary.get("recommendation")
    return _checked(manifest, value, Recommendation, "recommendation")


def model_scores(manifest: Manifest) -> ModelQuality:
    """Return the scores of a trained model."""
    return _checked(manifest, manifest.summary.get("quality"), ModelQuality, "quality")


def selected_rule(quality: ModelQuality) -> str:
    """Return the rule that selects the epoch to report.

    Models before version 3 of `train` name none: OOD validation, or the first rule they have.
    """
    rules = (quality.get("selected", "ood_val"), "ood_val", "id_val")
    return next((rule for rule in rules if rule in quality["selection"]), "last")


def read_options(manifest: Manifest, type_: type[_T]) -> _T:
    """Return the options of a stage as a type that lists those which the caller needs."""
    return _checked(manifest, manifest.config, type_, field="", part="configuration")


def _corpus_quality(name: str) -> Any:  # noqa: ANN401
    if name.startswith("option_"):
        return OptionQuality
    return {"featx": FeatxQuality, "augment": AugmentQuality}.get(name)


def _checked(
    manifest: Manifest, value: object, type_: type[_T], field: str = "", part: str = "summary"
) -> _T:
    """Return ``value`` itself, with all its fields, if it has the type."""
    where = f"{_where(manifest, part)}{f' ({field})' if field else ''}"
    convert(value, type_, where)
    return cast("_T", value)


def _where(manifest: Manifest, part: str = "summary") -> str:
    return f"the {part} of {manifest.kind} {manifest.key[:12]}"


assert set(SPLITS) == set(Split.__args__)  # type: ignore[attr-defined]
