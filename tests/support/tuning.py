"""A small search space and corpus for tests of tuning."""

from tests.support.run_stages import unchanged, write_small_corpus

SPLIT_SIZES = {"train": 60, "id_val": 20, "id_test": 20, "ood_val": 30, "ood_test": 30}
SMALL_SPACE = """
[generate]
options = ["001"]
bridges = ["none"]
f = [[2, 2], [3, 3]]
ratio = [0.5]
partners = ["any"]
[train]
learner = ["erm", "vrex"]
penalty = [1]
width = [4, 8]
batch_size = [16]
"""
NUM_COMBINATIONS = 8
"""Combinations of f, learner and width in `SMALL_SPACE`."""


def write_tuning_corpus(folder, change=unchanged):
    """Write a corpus with all splits to a store; ``change`` modifies the graphs."""
    return write_small_corpus(folder, change, sizes=SPLIT_SIZES)
