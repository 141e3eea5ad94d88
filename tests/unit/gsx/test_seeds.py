import numpy as np
import pytest
from hypothesis import assume, given
from hypothesis import strategies as st

from gsx.seeds import rng, skip, stream_key

NAMES = st.lists(st.text(max_size=4) | st.integers(-5, 20), max_size=4)


def test_a_stream_is_the_same_on_every_machine_and_in_every_release():
    assert stream_key(0, "splice", "shard", 3) == 142998027256915645125341409425884997397
    assert rng(0, "splice", "shard", 3).integers(1000, size=5).tolist() == [37, 810, 144, 519, 640]


def test_a_stream_does_not_depend_on_what_was_drawn_before():
    expected = rng(1, "a").random(3).tolist()
    rng(1, "b").random(100)
    np.random.default_rng(0).random(100)
    assert rng(1, "a").random(3).tolist() == expected


@given(NAMES, NAMES)
def test_different_names_give_different_keys(left, right):
    assume([(type(a), a) for a in left] != [(type(b), b) for b in right])
    assert stream_key(0, *left) != stream_key(0, *right)


@pytest.mark.parametrize(
    ("left", "right"),
    [
        ((0, "ab", "c"), (0, "a", "bc")),
        ((0, "a", ""), (0, "a")),
        ((0, "1"), (0, 1)),
        ((0, 1), (1, 0)),
        ((0, "a;str:1:b"), (0, "a", "b")),
    ],
    ids=["cut elsewhere", "empty part", "text or number", "seed or part", "separators in a part"],
)
def test_parts_of_a_stream_name_are_separated(left, right):
    assert stream_key(*left) != stream_key(*right)


@given(st.integers(), NAMES)
def test_a_key_has_at_most_128_bits(seed, name):
    assert 0 <= stream_key(seed, *name) < 2**128


def test_streams_of_adjacent_shards_differ():
    draws = np.stack([rng(0, "shard", shard).random(500) for shard in range(20)])
    correlation = np.corrcoef(draws) - np.eye(20)
    assert np.abs(correlation).max() < 0.25


def test_a_number_of_numpy_names_the_same_stream():
    assert stream_key(0, "a", np.int64(3)) == stream_key(0, "a", 3)


@given(st.integers(0, 9), st.integers(0, 40))
def test_skipped_numbers_are_those_that_would_have_been_drawn(before, count):
    one, other = rng(0, "skip"), rng(0, "skip")
    one.random(before)
    other.random(before)
    one.random(count)
    skip(other, count)
    assert one.random(6).tolist() == other.random(6).tolist()
    assert one.gamma(2.0, 0.5, 6).tolist() == other.gamma(2.0, 0.5, 6).tolist()
