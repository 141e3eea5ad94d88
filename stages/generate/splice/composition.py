"""Choose the components of spliced graphs, and which of them are joined to which."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Literal

import numpy as np

from gsx.ragged import Ints, pointers, rows_of

Partners = Literal["any", "same-class", "same-piece"]
Attach = Literal["tree", "chain", "star"]
DISTINCT_ROUNDS = 16
"""Rounds of redrawing sources that a graph got twice; few sources may leave some twice."""


@dataclass(frozen=True, slots=True, eq=False)
class Sources:
    """Graphs components may come from, ordered so that a class is a run."""

    rows: Ints
    """``[R]`` rows of the source table, class by class."""
    ptr: Ints
    """``[K + 1]`` where each class starts; one class where classes do not matter."""

    @classmethod
    def of(cls, rows: Ints, classes: Ints) -> Sources:
        """Order ``rows`` by the class of each; a class may be empty."""
        known = int(classes.max(initial=0)) + 1
        order = np.argsort(classes[rows], kind="stable")
        return cls(rows[order], pointers(np.bincount(classes[rows], minlength=known)))

    def any(self, shape: tuple[int, ...], stream: np.random.Generator) -> Ints:
        """Draw sources, each as likely as any other."""
        drawn: Ints = self.rows[stream.integers(len(self.rows), size=shape)]
        return drawn

    def of_class(self, classes: Ints, stream: np.random.Generator) -> Ints:
        """Draw one source of each given class; the classes must not be empty."""
        counts = np.diff(self.ptr)[classes]
        drawn = (stream.random(classes.shape) * counts).astype(np.int64)
        found: Ints = self.rows[self.ptr[classes] + drawn]
        return found

    def balanced(self, count: int, stream: np.random.Generator) -> Ints:
        """Draw sources so that every class that has some is as likely as any other."""
        present = np.flatnonzero(np.diff(self.ptr))
        return self.of_class(present[stream.integers(len(present), size=count)], stream)


@dataclass(frozen=True, slots=True, eq=False)
class Composition:
    """What some new graphs are made of, slot after slot."""

    ptr: Ints
    """``[G + 1]`` slots of each graph."""
    source: Ints
    """``[S]`` row of the graph each slot comes from."""
    joined: Ints
    """``[S]`` the earlier slot of the same graph each slot is joined to; -1 for the first."""

    @property
    def slots(self) -> Ints:
        """The number of every slot inside its graph, ``[S]``."""
        return np.arange(len(self.source)) - self.ptr[rows_of(self.ptr)]


def compose(
    count: int,
    first: Sources,
    rest: Sources | None,
    classes: Ints,
    f: tuple[int, int],
    stream: np.random.Generator,
    *,
    partners: Partners = "any",
    attach: Attach = "tree",
    balanced: bool = False,
) -> Composition:
    """Choose the sources of ``count`` graphs: one from ``first`` and some from ``rest``.

    ``f`` bounds how many come from ``rest``; without ``rest`` each graph has one slot. ``classes``
    are those of all source rows.
    """
    lead = first.balanced(count, stream) if balanced else first.any((count,), stream)
    if rest is None:
        return Composition(np.arange(count + 1), lead, np.full(count, -1))
    many = stream.integers(f[0], f[1] + 1, size=count)
    ptr = pointers(many + 1)
    source = _partners(lead, int(many.max(initial=0)), rest, classes, stream, partners)
    source = np.column_stack([lead, source])
    used = np.arange(source.shape[1]) <= many[:, None]
    slot = np.arange(ptr[-1]) - ptr[rows_of(ptr)]
    if attach == "chain":
        joined = slot - 1
    elif attach == "star":
        joined = np.where(slot > 0, 0, -1)
    else:
        joined = np.where(slot > 0, (stream.random(len(slot)) * slot).astype(np.int64), -1)
    return Composition(ptr, source[used], joined)


def _partners(
    lead: Ints,
    most: int,
    rest: Sources,
    classes: Ints,
    stream: np.random.Generator,
    partners: Partners,
) -> Ints:
    shape = (len(lead), most)
    if partners == "same-piece":
        # The lead's own piece, where it has one to repeat, else another graph's.
        has = np.zeros(int(max(rest.rows.max(initial=0), lead.max(initial=0))) + 1, dtype=bool)
        has[rest.rows] = True
        own = np.where(has[lead], lead, rest.any((len(lead),), stream))
        return np.repeat(own[:, None], most, axis=1)

    def draw() -> Ints:
        if partners == "any":
            return rest.any(shape, stream)
        wanted = np.broadcast_to(classes[lead][:, None], shape)
        return rest.of_class(wanted, stream)

    drawn = draw()
    for _ in range(DISTINCT_ROUNDS):
        again = _repeated(np.column_stack([lead, drawn]))[:, 1:]
        if not again.any():
            break
        drawn = np.where(again, draw(), drawn)
    return drawn


def _repeated(values: Ints) -> Ints:
    """Say of every value whether an equal one stands before it in its row."""
    order = np.argsort(values, axis=1, kind="stable")
    ranked = np.take_along_axis(values, order, axis=1)
    same = np.zeros(values.shape, dtype=bool)
    same[:, 1:] = ranked[:, 1:] == ranked[:, :-1]
    found = np.zeros_like(same)
    np.put_along_axis(found, order, same, axis=1)
    return found
