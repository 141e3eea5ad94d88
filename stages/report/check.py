"""Result of one validity check of a corpus."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Literal

TOLERANCE = 1e-5
"""Largest difference between a stored and a recomputed label."""
Verdict = Literal["good", "bad", "note"]


@dataclass(frozen=True, slots=True)
class Check:
    """Result of one check."""

    verdict: Verdict
    title: str
    figure: str
    """The main number of the check, as text."""
    text: str
