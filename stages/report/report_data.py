"""Data of a report page, computed before rendering."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

from gsx.ragged import Array
from gsx.stages.augmented.check import Check
from gsx.stages.report import gallery
from gsx.stages.report.model_results import TrainedModels
from gsx.stages.report.sample import GraphColumns
from gsx.stages.report.shift_data import FeatureShift
from gsx.storage.artifacts.manifest import Manifest
from gsx.storage.corpora.corpus import Corpus

if TYPE_CHECKING:
    from gsx.stages.report.model_agreement import ModelAgreement
    from gsx.stages.report.node_data import NodeColumns


@dataclass(frozen=True, slots=True, kw_only=True, eq=False)
class ReportData:
    """Data of the page of a graph-labelled corpus."""

    corpus: Corpus
    lineage: tuple[Manifest, ...]
    columns: GraphColumns
    sizes: Sequence[Mapping[str, Any]]
    points: Mapping[str, Array]
    distances: Sequence[Mapping[str, Any]]
    features: Sequence[FeatureShift]
    feature_means: Mapping[str, Array]
    scaffolds: Sequence[Mapping[str, Any]]
    checks: tuple[Check, ...]
    cards: Sequence[gallery.Card]
    models: Sequence[TrainedModels]
    agreement: ModelAgreement | None
    """Agreement of the reference model, if there is one."""


@dataclass(frozen=True, slots=True, kw_only=True, eq=False)
class NodeReportData:
    """Data of the page of a node-labelled corpus."""

    corpus: Corpus
    lineage: tuple[Manifest, ...]
    columns: NodeColumns
    points: Mapping[str, Array]
    distances: Sequence[Mapping[str, Any]]
    features: Sequence[FeatureShift]
    sampled: Mapping[str, int]
    """Numbers of sampled nodes, by group."""
    checks: tuple[Check, ...]
    cards: Sequence[gallery.Card]
    models: Sequence[TrainedModels]
    agreement: ModelAgreement | None
