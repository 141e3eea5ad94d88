"""What an export is given: the corpus, how it was made, and what the person said about it."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Literal

from gsx.storage.corpus import Corpus
from gsx.storage.manifest import Manifest

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
        rows = self.corpus.environments
        return sum(row.get("count", 0) for row in rows if row["origin"] != "source")
