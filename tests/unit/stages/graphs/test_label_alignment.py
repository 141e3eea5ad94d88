"""Classes that held-out samples number otherwise than training does."""

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from gsx.seeds import rng
from gsx.stages.describe.node_shift import node_warnings
from gsx.stages.graphs.label_alignment import LabelAlignment, SparseEntries, align_labels

CLASSES = 4


def pages(seed, meaning, noise=0.02):
    """Draw pages of four classes, each with words of its own; the second half is numbered anew."""
    random = rng(seed, "pages")
    kind = random.integers(0, CLASSES, 400)
    words = random.random((400, 40)) < noise
    own = 10 * kind[:, None] + random.integers(0, 10, (400, 4))
    np.put_along_axis(words, own, values=True, axis=1)
    label = kind.copy()
    label[200:] = np.argsort(meaning)[kind[200:]]
    return words.astype(np.float32), label, np.arange(400) < 200


def entries_of(words):
    row, column = np.nonzero(words)
    return SparseEntries(row, column, words[row, column].astype(np.float64))


@given(st.permutations(range(CLASSES)), st.integers(0, 99))
def test_permuted_class_ids_are_detected(meaning, seed):
    words, label, train = pages(seed, meaning)
    found = align_labels(entries_of(words), label, train, ~train, CLASSES)
    assert found.matched_class == tuple(meaning)
    assert found.best > 0.9
    moved = any(own != matched for own, matched in enumerate(meaning))
    assert found.agreement == found.best or moved
    assert found.differs == (found.agreement <= found.best / 2)


def test_aligned_class_ids_are_accepted():
    words, label, train = pages(0, range(CLASSES))
    found = align_labels(entries_of(words), label, train, ~train, CLASSES)
    assert found.agreement == found.best > 0.9
    assert not found.differs


def test_uninformative_features_give_no_warning():
    words, label, train = pages(0, (1, 2, 3, 0))
    noise = rng(0, "noise").random(words.shape)
    assert not align_labels(entries_of(noise), label, train, ~train, CLASSES).differs


@pytest.mark.parametrize(
    ("agreement", "best", "largest", "differs"),
    [
        (0.03, 0.72, 0.45, True),
        (0.40, 0.72, 0.45, False),
        (0.03, 0.45, 0.20, False),
        (0.03, 0.72, 0.60, False),
    ],
)
def test_a_permutation_needs_high_accuracy(agreement, best, largest, differs):
    assert LabelAlignment(agreement, best, (1, 0), largest).differs is differs


def test_samples_without_a_class_are_skipped():
    words, label, train = pages(0, (1, 0, 2, 3))
    unknown = np.where(np.arange(400) % 2, -1, label)
    assert align_labels(entries_of(words), unknown, train, ~train, CLASSES).matched_class == (
        1,
        0,
        2,
        3,
    )
    assert align_labels(entries_of(words), np.full(400, -1), train, ~train, CLASSES) is None
    assert align_labels(entries_of(words), label, train, np.zeros(400, dtype=bool), CLASSES) is None


def test_the_warning_lists_the_matched_classes():
    alignment = {"agreement": 0.03, "best": 0.72, "matched_classes": (1, 0), "largest": 0.4}
    found = {
        "environments": [],
        "shift": {},
        "equal_to_training": {},
        "equal_environments": [],
        "class_numbering": {
            "id_test": {**alignment, "differ": False},
            "ood_test": {**alignment, "differ": True},
        },
    }
    assert list(node_warnings(found)) == [
        "classes of ood_test seem to be numbered differently from those of training: a classifier "
        "on features predicts the class of 3.0% of its nodes, and of 72.0% if classes are "
        "renumbered (0 as 1, 1 as 0)"
    ]
