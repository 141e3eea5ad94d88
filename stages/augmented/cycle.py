"""Cycle over items up to a count; any slice without materializing the whole sequence."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from gsx.ragged import Ints


@dataclass(frozen=True, slots=True, eq=False)
class Cycle:
    """Sequence of length ``count``: all items, repeated, then a part of them in a last pass."""

    items: Ints
    count: int
    last_pass: Ints
    """Items of the incomplete last pass; empty if all passes are complete."""

    @classmethod
    def sample(cls, items: Ints, count: int, stream: np.random.Generator) -> Cycle:
        """Return a cycle whose last pass holds a random subset of the items, in their order."""
        drawn = stream.permutation(len(items))[: count % len(items)]
        return cls(items, count, items[np.sort(drawn)])

    def __len__(self) -> int:
        return self.count

    def __getitem__(self, section: slice) -> Ints:
        position = np.arange(*section.indices(self.count))
        values = self.items[position % len(self.items)]
        in_last_pass = position - (self.count - len(self.last_pass))
        values[in_last_pass >= 0] = self.last_pass[in_last_pass[in_last_pass >= 0]]
        return np.asarray(values)
