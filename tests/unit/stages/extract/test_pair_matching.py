"""Matching nodes of pairs of graphs, and the partners to match with."""

import numpy as np
import pytest
import torch
from hypothesis import given
from hypothesis import strategies as st

from gsx.ragged import pointers
from gsx.stages.extract import pair_matching as matching
from gsx.stages.extract.pair_matching import best_match, draw_partners

SIZES = st.lists(st.tuples(st.integers(0, 5), st.integers(0, 5)), min_size=1, max_size=6)


def unit_rows(count, seed):
    rows = torch.randn(count, 3, generator=torch.Generator().manual_seed(seed))
    return torch.nn.functional.normalize(rows, dim=1)


@pytest.mark.parametrize("cells", [1, 7, 1 << 22])
@given(sizes=SIZES)
def test_the_best_match_is_the_largest_cosine_however_it_is_cut(sizes, cells):
    left_ptr, right_ptr = (pointers(counts) for counts in zip(*sizes, strict=True))
    left, right = unit_rows(int(left_ptr[-1]), 0), unit_rows(int(right_ptr[-1]), 1)
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(matching, "BLOCK_CELLS", cells)
        found = best_match(left, left_ptr, right, right_ptr)
    expected = [
        max((float(left[i] @ right[j]) for j in range(*right_ptr[p : p + 2])), default=-1.0)
        for p in range(len(sizes))
        for i in range(*left_ptr[p : p + 2])
    ]
    np.testing.assert_allclose(found.numpy(), expected, atol=1e-6)


def test_a_gradient_flows_to_both_matched_nodes():
    left, right = unit_rows(1, 0).requires_grad_(), unit_rows(2, 1).requires_grad_()
    best_match(left, np.array([0, 1]), right, np.array([0, 2])).sum().backward()
    assert left.grad.abs().sum() > 0
    assert (right.grad.abs().sum(dim=1) > 0).sum() == 1


@given(
    st.lists(st.tuples(st.integers(0, 2), st.integers(0, 2)), min_size=1, max_size=20),
    st.integers(0, 1 << 40),
)
def test_a_partner_shares_one_variable_and_differs_in_the_other(pairs, dice):
    same, other = (np.array(values) for values in zip(*pairs, strict=True))
    found = draw_partners(same, other, same, other, np.full(len(same), dice))
    assert (same[found] == same).all()
    for graph, partner in enumerate(found):
        if ((same == same[graph]) & (other != other[graph])).any():
            assert other[partner] != other[graph]


def test_every_possible_partner_is_found():
    same, other = np.zeros(5, dtype=int), np.array([0, 1, 0, 2, 1])
    found = draw_partners(same[:1].repeat(3), other[:1].repeat(3), same, other, np.arange(3))
    assert sorted(found.tolist()) == [1, 3, 4]


def test_without_any_graph_of_its_kind_any_partner_serves():
    found = draw_partners(
        np.array([7]), np.array([0]), np.array([1, 1]), np.array([0, 1]), np.array([3])
    )
    assert found.tolist() == [1]
