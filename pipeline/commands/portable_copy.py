"""Export a corpus in the portable layout, for `--out` of commands that build corpora."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from gsx.storage.artifacts.store import Artifact, Store


def write_portable_copy(artifact: Artifact, target: Path, store: Store) -> Path:
    """Export a corpus to ``target`` for users without gsx, and return ``target``."""
    from gsx.stages.export.export import export
    from gsx.storage.artifacts.lineage import lineage_manifests
    from gsx.storage.corpora.corpus import Corpus

    export(Corpus(artifact), lineage_manifests(store, artifact), target)
    return target
