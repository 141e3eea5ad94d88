"""Slices of a cycle over items."""

import numpy as np
from hypothesis import given
from hypothesis import strategies as st

from gsx.stages.augmented.cycle import Cycle


@given(
    size=st.integers(1, 7),
    count=st.integers(1, 30),
    start=st.integers(0, 30),
    length=st.integers(0, 9),
)
def test_slice_equals_the_slice_of_the_whole_sequence(size, count, start, length):
    items = 10 * np.arange(size)
    cycle = Cycle.sample(items, count, np.random.default_rng(0))
    whole = np.concatenate([np.tile(items, count // size), cycle.last_pass])
    assert len(cycle) == len(whole) == count
    assert (np.diff(cycle.last_pass) > 0).all()
    assert cycle[start : start + length].tolist() == whole[start : start + length].tolist()
