import numpy as np
from hypothesis import given
from hypothesis import strategies as st

from gsx.seeds import rng
from gsx.stages.kernels.splits import hold_out, split_by_domain, split_counts


def split(domain, *, descending=False, environments=2):
    found = split_by_domain(
        np.array(domain), descending=descending, train=0.5, val=0.25, environments=environments
    )
    return found.split.tolist(), found.env_id.tolist()


def test_training_sees_the_first_domains_and_testing_the_last():
    assert split([0, 1, 2, 3]) == ([0, 0, 3, 4], [0, 1, -1, -1])


def test_a_descending_split_starts_from_the_highest_domain():
    assert split([0, 1, 2, 3], descending=True) == ([4, 3, 0, 0], [-1, -1, 1, 0])


def test_borders_move_forward_to_the_next_change_of_domain():
    assert split([0, 0, 0, 1, 2, 2, 3, 3])[0] == [0, 0, 0, 0, 3, 3, 4, 4]
    assert split([0, 0, 0, 0, 0, 1, 1, 2])[0] == [0, 0, 0, 0, 0, 3, 3, 4]


def test_one_border_is_passed_at_a_change_so_a_large_domain_leaves_splits_empty():
    assert split([0, 0, 0, 0, 0, 0, 0, 1])[0] == [0, 0, 0, 0, 0, 0, 0, 3]
    assert split([5, 5, 5, 5]) == ([0, 0, 0, 0], [0, 0, 0, 0])


def test_a_large_domain_swallows_the_environments_it_covers():
    domain = [0] * 6 + [1, 2] + [3] * 4 + [4] * 4
    assert split(domain, environments=4)[1][:8] == [0, 0, 0, 0, 0, 0, 1, 2]


def test_nothing_and_one_item_are_split_too():
    assert split([]) == ([], [])
    assert split([7]) == ([0], [0])


def test_held_out_items_come_from_training_alone():
    before = np.array([0] * 10 + [3, 4])
    after = hold_out(before, 2, rng(0, "tests"))
    assert split_counts(after) == {
        "train": 6, "id_val": 2, "id_test": 2, "ood_val": 1, "ood_test": 1,
    }  # fmt: skip
    assert after[10:].tolist() == [3, 4]
    assert split_counts(before)["train"] == 10
    np.testing.assert_array_equal(hold_out(before, 0, rng(0, "tests")), before)


@given(st.lists(st.integers(0, 9), min_size=1, max_size=60), st.booleans(), st.integers(1, 12))
def test_no_domain_is_cut_and_environments_count_from_zero(domain, descending, environments):
    found = split_by_domain(
        np.unique(domain, return_inverse=True)[1],
        descending=descending,
        train=0.8,
        val=0.1,
        environments=environments,
    )
    for number in set(domain):
        inside = np.array(domain) == number
        assert len(set(found.split[inside])) == 1
        assert len(set(found.env_id[inside])) == 1
    pool = found.env_id[found.split == 0]
    assert sorted(set(pool.tolist())) == list(range(pool.max() + 1))
    assert pool.max() < environments
    assert (found.split == 0).sum() >= int(0.8 * len(domain))
