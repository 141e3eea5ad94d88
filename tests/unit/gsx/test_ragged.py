import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from gsx.ragged import (
    Ragged,
    arrays_equal,
    concat_ragged,
    decode_texts,
    encode_texts,
    pointers,
    ranges,
    row_indices,
)

LISTS = st.lists(st.lists(st.integers(-100, 100), max_size=4), max_size=6)
TEXTS = st.lists(st.text(st.characters(codec="utf-8"), max_size=6), max_size=6)


def ragged(lists):
    values = np.array([value for one in lists for value in one], dtype=np.int32)
    return Ragged(pointers([len(one) for one in lists]), values)


def lists_of(rows):
    return [rows.values[a:b].tolist() for a, b in zip(rows.ptr[:-1], rows.ptr[1:], strict=True)]


def test_pointers_start_at_zero_and_add_up_lengths():
    assert pointers([2, 0, 3]).tolist() == [0, 2, 2, 5]


def test_pointers_of_no_lists_are_a_single_zero():
    assert pointers([]).tolist() == [0]


def test_pointers_count_far_beyond_the_type_of_the_lengths():
    assert pointers(np.array([120, 120], dtype=np.int8)).tolist() == [0, 120, 240]


def test_ranges_of_rows_follow_each_other():
    assert ranges(np.array([5, 0, 9]), np.array([2, 3, 0])).tolist() == [5, 6, 0, 1, 2]


def test_ranges_of_no_rows_are_empty():
    assert ranges(np.array([], dtype=np.int64), np.array([], dtype=np.int64)).tolist() == []


def test_row_indices_are_the_rows_of_values():
    assert row_indices(np.array([0, 2, 2, 3])).tolist() == [0, 0, 2]


def test_a_slice_shares_values_with_its_source():
    source = ragged([[1, 2], [], [3, 4, 5]])
    part = source.slice(1, 3)
    assert lists_of(part) == [[], [3, 4, 5]]
    assert np.shares_memory(part.values, source.values)


def test_take_respects_order_and_repetitions():
    source = ragged([[1, 2], [], [3]])
    assert lists_of(source.take(np.array([2, 0, 2, 1]))) == [[3], [1, 2], [3], []]


def test_lists_of_vectors_are_taken_whole():
    source = Ragged(np.array([0, 1, 3]), np.array([[1, 2], [3, 4], [5, 6]]))
    assert source.take(np.array([1])).values.tolist() == [[3, 4], [5, 6]]


@given(LISTS)
def test_length_is_the_number_of_lists(lists):
    assert len(ragged(lists)) == len(lists)


@given(LISTS, st.data())
def test_a_slice_holds_the_lists_of_its_rows(lists, data):
    start = data.draw(st.integers(0, len(lists)))
    stop = data.draw(st.integers(start, len(lists)))
    assert lists_of(ragged(lists).slice(start, stop)) == lists[start:stop]


@given(LISTS.filter(len), st.data())
def test_take_equals_selecting_rows_one_by_one(lists, data):
    rows = data.draw(st.lists(st.integers(0, len(lists) - 1), max_size=8))
    taken = ragged(lists).take(np.array(rows, dtype=np.int64))
    assert lists_of(taken) == [lists[row] for row in rows]


@given(LISTS, LISTS, LISTS)
def test_concatenation_appends_lists(first, second, third):
    whole = concat_ragged([ragged(first), ragged(second), ragged(third)])
    assert lists_of(whole) == first + second + third


@given(TEXTS)
def test_texts_round_trip(texts):
    assert decode_texts(encode_texts(texts)) == texts


def test_texts_are_stored_as_utf8_bytes():
    rows = encode_texts(["é", "", "ab"])
    assert rows.ptr.tolist() == [0, 2, 2, 4]
    assert rows.values.tolist() == [0xC3, 0xA9, 97, 98]


def test_texts_of_a_slice_are_those_of_its_rows():
    assert decode_texts(encode_texts(["one", "zwei", "三"]).slice(1, 3)) == ["zwei", "三"]


@pytest.mark.parametrize(
    ("left", "right", "same"),
    [
        (ragged([[1], [2]]), ragged([[1], [2]]), True),
        (ragged([[1], [2]]), ragged([[1], [3]]), False),
        (ragged([[1], [2]]), ragged([[1, 2], []]), False),
        (ragged([[1]]), Ragged(np.array([0, 1]), np.array([1], dtype=np.int64)), False),
    ],
    ids=["equal", "other values", "other cuts", "other type"],
)
def test_ragged_arrays_are_equal_if_pointers_values_and_dtype_are(left, right, same):
    assert left.equals(right) is same


@pytest.mark.parametrize(
    ("left", "right", "same"),
    [
        (np.array([1.0, np.nan]), np.array([1.0, np.nan]), True),
        (np.array([1.0, np.nan]), np.array([np.nan, 1.0]), False),
        (np.array([1, 2]), np.array([1.0, 2.0]), False),
        (np.zeros((2, 1)), np.zeros(2), False),
        (np.zeros(0, np.int8), np.zeros(0, np.int16), False),
    ],
    ids=["nan equals nan", "nan elsewhere", "other type", "other shape", "both empty"],
)
def test_arrays_are_equal_if_dtype_shape_and_content_are(left, right, same):
    assert arrays_equal(left, right) is same
