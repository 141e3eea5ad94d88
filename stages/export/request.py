"""What an export is given: the corpus, how it was made, and what the person said about it."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Literal

import numpy as np

from gsx.schema import ORIGINS
from gsx.storage.artifacts.manifest import Manifest
from gsx.storage.corpora.corpus import Corpus

SOURCE = ORIGINS.index("source")
LabelMode = Literal["same-class", "argmax", "soft"]
"""Leave graphs with soft labels out, take their likeliest class, or keep labels as they are."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Given:
    """One corpus on its way out."""

    corpus: Corpus
    lineage: tuple[Manifest, ...]
    """Manifest of the corpus and of what it was made from, as far as that is known."""
    date: str
    """Day of the export, YYYY-MM-DD."""
    creator: str = ""
    url: str = ""
    labels: LabelMode = "same-class"
    """What becomes of soft labels where a layout knows hard ones only."""

    @property
    def augmented(self) -> int:
        """How many graphs were made from others."""
        shards = range(len(self.corpus.shards))
        codes = [self.corpus.graph_columns(number, ["origin"])["origin"] for number in shards]
        return sum(int(np.count_nonzero(np.asarray(each) != SOURCE)) for each in codes)
