"""`gsx diff`: compare two artifacts."""

from __future__ import annotations

from typing import Any

from gsx.stages.describe.compare import compare
from gsx.storage.artifacts.store import Artifact
from gsx.storage.corpora.corpus import Corpus


def compare_graphs(left: Artifact, right: Artifact) -> dict[str, Any] | None:
    """Compare the graphs of two corpora; None if the artifacts are not comparable corpora."""
    if {left.manifest.kind, right.manifest.kind} != {"corpus"}:
        return None
    a, b = Corpus(left), Corpus(right)
    if {a.info.level, b.info.level} != {"graph"} or a.info.sparse or b.info.sparse:
        return None
    return compare(a, b)
