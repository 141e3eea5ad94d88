"""Drawing without replacement in proportion to odds."""

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from gsx.ragged import pointers
from gsx.seeds import rng
from gsx.stages.graphs.weighted_sampling import sample_without_replacement


@given(st.lists(st.lists(st.sampled_from([0.0, 1e-6, 0.5, 3.0, 1e9]), max_size=6), max_size=5),
       st.integers(0, 4), st.integers(0, 99))  # fmt: skip
def test_every_group_draws_distinct_items_of_positive_weight(groups, wanted, seed):
    odds = np.array([value for group in groups for value in group], dtype=np.float32)
    ptr = pointers([len(group) for group in groups])
    want = np.full(len(groups), wanted)
    group, item = sample_without_replacement(odds, ptr, want, rng(seed, "t"))
    assert len(np.unique(item)) == len(item)
    assert (odds[item] > 0).all()
    assert ((item >= ptr[group]) & (item < ptr[group + 1])).all()
    possible = [sum(value > 0 for value in values) for values in groups]
    assert np.bincount(group, minlength=len(groups)).tolist() == [
        min(wanted, count) for count in possible
    ]


def test_frequencies_follow_the_weights():
    odds = np.tile([1.0, 2.0, 5.0], 20_000)
    ptr = np.arange(0, len(odds) + 1, 3)
    _, item = sample_without_replacement(odds, ptr, np.ones(20_000, dtype=np.int64), rng(0, "t"))
    share = np.bincount(item % 3) / 20_000
    assert share == pytest.approx([0.125, 0.25, 0.625], abs=0.01)


def test_two_draws_follow_successive_sampling_without_replacement():
    odds = np.tile([1.0, 2.0, 5.0], 30_000)
    ptr = np.arange(0, len(odds) + 1, 3)
    _, item = sample_without_replacement(odds, ptr, np.full(30_000, 2), rng(0, "t"))
    left_out = 3 - np.add.reduceat(item % 3, np.arange(0, 60_000, 2))
    share = np.bincount(left_out, minlength=3) / 30_000
    # P(first i, then j) = w_i / 8 * w_j / (8 - w_i)
    two_and_five = 2 / 8 * 5 / 6 + 5 / 8 * 2 / 3
    one_and_five = 1 / 8 * 5 / 7 + 5 / 8 * 1 / 3
    assert share[:2] == pytest.approx([two_and_five, one_and_five], abs=0.01)


def test_extreme_weights_terminate():
    odds = np.array([1e30, 1e-30, 1e-31], dtype=np.float64)
    _, item = sample_without_replacement(odds, np.array([0, 3]), np.array([2]), rng(0, "t"))
    assert item.tolist() == [0, 1]
