"""Limits of rejection sampling."""

import pytest

from gsx.stages.augmented.rejection import DRAWS_FOR_HALF, MAX_DRAWS, should_give_up


@pytest.mark.parametrize(
    ("draws", "rejected", "expected"),
    [
        (DRAWS_FOR_HALF - 1, 10, False),
        (DRAWS_FOR_HALF, 5, False),
        (DRAWS_FOR_HALF, 6, True),
        (MAX_DRAWS - 1, 1, False),
        (MAX_DRAWS, 1, True),
    ],
)
def test_sampling_stops_when_half_or_the_last_graphs_stay_rejected(draws, rejected, expected):
    assert should_give_up(draws, rejected, 10) == expected
