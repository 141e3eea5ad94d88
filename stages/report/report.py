"""Write the report of a corpus: one page that a person reads before believing it."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING

from gsx.errors import StageError
from gsx.stages.report import consistency_checks as truth
from gsx.stages.report import coverage as reach
from gsx.stages.report import gallery, page
from gsx.stages.report import model_results as models
from gsx.stages.report.report_data import Findings
from gsx.stages.report.sample import read_facts, read_sample
from gsx.stages.report.shift_data import shifts
from gsx.stages.stage import Progress, ignore_progress
from gsx.storage.artifacts.manifest import Manifest
from gsx.storage.artifacts.store import Artifact
from gsx.storage.corpora.corpus import Corpus

if TYPE_CHECKING:
    from gsx.stages.report.model_agreement import Teacher

PIECES = "pieces.safetensors"


@dataclass(frozen=True, slots=True, kw_only=True)
class Sources:
    """What a report is made from."""

    corpus: Corpus
    lineage: tuple[Manifest, ...]
    """Manifests of the corpus and of what it was made from, as far as they are known."""
    extractor: Artifact | None = None
    """What found the pieces, where the store holds it."""
    models: Sequence[tuple[str, Artifact]] = ()
    """Trained models, each with what it was trained on: ``this corpus`` or ``its source``."""
    teacher: tuple[str, Artifact] | None = None
    """The model to ask for a second opinion; without one, the best of those that may be asked."""


def report(sources: Sources, *, seed: int = 0, progress: Progress = ignore_progress) -> str:
    """Return the page as HTML that needs nothing else."""
    corpus = sources.corpus
    if corpus.info.level == "node":
        return _node_report(sources, seed)
    if not len(corpus):
        raise StageError(f"corpus {corpus.key[:12]} has no graphs; there is nothing to report.")
    facts = read_facts(corpus)
    sample = read_sample(corpus, facts, seed, progress)
    points, near = reach.surroundings(sample)
    opinion, (asked, passed) = None, _teacher(sources, made="augmented" in facts.groups)
    if asked is not None:
        from gsx.stages.report.model_agreement import ask

        opinion = ask(asked, corpus, facts, sample)
    found = Findings(
        corpus=corpus,
        lineage=sources.lineage,
        facts=facts,
        sizes=reach.sizes(facts),
        points=points,
        near=near,
        features=reach.features(corpus.info, sample),
        feature_means=reach.feature_means(corpus.info, sample),
        scaffolds=reach.scaffolds(corpus, facts),
        checks=(
            *truth.checks(corpus.info, facts, sample, sources.lineage),
            *truth.second_opinion(opinion, passed),
        ),
        cards=gallery.cards(corpus.info, facts, sample, _pieces(sources.extractor), seed),
        models=models.read_models(sources.models),
        opinion=opinion,
    )
    return page.graph_page(found)


def _node_report(sources: Sources, seed: int) -> str:
    from gsx.stages.report import node_page
    from gsx.stages.report.node_checks import class_checks, node_checks
    from gsx.stages.report.node_data import node_planes, read_nodes, sample_nodes
    from gsx.stages.report.node_gallery import node_cards
    from gsx.stages.report.report_data import NodeFindings

    corpus = sources.corpus
    facts = read_nodes(corpus)
    sample = sample_nodes(facts, seed)
    points, near = node_planes(facts, sample)
    opinion, (asked, passed) = None, _teacher(sources, made=bool(facts.replicas))
    if asked is not None:
        from gsx.stages.report.model_agreement import ask_nodes

        opinion = ask_nodes(asked, corpus, facts, sample)
    found = NodeFindings(
        corpus=corpus,
        lineage=sources.lineage,
        facts=facts,
        points=points,
        near=near,
        features=shifts(sample.features, corpus.info),
        sampled={name: len(nodes) for name, nodes in sample.nodes.items()},
        checks=(
            *node_checks(facts, sources.lineage),
            *class_checks(facts),
            *truth.second_opinion(opinion, passed),
        ),
        cards=node_cards(corpus.info, facts, sample),
        models=models.read_models(sources.models),
        opinion=opinion,
    )
    return node_page.node_page(found)


def _teacher(sources: Sources, *, made: bool) -> tuple[Teacher | None, list[str]]:
    if sources.teacher is None and not sources.models:
        return None, []  # and torch need not be there
    from gsx.stages.report.model_agreement import find

    return find(sources.corpus, sources.models, sources.teacher, made=made)


def _pieces(extractor: Artifact | None) -> gallery.Pieces | None:
    if extractor is None:
        return None
    from safetensors.numpy import load

    arrays = load(extractor.location.read_bytes(PIECES, limit=1 << 32))
    return gallery.Pieces(
        arrays["graph_id"], arrays["node_ptr"], arrays["causal"], arrays["environmental"]
    )
