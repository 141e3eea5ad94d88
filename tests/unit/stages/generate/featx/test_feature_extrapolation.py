"""Feature extrapolation: formula, wrap-around, reflection, dense and sparse features."""

import tracemalloc

import numpy as np
import pytest
from hypothesis import assume, given
from hypothesis import strategies as st
from scipy.sparse import csr_matrix

from gsx.errors import StageError
from gsx.seeds import rng
from gsx.stages.generate.featx.feature_extrapolation import (
    WrapAround,
    extrapolate,
    extrapolate_runs,
)
from gsx.stages.graphs.feature_variance import FeatureRanges, infer_feature_ranges
from gsx.stages.graphs.feature_wrapping import wrap


@st.composite
def feature_rows(draw):
    """Draw binary, integer or real features, many of them zero."""
    kind = draw(st.sampled_from(("binary", "integer", "real")))
    count, width = draw(st.integers(1, 12)), draw(st.integers(1, 5))
    random = rng(draw(st.integers(0, 999)), "tests")
    values = {
        "binary": random.integers(0, 2, (count, width)),
        "integer": random.integers(-2, 5, (count, width)),
        "real": np.round(random.normal(size=(count, width)), 3),
    }[kind]
    return (values * (random.random((count, width)) < 0.6)).astype(np.float32)


def strengths(count, seed):
    return rng(seed, "strength").gamma(3.0, 1.0, count)


@given(feature_rows(), st.integers(0, 99), st.booleans(), st.booleans())
def test_results_are_within_ranges_and_other_features_keep_their_bits(
    features, seed, sparse, mirror
):
    ranges = infer_feature_ranges(csr_matrix(features) if sparse else features)
    assert ranges.contains(features).all()
    random = rng(seed, "tests")
    mask = random.random(features.shape[1]) < 0.5
    partner = features[random.permutation(len(features))]
    rows = (csr_matrix(features), csr_matrix(partner)) if sparse else (features, partner)
    wrap_around = WrapAround.from_mask(mask, ranges, mirror=mirror)
    result = extrapolate(*rows, strengths(len(features), seed), wrap_around)
    if sparse:
        assert result.has_sorted_indices
        assert (result.data != 0).all()
        result = result.toarray()
    assert result.dtype == features.dtype
    assert np.array_equal(result[:, ~mask], features[:, ~mask])
    tolerant = FeatureRanges(ranges.low - 1e-5, ranges.high + 1e-5, np.zeros_like(ranges.step))
    assert tolerant.contains(result.astype(np.float64)).all()
    grid = ranges.step > 0
    assert ranges.contains(result.astype(np.float64))[:, grid].all()


@given(feature_rows(), st.integers(0, 99), st.booleans(), st.booleans())
def test_strength_zero_changes_no_bit(features, seed, sparse, mirror):
    ranges = infer_feature_ranges(features)
    assume(not sparse or ((ranges.low <= 0) & (ranges.high >= 0)).all())
    partner = features[rng(seed, "tests").permutation(len(features))]
    rows = [csr_matrix(values) if sparse else values for values in (features, partner)]
    mask = np.ones(features.shape[1], dtype=bool)
    wrap_around = WrapAround.from_mask(mask, ranges, mirror=mirror)
    result = extrapolate(*rows, np.zeros(len(features)), wrap_around)
    if sparse:
        assert (result != rows[0]).nnz == 0
        assert result.nnz == rows[0].nnz
    else:
        assert np.array_equal(result, features)


@given(feature_rows(), st.integers(0, 99), st.booleans())
def test_sparse_and_dense_features_give_the_same_result(features, seed, mirror):
    ranges = infer_feature_ranges(features)
    assume(((ranges.low <= 0) & (ranges.high >= 0)).all())
    partner = features[rng(seed, "tests").permutation(len(features))]
    mask = rng(seed, "mask").random(features.shape[1]) < 0.7
    strength = strengths(len(features), seed)
    wrap_around = WrapAround.from_mask(mask, ranges, mirror=mirror)
    dense = extrapolate(features, partner, strength, wrap_around)
    sparse = extrapolate(csr_matrix(features), csr_matrix(partner), strength, wrap_around)
    assert np.allclose(sparse.toarray(), dense, atol=1e-6)


@pytest.mark.slow
def test_bags_of_words_of_the_size_of_cora_stay_sparse():
    """19,793 nodes of 8,710 words would take 690 MB as a dense array."""
    nodes, words, words_per_node = 19_793, 8_710, 48
    random = rng(0, "cora")
    column = np.sort(random.integers(0, words, (nodes, words_per_node)), axis=1)
    ptr = np.arange(nodes + 1) * words_per_node
    own = csr_matrix((np.ones(column.size, np.float32), column.ravel(), ptr), (nodes, words))
    own.sum_duplicates()
    own.data[:] = 1
    mask = random.random(words) < 0.5
    wrap_around = WrapAround.from_mask(mask, infer_feature_ranges(own))
    tracemalloc.start()
    result = extrapolate(own, own[random.permutation(nodes)], strengths(nodes, 0), wrap_around)
    peak = tracemalloc.get_traced_memory()[1]
    tracemalloc.stop()
    assert isinstance(result, csr_matrix)
    assert peak < nodes * words * 4 / 3
    assert set(np.unique(result.data)) == {1}
    assert (result[:, ~mask] != own[:, ~mask]).nnz == 0
    assert (result != own).nnz > nodes


@given(feature_rows(), st.integers(0, 99))
def test_the_order_of_rows_does_not_matter(features, seed):
    order = rng(seed, "order").permutation(len(features))
    partner, strength = features[::-1], strengths(len(features), seed)
    mask = np.ones(features.shape[1], dtype=bool)
    wrap_around = WrapAround.from_mask(mask, infer_feature_ranges(features))
    result = extrapolate(features, partner, strength, wrap_around)
    permuted = extrapolate(features[order], partner[order], strength[order], wrap_around)
    assert np.array_equal(result[order], permuted)


@pytest.mark.parametrize(
    ("value", "low", "high", "step", "expected"),
    [
        (1.25, 0.0, 1.0, 0.0, 0.25),
        (-0.25, 0.0, 1.0, 0.0, 0.75),
        (1.0, 0.0, 1.0, 0.0, 1.0),
        (0.0, 0.0, 1.0, 0.0, 0.0),
        (7.0, 3.0, 3.0, 0.0, 3.0),
        (2.2, 0.0, 1.0, 1.0, 0.0),
        (-0.8, 0.0, 1.0, 1.0, 1.0),
        (1.3, 0.0, 1.0, 1.0, 1.0),
        (6.0, -2.0, 5.0, 1.0, -2.0),
        (0.9, 0.0, 0.5, 0.5, 0.0),
    ],
)
def test_values_wrap_around_their_range(value, low, high, step, expected):
    bounds = (np.array([bound]) for bound in (low, high, step))
    assert wrap(np.array([value]), *bounds) == pytest.approx([expected])


@pytest.mark.parametrize(
    ("value", "low", "high", "step", "expected"),
    [
        (1.25, 0.0, 1.0, 0.0, 0.75),
        (-0.25, 0.0, 1.0, 0.0, 0.25),
        (2.25, 0.0, 1.0, 0.0, 0.25),
        (-1.25, 0.0, 1.0, 0.0, 0.75),
        (1.0, 0.0, 1.0, 0.0, 1.0),
        (2.0, 1.0, 5.0, 0.0, 2.0),
        (-2.0, 1.0, 5.0, 0.0, 4.0),
        (7.0, 3.0, 3.0, 0.0, 3.0),
        (2.2, 0.0, 1.0, 1.0, 0.0),
        (-0.8, 0.0, 1.0, 1.0, 1.0),
        (6.0, -2.0, 5.0, 1.0, 4.0),
        (-3.2, -2.0, 5.0, 1.0, -1.0),
    ],
)
def test_values_are_reflected_at_the_ends_of_their_range(value, low, high, step, expected):
    bounds = (np.array([bound]) for bound in (low, high, step))
    assert wrap(np.array([value]), *bounds, mirror=True) == pytest.approx([expected])


@given(feature_rows(), st.integers(0, 999))
def test_runs_with_one_partner_equal_single_rows(features, seed):
    random = rng(seed, "partners")
    counts = random.multinomial(len(features), np.full(4, 0.25))
    partner, strength = features[random.integers(len(features), size=4)], random.gamma(2, 2, 4)
    mask = random.random(features.shape[1]) < 0.7
    wrap_around = WrapAround.from_mask(mask, infer_feature_ranges(features))
    ptr = np.concatenate([[0], np.cumsum(counts)])
    runs, _ = extrapolate_runs(features, partner, np.arange(4), strength, ptr, wrap_around)
    rows = extrapolate(
        features, partner.repeat(counts, axis=0), strength.repeat(counts), wrap_around
    )
    assert runs.tobytes() == rows.tobytes()


@pytest.mark.parametrize("mirror", [False, True])
def test_arrays_with_all_kinds_of_ranges_equal_single_values(mirror):
    random = rng(0, "kinds")
    own = np.round(random.normal(size=(30_000, 7)), 2).astype(np.float32)
    partner, strength = own[::-1], random.gamma(2, 2, len(own)).astype(np.float32)
    low, high, step = np.array(
        [[0, 1, 0], [0, 1, 0.1], [-1, 0.3, 0], [0, 0, 0], [0, 1, 0], [-2, 2, 1], [0.5, 9, 0]]
    ).T
    mask = np.arange(7) != 4
    wrap_around = WrapAround.from_mask(mask, FeatureRanges(low, high, step), mirror=mirror)
    result = extrapolate(own, partner, strength, wrap_around)
    unwrapped = (own.astype(np.float64) - partner) * strength.astype(np.float64)[:, None] + own
    bounds = (np.broadcast_to(bound, own.shape).ravel() for bound in (low, high, step))
    wrapped = wrap(unwrapped.ravel(), *bounds, mirror=mirror)
    expected = np.where(mask, wrapped.reshape(own.shape), own)
    assert result.tobytes() == expected.astype(np.float32).tobytes()


def test_values_between_zero_and_one_keep_their_bits():
    own = np.array([[-0.0], [0.0], [1.0], [0.3]], dtype=np.float32)
    partner = np.array([[0.0], [0.0], [1.0], [0.3]], dtype=np.float32)
    unit = FeatureRanges(np.zeros(1), np.ones(1), np.zeros(1))
    wrap_around = WrapAround.from_mask(np.array([True]), unit)
    result = extrapolate(own, partner, np.full(4, 2.0), wrap_around)
    assert result.tobytes() == own.tobytes()


FEATURES = np.array([[0.0, 2.0], [1.0, 4.0]])
ALL_FEATURES = WrapAround.from_mask(np.ones(2, bool), infer_feature_ranges(FEATURES))


@pytest.mark.parametrize(
    ("own", "partner", "message"),
    [
        (FEATURES, FEATURES[:1],
         "shapes do not match: 2 rows of 2 features, 1 partners of 2 features, 2 strengths."),
        (FEATURES[:, :1], FEATURES[:, 1:],
         "the mask has 2 features; rows have 1. Use the mask of this corpus."),
        (csr_matrix(FEATURES), csr_matrix(FEATURES),
         "feature 1 is sparse, and its range 2 to 4 does not contain 0. Set a range that does with "
         "`--feature-range`."),
    ],
)  # fmt: skip
def test_invalid_arguments_are_rejected(own, partner, message):
    with pytest.raises(StageError) as error:
        extrapolate(own, partner, np.zeros(2), ALL_FEATURES)
    assert str(error.value) == message


def test_mask_of_another_width_is_rejected():
    with pytest.raises(StageError) as error:
        WrapAround.from_mask(np.ones(3, bool), infer_feature_ranges(FEATURES))
    assert str(error.value) == (
        "the mask has 3 features and the feature ranges have 2. Use the mask of this corpus."
    )
