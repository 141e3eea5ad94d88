"""Feature extrapolation: stable moments, domains that hold, partners that fit."""

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
    wrap,
)
from gsx.stages.graphs.feature_variance import (
    FeatureRanges,
    infer_feature_ranges,
    merge_feature_ranges,
    moments,
    draw_partners,
    within_group_variance_share,
    variance_scores,
)


@st.composite
def rows(draw, *, dtype=None):
    """Draw features of some kind, many of them zero."""
    kind = dtype or draw(st.sampled_from(("binary", "whole", "real")))
    count, width = draw(st.integers(1, 12)), draw(st.integers(1, 5))
    random = rng(draw(st.integers(0, 999)), "tests")
    values = {
        "binary": random.integers(0, 2, (count, width)),
        "whole": random.integers(-2, 5, (count, width)),
        "real": np.round(random.normal(size=(count, width)), 3),
    }[kind]
    return (values * (random.random((count, width)) < 0.6)).astype(np.float32)


def groups_of(count, seed):
    return rng(seed, "groups").integers(-1, 3, count)


@given(rows(), st.integers(0, 99), st.integers(1, 4), st.booleans())
def test_moments_are_those_of_all_rows_however_they_are_cut(features, seed, parts, sparse):
    group = groups_of(len(features), seed)
    cut = np.array_split(np.arange(len(features)), parts)
    stored = csr_matrix(features) if sparse else features
    found = moments(((stored[part], group[part]) for part in cut), 3, features.shape[1])
    total = np.zeros(features.shape[1])
    for number in range(3):
        mine = features[group == number].astype(np.float64)
        assert found.count[number] == len(mine)
        if len(mine):
            assert np.allclose(found.mean[number], mine.mean(axis=0))
            assert np.allclose(found.squares[number], ((mine - mine.mean(axis=0)) ** 2).sum(axis=0))
            total += found.squares[number]
    assert np.allclose(found.within(), total / max((group >= 0).sum(), 1))


def test_a_small_spread_about_a_large_mean_is_found():
    features = 1e8 + np.tile([[0.0], [1.0]], (500, 1))
    zero = np.zeros(1000, dtype=np.int64)
    cut = [(features[start : start + 100], zero[:100]) for start in range(0, 1000, 100)]
    assert moments(cut, 1, 1).within() == pytest.approx([0.25])
    sparse = [(csr_matrix(part), group) for part, group in cut]
    assert moments(sparse, 1, 1).within() == pytest.approx([0.25])


def test_what_varies_between_environments_has_the_highest_score():
    random = rng(0, "tests")
    label, env = random.integers(0, 2, 4000), random.integers(0, 4, 4000)
    cause = label + 0.1 * random.normal(size=4000)
    color = env + 0.1 * random.normal(size=4000)
    features = np.column_stack([cause, color, random.normal(size=4000)])
    whole = moments([(features, np.zeros(4000, dtype=np.int64))], 1, 3)
    shares = [within_group_variance_share(moments([(features, group)], 4, 3), whole) for group in (label, env)]
    assert shares[0] == pytest.approx([0.04, 1, 1], abs=0.02)
    assert shares[1] == pytest.approx([1, 0.01, 1], abs=0.02)
    scores = variance_scores(*shares, 1.0, 1.0)
    assert scores == pytest.approx([-0.96, 0.99, 0], abs=0.03)


def test_groups_that_mean_nothing_hold_all_the_variance_on_average():
    random = rng(0, "tests")
    features = random.normal(size=(40, 500))
    group = random.integers(0, 10, 40)
    whole = moments([(features, np.zeros(40, dtype=np.int64))], 1, 500)
    found = within_group_variance_share(moments([(features, group)], 10, 500), whole)
    assert found.mean() == pytest.approx(1, abs=0.02)
    constant = moments([(np.ones((40, 1)), group)], 10, 1)
    assert within_group_variance_share(constant, moments([(np.ones((40, 1)), group * 0)], 1, 1)) == [1]


@given(rows(), st.integers(1, 4), st.booleans())
def test_domains_are_those_of_all_rows_however_they_are_cut(features, parts, sparse):
    stored = csr_matrix(features) if sparse else features
    cut = np.array_split(np.arange(len(features)), min(parts, len(features)))
    found = [infer_feature_ranges(stored[part]) for part in cut]
    merged = found[0]
    for part in found[1:]:
        merged = merge_feature_ranges(merged, part)
    expected = infer_feature_ranges(stored)
    for name in ("low", "high", "step"):
        assert np.array_equal(getattr(merged, name), getattr(expected, name)), name


def strengths(count, seed):
    return rng(seed, "strength").gamma(3.0, 1.0, count)


@given(rows(), st.integers(0, 99), st.booleans(), st.booleans())
def test_results_lie_in_the_domain_and_other_features_keep_their_bits(
    features, seed, sparse, mirror
):
    domains = infer_feature_ranges(csr_matrix(features) if sparse else features)
    assert domains.contains(features).all()
    random = rng(seed, "tests")
    mask = random.random(features.shape[1]) < 0.5
    partner = features[random.permutation(len(features))]
    given_rows = (csr_matrix(features), csr_matrix(partner)) if sparse else (features, partner)
    strength = strengths(len(features), seed)
    found = extrapolate(*given_rows, strength, WrapAround.of(mask, domains, mirror=mirror))
    if sparse:
        assert found.has_sorted_indices
        assert (found.data != 0).all()
        found = found.toarray()
    assert found.dtype == features.dtype
    assert np.array_equal(found[:, ~mask], features[:, ~mask])
    close = FeatureRanges(domains.low - 1e-5, domains.high + 1e-5, np.zeros_like(domains.step))
    assert close.contains(found.astype(np.float64)).all()
    grid = domains.step > 0
    assert domains.contains(found.astype(np.float64))[:, grid].all()


@given(rows(), st.integers(0, 99), st.booleans(), st.booleans())
def test_strength_zero_changes_no_bit(features, seed, sparse, mirror):
    domains = infer_feature_ranges(features)
    assume(not sparse or ((domains.low <= 0) & (domains.high >= 0)).all())
    partner = features[rng(seed, "tests").permutation(len(features))]
    rows_ = [csr_matrix(each) if sparse else each for each in (features, partner)]
    mask = np.ones(features.shape[1], dtype=bool)
    found = extrapolate(*rows_, np.zeros(len(features)), WrapAround.of(mask, domains, mirror=mirror))
    if sparse:
        assert (found != rows_[0]).nnz == 0
        assert found.nnz == rows_[0].nnz
    else:
        assert np.array_equal(found, features)


@given(rows(), st.integers(0, 99), st.booleans())
def test_sparse_rows_move_as_dense_ones_do(features, seed, mirror):
    domains = infer_feature_ranges(features)
    assume(((domains.low <= 0) & (domains.high >= 0)).all())
    partner = features[rng(seed, "tests").permutation(len(features))]
    mask = rng(seed, "mask").random(features.shape[1]) < 0.7
    strength = strengths(len(features), seed)
    stored = [csr_matrix(each) for each in (features, partner)]
    dense = extrapolate(features, partner, strength, WrapAround.of(mask, domains, mirror=mirror))
    sparse = extrapolate(*stored, strength, WrapAround.of(mask, domains, mirror=mirror))
    assert np.allclose(sparse.toarray(), dense, atol=1e-6)


@pytest.mark.slow
def test_bags_of_words_as_large_as_cora_stay_sparse():
    """19,793 nodes of 8,710 words would take 690 MB as rows of numbers."""
    nodes, words, each = 19_793, 8_710, 48
    random = rng(0, "cora")
    column = np.sort(random.integers(0, words, (nodes, each)), axis=1)
    ptr = np.arange(nodes + 1) * each
    own = csr_matrix((np.ones(column.size, np.float32), column.ravel(), ptr), (nodes, words))
    own.sum_duplicates()
    own.data[:] = 1
    mask, domains = random.random(words) < 0.5, infer_feature_ranges(own)
    tracemalloc.start()
    found = extrapolate(
        own, own[random.permutation(nodes)], strengths(nodes, 0), WrapAround.of(mask, domains)
    )
    peak = tracemalloc.get_traced_memory()[1]
    tracemalloc.stop()
    assert isinstance(found, csr_matrix)
    assert peak < nodes * words * 4 / 3
    assert set(np.unique(found.data)) == {1}
    assert (found[:, ~mask] != own[:, ~mask]).nnz == 0
    assert (found != own).nnz > nodes


@given(rows(), st.integers(0, 99))
def test_the_order_of_rows_does_not_matter(features, seed):
    domains = infer_feature_ranges(features)
    order = rng(seed, "order").permutation(len(features))
    partner, strength = features[::-1], strengths(len(features), seed)
    mask = np.ones(features.shape[1], dtype=bool)
    found = extrapolate(features, partner, strength, WrapAround.of(mask, domains))
    moved = extrapolate(features[order], partner[order], strength[order], WrapAround.of(mask, domains))
    assert np.array_equal(found[order], moved)


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
def test_values_go_around_their_domain(value, low, high, step, expected):
    found = wrap(np.array([value]), np.array([low]), np.array([high]), np.array([step]))
    assert found == pytest.approx([expected])


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
def test_a_mirror_at_an_end_sends_values_back(value, low, high, step, expected):
    ends = (np.array([each]) for each in (low, high, step))
    assert wrap(np.array([value]), *ends, mirror=True) == pytest.approx([expected])


@given(rows(), st.integers(0, 999))
def test_rows_that_share_a_partner_move_as_if_each_had_its_own(features, seed):
    random = rng(seed, "partners")
    counts = random.multinomial(len(features), np.full(4, 0.25))
    partner, strength = features[random.integers(len(features), size=4)], random.gamma(2, 2, 4)
    ways = WrapAround.of(random.random(features.shape[1]) < 0.7, infer_feature_ranges(features))
    ptr = np.concatenate([[0], np.cumsum(counts)])
    shared, _ = extrapolate_runs(features, partner, np.arange(4), strength, ptr, ways)
    alone = extrapolate(features, partner.repeat(counts, axis=0), strength.repeat(counts), ways)
    assert shared.tobytes() == alone.tobytes()


@pytest.mark.parametrize("mirror", [False, True])
def test_many_rows_of_every_kind_move_as_each_value_does_alone(mirror):
    random = rng(0, "kinds")
    own = np.round(random.normal(size=(30_000, 7)), 2).astype(np.float32)
    partner, strength = own[::-1], random.gamma(2, 2, len(own)).astype(np.float32)
    low, high, step = np.array(
        [[0, 1, 0], [0, 1, 0.1], [-1, 0.3, 0], [0, 0, 0], [0, 1, 0], [-2, 2, 1], [0.5, 9, 0]]
    ).T
    mask = np.arange(7) != 4
    found = extrapolate(
        own, partner, strength, WrapAround.of(mask, FeatureRanges(low, high, step), mirror=mirror)
    )
    moved = (own.astype(np.float64) - partner) * strength.astype(np.float64)[:, None] + own
    ends = (np.broadcast_to(each, own.shape).ravel() for each in (low, high, step))
    alone = wrap(moved.ravel(), *ends, mirror=mirror)
    expected = np.where(mask, alone.reshape(own.shape), own)
    assert found.tobytes() == expected.astype(np.float32).tobytes()


def test_what_lies_between_zero_and_one_keeps_its_bits():
    own = np.array([[-0.0], [0.0], [1.0], [0.3]], dtype=np.float32)
    partner = np.array([[0.0], [0.0], [1.0], [0.3]], dtype=np.float32)
    unit = FeatureRanges(np.zeros(1), np.ones(1), np.zeros(1))
    found = extrapolate(own, partner, np.full(4, 2.0), WrapAround.of(np.array([True]), unit))
    assert found.tobytes() == own.tobytes()


def test_domains_are_intervals_grids_or_two_values():
    features = np.array([[0, 0, 0.5, 3, 7], [0.7, 1, 0.2, 0, 7], [1, 4, 0.5, 3, 7.0]])
    found = infer_feature_ranges(features)
    assert found.low.tolist() == [0, 0, 0.2, 0, 7]
    assert found.high.tolist() == [1, 4, 0.5, 3, 7]
    assert found.step == pytest.approx([0, 1, 0.3, 3, 0])
    sparse = infer_feature_ranges(csr_matrix(np.array([[-1.5, 0], [0, 2], [1.5, 2]])))
    assert sparse.step.tolist() == [0, 2]


@given(st.integers(0, 999), st.integers(0, 40))
def test_partners_share_the_label_and_not_the_environment(seed, count):
    random = rng(seed, "tests")
    label, env = random.integers(-1, 3, count), random.integers(-1, 3, count)
    found = draw_partners(label, env, random)
    for row, partner in enumerate(found.tolist()):
        fits = (label == label[row]) & (env != env[row]) & (env >= 0) & (label >= 0)
        if label[row] < 0 or env[row] < 0 or not fits.any():
            assert partner == -1
        else:
            assert fits[partner]


def test_every_fitting_partner_is_drawn():
    label, env = np.zeros(5, dtype=np.int64), np.array([1, 0, 1, 2, 0])
    drawn = {draw_partners(label, env, rng(seed, "tests"))[0] for seed in range(100)}
    assert drawn == {1, 3, 4}


@pytest.mark.parametrize(
    ("call", "message"),
    [
        (lambda x, d: extrapolate(x, x[:1], np.zeros(2), WrapAround.of(np.ones(2, bool), d)),
         "shapes do not match: 2 rows of 2 features, 1 partners of 2 features, 2 strengths."),
        (lambda x, d: WrapAround.of(np.ones(3, bool), d),
         "the mask has 3 features and the feature ranges have 2. Use the mask of this corpus."),
        (lambda x, d: extrapolate(x[:, :1], x[:, 1:], np.zeros(2), WrapAround.of(np.ones(2, bool), d)),
         "the mask has 2 features; rows have 1. Use the mask of this corpus."),
        (lambda x, d: extrapolate(*[csr_matrix(x)] * 2, np.zeros(2), WrapAround.of(np.ones(2, bool), d)),
         "feature 1 is sparse, and its range 2 to 4 does not contain 0. Set a range that does with "
         "`--domain`."),
        (lambda x, d: infer_feature_ranges(x[:0]), "no rows to infer feature ranges from."),
    ],
)  # fmt: skip
def test_what_does_not_fit_is_refused(call, message):
    features = np.array([[0.0, 2.0], [1.0, 4.0]])
    with pytest.raises(StageError) as error:
        call(features, infer_feature_ranges(features))
    assert str(error.value) == message
