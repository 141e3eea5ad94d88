"""Both extractors on small synthetic graphs: properties and accuracy of causal subgraphs."""

import dataclasses

import networkx as nx
import numpy as np
import pytest
import torch

from gsx.ragged import row_indices
from gsx.schema import CorpusInfo, Environment, corpus_columns
from gsx.seeds import rng
from gsx.stages.extract import pair_extractor, posterior_extractor
from gsx.stages.extract.data import build_extractor_data, split_held_out
from gsx.stages.extract.metrics import largest_penalty_within_one_standard_error
from gsx.stages.extract.pair_extractor import (
    PairOptions,
    connected_subgraphs,
    otsu_threshold,
    sample_subgraphs,
    target_groups,
)
from gsx.stages.extract.posterior_training import PosteriorOptions
from gsx.stages.graphs.roc_auc import roc_auc
from gsx.stages.graphs.subgraphs import induced_subgraphs, is_connected
from gsx.stages.nn.losses import predicted_label, remove_prior
from gsx.stages.nn.training_loop import one_thread
from gsx.table import concat
from tests.support.graph_tables import table_from_networkx

POSTERIOR = PosteriorOptions(
    width=8, layers=2, whole_epochs=1, node_epochs=1, set_epochs=1, max_subgraph_nodes=4
)
PAIR = PairOptions(width=8, layers=2, epochs=1, partners=2)
EXTRACTORS = [(posterior_extractor, POSTERIOR), (pair_extractor, PAIR)]


def make_info(task="classification", outputs=2):
    names = tuple(f"class {number}" for number in range(outputs))
    return CorpusInfo(
        name="by-hand",
        task=task,
        outputs=names,
        domain="size",
        environments=tuple(Environment(id=number, name=f"env {number}") for number in range(2)),
        columns=corpus_columns(outputs=outputs, num_features=1, edge_features=1),
        num_features=1,
    )


def labelled_table(graphs, y, env, edge_categories=None):
    """Return networkx graphs with one constant feature, labels, environments and edge features."""
    table = table_from_networkx(*graphs)
    edge = {} if edge_categories is None else {"edge_attr": edge_categories(table)}
    return table.with_columns(
        graph={"y": np.asarray(y, dtype=np.float32), "env_id": np.asarray(env, dtype=np.int32)},
        node={"node_feat": np.ones((table.total_nodes, 1), dtype=np.int8)},
        edge=edge,
    )


def lollipops(count, task="classification"):
    """Return paths that end in a triangle or square (label); the length is the environment."""
    graphs, y, envs = [], [], []
    for number in range(count):
        label, env = number % 2, number // 2 % 2
        graph = nx.disjoint_union(nx.cycle_graph(3 + label), nx.path_graph(3 + 3 * env))
        graph.add_edge(0, 3 + label)
        graphs.append(graph)
        y.append([1 - label, label] if task == "classification" else [label])
        envs.append(env)
    return labelled_table(graphs, y, envs)


def run(extractor, options, table, task="classification", units=None):
    """Run an extractor; return its data and the extraction."""
    outputs = table.graph["y"].shape[1]
    if units is not None:
        table = table.with_columns(node={"unit": units})
    data = build_extractor_data(table, make_info(task, outputs))
    with one_thread():
        return data, extractor.extract(
            data, options, seed=0, device=torch.device("cpu"), progress=lambda *_: None
        )


def subgraph_sizes(data, mask):
    return np.bincount(row_indices(data.graphs.node_ptr), mask, minlength=len(data)).astype(int)


@pytest.mark.parametrize(("extractor", "options"), EXTRACTORS)
def test_subgraphs_are_connected_disjoint_and_not_the_whole_graph(extractor, options):
    data, extraction = run(extractor, options, lollipops(40))
    subgraphs = extraction.subgraphs
    assert subgraph_sizes(data, subgraphs.causal).min() >= 1
    assert (subgraph_sizes(data, subgraphs.causal) < data.graphs.num_nodes).all()
    assert not (subgraphs.causal & subgraphs.environmental).any()
    for mask in (subgraphs.causal, subgraphs.environmental):
        assert is_connected(induced_subgraphs(data.graphs, mask)[0]).all()


@pytest.mark.parametrize(("extractor", "options"), EXTRACTORS)
def test_graphs_without_edges_or_nodes_are_supported(extractor, options):
    tiny = [nx.empty_graph(0), nx.empty_graph(1), nx.empty_graph(3), nx.path_graph(2)]
    tiny_table = labelled_table(tiny, [[1, 0]] * 4, [0, 1, 0, 1])
    data, extraction = run(extractor, options, concat([lollipops(40), tiny_table]))
    causal = subgraph_sizes(data, extraction.subgraphs.causal)[-4:]
    environmental = subgraph_sizes(data, extraction.subgraphs.environmental)[-4:]
    assert causal[:3].tolist() == [0, 1, 1]
    assert environmental[:3].tolist() == [0, 0, 1]
    assert causal[3] >= 1


@pytest.mark.parametrize(("extractor", "options"), EXTRACTORS)
def test_causal_subgraph_of_a_disconnected_graph_is_connected(extractor, options):
    disconnected = nx.disjoint_union(nx.cycle_graph(3), nx.path_graph(4))
    table = labelled_table([disconnected] * 4, [[1, 0], [0, 1]] * 2, [0, 0, 1, 1])
    data, extraction = run(extractor, options, concat([lollipops(40), table]))
    assert is_connected(induced_subgraphs(data.graphs, extraction.subgraphs.causal)[0]).all()


@pytest.mark.parametrize("task", ["binary", "multitask", "regression"])
@pytest.mark.parametrize(("extractor", "options"), EXTRACTORS)
def test_every_task_is_supported_with_missing_labels(extractor, options, task):
    table = lollipops(40, task)
    y = table.graph["y"].copy()
    if task == "multitask":
        y = np.column_stack([y, 1 - y]).astype(np.float32)
    y[::7, 0] = np.nan
    data, extraction = run(extractor, options, table.with_columns(graph={"y": y}), task)
    assert subgraph_sizes(data, extraction.subgraphs.causal).min() >= 1
    assert np.isfinite([row["loss"] for row in extraction.history]).all()


def test_units_are_never_divided():
    table = lollipops(40)
    first = np.repeat(table.node_ptr[:-1], table.num_nodes)
    local = np.arange(table.total_nodes) - first
    ring_size = 3 + np.repeat(np.arange(40) % 2, table.num_nodes)
    units = np.where(local < ring_size, 0, local)
    data, extraction = run(posterior_extractor, POSTERIOR, table, units=units)
    owner = row_indices(data.graphs.node_ptr)
    in_ring = np.bincount(owner, extraction.subgraphs.causal & (units == 0), minlength=40)
    assert set((in_ring / (3 + np.arange(40) % 2)).tolist()) <= {0.0, 1.0}


def test_unit_larger_than_the_limit_is_kept_whole_without_the_remaining_graph():
    table = lollipops(40)
    local = np.arange(table.total_nodes) - np.repeat(table.node_ptr[:-1], table.num_nodes)
    ring_size = 3 + np.repeat(np.arange(40) % 2, table.num_nodes)
    units = np.where(local < ring_size, 0, 1)
    options = PosteriorOptions(
        width=8, layers=2, whole_epochs=1, node_epochs=1, set_epochs=1, max_subgraph_nodes=2
    )
    data, extraction = run(posterior_extractor, options, table, units=units)
    assert (subgraph_sizes(data, extraction.subgraphs.causal) < data.graphs.num_nodes).all()


def paths_with_one_marked_edge(count):
    """Return paths of ten nodes whose label is the category of one edge, and that edge's nodes."""
    stream = rng(0, "bonds")
    position = stream.integers(0, 9, count)
    label = np.arange(count) % 2

    def edge_categories(table):
        categories = np.zeros((table.total_edges, 1), dtype=np.int8)
        low = np.minimum(table.edge["edge_src"], table.edge["edge_dst"])
        graph = table.edge_graph()
        categories[low == position[graph], 0] = 1 + label[graph[low == position[graph]]]
        return categories

    envs = np.arange(count) // 2 % 2
    table = labelled_table([nx.path_graph(10)] * count, np.eye(2)[label], envs, edge_categories)
    truth = np.zeros(10 * count, dtype=bool)
    truth[np.arange(count) * 10 + position] = truth[np.arange(count) * 10 + position + 1] = True
    return table, truth


def test_causal_subgraph_is_found_at_the_edge_that_determines_the_label():
    table, truth = paths_with_one_marked_edge(400)
    options = PosteriorOptions(width=16, layers=2, max_subgraph_nodes=4)
    _, extraction = run(posterior_extractor, options, table)
    assert roc_auc(extraction.subgraphs.score, truth) > 0.95
    assert extraction.quality["held_out_scores"]["subgraph"] > 0.95
    assert (extraction.subgraphs.causal & truth).sum() > 0.95 * truth.sum()


def test_cause_of_a_rare_label_is_found_although_its_probability_stays_below_one_half():
    """An edge category in one fifth of the graphs makes the label positive in a third of them."""
    count, stream = 1200, rng(0, "rare")
    table, truth = paths_with_one_marked_edge(count)
    marked = np.repeat(stream.random(count) < 0.2, table.num_edges)
    categories = np.where(marked[:, None], np.minimum(table.edge["edge_attr"], 1), 0)
    has_cause = marked[table.edge_ptr[:-1]]
    y = (has_cause & (stream.random(count) < 0.33)).astype(np.float32)[:, None]
    table = table.with_columns(graph={"y": y}, edge={"edge_attr": categories.astype(np.int8)})
    options = PosteriorOptions(width=16, layers=2, max_subgraph_nodes=4)
    _, extraction = run(posterior_extractor, options, table, "binary")
    truth &= np.repeat(has_cause, 10)
    assert (extraction.subgraphs.causal & truth).sum() > 0.9 * truth.sum()
    scores = extraction.quality["held_out_scores"]
    assert scores["subgraph"] > scores["rest"] + 0.2


def test_binary_predictions_are_relative_to_the_prior():
    logits, prior = torch.tensor([[-2.0], [-4.0]]), torch.tensor([0.05])
    assert predicted_label(logits, prior, "binary").tolist() == [[1.0], [0.0]]
    binary = remove_prior(logits, prior, "binary")
    assert binary.sign().tolist() == [[1.0], [-1.0]]
    assert remove_prior(logits, prior, "multitask").tolist() == binary.tolist()
    assert remove_prior(logits, prior, "regression") is logits
    classes, class_prior = torch.tensor([[-2.0, -1.0]]), torch.tensor([0.9, 0.1])
    assert predicted_label(classes, class_prior, "classification").tolist() == [[0.0, 1.0]]
    assert remove_prior(classes, class_prior, "classification") is classes


@pytest.mark.parametrize("count", [2, 3, 40, 101])
def test_held_out_split_is_a_partition_with_matching_node_values(count):
    data = build_extractor_data(lollipops(count), make_info())
    split = split_held_out(data, 0)
    assert 0 < len(split.held_out) < count
    assert len(split.held_out) + len(split.train) == count
    number = np.arange(data.graphs.total_nodes)
    held_out = data.graphs.with_columns(node={"number": number}).take(split.held_out_rows)
    assert split.held_out_nodes(number).tolist() == held_out.node["number"].tolist()


def test_extractor_data_does_not_depend_on_the_order_of_edges():
    table = lollipops(4)
    shuffled = rng(0, "edges").permutation(table.total_edges)
    shuffled = shuffled[np.argsort(table.edge_graph()[shuffled], kind="stable")]
    mixed = table.with_columns(
        edge={name: table.edge[name][shuffled] for name in ("edge_src", "edge_dst")}
    )
    expected = build_extractor_data(table, make_info())
    assert build_extractor_data(mixed, make_info()).graphs.equals(expected.graphs)


def test_connected_subgraphs_keep_the_best_node_of_none_and_the_better_nodes_of_all():
    table = table_from_networkx(nx.path_graph(3), nx.path_graph(3), nx.path_graph(3))
    score = np.array([0.1, 0.3, 0.2, 0.9, 0.8, 0.6, 0.9, 0.2, 0.8])
    keep, exceptions = connected_subgraphs(table, score, 0.5)
    assert np.flatnonzero(keep).tolist() == [1, 3, 4, 6]
    assert exceptions == {"nothing": 1, "everything": 1}


def test_otsu_threshold_separates_two_groups():
    assert 0.2 < otsu_threshold(np.array([0.1, 0.15, 0.2, 0.8, 0.85])) < 0.8


def test_target_groups_are_classes_task_patterns_or_halves_of_values():
    nan = np.nan
    assert target_groups(np.array([[0, 1], [1, 0]]), "classification").tolist() == [1, 0]
    assert target_groups(np.array([[0, 1], [1, 1], [nan, 0]]), "multitask").tolist() == [2, 3, 0]
    assert target_groups(np.array([[-1.0], [2.0]]), "binary", logits=True).tolist() == [0, 1]
    assert target_groups(np.array([[3.0], [5.0], [9.0]]), "regression").tolist() == [0, 0, 1]


def test_largest_penalty_with_a_tolerable_loss_is_chosen():
    weights, prior_loss = np.full(4, 0.25), np.full(4, 1.0)
    losses = [np.full(4, 0.9), np.full(4, 0.505), np.full(4, 0.5)]
    penalty, trials = largest_penalty_within_one_standard_error(
        "penalty", (3, 2, 1), losses, (1, 2, 3), prior_loss=prior_loss, weights=weights
    )
    assert penalty == 2
    assert [trial["above_best"] for trial in trials] == [0.4, 0.005, 0]


def test_sampled_subgraphs_follow_the_node_probabilities():
    star = nx.star_graph(9)  # the hub is always kept, so every sample is connected
    table = labelled_table([star] * 200, [[1, 0]] * 200, [0] * 200)
    probability = np.tile(np.r_[1.0, np.linspace(0, 0.8, 9)], 200)
    environmental = np.zeros(len(probability))
    causal, none = sample_subgraphs(table, [probability, environmental], 20, seed=3)
    assert causal.shape == (20, 2000)
    kept = causal.reshape(20, 200, 10).mean(axis=(0, 1))
    assert np.abs(kept - probability[:10]).max() < 0.04  # 4 standard errors of 4,000 draws
    assert not none.any()
    again, _ = sample_subgraphs(table, [probability, environmental], 20, seed=3)
    np.testing.assert_array_equal(again, causal)
    assert sample_subgraphs(table, [probability, environmental], 0, seed=3) is None


def test_sampled_subgraphs_are_connected_disjoint_and_never_empty():
    table = lollipops(40)
    half = np.full(table.total_nodes, 0.5)
    for score in (half, np.zeros(table.total_nodes)):
        causal, environmental = sample_subgraphs(table, [score, half], 5, seed=0)
        assert not (causal & environmental).any()
        for sample in causal:
            parts, _ = induced_subgraphs(table, sample)
            assert (parts.num_nodes > 0).all()
            assert is_connected(parts).all()
        for sample in environmental:
            parts, _ = induced_subgraphs(table, sample)
            assert is_connected(parts.filter(parts.num_nodes > 0)).all()
    assert len(np.unique(causal, axis=0)) == 1  # probability 0: the best node


def test_the_pair_extractor_samples_only_on_request():
    _, without = run(pair_extractor, PAIR, lollipops(24))
    assert without.subgraphs.causal_samples is None
    sampling = dataclasses.replace(PAIR, subgraph_samples=3)
    _, extraction = run(pair_extractor, sampling, lollipops(24))
    assert extraction.subgraphs.causal_samples.shape == (3, len(extraction.subgraphs.score))
    np.testing.assert_array_equal(extraction.subgraphs.causal, without.subgraphs.causal)
