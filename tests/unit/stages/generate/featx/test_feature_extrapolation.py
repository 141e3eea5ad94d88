"""Properties of moved features: domains, the order of nodes, the span of two environments."""

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from gsx.errors import StageError
from gsx.ragged import pointers
from gsx.seeds import rng
from gsx.stages.augmented.cycle import Turns
from gsx.stages.augmented.rejection import FEW_DRAWS, OWN_DRAWS
from gsx.stages.generate.featx.build import Extrapolation, turned, warnings_of
from gsx.stages.generate.featx.extrapolate_graphs import Mover, drawn_labels, numbered
from gsx.stages.generate.featx.feature_extrapolation import Ways, extrapolate
from gsx.stages.generate.featx.parameters import MovingRules
from gsx.stages.generate.featx.plan import base_rows
from gsx.stages.generate.featx.rank_matching import by_rank, equal_rank, node_keys
from gsx.stages.graphs.feature_variance import Domains, Partners, infer_domains
from gsx.stages.graphs.wl_hash import wl_hashes
from gsx.table import GraphTable
from tests.support.synthetic_corpora import planted_graphs


@st.composite
def movers(draw):
    """Draw graphs of any size and a mover of their features."""
    random = rng(draw(st.integers(0, 999)), "movers")
    table, info = planted_graphs(draw(st.integers(8, 30)), draw(st.integers(0, 50)))
    features = table.dense("node", "node_feat")
    rules = MovingRules(
        ways=Ways.of(
            random.random(12) < 0.5, infer_domains(features), mirror=bool(random.integers(2))
        ),
        shape=float(random.choice([2, 9])),
        scale=2.0,
        towards=bool(random.integers(2)),
        seed=0,
        rounds=int(random.integers(1, 4)),
        ranked=bool(random.integers(2)),
    )
    label, env = (table.graph[name].astype(np.int64) for name in ("label", "env_id"))
    partners = Partners.of(label, env)
    table = table.filter(partners.count(label, env) > 0)
    node_ptr = np.arange(len(features) // 3 + 1) * 3
    keys = node_keys(features, rules.ways.mask, rules.ways.domains)
    return table, Mover(
        rules=rules,
        info=info,
        features=features,
        node_ptr=node_ptr,
        graph_id=np.arange(len(features) // 3),
        partners=partners,
        forbidden=np.zeros(0, dtype=np.uint64),
        order=by_rank(keys, node_ptr) if rules.ranked else None,
    )


@settings(max_examples=25)
@given(movers())
def test_moved_features_lie_in_their_domains(drawn):
    table, mover = drawn
    if not len(table):
        return
    found = mover.block(table, "block").drawn.features.values.astype(np.float64)
    domains = mover.rules.ways.domains
    assert Domains(domains.low - 1e-5, domains.high + 1e-5, domains.step).contain(found).all()
    kept = ~mover.rules.ways.mask
    assert np.array_equal(found[:, kept], table.dense("node", "node_feat")[:, kept])


@settings(max_examples=25)
@given(movers(), st.integers(0, 99))
def test_the_order_of_nodes_does_not_matter(drawn, seed):
    table, mover = drawn
    if not len(table):
        return
    order = np.concatenate(
        [3 * graph + rng(seed, graph).permutation(3) for graph in range(len(table))]
    )
    mixed = table.with_columns(node={"node_feat": table.dense("node", "node_feat")[order]})
    one, other = (mover.block(each, "block").drawn.features.values for each in (table, mixed))
    assert np.array_equal(one[order], other)


def unmoved(forbidden):
    """Return graphs and a mover that leaves them as they are and may not make the first ones."""
    table, info = planted_graphs(24, 0)
    sizes = np.where(np.arange(24) % 2, 3, 2)  # every second graph keeps all three nodes
    kept = np.concatenate([3 * graph + np.arange(size) for graph, size in enumerate(sizes)])
    table = GraphTable(
        node_ptr=pointers(sizes),
        edge_ptr=np.zeros(25, dtype=np.int64),
        graph=table.graph,
        node={name: values[kept] for name, values in table.node.items()},
        edge={name: values[:0] for name, values in table.edge.items()},
    )
    label, env = (table.graph[name].astype(np.int64) for name in ("label", "env_id"))
    features = table.dense("node", "node_feat")
    ways = Ways.of(np.zeros(12, dtype=bool), infer_domains(features))
    rules = MovingRules(ways=ways, shape=2, scale=2, towards=False, seed=0)
    mover = Mover(
        rules=rules,
        info=info,
        features=features,
        node_ptr=table.node_ptr,
        graph_id=table.dense("graph", "graph_id"),
        partners=Partners.of(label, env),
        forbidden=np.sort(wl_hashes(table)[:forbidden]),  # these always come out
    )
    return table, mover


def test_a_graph_that_is_always_held_out_gives_its_place_to_another():
    table, mover = unmoved(forbidden=3)
    block = mover.block(table, "block")
    origin = block.drawn.origin
    assert (origin[:3] > 2).all()
    assert (origin[3:] == np.arange(3, 24)).all()
    made = mover.table(numbered(table), block)
    other = table.take(origin)
    assert np.array_equal(made.node_ptr, other.node_ptr)
    assert np.array_equal(made.dense("node", "node_feat"), other.dense("node", "node_feat"))
    parents = made.lists("graph", "provenance.parents").values
    assert np.array_equal(parents, other.dense("graph", "graph_id"))
    assert np.array_equal(block.hashes, wl_hashes(other))
    assert block.refused >= 3 * OWN_DRAWS


def test_few_graphs_that_may_be_made_take_the_places_of_all_others():
    table, mover = unmoved(forbidden=20)
    origin = mover.block(table, "block").drawn.origin
    assert (origin[:20] >= 20).all()
    assert (origin[20:] == np.arange(20, 24)).all()


def test_where_nothing_else_comes_out_it_is_said_how_to_have_more_values():
    table, mover = unmoved(forbidden=24)
    with pytest.raises(StageError) as error:
        mover.block(table, "block")
    assert str(error.value) == (
        f"24 of 24 graphs came out as held-out graphs {FEW_DRAWS} times, as 100% of all draws did: "
        "their features have few values to move to. Give them more with `--domain`, or change the "
        "gamma distribution."
    )


def test_few_values_to_move_to_are_told_once_graphs_are_made():
    summed = {"graphs": 10, "distinct": 5, "refused": {"held-out graph": 10}}
    assert warnings_of(summed) == []
    assert warnings_of({**summed, "distinct": 4, "refused": {"held-out graph": 1100}}) == [
        "FeatX: 4 of 10 graphs are distinct; the rest repeat one of them",
        "FeatX: 1,100 of 1,110 draws came out as held-out graphs and were drawn anew; features "
        "have few values to move to. Give them more with `--domain`.",
    ]


@pytest.mark.parametrize(
    ("count", "some"), [(5, 12), (12, 12), (13, 12), (31, 12), (9, 7), (31, 7)]
)
@pytest.mark.parametrize("block", [4, 12, 40])
def test_graphs_of_any_part_of_all_turns_are_those_of_its_rows(count, some, block):
    train, _ = planted_graphs(12, 0)
    turning = turned(train, count, block)
    rows = base_rows(np.arange(some), count, 0)
    found = Extrapolation(None, train, turning, rows, None, [])
    for start in range(0, count, block):
        stop = min(start + block, count)
        assert found.bases(start, stop).equals(train.take(rows[start:stop]))
    shared = np.shares_memory(found.bases(0, 2).node["node_feat"], turning.node["node_feat"])
    assert shared == (some == 12 and count >= 12)


def test_soft_labels_lend_their_classes_by_weight():
    y = np.array([[1, 0, 0], [0, 0.25, 0.75], [np.nan] * 3], dtype=np.float32)
    drawn = np.array([drawn_labels(y, "classification", rng(n, "labels")) for n in range(400)])
    assert (drawn[:, 0] == 0).all()
    assert set(drawn[:, 1]) == {1, 2}
    assert (drawn[:, 1] == 2).mean() == pytest.approx(0.75, abs=0.06)
    assert (drawn[:, 2] == -1).all()
    binary = drawn_labels(np.array([[0.0], [1.0]]), "binary", rng(0, "labels"))
    assert binary.tolist() == [0, 1]


def test_extrapolation_spans_what_two_environments_do():
    """The theorem: from samples that span the plane, moved ones reach every part of its domain.

    Samples that go towards each other stay in the triangle between the first three.
    """
    own = np.array([[1.0, 0.0], [0.0, 1.0], [0.1, 0.2]])
    unit = Domains(np.zeros(2), np.ones(2), np.zeros(2))
    ways = Ways.of(np.ones(2, dtype=bool), unit)
    rules = MovingRules(ways, 2.0, 0.5, towards=False, seed=0)
    closer = MovingRules(ways, 2.0, 0.5, towards=True, seed=0)
    points = {}
    for name, each in (("away", rules), ("towards", closer)):
        samples, partner = own, own[::-1]
        for turn in range(6):
            stream = rng(turn, "span")
            strength = each.strengths(len(samples), stream)
            more = each.move(samples, partner, strength)
            samples = np.concatenate([samples, more])
            partner = samples[stream.permutation(len(samples))]
        points[name] = samples
    cells = {
        name: len({(int(x * 3.999), int(y * 3.999)) for x, y in found})
        for name, found in points.items()
    }
    assert cells["away"] == 16
    assert cells["towards"] <= 10
    assert (points["towards"].sum(axis=1) <= 1 + 1e-9).all()


def test_every_graph_has_its_turn():
    rows = base_rows(np.array([3, 5, 9]), 8, 0)
    assert rows[:6].tolist() == [3, 5, 9, 3, 5, 9]
    assert len(set(rows[6:])) == 2


@given(
    size=st.integers(1, 7),
    count=st.integers(1, 30),
    start=st.integers(0, 30),
    more=st.integers(0, 9),
)
def test_a_part_of_all_turns_is_that_part_of_the_whole(size, count, start, more):
    items = 10 * np.arange(size)
    turns = Turns.of(items, count, np.random.default_rng(0))
    whole = np.concatenate([np.tile(items, count // size), turns.some])
    assert len(turns) == len(whole) == count
    assert (np.diff(turns.some) > 0).all()
    assert turns[start : start + more].tolist() == whole[start : start + more].tolist()


def colored_digits(mirror):
    """Two digits of one class, one red and one blue, that are moved away from each other once."""
    bright = np.array([0.0, 0.4, 0.2, 0.3, 0.1])
    red = np.column_stack([bright, 0 * bright, 0 * bright])
    blue = red[::-1, ::-1] + [0, 0, 0.05]
    features = np.concatenate([red, blue]).astype(np.float32)
    unit = Domains(np.zeros(3), np.ones(3), np.zeros(3))
    ptr, mask = np.array([0, 5, 10]), np.ones(3, dtype=bool)
    keys = node_keys(features, mask, unit)
    place = equal_rank(keys, ptr, np.array([5, 5]))
    partner = features[by_rank(keys, ptr)[np.repeat([5, 0], 5) + place]]
    ways = Ways.of(mask, unit, mirror=mirror)
    return extrapolate(features, partner, np.ones(10), ways), bright


def test_a_red_digit_beside_a_blue_one_becomes_magenta_and_stays_the_digit():
    found, bright = colored_digits(mirror=True)
    assert found[:5, 0] == pytest.approx(2 * bright)
    assert found[:5, 1] == pytest.approx(0 * bright)
    assert found[:5, 2] == pytest.approx(bright + 0.05)  # as bright as its partner's node
    around, _ = colored_digits(mirror=False)
    assert around[:5, 2] == pytest.approx(1 - bright - 0.05)  # a negative of the digit


def test_nodes_meet_those_of_equal_rank_in_graphs_of_any_size():
    ptr = np.array([0, 4, 6, 7])
    keys = np.column_stack([[3.0, 1.0, 2.0, 2.0, 5.0, 4.0, 9.0], np.zeros(7)])
    assert by_rank(keys, ptr).tolist() == [1, 2, 3, 0, 5, 4, 6]
    # Of four the first of three is last; the two that are equal meet the one in the middle.
    assert equal_rank(keys, ptr, np.array([4, 2, 1])).tolist() == [3, 0, 2, 2, 1, 0, 0]
    assert equal_rank(keys, ptr, np.array([8, 1, 5])).tolist() == [7, 1, 4, 4, 0, 0, 2]
    second = np.column_stack([np.zeros(7), keys[:, 0]])
    assert equal_rank(second, ptr, np.array([4, 2, 1])).tolist() == [3, 0, 2, 2, 1, 0, 0]


def test_features_that_are_not_moved_have_no_rank():
    domains = Domains(np.zeros(3), np.array([1.0, 10.0, 0.0]), np.zeros(3))
    features = np.array([[0.5, 5.0, 0.0], [0.5, 9.0, 0.0]])
    keys = node_keys(features, np.array([True, False, True]), domains)
    assert keys[0].tolist() == keys[1].tolist() == [0.5, 0.5]
    both = node_keys(features, np.array([True, True, False]), domains)
    assert both.tolist() == [[1.0, 1.5], [1.4, pytest.approx(2.3)]]
