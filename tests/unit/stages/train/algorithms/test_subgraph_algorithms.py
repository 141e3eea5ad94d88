"""DIR, GIL, CIGA and LiSA have the properties that define them."""

import math
from dataclasses import replace

import numpy as np
import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st

from gsx.seeds import rng
from gsx.stages.graphs.subgraphs import sort_edges
from gsx.stages.nn.batches import BackboneShape, EdgeSelection, build_graph_batch
from gsx.stages.nn.build_network import build_network
from gsx.stages.nn.training_loop import torch_stream
from gsx.stages.train.algorithms import algorithm_named
from gsx.stages.train.algorithms.ciga import CIGA, contrastive_loss, hinge_losses, same_class
from gsx.stages.train.algorithms.dir import DIR, intervention_losses
from gsx.stages.train.algorithms.gil import GIL, gradient_variance, kmeans
from gsx.stages.train.algorithms.lisa_subgraph import (
    GradientScale,
    LiSA,
    classifier_objective,
    combined_loss,
    generator_objective,
    kl_divergence,
    sample_keep,
)
from gsx.stages.train.algorithms.subgraph_split import split_subgraphs
from gsx.stages.train.algorithms.training_step import ForwardPass, TrainingStep
from tests.conftest import motif_split
from tests.support.algorithms import CPU, create_algorithm

SUBGRAPH_ALGORITHMS = ("dir", "gil", "ciga", "lisa-subgraph")
HYPERPARAMETERS = {
    "dir": {"penalty": 1.0},
    "gil": {"penalty": 1.0, "inferred_envs": 3},
    "ciga": {"penalty": 1.0, "hinge": 1.0},
    "lisa-subgraph": {"penalty": 0.1, "kl_weight": 0.1, "generators": 3},
}
WIDTH = 8


def backbone_shape(ratio=0.4):
    select = {} if ratio is None else {"select": EdgeSelection(ratio=ratio)}
    return BackboneShape(backbone="gin", features=1, width=WIDTH, layers=3, outputs=3, **select)


def shape_for(name):
    return backbone_shape(None if name == "lisa-subgraph" else 0.4)


@pytest.fixture(scope="module")
def graphs():
    return sort_edges(motif_split("train", 0, 24))


def make_step(graphs, shape, weights=None):
    """Return a step with all graphs and an untrained network."""
    network = build_network(shape, 0.0, torch_stream(0, "w"), torch_stream(0, "d"))
    y = torch.from_numpy(np.array(graphs.dense("graph", "y")))
    return TrainingStep(
        model=ForwardPass(network, CPU),
        batch=build_graph_batch(graphs, shape, CPU, with_edges=True),
        rows=torch.arange(len(graphs)),
        env=torch.zeros(len(graphs), dtype=torch.long),
        y=y,
        task="classification",
        stream=lambda name: rng(0, "test", name),
        weights=weights,
    )


def step_with_labels(y, task="classification"):
    """Return a step without a batch or a network."""
    return TrainingStep(
        model=None, batch=None, rows=None, env=None, y=y, task=task, stream=None, weights=None
    )


def create(algorithm, **hyperparameters):
    return create_algorithm(algorithm, width=WIDTH, outputs=3, **hyperparameters)


def create_named(name):
    return create(algorithm_named(name), **HYPERPARAMETERS[name])


# DIR


def test_dir_selects_its_ratio_of_the_edges_of_every_graph(graphs):
    step = make_step(graphs, backbone_shape(0.4))
    split = split_subgraphs(step).split
    structure = step.batch.structure
    selected = torch.bincount(structure.edge_graph[split.keep], minlength=len(graphs)) / 2
    edges = torch.bincount(structure.edge_graph, minlength=len(graphs)) / 2
    assert selected.tolist() == [math.ceil(round(0.4 * count, 6)) for count in edges.tolist()]


def test_dir_variance_is_zero_for_equal_shortcuts():
    y = torch.eye(3)[[0, 1, 2, 0]]
    logits = torch.randn(4, 3, generator=torch_stream(0, "logits"))
    same = torch.tensor([[0.3, -1.0, 2.0]]).expand(4, 3)
    losses = intervention_losses(step_with_labels(y), logits, same)
    assert float(losses.var()) == 0.0
    other = torch.randn(4, 3, generator=torch_stream(1, "logits"))
    assert float(intervention_losses(step_with_labels(y), logits, other).var()) > 1e-4


def test_dir_combines_every_environmental_with_every_causal_subgraph():
    # Shortcuts of 0 and log 3 scale a logit of 2 by 1/2 and 3/4.
    y, logits = torch.tensor([[1.0], [0.0]]), torch.tensor([[2.0], [2.0]])
    shortcut = torch.tensor([[0.0], [math.log(3)]])
    losses = intervention_losses(step_with_labels(y, "binary"), logits, shortcut)
    expected = [(math.log1p(math.exp(-x)) + math.log1p(math.exp(x))) / 2 for x in (1.0, 1.5)]
    assert losses.tolist() == pytest.approx(expected)


def test_dir_trains_shortcut_and_network_separately(graphs):
    step, algorithm = make_step(graphs, backbone_shape()), create(DIR, penalty=3.0)
    algorithm(step).backward()
    gradients = {name: weight.grad for name, weight in step.model.network.named_parameters()}
    again = make_step(graphs, backbone_shape())
    split = split_subgraphs(again)
    shortcut = algorithm.shortcut(split.detached_environmental_output().features)
    # The gradient of the shortcut is that of its own loss alone.
    shortcut_loss = again.losses_of(shortcut).mean()
    (expected,) = torch.autograd.grad(shortcut_loss, algorithm.shortcut.weight)
    assert torch.allclose(algorithm.shortcut.weight.grad, expected, atol=1e-6)
    losses = intervention_losses(again, split.causal_output().logits, shortcut.detach())
    (losses.mean() + 3.0 * losses.var()).backward()
    for name, weight in again.model.network.named_parameters():
        assert torch.allclose(gradients[name], weight.grad, atol=1e-6), name


# GIL


@settings(max_examples=25)
@given(st.integers(1, 12), st.integers(2, 5), st.integers(0, 99))
def test_kmeans_assigns_every_row_to_its_nearest_cluster(count, clusters, seed):
    rows = torch.rand(count, 2, generator=torch_stream(seed, "rows"))
    cluster = kmeans(rows, clusters)
    assert cluster.shape == (count,)
    assert 0 <= int(cluster.min()) <= int(cluster.max()) < min(clusters, count)
    assert torch.equal(cluster, kmeans(rows, clusters))
    means = {int(which): rows[cluster == which].mean(dim=0) for which in torch.unique(cluster)}
    for row, which in zip(rows, cluster.tolist(), strict=True):
        distance = (row - means[which]).norm()
        assert all(distance <= (row - mean).norm() + 1e-4 for mean in means.values())


def test_kmeans_finds_separated_groups():
    centers = torch.tensor([[0.0, 0.0], [9.0, 0.0], [0.0, 9.0]])
    group = torch.arange(30) % 3
    rows = centers[group] + torch.rand(30, 2, generator=torch_stream(0, "rows"))
    cluster = kmeans(rows, 3)
    assert all(len(torch.unique(cluster[group == which])) == 1 for which in range(3))
    assert len(torch.unique(cluster)) == 3


def test_gradient_variance_is_zero_where_gradients_agree():
    weight = torch.tensor([2.0, 1.0], requires_grad=True)
    one, two = weight @ torch.tensor([1.0, 0.0]), weight @ torch.tensor([3.0, 0.0])
    # Gradients 1 and 3 have distance 1 from their mean.
    assert float(gradient_variance([one, two], [weight])) == pytest.approx(1.0)
    assert float(gradient_variance([one, one + 5], [weight])) == 0.0
    assert float(gradient_variance([one], [weight])) == 0.0


def test_gil_adds_the_gradient_variance_over_inferred_environments(graphs):
    step = make_step(graphs, backbone_shape())
    loss = create(GIL, penalty=5.0, inferred_envs=3)(step)
    split = split_subgraphs(step)
    losses = step.losses_of(split.causal_output().logits)
    env = kmeans(split.environmental_output().features, 3)
    assert len(torch.unique(env)) > 1
    env_losses = [losses[env == which].mean() for which in torch.unique(env)]
    variance = gradient_variance(env_losses, split.model.network.classify.parameters()).detach()
    assert float(variance) > 1e-6
    assert float(loss.detach()) == pytest.approx(float(losses.mean().detach() + 5 * variance))


def test_batch_norm_statistics_come_from_causal_subgraphs_only(graphs):
    step = make_step(graphs, backbone_shape())
    before = {name: buffer.clone() for name, buffer in step.model.network.named_buffers()}
    split_subgraphs(step).environmental_output()
    buffers = dict(step.model.network.named_buffers())
    norms = {name: buffer for name, buffer in buffers.items() if "backbone" in name}
    assert norms
    assert all(torch.equal(buffer, before[name]) for name, buffer in norms.items())
    split_subgraphs(step).causal_output()
    assert not all(torch.equal(buffer, before[name]) for name, buffer in norms.items())


# CIGA


def test_contrastive_loss_is_lower_where_a_class_has_similar_features():
    same = same_class(torch.eye(2)[[0, 0, 1, 1]], "classification")
    aligned = torch.tensor([[1.0, 0.0], [2.0, 0.0], [0.0, 1.0], [0.0, 3.0]])
    crossed = aligned[[0, 2, 1, 3]]
    # Of three other graphs one has similarity 1, two have 0: -log(e / (e + 2)).
    assert float(contrastive_loss(aligned, same)) == pytest.approx(math.log(1 + 2 / math.e))
    assert float(contrastive_loss(crossed, same)) == pytest.approx(math.log(2 + math.e))


def test_contrastive_loss_ignores_graphs_without_another_of_their_class():
    features = torch.randn(3, 4, generator=torch_stream(0, "rows"))
    assert float(contrastive_loss(features, torch.eye(3, dtype=torch.bool))) == 0.0


def test_graphs_with_several_tasks_are_similar_if_all_shared_labels_agree():
    nan = float("nan")
    y = torch.tensor([[1.0, 0.0], [1.0, nan], [0.0, nan], [nan, 0.0], [nan, nan]])
    assert same_class(y, "multilabel").int().tolist() == [
        [1, 1, 0, 1, 0],
        [1, 1, 0, 0, 0],
        [0, 0, 1, 0, 0],
        [1, 0, 0, 1, 0],
        [0, 0, 0, 0, 0],
    ]


def test_hinge_losses_are_zero_where_the_causal_loss_is_larger():
    environmental, causal = torch.tensor([2.0, 0.5, 1.0]), torch.tensor([1.0, 1.0, 1.0])
    assert hinge_losses(environmental, causal).tolist() == [2.0, 0.0, 1.0]


def test_ciga_without_hinge_is_version_1(graphs):
    version_1 = create(CIGA, penalty=2.0, hinge=0.0)
    assert not list(version_1.parameters())
    step = make_step(graphs, backbone_shape())
    output = split_subgraphs(step).causal_output()
    expected = step.losses_of(output.logits).mean() + 2.0 * contrastive_loss(
        output.features, same_class(step.y, step.task)
    )
    assert float(version_1(step).detach()) == pytest.approx(float(expected.detach()), abs=1e-5)


def test_ciga_version_2_adds_the_hinge_loss(graphs):
    version_1 = create(CIGA, penalty=2.0, hinge=0.0)
    version_2 = create(CIGA, penalty=2.0, hinge=3.0)
    step = make_step(graphs, backbone_shape())
    split = split_subgraphs(step)
    causal = step.losses_of(split.causal_output().logits)
    environmental = step.losses_of(version_2.shortcut(split.environmental_output().features))
    hinge_loss = hinge_losses(environmental, causal).mean()
    difference = version_2(step) - version_1(step)
    assert float(difference.detach()) == pytest.approx(3 * float(hinge_loss.detach()), abs=1e-5)
    # The hinge loss trains the edge scores.
    difference.backward()
    edge_scorer = step.model.network.edges
    assert sum(float(weight.grad.abs().sum()) for weight in edge_scorer.parameters()) > 0


# LiSA


@given(st.lists(st.floats(-30, 30), min_size=1, max_size=20))
def test_kl_divergence_is_between_zero_and_log_two(keep_logits):
    divergence = kl_divergence(torch.tensor(keep_logits, dtype=torch.double))
    assert bool((divergence >= -1e-12).all())
    assert bool((divergence <= math.log(2) + 1e-12).all())


def test_kl_divergence_of_uniform_probabilities_is_zero():
    assert float(kl_divergence(torch.zeros(1))) == pytest.approx(0, abs=1e-7)
    # For odds 3 : 1, log 2 minus the entropy 0.562335.
    assert float(kl_divergence(torch.tensor(3.0).log())) == pytest.approx(0.130812, abs=1e-5)


def test_generators_maximize_and_the_classifier_minimizes_variance():
    equal, different = torch.tensor([1.0, 1.0, 1.0]), torch.tensor([1.0, 0.5, 1.5])
    assert float(generator_objective(equal, 2.0)) == pytest.approx(1.0, abs=1e-5)
    assert float(generator_objective(different, 2.0)) < 1.0 - 0.05
    assert float(classifier_objective(equal, 2.0)) == pytest.approx(1.0)
    assert float(classifier_objective(different, 2.0)) == pytest.approx(1.0 + 2.0 * 0.25)


def test_one_backward_pass_gives_the_gradients_of_both_objectives():
    masks = [torch.tensor(value, requires_grad=True) for value in (0.4, 0.9)]
    weight = torch.tensor(1.3, requires_grad=True)

    def losses(weight, masks):
        return torch.stack([weight**2, *(weight * mask + mask**3 for mask in masks)])

    scales = [GradientScale(), GradientScale()]
    hooked = [mask * 1.0 for mask in masks]
    for mask, scale in zip(hooked, scales, strict=True):
        mask.register_hook(scale)
    combined_loss(losses(weight, hooked), 5.0, scales).backward()
    (weight_gradient,) = torch.autograd.grad(
        classifier_objective(losses(weight, [mask.detach() for mask in masks]), 5.0), weight
    )
    mask_gradients = torch.autograd.grad(
        generator_objective(losses(weight.detach(), masks), 5.0), masks
    )
    assert float(weight.grad) == pytest.approx(float(weight_gradient), rel=1e-5)
    for mask, expected in zip(masks, mask_gradients, strict=True):
        assert float(mask.grad) == pytest.approx(float(expected), rel=1e-4)


def test_kl_divergence_does_not_change_gradients_of_the_classifier(graphs):
    gradients, losses = [], []
    for kl_weight in (0.0, 4.0):
        step = make_step(graphs, backbone_shape(None))
        algorithm = create(LiSA, penalty=0.1, kl_weight=kl_weight, generators=2)
        loss = algorithm(step)
        loss.backward()
        losses.append(float(loss.detach()))
        gradients.append([weight.grad.clone() for weight in step.model.network.parameters()])
    step = make_step(graphs, backbone_shape(None))
    states = step.model.network.node_states(step.batch).detach()
    divergences = [
        float(kl_divergence(generator(states).squeeze(1)).mean().detach())
        for generator in algorithm.networks
    ]
    assert losses[1] - losses[0] == pytest.approx(4 * np.mean(divergences), rel=1e-3)
    assert all(torch.equal(one, other) for one, other in zip(*gradients, strict=True))


def test_gradient_scales_are_finite_where_the_classifier_gradient_is_zero():
    # The classifier's gradient for the second of losses 1, 0, 0.5 is 1/3 + 2p(0 - 1/2)/2 = 0.
    losses = torch.tensor([1.0, 0.0, 0.5], requires_grad=True)
    scales = [GradientScale(), GradientScale()]
    combined_loss(losses, 2 / 3, scales).backward()
    assert bool(torch.isfinite(losses.grad).all())
    assert all(math.isfinite(float(scale.factor)) for scale in scales)


def test_keep_weights_have_a_random_stream_per_generator_and_are_in_the_unit_interval(graphs):
    step = make_step(graphs, backbone_shape(None))
    keep_logits = torch.zeros(1000)
    one, two = (sample_keep(keep_logits, step, number) for number in (0, 1))
    assert not torch.equal(one, two)
    assert torch.equal(one, sample_keep(keep_logits, step, 0))
    assert float(one.min()) > 0
    assert float(one.max()) < 1
    assert float(one.mean()) == pytest.approx(0.5, abs=0.05)


# All of them


@pytest.mark.parametrize("name", SUBGRAPH_ALGORITHMS)
def test_all_parameters_have_finite_gradients(graphs, name):
    step = make_step(graphs, shape_for(name))
    algorithm = create_named(name)
    algorithm(step).backward()
    for module in (step.model.network, algorithm):
        for path, weight in module.named_parameters():
            assert weight.grad is not None, path
            assert bool(torch.isfinite(weight.grad).all()), path
    selector = algorithm.networks if name == "lisa-subgraph" else step.model.network.edges
    assert sum(float(weight.grad.abs().sum()) for weight in selector.parameters()) > 0


@pytest.mark.parametrize("name", SUBGRAPH_ALGORITHMS)
def test_equal_weights_do_not_change_the_loss(graphs, name):
    shape = shape_for(name)
    plain = create_named(name)(make_step(graphs, shape)).detach()
    equal = torch.full((len(graphs),), 2.0)
    weighted = create_named(name)(make_step(graphs, shape, equal)).detach()
    assert float(plain) == pytest.approx(float(weighted), rel=1e-4)


@pytest.mark.parametrize("name", SUBGRAPH_ALGORITHMS)
def test_environments_of_the_corpus_are_not_used(graphs, name):
    assert not algorithm_named(name).compares_environments
    step = make_step(graphs, shape_for(name))
    other = replace(make_step(graphs, shape_for(name)), env=torch.arange(len(graphs)))
    losses = [create_named(name)(inputs).detach() for inputs in (step, other)]
    assert torch.equal(*losses)
