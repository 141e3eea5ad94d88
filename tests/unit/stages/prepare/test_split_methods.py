"""Split methods: by domain, by quantile, at random, and held-out items."""

import numpy as np
from hypothesis import given
from hypothesis import strategies as st

from gsx.seeds import rng
from gsx.stages.prepare.split_methods import (
    hold_out,
    split_at_random,
    split_by_domain,
    split_by_quantile,
    split_counts,
)
from gsx.stages.prepare.splitting import SplitRule, assign_splits, environment_table, sorted_domains


def split(domain, *, descending=False, environments=2):
    result = split_by_domain(
        np.array(domain), descending=descending, train=0.5, val=0.25, environments=environments
    )
    return result.split.tolist(), result.env_id.tolist()


def test_first_domains_are_training_and_last_are_test():
    assert split([0, 1, 2, 3]) == ([0, 0, 3, 4], [0, 1, -1, -1])


def test_descending_split_starts_at_the_highest_domain():
    assert split([0, 1, 2, 3], descending=True) == ([4, 3, 0, 0], [-1, -1, 1, 0])


def test_boundaries_move_to_the_next_change_of_domain():
    assert split([0, 0, 0, 1, 2, 2, 3, 3])[0] == [0, 0, 0, 0, 3, 3, 4, 4]
    assert split([0, 0, 0, 0, 0, 1, 1, 2])[0] == [0, 0, 0, 0, 0, 3, 3, 4]


def test_large_domain_leaves_later_splits_empty():
    assert split([0, 0, 0, 0, 0, 0, 0, 1])[0] == [0, 0, 0, 0, 0, 0, 0, 3]
    assert split([5, 5, 5, 5]) == ([0, 0, 0, 0], [0, 0, 0, 0])


def test_large_domain_merges_environments():
    domain = [0] * 6 + [1, 2] + [3] * 4 + [4] * 4
    assert split(domain, environments=4)[1][:8] == [0, 0, 0, 0, 0, 0, 1, 2]


def test_zero_and_one_items_are_split():
    assert split([]) == ([], [])
    assert split([7]) == ([0], [0])


def test_held_out_items_come_from_training_only():
    before = np.array([0] * 10 + [3, 4])
    after = hold_out(before, 2, rng(0, "tests"))
    assert split_counts(after) == {
        "train": 6, "id_val": 2, "id_test": 2, "ood_val": 1, "ood_test": 1,
    }  # fmt: skip
    assert after[10:].tolist() == [3, 4]
    assert split_counts(before)["train"] == 10
    np.testing.assert_array_equal(hold_out(before, 0, rng(0, "tests")), before)


@given(st.lists(st.integers(0, 9), min_size=1, max_size=60), st.booleans(), st.integers(1, 12))
def test_domains_stay_whole_and_environments_are_numbered_from_zero(
    domain, descending, environments
):
    result = split_by_domain(
        np.unique(domain, return_inverse=True)[1],
        descending=descending,
        train=0.8,
        val=0.1,
        environments=environments,
    )
    for number in set(domain):
        inside = np.array(domain) == number
        assert len(set(result.split[inside])) == 1
        assert len(set(result.env_id[inside])) == 1
    pool = result.env_id[result.split == 0]
    assert sorted(set(pool.tolist())) == list(range(pool.max() + 1))
    assert pool.max() < environments
    assert (result.split == 0).sum() >= int(0.8 * len(domain))


def test_quantiles_separate_small_medium_and_large_items():
    size = np.array([5, 1, 2, 3, 4, 6, 7, 8, 9, 10])
    for descending, expected in (
        (False, [0, 0, 0, 0, 0, 3, 3, 3, 3, 4]),
        (True, [3, 4, 3, 3, 3, 0, 0, 0, 0, 0]),
    ):
        result = split_by_quantile(
            size - 1, size, descending=descending, train=0.5, test=0.1, environments=2
        )
        assert result.split.tolist() == expected


def test_equal_items_are_all_training():
    result = split_by_quantile(
        np.zeros(4, np.int64), np.full(4, 7), descending=False, train=0.5, test=0.1, environments=3
    )
    assert (result.split.tolist(), result.env_id.tolist()) == ([0] * 4, [0] * 4)


def test_random_split_has_the_requested_shares():
    result = split_at_random(
        np.arange(100), rng(0, "tests"), descending=False, train=0.8, val=0.1, environments=4
    )
    assert list(split_counts(result.split).values()) == [80, 0, 0, 10, 10]
    assert np.bincount(result.env_id[result.split == 0]).tolist() == [20] * 4


@given(
    st.lists(st.integers(-3, 12), min_size=20, max_size=80),
    st.sampled_from(["domain-sorted", "quantile", "random"]),
    st.booleans(),
    st.integers(1, 8),
    st.sampled_from([(0.8, 0.1, 0.1), (0.5, 0.4, 0.05), (0.34, 0.33, 0.0), (0.6, 0.0, 0.2)]),
)
def test_every_rule_gives_a_partition_with_sorted_environments(
    keys, kind, descending, count, shares
):
    train, val, held_out = shares
    rule = SplitRule(
        kind=kind, descending=descending, train=train, val=val, held_out=held_out,
        environments=count,
    )  # fmt: skip
    domains = sorted_domains(keys, "nodes")
    assignment = assign_splits(domains, rule, rng(0, "tests"), where="tests")
    split, env = assignment.split, assignment.env_id
    assert len(split) == len(keys)
    assert sum(split_counts(split).values()) == len(keys), "every item is in one split"
    assert (
        split_counts(split)["id_val"] == split_counts(split)["id_test"] == int(held_out * len(keys))
    )
    pool = split < 3
    assert (env[~pool] == -1).all()
    assert sorted(set(env[pool].tolist())) == list(range(len(environment_table(assignment))))
    assert 1 <= len(environment_table(assignment)) <= count
    for number in set(domains.number.tolist()):
        inside = domains.number == number
        assert len(set(env[inside & pool].tolist())) <= 1, "environments do not divide domains"
        if kind != "random":
            assert len(set(np.where(pool, 0, split)[inside].tolist())) == 1, (
                "splits do not divide domains"
            )
    order = np.argsort(-domains.number if descending else domains.number, kind="stable")
    assert (np.diff(env[order][pool[order]]) >= 0).all(), "environments are ranges of domains"
    if kind != "random":
        assert (np.diff(np.where(pool, 0, split)[order]) >= 0).all(), "splits are ranges of domains"
    again = assign_splits(domains, rule, rng(0, "tests"), where="tests")
    np.testing.assert_array_equal(again.split, split)
