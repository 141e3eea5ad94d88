"""What a target is: it draws cases, places their files, and runs operations on them."""

from __future__ import annotations

import random
from abc import ABC, abstractmethod
from collections.abc import Callable, Iterator, Mapping
from pathlib import Path
from typing import Any

from tests.fuzz.oracles import Outcome
from tests.fuzz.sandbox import Box

Case = dict[str, Any]
Operation = Callable[[], Outcome | None]


class Target(ABC):
    """One kind of hostile input."""

    name: str
    weight = 1.0
    """Share of the time that this target gets."""
    may_read_links = False
    """Whether files of the user may be links to any place."""

    def __init__(self, seeds: Path, catalogue: Mapping[str, Any]) -> None:
        self.seeds = seeds
        self.catalogue = catalogue

    def has_seeds(self, case: Case) -> bool:
        """Return whether the seeds of a case exist; some are not built if time is short."""
        needed = [case["seed"], *self.other_seeds(case)]
        return all(
            name in self.catalogue or (self.seeds / "raw" / name).exists() or name.endswith(".toml")
            for name in needed
        )

    def other_seeds(self, case: Case) -> list[str]:
        """Return further seeds that the operations of a case need."""
        return []

    @abstractmethod
    def draw(self, rng: random.Random) -> Case:
        """Return a random case: ``seed``, ``edits`` and ``run``, as plain JSON."""

    @abstractmethod
    def place(self, box: Box, case: Case) -> None:
        """Write the files of a case into its directories."""

    @abstractmethod
    def operation(self, name: str, box: Box, case: Case) -> Operation:
        """Return the function that runs one operation of a case."""

    def check(self, name: str, outcome: Outcome, box: Box, case: Case) -> Iterator[tuple[str, str]]:
        """Yield failures that only this target can recognize."""
        return iter(())


def weighted(rng: random.Random, weights: Mapping[str, float], count: int) -> list[str]:
    """Draw distinct names by weight."""
    left = dict(weights)
    drawn = []
    for _ in range(min(count, len(left))):
        name = rng.choices(list(left), list(left.values()))[0]
        drawn.append(name)
        del left[name]
    return drawn
