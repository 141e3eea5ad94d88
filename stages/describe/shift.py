"""How far one group of graphs lies from another: domains, labels, and graphs that are the same."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from typing import Any

import numpy as np

from gsx.ragged import Array, Ints
from gsx.stages.graphs.wl_hash import Hashes


@dataclass(frozen=True, slots=True)
class Distance:
    """How domains and labels of two groups differ."""

    seen: float
    """Share of the second group whose domain the first has too."""
    variation: float
    """Total variation between the two distributions of pairs of domain and label, 0 to 1."""
    chance: float
    """What it would be, on average, if both were draws from one distribution."""

    @property
    def none(self) -> bool:
        """Whether nothing shifts: no domain is new, and the rest may well be chance."""
        return self.seen == 1 and self.variation < 2 * self.chance + 0.01


def distance(first: tuple[Ints, Ints], second: tuple[Ints, Ints]) -> Distance:
    """Compare two groups, each given as domains and labels ``[n]``, of which neither is empty."""
    domains = np.concatenate([first[0], second[0]])
    labels = np.concatenate([first[1], second[1]])
    _, pair = np.unique(np.stack([domains, labels]), axis=1, return_inverse=True)
    pair = pair.reshape(-1)
    split = len(first[0])
    one = np.bincount(pair[:split], minlength=pair.max() + 1) / split
    other = np.bincount(pair[split:], minlength=pair.max() + 1) / (len(pair) - split)
    both = np.bincount(pair) / len(pair)
    noise = np.sqrt(2 / np.pi * both * (1 - both) * (1 / split + 1 / (len(pair) - split)))
    return Distance(
        seen=float(np.isin(second[0], first[0]).mean()),
        variation=float(np.abs(one - other).sum() / 2),
        chance=float(noise.sum() / 2),
    )


def repeats(hashes: Hashes, labels: Array, known: Hashes, known_labels: Array) -> tuple[int, int]:
    """Count graphs whose hash is among ``known``, and those of them with another label there.

    Where equal graphs have different labels themselves, one that agrees is enough.
    """
    if not len(known) or not len(hashes):
        return 0, 0
    found = np.isin(hashes, known)
    pairs = {*zip(known.tolist(), known_labels.tolist(), strict=True)}
    again = zip(hashes[found].tolist(), labels[found].tolist(), strict=True)
    return int(found.sum()), sum(pair not in pairs for pair in again)


def unshifted(shift: Mapping[str, Any]) -> Iterator[str]:
    """Yield a warning per OOD split that is like training."""
    for split, far in shift.items():
        if split.startswith("ood") and far["none"]:
            yield (
                f"nothing shifts in {split}: its domains are all trained on, and domains and "
                "labels go together as in training"
            )
