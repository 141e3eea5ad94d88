"""Rank matching of nodes."""

import numpy as np
import pytest

from gsx.stages.generate.featx.feature_extrapolation import WrapAround, extrapolate
from gsx.stages.generate.featx.rank_matching import equal_rank_positions, rank_keys, rank_order
from gsx.stages.graphs.feature_variance import FeatureRanges


def extrapolate_digits(mirror):
    """Extrapolate a red and a blue digit of one class away from each other; return brightness."""
    bright = np.array([0.0, 0.4, 0.2, 0.3, 0.1])
    red = np.column_stack([bright, 0 * bright, 0 * bright])
    blue = red[::-1, ::-1] + [0, 0, 0.05]
    features = np.concatenate([red, blue]).astype(np.float32)
    unit = FeatureRanges(np.zeros(3), np.ones(3), np.zeros(3))
    ptr, mask = np.array([0, 5, 10]), np.ones(3, dtype=bool)
    keys = rank_keys(features, mask, unit)
    position = equal_rank_positions(keys, ptr, np.array([5, 5]))
    partner = features[rank_order(keys, ptr)[np.repeat([5, 0], 5) + position]]
    wrap_around = WrapAround.from_mask(mask, unit, mirror=mirror)
    return extrapolate(features, partner, np.ones(10), wrap_around), bright


def test_red_digit_with_blue_partner_becomes_magenta_and_keeps_its_shape():
    reflected, bright = extrapolate_digits(mirror=True)
    assert reflected[:5, 0] == pytest.approx(2 * bright)
    assert reflected[:5, 1] == pytest.approx(0 * bright)
    assert reflected[:5, 2] == pytest.approx(bright + 0.05)  # the brightness of the partner's node
    wrapped, _ = extrapolate_digits(mirror=False)
    assert wrapped[:5, 2] == pytest.approx(1 - bright - 0.05)  # a negative of the digit


def test_ranks_are_matched_between_graphs_of_any_size():
    ptr = np.array([0, 4, 6, 7])
    keys = np.column_stack([[3.0, 1.0, 2.0, 2.0, 5.0, 4.0, 9.0], np.zeros(7)])
    assert rank_order(keys, ptr).tolist() == [1, 2, 3, 0, 5, 4, 6]
    # Node 0 has the last rank of four; nodes 2 and 3 are equal and share the middle position.
    positions = equal_rank_positions(keys, ptr, np.array([4, 2, 1]))
    assert positions.tolist() == [3, 0, 2, 2, 1, 0, 0]
    positions = equal_rank_positions(keys, ptr, np.array([8, 1, 5]))
    assert positions.tolist() == [7, 1, 4, 4, 0, 0, 2]
    second_key = np.column_stack([np.zeros(7), keys[:, 0]])
    positions = equal_rank_positions(second_key, ptr, np.array([4, 2, 1]))
    assert positions.tolist() == [3, 0, 2, 2, 1, 0, 0]


def test_only_selected_features_determine_the_rank():
    ranges = FeatureRanges(np.zeros(3), np.array([1.0, 10.0, 0.0]), np.zeros(3))
    features = np.array([[0.5, 5.0, 0.0], [0.5, 9.0, 0.0]])
    keys = rank_keys(features, np.array([True, False, True]), ranges)
    assert keys[0].tolist() == keys[1].tolist() == [0.5, 0.5]
    both = rank_keys(features, np.array([True, True, False]), ranges)
    assert both.tolist() == [[1.0, 1.5], [1.4, pytest.approx(2.3)]]
