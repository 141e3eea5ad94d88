"""Balance: graphs drawn so that coarse shape says nothing about the label."""

import networkx as nx
import numpy as np
import torch

from gsx.stages.extract.data import ExtractorData
from gsx.stages.extract.reweighting import reweight, size_and_degree_features, predicted_class
from gsx.stages.nn.training_loop import systematic_sample
from tests.unit.stages.graphs.test_subgraphs import table_of


def lesson(sizes, labels):
    graphs = table_of(*[nx.path_graph(size) for size in sizes])
    y = np.eye(2, dtype=np.float32)[labels]
    return ExtractorData(graphs, y, np.zeros(len(y), dtype=np.int64), "classification")


def told(labels):
    return torch.eye(2)[torch.tensor(labels)] * 9


def test_a_label_that_surprises_for_its_size_is_drawn_more_often():
    sizes, labels = [4] * 50 + [40] * 50, [0] * 48 + [1] * 2 + [1] * 48 + [0] * 2
    lessons = lesson(sizes, labels)
    shares = reweight(lessons, lessons, told(labels), told(labels), largest_weight=100).train
    small, rare = np.arange(100) < 50, np.isin(np.arange(100), [48, 49, 98, 99])
    assert shares[rare].min() > 10 * shares[~rare].max()
    label = np.array(labels)
    assert abs(shares[small & (label == 1)].sum() / shares[small].sum() - 0.5) < 0.15


def test_where_shape_says_nothing_all_graphs_are_drawn_alike():
    labels = [0, 1] * 100
    lessons = lesson([4, 4, 40, 40] * 50, labels)
    found = reweight(lessons, lessons, told(labels), told(labels), largest_weight=100)
    assert found.effective_graphs > 199
    assert found.told_by_shape == 0.5


def test_no_graph_is_drawn_more_often_than_allowed():
    labels = [0] * 99 + [1] + [1] * 100
    lessons = lesson([4] * 100 + [40] * 100, labels)
    shares = reweight(lessons, lessons, told(labels), told(labels), largest_weight=3).train
    assert shares.max() / shares.min() < 7


def test_a_binary_label_is_taken_for_yes_where_belief_exceeds_its_share():
    logits = torch.tensor([[-3.0], [-1.0]])
    assert predicted_class(logits, torch.tensor([0.1]), "binary").tolist() == [0, 1]


def test_the_shape_of_a_graph_without_nodes_is_a_number():
    shape = size_and_degree_features(table_of(nx.empty_graph(0), nx.path_graph(2)))
    np.testing.assert_allclose(shape, [[0, 0, 0], [np.log(3), np.log(2), 0]])


def test_drawing_by_share_rounds_up_or_down():
    share = np.array([0.5, 0.25, 0.15, 0.1])
    drawn = np.bincount(systematic_sample(10, np.random.Generator(np.random.Philox(0)), share), minlength=4)
    assert drawn[0] == 5
    assert drawn[1] in (2, 3)
    assert drawn.sum() == 10
