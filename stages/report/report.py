"""Render the HTML quality report of a corpus."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING

from gsx.errors import StageError
from gsx.stages.report import coverage, gallery, page
from gsx.stages.report.consistency_checks import agreement_check, consistency_checks
from gsx.stages.report.model_results import read_models
from gsx.stages.report.report_data import ReportData
from gsx.stages.report.sample import read_graph_facts, read_sample
from gsx.stages.report.shift_data import feature_shifts
from gsx.stages.stage import Progress, ignore_progress
from gsx.storage.artifacts.manifest import Manifest
from gsx.storage.artifacts.store import Artifact
from gsx.storage.corpora.corpus import Corpus

if TYPE_CHECKING:
    from gsx.stages.report.model_agreement import ReferenceModel

SUBGRAPHS_FILE = "pieces.safetensors"
"""File of an extractor with the causal and environmental subgraphs of the training graphs."""


@dataclass(frozen=True, slots=True, kw_only=True)
class ReportInputs:
    """Artifacts that a report reads."""

    corpus: Corpus
    lineage: tuple[Manifest, ...]
    """Manifests of the corpus and of its ancestors, as far as they are available."""
    extractor: Artifact | None = None
    """Extractor of the corpus, if the store has it."""
    models: Sequence[tuple[str, Artifact]] = ()
    """Trained models with the name of their training corpus, such as ``this corpus``."""
    reference_model: tuple[str, Artifact] | None = None
    """Classifier for the agreement check. None selects the best eligible one of ``models``."""


def report(inputs: ReportInputs, *, seed: int = 0, progress: Progress = ignore_progress) -> str:
    """Return the report as one self-contained HTML page."""
    corpus = inputs.corpus
    if corpus.info.level == "node":
        return _node_report(inputs, seed)
    if not len(corpus):
        raise StageError(f"corpus {corpus.key[:12]} has no graphs, so there is nothing to report.")
    facts = read_graph_facts(corpus)
    sample = read_sample(corpus, facts, seed, progress)
    points, distances = coverage.embed_sample(sample)
    model, skipped = _reference_model(inputs, has_augmented="augmented" in facts.groups)
    agreement = None
    if model is not None:
        from gsx.stages.report.model_agreement import graph_agreement

        agreement = graph_agreement(model, corpus, facts, sample)
    subgraphs = _read_subgraphs(inputs.extractor)
    data = ReportData(
        corpus=corpus,
        lineage=inputs.lineage,
        facts=facts,
        sizes=coverage.size_rows(facts),
        points=points,
        distances=distances,
        features=coverage.node_feature_shifts(corpus.info, sample),
        feature_means=coverage.graph_feature_means(corpus.info, sample),
        scaffolds=coverage.scaffold_rows(corpus, facts),
        checks=(
            *consistency_checks(corpus.info, facts, sample, inputs.lineage),
            *agreement_check(agreement, skipped),
        ),
        cards=gallery.cards(corpus.info, facts, sample, subgraphs, seed),
        models=read_models(inputs.models),
        agreement=agreement,
    )
    return page.graph_page(data)


def _node_report(inputs: ReportInputs, seed: int) -> str:
    from gsx.stages.report import node_page
    from gsx.stages.report.node_checks import class_checks, node_checks
    from gsx.stages.report.node_data import node_embeddings, read_node_facts, sample_nodes
    from gsx.stages.report.node_gallery import node_cards
    from gsx.stages.report.report_data import NodeReportData

    corpus = inputs.corpus
    facts = read_node_facts(corpus)
    sample = sample_nodes(facts, seed)
    points, distances = node_embeddings(facts, sample)
    model, skipped = _reference_model(inputs, has_augmented=bool(facts.replicas))
    agreement = None
    if model is not None:
        from gsx.stages.report.model_agreement import node_agreement

        agreement = node_agreement(model, corpus, facts, sample)
    data = NodeReportData(
        corpus=corpus,
        lineage=inputs.lineage,
        facts=facts,
        points=points,
        distances=distances,
        features=feature_shifts(sample.features, corpus.info),
        sampled={name: len(nodes) for name, nodes in sample.nodes.items()},
        checks=(
            *node_checks(facts, inputs.lineage),
            *class_checks(facts),
            *agreement_check(agreement, skipped),
        ),
        cards=node_cards(corpus.info, facts, sample),
        models=read_models(inputs.models),
        agreement=agreement,
    )
    return node_page.node_page(data)


def _reference_model(
    inputs: ReportInputs, *, has_augmented: bool
) -> tuple[ReferenceModel | None, list[str]]:
    if inputs.reference_model is None and not inputs.models:
        return None, []  # without importing torch
    from gsx.stages.report.model_agreement import find_reference_model

    return find_reference_model(
        inputs.corpus, inputs.models, inputs.reference_model, has_augmented=has_augmented
    )


def _read_subgraphs(extractor: Artifact | None) -> gallery.Subgraphs | None:
    if extractor is None:
        return None
    from safetensors.numpy import load

    arrays = load(extractor.location.read_bytes(SUBGRAPHS_FILE, limit=1 << 32))
    return gallery.Subgraphs(
        arrays["graph_id"], arrays["node_ptr"], arrays["causal"], arrays["environmental"]
    )
