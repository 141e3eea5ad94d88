"""Distribution shift between two groups: domains, labels, and repeated graphs."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from typing import Any

import numpy as np

from gsx.ragged import Array, Ints
from gsx.stages.graphs.wl_hash import Hashes


@dataclass(frozen=True, slots=True)
class ShiftDistance:
    """Distance between the domains and labels of two groups."""

    known_share: float
    """Share of the second group whose domain occurs in the first."""
    variation: float
    """Total variation distance of the joint distributions of domain and label, 0 to 1."""
    chance: float
    """Expected distance of two samples of one distribution."""

    @property
    def none(self) -> bool:
        """Whether there is no shift: no new domain, and a distance expected by chance."""
        return self.known_share == 1 and self.variation < 2 * self.chance + 0.01


def shift_distance(first: tuple[Ints, Ints], second: tuple[Ints, Ints]) -> ShiftDistance:
    """Return the distance of two non-empty groups, each given as domains and labels ``[n]``."""
    domains = np.concatenate([first[0], second[0]])
    labels = np.concatenate([first[1], second[1]])
    _, pair = np.unique(np.stack([domains, labels]), axis=1, return_inverse=True)
    pair = pair.reshape(-1)
    split = len(first[0])
    one = np.bincount(pair[:split], minlength=pair.max() + 1) / split
    other = np.bincount(pair[split:], minlength=pair.max() + 1) / (len(pair) - split)
    both = np.bincount(pair) / len(pair)
    noise = np.sqrt(2 / np.pi * both * (1 - both) * (1 / split + 1 / (len(pair) - split)))
    return ShiftDistance(
        known_share=float(np.isin(second[0], first[0]).mean()),
        variation=float(np.abs(one - other).sum() / 2),
        chance=float(noise.sum() / 2),
    )


def count_repeated(
    hashes: Hashes, labels: Array, reference: Hashes, reference_labels: Array
) -> tuple[int, int]:
    """Count items whose hash is in ``reference``, and those of them with a different label there.

    If equal reference items have different labels, one equal label suffices.
    """
    if not len(reference) or not len(hashes):
        return 0, 0
    repeated = np.isin(hashes, reference)
    pairs = {*zip(reference.tolist(), reference_labels.tolist(), strict=True)}
    again = zip(hashes[repeated].tolist(), labels[repeated].tolist(), strict=True)
    return int(repeated.sum()), sum(pair not in pairs for pair in again)


def no_shift_warnings(shift: Mapping[str, Any]) -> Iterator[str]:
    """Yield a warning for every OOD split without shift."""
    for split, distance in shift.items():
        if split.startswith("ood") and distance["none"]:
            yield (
                f"nothing shifts in {split}: all its domains occur in training, with the same "
                "label distribution"
            )
