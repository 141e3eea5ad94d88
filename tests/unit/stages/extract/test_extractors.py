"""Both extractors on small graphs made by hand: what every piece must be, and what is seen."""

import networkx as nx
import numpy as np
import pytest
import torch

from gsx.ragged import row_indices
from gsx.schema import CorpusInfo, Environment, corpus_columns
from gsx.seeds import rng
from gsx.stages.extract import pair_extractor as pair
from gsx.stages.extract import posterior_extractor as posterior
from gsx.stages.extract.data import split_held_out, build_extractor_data
from gsx.stages.extract.metrics import largest_penalty_within_one_standard_error
from gsx.stages.extract.pair_extractor import connected_subgraphs, target_groups, otsu_threshold
from gsx.stages.extract.posterior_training import PosteriorOptions
from gsx.stages.graphs.roc_auc import roc_auc
from gsx.stages.graphs.subgraphs import induced_subgraphs, is_connected
from gsx.stages.nn.losses import remove_prior, predicted_label
from gsx.stages.nn.training_loop import one_thread
from gsx.table import concat
from tests.unit.stages.graphs.test_subgraphs import table_of

POSTERIOR = PosteriorOptions(
    width=8, layers=2, whole_epochs=1, node_epochs=1, set_epochs=1, largest_piece=4
)
PAIR = pair.PairOptions(width=8, layers=2, epochs=1, partners=2)
BOTH = [(posterior, POSTERIOR), (pair, PAIR)]


def info(task="classification", outputs=2):
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


def table_with(graphs, y, env, bonds=None):
    """Return networkx graphs with one constant feature, labels, environments and edge kinds."""
    table = table_of(*graphs)
    edge = {} if bonds is None else {"edge_attr": bonds(table)}
    return table.with_columns(
        graph={"y": np.asarray(y, dtype=np.float32), "env_id": np.asarray(env, dtype=np.int32)},
        node={"node_feat": np.ones((table.total_nodes, 1), dtype=np.int8)},
        edge=edge,
    )


def lollipops(count, task="classification"):
    """Paths with a triangle or a square at the end, the label; the environment is the length."""
    graphs, y, env = [], [], []
    for number in range(count):
        label, place = number % 2, number // 2 % 2
        graph = nx.disjoint_union(nx.cycle_graph(3 + label), nx.path_graph(3 + 3 * place))
        graph.add_edge(0, 3 + label)
        graphs.append(graph)
        y.append([1 - label, label] if task == "classification" else [label])
        env.append(place)
    return table_with(graphs, y, env)


def run(module, options, table, task="classification", units=None):
    outputs = table.graph["y"].shape[1]
    if units is not None:
        table = table.with_columns(node={"unit": units})
    lesson = build_extractor_data(table, info(task, outputs))
    with one_thread():
        return lesson, module.extract(
            lesson, options, seed=0, device=torch.device("cpu"), progress=lambda *_: None
        )


def sizes(lesson, mask):
    return np.bincount(row_indices(lesson.graphs.node_ptr), mask, minlength=len(lesson)).astype(int)


@pytest.mark.parametrize(("module", "options"), BOTH)
def test_pieces_are_connected_apart_and_never_the_whole_graph(module, options):
    lesson, found = run(module, options, lollipops(40))
    pieces = found.pieces
    assert sizes(lesson, pieces.causal).min() >= 1
    assert (sizes(lesson, pieces.causal) < lesson.graphs.num_nodes).all()
    assert not (pieces.causal & pieces.environmental).any()
    for mask in (pieces.causal, pieces.environmental):
        assert is_connected(induced_subgraphs(lesson.graphs, mask)[0]).all()


@pytest.mark.parametrize(("module", "options"), BOTH)
def test_graphs_without_edges_or_nodes_are_cut_without_complaint(module, options):
    lonely = [nx.empty_graph(0), nx.empty_graph(1), nx.empty_graph(3), nx.path_graph(2)]
    odd = table_with(lonely, [[1, 0]] * 4, [0, 1, 0, 1])
    lesson, found = run(module, options, concat([lollipops(40), odd]))
    causal = sizes(lesson, found.pieces.causal)[-4:]
    rest = sizes(lesson, found.pieces.environmental)[-4:]
    assert causal[:3].tolist() == [0, 1, 1]
    assert rest[:3].tolist() == [0, 0, 1]
    assert causal[3] >= 1


@pytest.mark.parametrize(("module", "options"), BOTH)
def test_a_piece_of_a_graph_in_two_parts_lies_in_one_of_them(module, options):
    apart = nx.disjoint_union(nx.cycle_graph(3), nx.path_graph(4))
    odd = table_with([apart] * 4, [[1, 0], [0, 1]] * 2, [0, 0, 1, 1])
    lesson, found = run(module, options, concat([lollipops(40), odd]))
    assert is_connected(induced_subgraphs(lesson.graphs, found.pieces.causal)[0]).all()


@pytest.mark.parametrize("task", ["binary", "multitask", "regression"])
@pytest.mark.parametrize(("module", "options"), BOTH)
def test_every_kind_of_label_can_be_learned_from(module, options, task):
    table = lollipops(40, task)
    y = table.graph["y"].copy()
    if task == "multitask":
        y = np.column_stack([y, 1 - y]).astype(np.float32)
    y[::7, 0] = np.nan
    lesson, found = run(module, options, table.with_columns(graph={"y": y}), task)
    assert sizes(lesson, found.pieces.causal).min() >= 1
    assert np.isfinite([row["loss"] for row in found.history]).all()


def test_no_piece_cuts_a_unit():
    table = lollipops(40)
    first = np.repeat(table.node_ptr[:-1], table.num_nodes)
    local = np.arange(table.total_nodes) - first
    ring = 3 + np.repeat(np.arange(40) % 2, table.num_nodes)
    units = np.where(local < ring, 0, local)
    lesson, found = run(posterior, POSTERIOR, table, units=units)
    owner = row_indices(lesson.graphs.node_ptr)
    in_ring = np.bincount(owner, found.pieces.causal & (units == 0), minlength=40)
    assert set((in_ring / (3 + np.arange(40) % 2)).tolist()) <= {0.0, 1.0}


def test_a_unit_too_large_to_grow_is_kept_whole_not_the_graph():
    table = lollipops(40)
    local = np.arange(table.total_nodes) - np.repeat(table.node_ptr[:-1], table.num_nodes)
    ring = 3 + np.repeat(np.arange(40) % 2, table.num_nodes)
    units = np.where(local < ring, 0, 1)
    options = PosteriorOptions(
        width=8, layers=2, whole_epochs=1, node_epochs=1, set_epochs=1, largest_piece=2
    )
    lesson, found = run(posterior, options, table, units=units)
    assert (sizes(lesson, found.pieces.causal) < lesson.graphs.num_nodes).all()


def bond_table(count):
    """Paths of ten that differ in the kind of one edge alone; returns the two ends of it too."""
    stream = rng(0, "bonds")
    place = stream.integers(0, 9, count)
    label = np.arange(count) % 2

    def bonds(table):
        kinds = np.zeros((table.total_edges, 1), dtype=np.int8)
        low = np.minimum(table.edge["edge_src"], table.edge["edge_dst"])
        graph = table.edge_graph()
        kinds[low == place[graph], 0] = 1 + label[graph[low == place[graph]]]
        return kinds

    y = np.eye(2)[label]
    table = table_with([nx.path_graph(10)] * count, y, np.arange(count) // 2 % 2, bonds)
    truth = np.zeros(10 * count, dtype=bool)
    truth[np.arange(count) * 10 + place] = truth[np.arange(count) * 10 + place + 1] = True
    return table, truth


def test_a_label_that_only_a_bond_tells_is_found_at_that_bond():
    table, truth = bond_table(400)
    options = PosteriorOptions(width=16, layers=2, largest_piece=4)
    _, found = run(posterior, options, table)
    assert roc_auc(found.pieces.score, truth) > 0.95
    assert found.quality["label_told_held_out"]["piece"] > 0.95
    assert (found.pieces.causal & truth).sum() > 0.95 * truth.sum()


def test_a_cause_that_makes_a_rare_yes_only_likelier_is_found():
    """A kind of bond in one graph of five says yes in a third of them: no belief passes a half."""
    count, stream = 1200, rng(0, "rare")
    table, truth = bond_table(count)
    marked = np.repeat(stream.random(count) < 0.2, table.num_edges)
    kinds = np.where(marked[:, None], np.minimum(table.edge["edge_attr"], 1), 0).astype(np.int8)
    has = marked[table.edge_ptr[:-1]]
    y = (has & (stream.random(count) < 0.33)).astype(np.float32)[:, None]
    table = table.with_columns(graph={"y": y}, edge={"edge_attr": kinds})
    options = PosteriorOptions(width=16, layers=2, largest_piece=4)
    _, found = run(posterior, options, table, "binary")
    truth &= np.repeat(has, 10)
    assert (found.pieces.causal & truth).sum() > 0.9 * truth.sum()
    told = found.quality["label_told_held_out"]
    assert told["piece"] > told["rest"] + 0.2


def test_yes_is_what_rises_above_its_prior():
    logits, prior = torch.tensor([[-2.0], [-4.0]]), torch.tensor([0.05])
    assert predicted_label(logits, prior, "binary").tolist() == [[1.0], [0.0]]
    assert remove_prior(logits, prior, "binary").sign().tolist() == [[1.0], [-1.0]]
    assert remove_prior(logits, prior, "multitask").tolist() == remove_prior(logits, prior, "binary").tolist()
    assert remove_prior(logits, prior, "regression") is logits
    both = torch.tensor([[-2.0, -1.0]])
    assert predicted_label(both, torch.tensor([0.9, 0.1]), "classification").tolist() == [[0.0, 1.0]]
    assert remove_prior(both, torch.tensor([0.9, 0.1]), "classification") is both


@pytest.mark.parametrize("graphs", [2, 3, 40, 101])
def test_some_graphs_are_held_out_and_all_are_cut(graphs):
    lesson = build_extractor_data(lollipops(graphs), info())
    parts = split_held_out(lesson, 0)
    assert 0 < len(parts.held) < graphs
    assert len(parts.held) + len(parts.taught) == graphs
    number = np.arange(lesson.graphs.total_nodes)
    nodes = parts.all.graphs.with_columns(node={"number": number}).take(parts.held_rows)
    assert parts.of_held(number).tolist() == nodes.node["number"].tolist()


def test_edges_are_sorted_before_anything_is_learned():
    table = lollipops(4)
    shuffled = rng(0, "edges").permutation(table.total_edges)
    shuffled = shuffled[np.argsort(table.edge_graph()[shuffled], kind="stable")]
    mixed = table.with_columns(
        edge={name: table.edge[name][shuffled] for name in ("edge_src", "edge_dst")}
    )
    assert build_extractor_data(mixed, info()).graphs.equals(build_extractor_data(table, info()).graphs)


def test_nothing_kept_becomes_the_best_node_and_everything_the_better_ones():
    table = table_of(nx.path_graph(3), nx.path_graph(3), nx.path_graph(3))
    score = np.array([0.1, 0.3, 0.2, 0.9, 0.8, 0.6, 0.9, 0.2, 0.8])
    keep, odd = connected_subgraphs(table, score, 0.5)
    assert np.flatnonzero(keep).tolist() == [1, 3, 4, 6]
    assert odd == {"nothing": 1, "everything": 1}


def test_scores_are_parted_where_the_two_groups_are_most_unlike():
    assert 0.2 < otsu_threshold(np.array([0.1, 0.15, 0.2, 0.8, 0.85])) < 0.8


def test_labels_fall_into_groups_by_class_or_by_pattern_of_tasks():
    nan = np.nan
    assert target_groups(np.array([[0, 1], [1, 0]]), "classification").tolist() == [1, 0]
    assert target_groups(np.array([[0, 1], [1, 1], [nan, 0]]), "multitask").tolist() == [2, 3, 0]
    assert target_groups(np.array([[-1.0], [2.0]]), "binary", logits=True).tolist() == [0, 1]
    assert target_groups(np.array([[3.0], [5.0], [9.0]]), "regression").tolist() == [0, 0, 1]


def test_the_dearest_value_that_loses_too_little_to_matter_is_taken():
    even, blind = np.full(4, 0.25), np.full(4, 1.0)
    losses = [np.full(4, 0.9), np.full(4, 0.505), np.full(4, 0.5)]
    best, trials = largest_penalty_within_one_standard_error("cost", (3, 2, 1), losses, (1, 2, 3), blind=blind, share=even)
    assert best == 2
    assert [trial["above_best"] for trial in trials] == [0.4, 0.005, 0]
