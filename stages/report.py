"""Write the report of a corpus: one page that a person reads before believing it."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING

from gsx.errors import StageError
from gsx.stages.reporting import gallery, models, page, reach, truth
from gsx.stages.reporting.findings import Findings
from gsx.stages.reporting.sample import (
    Facts,
    Sample,
    choose,
    read_facts,
    read_sample,
    with_parents,
)
from gsx.stages.stage import Progress, silent
from gsx.storage.corpus import Corpus
from gsx.storage.manifest import Manifest
from gsx.storage.store import Artifact

if TYPE_CHECKING:
    from gsx.stages.reporting.teacher import Opinion

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


def report(sources: Sources, *, seed: int = 0, progress: Progress = silent) -> str:
    """Return the page as HTML that needs nothing else."""
    corpus = sources.corpus
    if corpus.info.level == "node":
        return page.node_page(corpus, sources.lineage, models.read_models(sources.models))
    if not len(corpus):
        raise StageError(f"corpus {corpus.key[:12]} has no graphs; there is nothing to report.")
    facts = read_facts(corpus)
    sample = read_sample(corpus, with_parents(facts, choose(facts, seed)), progress)
    points, near = reach.surroundings(facts, sample)
    opinion, passed = _second_opinion(sources, facts, sample)
    found = Findings(
        corpus=corpus,
        lineage=sources.lineage,
        facts=facts,
        sizes=reach.sizes(facts),
        points=points,
        near=near,
        features=reach.features(corpus.info, facts, sample),
        feature_means=reach.feature_means(corpus.info, facts, sample),
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


def _second_opinion(
    sources: Sources, facts: Facts, sample: Sample
) -> tuple[Opinion | None, list[str]]:
    if sources.teacher is None and not sources.models:
        return None, []  # and torch need not be there
    from gsx.stages.reporting import teacher

    made = "augmented" in facts.groups
    found, passed = teacher.find(sources.corpus, sources.models, sources.teacher, made=made)
    if found is None:
        return None, passed
    return teacher.ask(found, sources.corpus, facts, sample), passed


def _pieces(extractor: Artifact | None) -> gallery.Pieces | None:
    if extractor is None:
        return None
    from safetensors.numpy import load

    arrays = load(extractor.place.read_bytes(PIECES, limit=1 << 32))
    return gallery.Pieces(
        arrays["graph_id"], arrays["node_ptr"], arrays["causal"], arrays["environmental"]
    )
