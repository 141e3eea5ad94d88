"""One thing that was checked of a corpus, and what came out."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Literal

TOLERANCE = 1e-5
"""How far a label may be from what it is computed to be."""
Verdict = Literal["good", "bad", "note"]


@dataclass(frozen=True, slots=True)
class Check:
    """One thing that was checked, and what came out."""

    verdict: Verdict
    title: str
    figure: str
    """The number a reader looks for first."""
    text: str
