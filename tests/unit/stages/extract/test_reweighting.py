"""Sampling weights that make labels independent of size and degree."""

import networkx as nx
import numpy as np
import torch

from gsx.stages.extract.data import ExtractorData
from gsx.stages.extract.reweighting import predicted_class, reweight, size_and_degree_features
from gsx.stages.nn.training_loop import systematic_sample
from tests.support.graph_tables import table_from_networkx


def make_data(sizes, labels):
    graphs = table_from_networkx(*[nx.path_graph(size) for size in sizes])
    y = np.eye(2, dtype=np.float32)[labels]
    return ExtractorData(graphs, y, np.zeros(len(y), dtype=np.int64), "classification")


def reweight_by_labels(sizes, labels, max_weight):
    """Return the sampling weights of graphs whose labels are predicted correctly."""
    data, logits = make_data(sizes, labels), torch.eye(2)[torch.tensor(labels)] * 9
    return reweight(data, data, logits, logits, max_weight=max_weight)


def test_graph_with_a_rare_label_for_its_size_has_a_larger_weight():
    sizes, labels = [4] * 50 + [40] * 50, [0] * 48 + [1] * 2 + [1] * 48 + [0] * 2
    weights = reweight_by_labels(sizes, labels, max_weight=100).train
    is_small, is_rare = np.arange(100) < 50, np.isin(np.arange(100), [48, 49, 98, 99])
    assert weights[is_rare].min() > 10 * weights[~is_rare].max()
    label = np.array(labels)
    assert abs(weights[is_small & (label == 1)].sum() / weights[is_small].sum() - 0.5) < 0.15


def test_weights_are_nearly_uniform_if_size_does_not_predict_the_label():
    weights = reweight_by_labels([4, 4, 40, 40] * 50, [0, 1] * 100, max_weight=100)
    assert weights.effective_graphs > 199
    assert weights.shape_accuracy == 0.5


def test_max_weight_bounds_the_weights():
    labels = [0] * 99 + [1] + [1] * 100
    weights = reweight_by_labels([4] * 100 + [40] * 100, labels, max_weight=3).train
    assert weights.max() / weights.min() < 7


def test_binary_class_is_positive_above_its_prior():
    logits = torch.tensor([[-3.0], [-1.0]])
    assert predicted_class(logits, torch.tensor([0.1]), "binary").tolist() == [0, 1]


def test_features_of_a_graph_without_nodes_are_zero():
    table = table_from_networkx(nx.empty_graph(0), nx.path_graph(2))
    expected = [[0, 0, 0], [np.log(3), np.log(2), 0]]
    np.testing.assert_allclose(size_and_degree_features(table), expected)


def test_systematic_sample_rounds_expected_counts_up_or_down():
    weights = np.array([0.5, 0.25, 0.15, 0.1])
    stream = np.random.Generator(np.random.Philox(0))
    counts = np.bincount(systematic_sample(10, stream, weights), minlength=4)
    assert counts[0] == 5
    assert counts[1] in (2, 3)
    assert counts.sum() == 10
