"""Ranks and batches of an epoch."""

import itertools

import pytest

from gsx.errors import UsageError
from gsx.storage.corpora.epoch_plan import EpochPlan, Ranks

CASES = list(itertools.product(range(24), (1, 2, 3, 7), (1, 2, 3, 5), (False, True), (False, True)))


def plans(graphs, batch_size, world_size, drop_last, interleaved):
    return [
        EpochPlan(graphs, batch_size, drop_last, Ranks(rank, world_size), interleaved)
        for rank in range(world_size)
    ]


def bounds(plan):
    return [plan.bounds(step) for step in range(plan.num_batches)]


def test_every_graph_is_read_once_in_equally_many_batches():
    for graphs, size, world_size, drop_last, interleaved in CASES:
        if 0 < graphs < world_size and not drop_last:
            continue
        ranks = plans(graphs, size, world_size, drop_last, interleaved)
        assert len({plan.num_batches for plan in ranks}) == 1
        batches = [batch for plan in ranks for batch in bounds(plan)]
        positions = sorted(itertools.chain(*itertools.starmap(range, batches)))
        assert len(set(positions)) == len(positions)
        if drop_last:
            assert {stop - start for start, stop in batches} <= {size}
            assert len(positions) > graphs - world_size * (size + 1)
        else:
            assert positions == list(range(graphs))
            limit = size if world_size == 1 else size + 1
            assert all(1 <= stop - start <= limit for start, stop in batches)


def test_a_step_of_all_ranks_reads_what_one_process_reads_in_a_larger_batch():
    one = bounds(EpochPlan(103, 20, False, Ranks(), True))
    ranks = [bounds(plan) for plan in plans(103, 5, 4, False, True)]
    for (start, stop), parts in zip(one, zip(*ranks, strict=True), strict=False):
        if stop - start == 20:
            assert (parts[0][0], parts[-1][1]) in {(start, stop), (start, 103)}
            assert all(left[1] == right[0] for left, right in itertools.pairwise(parts))


def test_streamed_ranks_read_contiguous_parts_in_order():
    for plan in plans(50, 4, 3, False, False):
        first, stop = plan.part
        assert [position for pair in bounds(plan) for position in range(*pair)] == list(
            range(first, stop)
        )


def test_too_few_graphs_for_the_ranks_are_refused():
    with pytest.raises(UsageError, match="3 graphs cannot be shared among 4 ranks"):
        EpochPlan(3, 2, False, Ranks(0, 4), True)
    assert EpochPlan(3, 2, True, Ranks(0, 4), True).num_batches == 0


@pytest.mark.parametrize(
    ("rank", "world_size", "text"),
    [
        (2, 2, r"rank must be in 0\.\.1; got 2"),
        (-1, 2, r"rank must be in 0\.\.1; got -1"),
        (0, 0, "world_size must be at least 1; got 0"),
        (1, None, "rank and world_size belong together; got rank=1, world_size=None"),
        (None, 2, "rank and world_size belong together; got rank=None, world_size=2"),
    ],
)
def test_impossible_ranks_are_refused(rank, world_size, text):
    with pytest.raises(UsageError, match=text):
        Ranks.resolve(rank, world_size)
