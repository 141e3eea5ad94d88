"""Best matches of nodes in pairs of graphs, and the partners of graphs."""

import numpy as np
import pytest
import torch
from hypothesis import given
from hypothesis import strategies as st

from gsx.ragged import pointers
from gsx.stages.extract import pair_matching
from gsx.stages.extract.pair_matching import best_match, draw_partners

SIZES = st.lists(st.tuples(st.integers(0, 5), st.integers(0, 5)), min_size=1, max_size=6)


def unit_rows(count, seed):
    rows = torch.randn(count, 3, generator=torch.Generator().manual_seed(seed))
    return torch.nn.functional.normalize(rows, dim=1)


@pytest.mark.parametrize("block_cells", [1, 7, 1 << 22])
@given(sizes=SIZES)
def test_best_match_is_the_largest_cosine_for_every_block_size(sizes, block_cells):
    left_ptr, right_ptr = (pointers(counts) for counts in zip(*sizes, strict=True))
    left, right = unit_rows(int(left_ptr[-1]), 0), unit_rows(int(right_ptr[-1]), 1)
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(pair_matching, "BLOCK_CELLS", block_cells)
        matches = best_match(left, left_ptr, right, right_ptr)
    expected = [
        max((float(left[i] @ right[j]) for j in range(*right_ptr[p : p + 2])), default=-1.0)
        for p in range(len(sizes))
        for i in range(*left_ptr[p : p + 2])
    ]
    np.testing.assert_allclose(matches.numpy(), expected, atol=1e-6)


def test_both_matched_nodes_receive_gradients():
    left, right = unit_rows(1, 0).requires_grad_(), unit_rows(2, 1).requires_grad_()
    best_match(left, np.array([0, 1]), right, np.array([0, 2])).sum().backward()
    assert left.grad.abs().sum() > 0
    assert (right.grad.abs().sum(dim=1) > 0).sum() == 1


@given(
    st.lists(st.tuples(st.integers(0, 2), st.integers(0, 2)), min_size=1, max_size=20),
    st.integers(0, 1 << 40),
)
def test_partner_shares_one_variable_and_differs_in_the_other(pairs, random):
    same, other = (np.array(values) for values in zip(*pairs, strict=True))
    partners = draw_partners(same, other, same, other, np.full(len(same), random))
    assert (same[partners] == same).all()
    for graph, partner in enumerate(partners):
        if ((same == same[graph]) & (other != other[graph])).any():
            assert other[partner] != other[graph]


def test_every_possible_partner_can_be_drawn():
    same, other = np.zeros(5, dtype=int), np.array([0, 1, 0, 2, 1])
    partners = draw_partners(same[:1].repeat(3), other[:1].repeat(3), same, other, np.arange(3))
    assert sorted(partners.tolist()) == [1, 3, 4]


def test_any_graph_is_a_partner_if_none_shares_the_variable():
    partners = draw_partners(
        np.array([7]), np.array([0]), np.array([1, 1]), np.array([0, 1]), np.array([3])
    )
    assert partners.tolist() == [1]
