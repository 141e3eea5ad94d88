"""`gsx describe`: compute statistics of a corpus and its distribution shift."""

from __future__ import annotations

from gsx.pipeline.commands.session import Session, StepResult
from gsx.stages.describe.statistics_file import (
    STATISTICS,
    STATISTICS_FILE,
    GraphStatistics,
    NodeStatistics,
)
from gsx.storage.artifacts.store import Artifact


def describe(corpus: Artifact, session: Session) -> StepResult | None:
    """Compute sizes, degrees and labels by split and domain; return None for a dry run."""
    return session.run_stage("describe", {}, {"prepare": corpus})


def read_statistics(statistics: Artifact) -> GraphStatistics | NodeStatistics:
    """Return the statistics that `gsx describe` wrote."""
    document: GraphStatistics | NodeStatistics = STATISTICS_FILE.read(
        statistics.location, STATISTICS
    )
    return document
