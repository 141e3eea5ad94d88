"""`gsx describe`: compute statistics of a corpus and its distribution shift."""

from __future__ import annotations

from typing import Any

from gsx.pipeline.commands.session import Session, StepResult
from gsx.stages.describe.statistics_file import STATISTICS, STATISTICS_FILE
from gsx.storage.artifacts.store import Artifact


def describe(corpus: Artifact, session: Session) -> StepResult | None:
    """Compute sizes, degrees and labels by split and domain; return None for a dry run."""
    return session.run_stage("describe", {}, {"prepare": corpus})


def read_statistics(statistics: Artifact) -> dict[str, Any]:
    """Return the statistics that `gsx describe` wrote: GraphStatistics or NodeStatistics."""
    document: dict[str, Any] = STATISTICS_FILE.read(statistics.location, STATISTICS)
    return document
