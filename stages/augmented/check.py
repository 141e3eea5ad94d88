"""Result of one validity check of a corpus, and the warnings about failed checks."""

from __future__ import annotations

from collections.abc import Iterable
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
    by_construction: bool = False
    """Whether generation guarantees the property, so that only a failure is worth a check mark."""


def failed_check_warnings(checks: Iterable[Check]) -> list[str]:
    """Return one warning per failed check, for the manifest."""
    return [
        f"check failed: {check.title}: {check.figure}. {check.text} Compare recipes with "
        "`gsx recommend`."
        for check in checks
        if check.verdict == "bad"
    ]
