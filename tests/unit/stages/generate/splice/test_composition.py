"""Composition of spliced graphs: sources, partners and attachment."""

import numpy as np
import pytest

from gsx.seeds import rng
from gsx.stages.generate.splice.composition import SourcesByClass, compose

CLASSES = np.repeat([0, 1, 2], [10, 20, 70])
ALL = SourcesByClass.from_rows(np.arange(100), CLASSES)


def draw(count=500, f=(2, 4), **options):
    return compose(count, ALL, ALL, CLASSES, f, rng(0, "c"), **options)


def rows(composition):
    """Return the source rows of every graph."""
    return np.split(composition.source, composition.ptr[1:-1])


def test_graphs_have_one_lead_and_f_partners():
    counts = np.diff(draw().ptr) - 1
    assert set(counts.tolist()) == {2, 3, 4}
    assert np.bincount(counts)[2:] == pytest.approx([500 / 3] * 3, rel=0.2)


def test_without_other_sources_every_graph_has_one_slot():
    alone = compose(5, ALL, None, CLASSES, (2, 4), rng(0, "c"))
    assert alone.ptr.tolist() == [0, 1, 2, 3, 4, 5]
    assert alone.joined.tolist() == [-1] * 5


def test_sources_of_a_graph_are_distinct():
    assert all(len(set(row.tolist())) == len(row) for row in rows(draw()))


def test_few_sources_are_rarely_used_twice():
    few = SourcesByClass.from_rows(np.arange(4), np.zeros(4, dtype=np.int64))
    drawn = compose(200, few, few, np.zeros(4, dtype=np.int64), (3, 3), rng(0, "c"))
    num_distinct = [len(set(row.tolist())) for row in rows(drawn)]
    assert np.mean(np.array(num_distinct) == 4) > 0.99


def test_same_class_partners_have_the_class_of_the_lead():
    for row in rows(draw(partners="same-class")):
        assert len(set(CLASSES[row].tolist())) == 1


def test_same_component_repeats_the_lead():
    for row in rows(draw(partners="same-component")):
        assert len(set(row.tolist())) == 1


def test_same_component_repeats_another_source_if_the_lead_has_no_component():
    some = SourcesByClass.from_rows(np.arange(50, 100), CLASSES)
    for row in rows(
        compose(200, ALL, some, CLASSES, (2, 2), rng(0, "c"), partners="same-component")
    ):
        assert row[1] == row[2]
        assert row[1] >= 50
        assert row[0] == row[1] or row[0] < 50


def test_balanced_leads_have_equal_class_frequencies():
    leads = np.array([row[0] for row in rows(draw(3000, balanced=True))])
    assert np.bincount(CLASSES[leads]) / 3000 == pytest.approx([1 / 3] * 3, abs=0.03)


@pytest.mark.parametrize(("attach", "joined"), [("chain", [-1, 0, 1, 2]), ("star", [-1, 0, 0, 0])])
def test_chain_joins_the_previous_component_and_star_the_first(attach, joined):
    drawn = draw(3, f=(3, 3), attach=attach)
    assert drawn.joined.tolist() == joined * 3


def test_tree_joins_a_random_earlier_component():
    drawn = draw(1000, f=(3, 3))
    assert ((drawn.joined < drawn.slots) & (drawn.joined >= -1)).all()
    third = drawn.joined[drawn.slots == 3]
    assert np.bincount(third) / 1000 == pytest.approx([1 / 3] * 3, abs=0.05)
