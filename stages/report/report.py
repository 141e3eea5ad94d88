"""Render the HTML quality report of a corpus."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING

import numpy as np

from gsx.errors import ArtifactError, StageError
from gsx.stages.report import coverage, gallery, page
from gsx.stages.report.agreement_check import agreement_check
from gsx.stages.report.consistency_checks import consistency_checks
from gsx.stages.report.coverage_checks import nearness_check, trend_check
from gsx.stages.report.model_results import read_models
from gsx.stages.report.report_data import ReportData
from gsx.stages.report.sample import read_graph_columns, read_sample
from gsx.stages.report.shift_data import feature_shifts
from gsx.stages.stage import Progress, ignore_progress
from gsx.storage.artifacts.manifest import Manifest
from gsx.storage.artifacts.store import Artifact
from gsx.storage.corpora.artifact_files import array, read_arrays
from gsx.storage.corpora.corpus import Corpus

if TYPE_CHECKING:
    from gsx.stages.report.model_agreement import ReferenceModel

SUBGRAPHS_FILE = "subgraphs.safetensors"
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
    columns = read_graph_columns(corpus)
    sample = read_sample(corpus, columns, seed, progress)
    points, distances = coverage.embed_sample(sample)
    model, skipped = _reference_model(inputs, has_augmented="augmented" in columns.groups)
    agreement = None
    if model is not None:
        from gsx.stages.report.model_agreement import graph_agreement

        agreement = graph_agreement(model, corpus, columns, sample)
    subgraphs = _read_subgraphs(inputs.extractor)
    data = ReportData(
        corpus=corpus,
        lineage=inputs.lineage,
        columns=columns,
        sizes=coverage.size_rows(columns),
        points=points,
        distances=distances,
        features=coverage.node_feature_shifts(corpus.info, sample),
        feature_means=coverage.graph_feature_means(corpus.info, sample),
        scaffolds=coverage.scaffold_rows(corpus, columns),
        checks=(
            *consistency_checks(corpus.info, columns, sample, inputs.lineage),
            *trend_check(corpus.info, columns),
            *nearness_check(distances),
            *agreement_check(agreement, skipped),
        ),
        cards=gallery.cards(corpus.info, columns, sample, subgraphs, seed),
        models=read_models(inputs.models),
        agreement=agreement,
    )
    return page.graph_page(data)


def _node_report(inputs: ReportInputs, seed: int) -> str:
    from gsx.stages.report import node_page
    from gsx.stages.report.node_checks import class_checks, node_checks
    from gsx.stages.report.node_data import node_embeddings, read_node_columns, sample_nodes
    from gsx.stages.report.node_gallery import node_cards
    from gsx.stages.report.report_data import NodeReportData

    corpus = inputs.corpus
    columns = read_node_columns(corpus)
    sample = sample_nodes(columns, seed)
    points, distances = node_embeddings(columns, sample)
    model, skipped = _reference_model(inputs, has_augmented=bool(columns.replicas))
    agreement = None
    if model is not None:
        from gsx.stages.report.model_agreement import node_agreement

        agreement = node_agreement(model, corpus, columns, sample)
    data = NodeReportData(
        corpus=corpus,
        lineage=inputs.lineage,
        columns=columns,
        points=points,
        distances=distances,
        features=feature_shifts(sample.features, corpus.info),
        sampled={name: len(nodes) for name, nodes in sample.nodes.items()},
        checks=(
            *node_checks(columns, inputs.lineage),
            *class_checks(columns),
            *nearness_check(distances),
            *agreement_check(agreement, skipped),
        ),
        cards=node_cards(corpus.info, columns, sample),
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
    where = f"{extractor.location.url}/{SUBGRAPHS_FILE}"
    arrays = read_arrays(extractor.location, SUBGRAPHS_FILE)
    ids = array(arrays, "graph_id", "int64", (None,), where)
    node_ptr = array(arrays, "node_ptr", "int64", (len(ids) + 1,), where)
    if node_ptr[0] != 0 or (np.diff(node_ptr) < 0).any():
        raise ArtifactError(f"{where}: `node_ptr` decreases. Train the extractor again.")
    shape = (int(node_ptr[-1]),)
    causal, environmental = (
        array(arrays, name, "uint8", shape, where) for name in ("causal", "environmental")
    )
    return gallery.Subgraphs(ids, node_ptr, causal, environmental)
