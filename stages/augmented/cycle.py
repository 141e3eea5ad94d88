"""Items that are taken in turn, any part of the sequence without the whole."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from gsx.ragged import Ints


@dataclass(frozen=True, slots=True, eq=False)
class Turns:
    """All items again and again, and at the end some of them in order: ``count`` in all."""

    items: Ints
    count: int
    some: Ints
    """The items of the last turn, which is not whole."""

    @classmethod
    def of(cls, items: Ints, count: int, stream: np.random.Generator) -> Turns:
        """Draw which items the last turn has."""
        drawn = stream.permutation(len(items))[: count % len(items)]
        return cls(items, count, items[np.sort(drawn)])

    def __len__(self) -> int:
        return self.count

    def __getitem__(self, part: slice) -> Ints:
        place = np.arange(*part.indices(self.count))
        found = self.items[place % len(self.items)]
        last = place - (self.count - len(self.some))
        found[last >= 0] = self.some[last[last >= 0]]
        return np.asarray(found)
