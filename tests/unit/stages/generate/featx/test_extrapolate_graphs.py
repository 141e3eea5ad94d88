"""Feature extrapolation of graphs: ranges, order of nodes, rejection of held-out graphs, span."""

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from gsx.errors import StageError
from gsx.ragged import pointers
from gsx.seeds import rng
from gsx.stages.augmented.rejection import DRAWS_BEFORE_REPLACEMENT, DRAWS_FOR_HALF
from gsx.stages.generate.featx.build import (
    Extrapolation,
    extrapolation_warnings,
    pad_cyclically,
)
from gsx.stages.generate.featx.extrapolate_graphs import (
    GraphExtrapolator,
    number_nodes,
    sample_classes,
)
from gsx.stages.generate.featx.feature_extrapolation import WrapAround, extrapolate
from gsx.stages.generate.featx.parameters import FeatxParameters
from gsx.stages.generate.featx.plan import base_rows
from gsx.stages.generate.featx.rank_matching import rank_keys, rank_order
from gsx.stages.graphs.feature_variance import FeatureRanges, Partners, infer_feature_ranges
from gsx.stages.graphs.wl_hash import wl_hashes
from gsx.table import GraphTable
from tests.support.synthetic_corpora import planted_graphs


@st.composite
def extrapolators(draw):
    """Draw graphs and an extrapolator of their features."""
    random = rng(draw(st.integers(0, 999)), "movers")
    table, info = planted_graphs(draw(st.integers(8, 30)), draw(st.integers(0, 50)))
    features = table.dense("node", "node_feat")
    parameters = FeatxParameters(
        wrap_around=WrapAround.from_mask(
            random.random(12) < 0.5, infer_feature_ranges(features), mirror=bool(random.integers(2))
        ),
        shape=float(random.choice([2, 9])),
        scale=2.0,
        interpolate=bool(random.integers(2)),
        seed=0,
        rounds=int(random.integers(1, 4)),
        ranked=bool(random.integers(2)),
    )
    label, env = (table.graph[name].astype(np.int64) for name in ("label", "env_id"))
    partners = Partners.of(label, env)
    table = table.filter(partners.count(label, env) > 0)
    node_ptr = np.arange(len(features) // 3 + 1) * 3
    keys = rank_keys(features, parameters.wrap_around.mask, parameters.wrap_around.ranges)
    return table, GraphExtrapolator(
        parameters=parameters,
        info=info,
        features=features,
        node_ptr=node_ptr,
        graph_id=np.arange(len(features) // 3),
        partners=partners,
        forbidden=np.zeros(0, dtype=np.uint64),
        order=rank_order(keys, node_ptr) if parameters.ranked else None,
    )


@settings(max_examples=25)
@given(extrapolators())
def test_extrapolated_features_are_within_their_ranges(drawn):
    table, extrapolator = drawn
    if not len(table):
        return
    features = extrapolator.block(table, "block").drawn.features.values.astype(np.float64)
    wrap_around = extrapolator.parameters.wrap_around
    ranges = wrap_around.ranges
    tolerant = FeatureRanges(ranges.low - 1e-5, ranges.high + 1e-5, ranges.step)
    assert tolerant.contains(features).all()
    kept = ~wrap_around.mask
    assert np.array_equal(features[:, kept], table.dense("node", "node_feat")[:, kept])


@settings(max_examples=25)
@given(extrapolators(), st.integers(0, 99))
def test_the_order_of_nodes_does_not_matter(drawn, seed):
    table, extrapolator = drawn
    if not len(table):
        return
    order = np.concatenate(
        [3 * graph + rng(seed, graph).permutation(3) for graph in range(len(table))]
    )
    permuted = table.with_columns(node={"node_feat": table.dense("node", "node_feat")[order]})
    original, reordered = (
        extrapolator.block(graphs, "block").drawn.features.values for graphs in (table, permuted)
    )
    assert np.array_equal(original[order], reordered)


def identity_extrapolator(forbidden):
    """Return graphs and an extrapolator that changes nothing and forbids the first graphs."""
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
    wrap_around = WrapAround.from_mask(np.zeros(12, dtype=bool), infer_feature_ranges(features))
    extrapolator = GraphExtrapolator(
        parameters=FeatxParameters(wrap_around, shape=2, scale=2, interpolate=False, seed=0),
        info=info,
        features=features,
        node_ptr=table.node_ptr,
        graph_id=table.dense("graph", "graph_id"),
        partners=Partners.of(label, env),
        forbidden=np.sort(wl_hashes(table)[:forbidden]),  # always drawn, because nothing changes
    )
    return table, extrapolator


def test_graph_that_stays_rejected_is_replaced_by_another():
    table, extrapolator = identity_extrapolator(forbidden=3)
    block = extrapolator.block(table, "block")
    base_row = block.drawn.base_row
    assert (base_row[:3] > 2).all()
    assert (base_row[3:] == np.arange(3, 24)).all()
    extrapolated = extrapolator.table(number_nodes(table), block)
    base = table.take(base_row)
    assert np.array_equal(extrapolated.node_ptr, base.node_ptr)
    assert np.array_equal(extrapolated.dense("node", "node_feat"), base.dense("node", "node_feat"))
    parents = extrapolated.lists("graph", "provenance.parents").values
    assert np.array_equal(parents, base.dense("graph", "graph_id"))
    assert np.array_equal(block.hashes, wl_hashes(base))
    assert block.rejected >= 3 * DRAWS_BEFORE_REPLACEMENT


def test_few_allowed_graphs_replace_all_others():
    table, extrapolator = identity_extrapolator(forbidden=20)
    base_row = extrapolator.block(table, "block").drawn.base_row
    assert (base_row[:20] >= 20).all()
    assert (base_row[20:] == np.arange(20, 24)).all()


def test_error_explains_how_to_get_more_values_if_all_graphs_are_held_out():
    table, extrapolator = identity_extrapolator(forbidden=24)
    with pytest.raises(StageError) as error:
        extrapolator.block(table, "block")
    assert str(error.value) == (
        "feature extrapolation: 24 of 24 graphs equalled held-out graphs in "
        f"{DRAWS_FOR_HALF} draws (100% of all draws), because their features have few possible "
        "values. Allow more with `--feature-range`, or change the gamma distribution."
    )


def test_warnings_report_duplicates_and_rejected_draws():
    quality = {"graphs": 10, "distinct": 5, "rejected": {"held-out graph": 10}}
    assert extrapolation_warnings(quality) == []
    few = {**quality, "distinct": 4, "rejected": {"held-out graph": 1100}}
    assert extrapolation_warnings(few) == [
        "FeatX: 4 of 10 graphs are distinct; the rest repeat one of them",
        "FeatX: 1,100 of 1,110 draws equal a held-out graph and were rejected, because features "
        "have few possible values. Allow more with `--feature-range`.",
    ]


@pytest.mark.parametrize(
    ("count", "eligible"), [(5, 12), (12, 12), (13, 12), (31, 12), (9, 7), (31, 7)]
)
@pytest.mark.parametrize("block", [4, 12, 40])
def test_blocks_of_base_graphs_are_slices_of_padded_training_graphs(count, eligible, block):
    train, _ = planted_graphs(12, 0)
    padded = pad_cyclically(train, count, block)
    rows = base_rows(np.arange(eligible), count, 0)
    extrapolation = Extrapolation(None, train, padded, rows, None, [])
    for start in range(0, count, block):
        stop = min(start + block, count)
        assert extrapolation.bases(start, stop).equals(train.take(rows[start:stop]))
    first = extrapolation.bases(0, 2).node["node_feat"]
    shares_memory = np.shares_memory(first, padded.node["node_feat"])
    assert shares_memory == (eligible == 12 and count >= 12)


def test_base_rows_cycle_over_all_eligible_rows():
    rows = base_rows(np.array([3, 5, 9]), 8, 0)
    assert rows[:6].tolist() == [3, 5, 9, 3, 5, 9]
    assert len(set(rows[6:])) == 2


def test_classes_of_soft_labels_are_sampled_by_weight():
    y = np.array([[1, 0, 0], [0, 0.25, 0.75], [np.nan] * 3], dtype=np.float32)
    drawn = np.array([sample_classes(y, "classification", rng(n, "labels")) for n in range(400)])
    assert (drawn[:, 0] == 0).all()
    assert set(drawn[:, 1]) == {1, 2}
    assert (drawn[:, 1] == 2).mean() == pytest.approx(0.75, abs=0.06)
    assert (drawn[:, 2] == -1).all()
    binary = sample_classes(np.array([[0.0], [1.0]]), "binary", rng(0, "labels"))
    assert binary.tolist() == [0, 1]


def test_extrapolation_spans_the_range_and_interpolation_does_not():
    """The paper's theorem: extrapolated samples that span the plane reach all of its range.

    Interpolated samples stay in the triangle of the first three.
    """
    own = np.array([[1.0, 0.0], [0.0, 1.0], [0.1, 0.2]])
    unit = FeatureRanges(np.zeros(2), np.ones(2), np.zeros(2))
    wrap_around = WrapAround.from_mask(np.ones(2, dtype=bool), unit)
    points = {}
    for interpolate in (False, True):
        parameters = FeatxParameters(wrap_around, 2.0, 0.5, interpolate=interpolate, seed=0)
        samples, partner = own, own[::-1]
        for round_number in range(6):
            stream = rng(round_number, "span")
            strength = parameters.draw_strengths(len(samples), stream)
            new = extrapolate(samples, partner, strength, wrap_around)
            samples = np.concatenate([samples, new])
            partner = samples[stream.permutation(len(samples))]
        points[interpolate] = samples
    cells = {
        interpolate: len({(int(x * 3.999), int(y * 3.999)) for x, y in samples})
        for interpolate, samples in points.items()
    }
    assert cells[False] == 16
    assert cells[True] <= 10
    assert (points[True].sum(axis=1) <= 1 + 1e-9).all()
