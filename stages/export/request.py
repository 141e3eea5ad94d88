"""Inputs of an export: the corpus, its lineage and the options of ``gsx export``."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Literal

import numpy as np

from gsx.schema import ORIGINS
from gsx.storage.artifacts.manifest import Manifest
from gsx.storage.corpora.corpus import Corpus

SOURCE = ORIGINS.index("source")
LabelMode = Literal["same-class", "argmax", "soft"]
"""Drop graphs with soft labels, use their most likely class, or keep soft labels."""


@dataclass(frozen=True, slots=True, kw_only=True)
class ExportRequest:
    """One corpus to export, with the options of the export."""

    corpus: Corpus
    lineage: tuple[Manifest, ...]
    """Manifests of the corpus and of its ancestors, as far as they are available."""
    date: str
    """Date of the export, YYYY-MM-DD."""
    creator: str = ""
    url: str = ""
    labels: LabelMode = "same-class"
    """Treatment of soft labels in formats that expect hard ones."""
    origin: str = ""
    """Where the corpus was pulled from, as a phrase; empty if it was built in its store."""

    @property
    def num_augmented(self) -> int:
        """Number of graphs that are not source graphs."""
        shards = range(len(self.corpus.shards))
        origins = [self.corpus.graph_columns(index, ["origin"])["origin"] for index in shards]
        return sum(int(np.count_nonzero(np.asarray(codes) != SOURCE)) for codes in origins)
