"""All that the page of a corpus shows, found before anything is drawn."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

from gsx.ragged import Array
from gsx.stages.report import gallery
from gsx.stages.report.check import Check
from gsx.stages.report.model_results import Trained
from gsx.stages.report.sample import Facts
from gsx.stages.report.shift_data import Shift
from gsx.storage.artifacts.manifest import Manifest
from gsx.storage.corpora.corpus import Corpus

if TYPE_CHECKING:
    from gsx.stages.report.model_agreement import Opinion
    from gsx.stages.report.node_data import NodeFacts


@dataclass(frozen=True, slots=True, kw_only=True, eq=False)
class Findings:
    """All that the page shows of a corpus of graphs."""

    corpus: Corpus
    lineage: tuple[Manifest, ...]
    facts: Facts
    sizes: Sequence[Mapping[str, Any]]
    points: Mapping[str, Array]
    near: Sequence[Mapping[str, Any]]
    features: Sequence[Shift]
    feature_means: Mapping[str, Array]
    scaffolds: Sequence[Mapping[str, Any]]
    checks: tuple[Check, ...]
    cards: Sequence[gallery.Card]
    models: Sequence[Trained]
    opinion: Opinion | None
    """What a trained classifier makes of it, where there is one to ask."""


@dataclass(frozen=True, slots=True, kw_only=True, eq=False)
class NodeFindings:
    """All that the page shows of a corpus that labels nodes."""

    corpus: Corpus
    lineage: tuple[Manifest, ...]
    facts: NodeFacts
    points: Mapping[str, Array]
    near: Sequence[Mapping[str, Any]]
    features: Sequence[Shift]
    sampled: Mapping[str, int]
    """Nodes that were looked at closely, by group."""
    checks: tuple[Check, ...]
    cards: Sequence[gallery.Card]
    models: Sequence[Trained]
    opinion: Opinion | None
