"""Choose the components of spliced graphs and which of them are joined by bridges."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Literal

import numpy as np

from gsx.ragged import Ints, pointers, row_indices

Partners = Literal["any", "same-class", "same-component"]
Attach = Literal["tree", "chain", "star"]
DISTINCT_ROUNDS = 16
"""Times a source that occurs twice in a graph is redrawn; with few sources some duplicates stay."""


@dataclass(frozen=True, slots=True, eq=False)
class SourcesByClass:
    """Source rows that components may come from, sorted by class."""

    rows: Ints
    """``[R]`` rows of the source table, class by class."""
    ptr: Ints
    """``[K + 1]`` start of each class in ``rows``; one class if classes are not used."""

    @classmethod
    def from_rows(cls, rows: Ints, classes: Ints) -> SourcesByClass:
        """Sort ``rows`` by their class; ``classes`` are those of all source rows."""
        num_classes = int(classes.max(initial=0)) + 1
        order = np.argsort(classes[rows], kind="stable")
        return cls(rows[order], pointers(np.bincount(classes[rows], minlength=num_classes)))

    def sample(self, shape: tuple[int, ...], stream: np.random.Generator) -> Ints:
        """Draw rows uniformly."""
        drawn: Ints = self.rows[stream.integers(len(self.rows), size=shape)]
        return drawn

    def sample_from_classes(self, classes: Ints, stream: np.random.Generator) -> Ints:
        """Draw one row of each given class; none of these classes may be empty."""
        counts = np.diff(self.ptr)[classes]
        drawn = (stream.random(classes.shape) * counts).astype(np.int64)
        rows: Ints = self.rows[self.ptr[classes] + drawn]
        return rows

    def sample_balanced(self, count: int, stream: np.random.Generator) -> Ints:
        """Draw rows such that all classes that occur are equally likely."""
        present = np.flatnonzero(np.diff(self.ptr))
        chosen = present[stream.integers(len(present), size=count)]
        return self.sample_from_classes(chosen, stream)


@dataclass(frozen=True, slots=True, eq=False)
class Composition:
    """Components of some spliced graphs; each component of a graph occupies one slot."""

    ptr: Ints
    """``[G + 1]`` first slot of each graph."""
    source: Ints
    """``[S]`` source row of each slot."""
    joined: Ints
    """``[S]`` earlier slot of the same graph that each slot is joined to; -1 for the first."""

    @property
    def slots(self) -> Ints:
        """Number of every slot within its graph, ``[S]``."""
        return np.arange(len(self.source)) - self.ptr[row_indices(self.ptr)]


def compose(
    count: int,
    lead: SourcesByClass,
    others: SourcesByClass | None,
    classes: Ints,
    f: tuple[int, int],
    stream: np.random.Generator,
    *,
    partners: Partners = "any",
    attach: Attach = "tree",
    balanced: bool = False,
) -> Composition:
    """Choose the sources of ``count`` graphs: one from ``lead`` and several from ``others``.

    ``f`` is the minimum and maximum number of sources from ``others``. Without ``others`` each
    graph has one slot. ``classes`` are those of all source rows.
    """
    leads = lead.sample_balanced(count, stream) if balanced else lead.sample((count,), stream)
    if others is None:
        return Composition(np.arange(count + 1), leads, np.full(count, -1))
    num_others = stream.integers(f[0], f[1] + 1, size=count)
    ptr = pointers(num_others + 1)
    max_others = int(num_others.max(initial=0))
    source = _sample_partners(leads, max_others, others, classes, stream, partners)
    source = np.column_stack([leads, source])
    used = np.arange(source.shape[1]) <= num_others[:, None]
    slot = np.arange(ptr[-1]) - ptr[row_indices(ptr)]
    if attach == "chain":
        joined = slot - 1
    elif attach == "star":
        joined = np.where(slot > 0, 0, -1)
    else:
        joined = np.where(slot > 0, (stream.random(len(slot)) * slot).astype(np.int64), -1)
    return Composition(ptr, source[used], joined)


def _sample_partners(
    leads: Ints,
    per_lead: int,
    others: SourcesByClass,
    classes: Ints,
    stream: np.random.Generator,
    partners: Partners,
) -> Ints:
    """Return ``[G, per_lead]`` partners of each lead."""
    shape = (len(leads), per_lead)
    if partners == "same-component":
        # Repeat the lead's own component if it has one, otherwise that of a random graph.
        size = int(max(others.rows.max(initial=0), leads.max(initial=0))) + 1
        has_component = np.zeros(size, dtype=bool)
        has_component[others.rows] = True
        fallback = others.sample((len(leads),), stream)
        repeated = np.where(has_component[leads], leads, fallback)
        return np.repeat(repeated[:, None], per_lead, axis=1)

    def draw() -> Ints:
        if partners == "any":
            return others.sample(shape, stream)
        wanted = np.broadcast_to(classes[leads][:, None], shape)
        return others.sample_from_classes(wanted, stream)

    drawn = draw()
    for _ in range(DISTINCT_ROUNDS):
        duplicate = _is_duplicate(np.column_stack([leads, drawn]))[:, 1:]
        if not duplicate.any():
            break
        drawn = np.where(duplicate, draw(), drawn)
    return drawn


def _is_duplicate(values: Ints) -> Ints:
    """Return for every value whether an equal value precedes it in its row."""
    order = np.argsort(values, axis=1, kind="stable")
    ranked = np.take_along_axis(values, order, axis=1)
    same = np.zeros(values.shape, dtype=bool)
    same[:, 1:] = ranked[:, 1:] == ranked[:, :-1]
    duplicate = np.zeros_like(same)
    np.put_along_axis(duplicate, order, same, axis=1)
    return duplicate
