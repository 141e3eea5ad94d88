"""Feature extrapolation: stable moments, domains that hold, partners that fit."""

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from scipy.sparse import csr_matrix

from gsx.errors import StageError
from gsx.seeds import rng
from gsx.stages.graphs.feature_variance import (
    draw_partners,
    infer_feature_ranges,
    merge_feature_ranges,
    moments,
    variance_scores,
    within_group_variance_share,
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
def test_moments_do_not_depend_on_blocks(features, seed, parts, sparse):
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


def test_small_variance_around_a_large_mean_is_exact():
    features = 1e8 + np.tile([[0.0], [1.0]], (500, 1))
    zero = np.zeros(1000, dtype=np.int64)
    cut = [(features[start : start + 100], zero[:100]) for start in range(0, 1000, 100)]
    assert moments(cut, 1, 1).within() == pytest.approx([0.25])
    sparse = [(csr_matrix(part), group) for part, group in cut]
    assert moments(sparse, 1, 1).within() == pytest.approx([0.25])


def test_features_that_vary_between_environments_have_the_highest_score():
    random = rng(0, "tests")
    label, env = random.integers(0, 2, 4000), random.integers(0, 4, 4000)
    cause = label + 0.1 * random.normal(size=4000)
    color = env + 0.1 * random.normal(size=4000)
    features = np.column_stack([cause, color, random.normal(size=4000)])
    whole = moments([(features, np.zeros(4000, dtype=np.int64))], 1, 3)
    shares = [
        within_group_variance_share(moments([(features, group)], 4, 3), whole)
        for group in (label, env)
    ]
    assert shares[0] == pytest.approx([0.04, 1, 1], abs=0.02)
    assert shares[1] == pytest.approx([1, 0.01, 1], abs=0.02)
    scores = variance_scores(*shares, 1.0, 1.0)
    assert scores == pytest.approx([-0.96, 0.99, 0], abs=0.03)


def test_uninformative_groups_have_a_share_of_one_on_average():
    random = rng(0, "tests")
    features = random.normal(size=(40, 500))
    group = random.integers(0, 10, 40)
    whole = moments([(features, np.zeros(40, dtype=np.int64))], 1, 500)
    found = within_group_variance_share(moments([(features, group)], 10, 500), whole)
    assert found.mean() == pytest.approx(1, abs=0.02)
    constant = moments([(np.ones((40, 1)), group)], 10, 1)
    assert within_group_variance_share(
        constant, moments([(np.ones((40, 1)), group * 0)], 1, 1)
    ) == [1]


@given(rows(), st.integers(1, 4), st.booleans())
def test_feature_ranges_do_not_depend_on_blocks(features, parts, sparse):
    stored = csr_matrix(features) if sparse else features
    cut = np.array_split(np.arange(len(features)), min(parts, len(features)))
    found = [infer_feature_ranges(stored[part]) for part in cut]
    merged = found[0]
    for part in found[1:]:
        merged = merge_feature_ranges(merged, part)
    expected = infer_feature_ranges(stored)
    for name in ("low", "high", "step"):
        assert np.array_equal(getattr(merged, name), getattr(expected, name)), name


def test_feature_ranges_are_intervals_grids_or_two_values():
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


def test_every_valid_partner_is_drawn():
    label, env = np.zeros(5, dtype=np.int64), np.array([1, 0, 1, 2, 0])
    drawn = {draw_partners(label, env, rng(seed, "tests"))[0] for seed in range(100)}
    assert drawn == {1, 3, 4}


def test_ranges_of_no_rows_are_rejected():
    with pytest.raises(StageError) as error:
        infer_feature_ranges(np.zeros((0, 2)))
    assert str(error.value) == "no rows to infer feature ranges from."
