"""LECI and PrunE have the properties that define them."""

import math
from dataclasses import replace

import numpy as np
import pytest
import torch
from hypothesis import given
from hypothesis import strategies as st

from gsx.seeds import rng
from gsx.stages.graphs.subgraphs import global_edges, sort_edges
from gsx.stages.nn.batches import BackboneShape, EdgeSelection, build_graph_batch
from gsx.stages.nn.build_network import build_network
from gsx.stages.nn.subgraph_batch import with_edge_weights
from gsx.stages.nn.training_loop import one_thread, torch_stream
from gsx.stages.train.algorithms import algorithm_named
from gsx.stages.train.algorithms.edge_weighting import (
    ScoredEdges,
    sample_edge_weights,
    score_edges,
)
from gsx.stages.train.algorithms.leci import LECI, prior, prior_divergence
from gsx.stages.train.algorithms.prune import PrunE, probability_alignment, size_constraint
from gsx.stages.train.algorithms.training_step import ForwardPass, TrainingStep
from gsx.stages.train.config import TrainConfig, resolve
from gsx.stages.train.data import TrainingData
from gsx.stages.train.gradient_reversal import reversal_strength
from gsx.stages.train.trainer import Trainer, build_algorithm
from tests.conftest import motif_split
from tests.support.algorithms import CPU, create_algorithm
from tests.support.graph_tables import table_from_edges

WIDTH = 8
ENVS = 3


def backbone_shape(algorithm, features=1, outputs=3, width=WIDTH):
    return BackboneShape(
        backbone="gin",
        features=features,
        width=width,
        layers=3,
        outputs=outputs,
        select=EdgeSelection(rule=algorithm.edge_rule),
    )


@pytest.fixture(scope="module")
def graphs():
    return sort_edges(motif_split("train", 0, 24))


def make_step(graphs, algorithm, progress=0.5, weights=None):
    """Return a step with all graphs and an untrained network."""
    shape = backbone_shape(algorithm)
    network = build_network(shape, 0.0, torch_stream(0, "w"), torch_stream(0, "d"))
    return TrainingStep(
        model=ForwardPass(network, CPU),
        batch=build_graph_batch(graphs, shape, CPU),
        rows=torch.arange(len(graphs)),
        env=torch.arange(len(graphs)) % ENVS,
        y=torch.from_numpy(np.array(graphs.dense("graph", "y"))),
        task="classification",
        stream=lambda name: rng(0, "test", name),
        progress=progress,
        weights=weights,
    )


def create(algorithm, **hyperparameters):
    defaults = {name: option.default for name, option in algorithm.options().items()}
    return create_algorithm(
        algorithm,
        width=WIDTH,
        num_envs=ENVS,
        shape=backbone_shape(algorithm),
        **{**defaults, **hyperparameters},
    )


def edges_with_scores(table, scores):
    """Return the edges of a table with a score per undirected edge, in the order of the table."""
    shape = backbone_shape(PrunE)
    features = np.ones((table.total_nodes, 1), dtype=np.float32)
    batch = build_graph_batch(table.with_columns(node={"node_feat": features}), shape, CPU)
    structure = batch.structure
    both = torch.zeros(len(structure.reverse))
    both[structure.undirected] = torch.as_tensor(scores)
    both[structure.reverse[structure.undirected]] = torch.as_tensor(scores)
    return ScoredEdges(batch, both.requires_grad_(), None)


def gradients(loss, inputs):
    return torch.autograd.grad(loss, inputs, retain_graph=True, allow_unused=True)


# Edge weights


def test_both_directions_of_an_edge_have_the_same_weight(graphs):
    step = make_step(graphs, LECI)
    edges = score_edges(step)
    weights = sample_edge_weights(edges, step, 1.0)
    assert torch.equal(weights, weights[edges.structure.reverse])
    assert torch.equal(weights, sample_edge_weights(edges, step, 1.0))
    assert float(weights.detach().min()) > 0
    assert float(weights.detach().max()) < 1
    other = replace(step, stream=lambda name: rng(1, "test", name))
    assert not torch.equal(weights, sample_edge_weights(edges, other, 1.0))


def test_samples_follow_the_keep_probability():
    table = table_from_edges((1001, [(0, node) for node in range(1, 1001)]))
    edges = edges_with_scores(table, torch.full((1000,), math.log(4)))  # probability 0.8
    step = replace(make_step(motif_split("train", 0, 2), PrunE))
    kept = sample_edge_weights(edges, step, 0.2) > 1 / 2
    assert float(kept.float().mean()) == pytest.approx(0.8, abs=0.03)


def test_means_are_taken_over_the_edges_of_each_graph():
    table = table_from_edges((3, [(0, 1), (1, 2)]), (2, []), (2, [(0, 1)]))
    edges = edges_with_scores(table, [0.0, 4.0, 7.0])
    assert edges.graph_means(edges.scores).tolist() == [2.0, 0.0, 7.0]
    selected = edges.scores > 1
    assert edges.graph_means(edges.scores, selected).tolist() == [4.0, 0.0, 7.0]


@pytest.mark.parametrize("rule", ["weights", "likely"])
def test_inference_weights_edges_by_the_rule_of_the_algorithm(graphs, rule):
    algorithm = LECI if rule == "weights" else PrunE
    step = make_step(graphs, algorithm)
    network, batch = step.model.network.eval(), step.batch
    with torch.no_grad():
        network.edges.score.bias -= network.edges(batch).median()
    scores = network.edges(batch)
    assert 0 < int((scores > 0).sum()) < len(scores)
    weights = scores.sigmoid() if rule == "weights" else (scores > 0).float()
    expected = network.backbone(with_edge_weights(batch, weights))
    for output, values in zip(network(batch), expected, strict=True):
        assert torch.equal(output, values)


def test_a_selection_has_either_a_ratio_or_a_rule():
    for options in ({}, {"ratio": 0.5, "rule": "weights"}):
        with pytest.raises(ValueError, match="either a ratio or a rule"):
            EdgeSelection(**options)


# LECI


def leci_terms(algorithm, step):
    """Return edge scores, and the losses of the label and of both adversaries, not reversed."""
    edges = score_edges(step)
    weights = sample_edge_weights(edges, step, 1.0)
    label = step.losses_of(edges.output(weights).logits).mean()
    env_logits = edges.output(weights, algorithm.environment_adversary).logits
    env = torch.nn.functional.cross_entropy(env_logits, step.env)
    label_logits = edges.output(1 - weights, algorithm.label_adversary).logits
    return label, env, step.losses_of(label_logits).mean()


@pytest.mark.parametrize("progress", [0.0, 0.3, 1.0])
def test_the_selector_maximizes_what_the_adversaries_minimize(graphs, progress):
    step = make_step(graphs, LECI, progress)
    algorithm = create(LECI, penalty=3.0, label_penalty=0.5)
    selector = list(step.model.network.edges.parameters())
    adversaries = list(algorithm.parameters())
    backbone = list(step.model.network.backbone.parameters())
    loss = algorithm(step)
    label, env, other = leci_terms(algorithm, step)
    assert float(loss.detach()) == pytest.approx(float((label + env + other).detach()), rel=1e-5)
    strength = reversal_strength(progress)
    expected = [
        a - 3.0 * strength * b - 0.5 * strength * c
        for a, b, c in zip(*(gradients(term, selector) for term in (label, env, other)),
                           strict=True)
    ]  # fmt: skip
    for actual, value in zip(gradients(loss, selector), expected, strict=True):
        assert torch.allclose(actual, value, atol=1e-4)
    # The adversaries minimize their losses; the backbone learns from the label loss alone.
    for actual, value in zip(
        gradients(loss, adversaries), gradients(env + other, adversaries), strict=True
    ):
        assert torch.allclose(actual, value, atol=1e-6)
    for actual, value in zip(gradients(loss, backbone), gradients(label, backbone), strict=True):
        assert torch.allclose(actual, value, atol=1e-6)


def test_the_strength_of_the_adversaries_grows_from_zero_to_one():
    assert reversal_strength(0.0) == 0.0
    assert reversal_strength(0.1) == pytest.approx(0.462117, abs=1e-6)
    assert reversal_strength(1.0) == pytest.approx(1.0, abs=1e-4)


def test_an_adversary_of_strength_zero_is_left_out(graphs):
    step = make_step(graphs, LECI)
    none = create(LECI, penalty=0.0, label_penalty=0.0)
    assert not list(none.parameters())
    edges = score_edges(step)
    output = edges.output(sample_edge_weights(edges, step, 1.0))
    expected = step.losses_of(output.logits).mean()
    assert float(none(step).detach()) == pytest.approx(float(expected.detach()), rel=1e-5)


def test_the_prior_falls_from_nine_tenths_to_one_half():
    values = [prior(progress) for progress in (0.0, 0.24, 0.25, 0.5, 0.75, 1.0)]
    assert values == pytest.approx([0.9, 0.9, 0.8, 0.7, 0.6, 0.5])


@given(st.floats(-30, 30), st.floats(0.1, 0.9))
def test_the_divergence_from_the_prior_is_zero_only_at_the_prior(score, probability):
    scores = torch.tensor([score, math.log(probability / (1 - probability))], dtype=torch.double)
    divergence = prior_divergence(scores, probability)
    assert float(divergence[0]) >= -1e-12
    assert float(divergence[1]) == pytest.approx(0, abs=1e-12)


def test_the_prior_moves_edge_weights_towards_it(graphs):
    step = make_step(graphs, LECI, progress=0.0)
    without, with_prior = (create(LECI, edge_prior=weight) for weight in (0.0, 2.0))
    difference = with_prior(step) - without(step)
    edges = score_edges(step)
    expected = 2 * edges.graph_means(prior_divergence(edges.scores, 0.9)).mean()
    assert float(difference.detach()) == pytest.approx(float(expected.detach()), rel=1e-3)


def two_leaves(graphs, seed=0):
    """Return graphs of two classes in two environments, and their environments.

    A path carries two hubs, each with two leaves of different features. One leaf is attached to its
    hub, the other one to the path. Which one is at the first hub is the class, which one at the
    second hub the environment. So one edge determines the class, and another one the environment.
    """
    random = rng(seed, "two-leaves")
    tables, features, choices, truth = [], [], [], []
    for _ in range(graphs):
        size, choice = int(random.integers(5, 9)), random.integers(2, size=2)
        pairs = [(node, node + 1) for node in range(size - 1)]
        kinds, role = [0] * size, np.zeros(size + 6, dtype=np.int64)
        for part, near in enumerate(choice):
            hub = size + 3 * part
            leaves = (hub + 1, hub + 2)
            pairs += [(int(random.integers(size)), node) for node in (hub, leaves[1 - near])]
            pairs.append((hub, leaves[near]))
            kinds += [3 * part + kind for kind in (1, 2, 3)]
            role[[hub, leaves[near]]] = part + 1
        tables.append((size + 6, pairs))
        features.append(np.eye(7, dtype=np.float32)[kinds])
        choices.append(choice)
        truth.append(role)
    label, env = np.array(choices).T
    table = table_from_edges(*tables).with_columns(
        node={"node_feat": np.concatenate(features), "role": np.concatenate(truth)},
        graph={"y": np.eye(2, dtype=np.float32)[label]},
    )
    return table, env


def edges_by_role(table):
    """Return which edges determine the class, the environment, and neither."""
    src, dst = global_edges(table)
    role = table.dense("node", "role")
    causal, environmental = ((role[src] == part) & (role[dst] == part) for part in (1, 2))
    return causal, environmental, ~(causal | environmental)


def train(algorithm, table, env, **options):
    """Train without a store; return network, algorithm and one batch with all graphs."""
    shape = backbone_shape(algorithm, features=7, outputs=2, width=16)
    data = TrainingData(
        task="classification", metric="accuracy", train=table, env=env, num_envs=2, held_out={}
    )
    config = resolve(TrainConfig(learner=algorithm.name, width=16, batch_size=50, **options))
    network = build_network(shape, 0.0, torch_stream(0, "w"), torch_stream(0, "d"))
    module = build_algorithm(config, shape, data, CPU)
    trainer = Trainer(config, network, module, table, data, CPU, None)
    with one_thread():
        for epoch in range(config.epochs):
            trainer.train_epoch(epoch)
    network.eval()
    module.eval()
    return network, module, build_graph_batch(table, shape, CPU)


def accuracy(logits, target):
    return float((logits.argmax(dim=1).numpy() == target).mean())


def train_leci(**options):
    """Return edge weights by role, and the accuracies of the label and the environment."""
    table, env = two_leaves(400)
    network, algorithm, batch = train(LECI, table, env, epochs=30, **options)
    with torch.no_grad():
        weights = network.edges(batch).sigmoid()
        causal = with_edge_weights(batch, weights)
        _, env_logits = algorithm.environment_adversary(causal)
        label = accuracy(network(batch)[1], table.dense("graph", "y").argmax(axis=1))
    by_role = [float(weights[role].mean()) for role in edges_by_role(table)]
    return by_role, label, accuracy(env_logits, env)


def test_without_reversal_the_environment_is_predicted_from_the_causal_subgraph():
    (causal, environmental, _), label, env = train_leci(penalty=1e-9, label_penalty=1e-9)
    assert label == env == 1.0
    assert causal > 0.9
    assert environmental > 0.05


def test_reversal_hides_the_environment_and_keeps_the_causal_edges():
    (causal, environmental, _), label, env = train_leci(penalty=1.0, label_penalty=1.0)
    assert label == 1.0
    assert env < 0.65  # one half by chance
    assert causal > 0.99
    assert environmental < 0.01


# PrunE


def test_the_size_constraint_is_zero_where_the_budget_is_kept():
    table = table_from_edges((3, [(0, 1), (1, 2)]), (2, []))
    three_quarters = math.log(3)
    assert float(
        size_constraint(edges_with_scores(table, [three_quarters] * 2), 0.75).detach()
    ) == pytest.approx(0, abs=1e-12)
    # Probabilities 0.5 and 0.75: 0.625 is 0.125 below the budget.
    edges = edges_with_scores(table, [0.0, three_quarters])
    loss = size_constraint(edges, 0.75)
    assert float(loss.detach()) == pytest.approx(0.125**2, rel=1e-5)
    loss.backward()
    assert bool((edges.scores.grad < 0).all())  # a step raises all probabilities


def test_only_the_lowest_probabilities_of_every_graph_are_aligned():
    table = table_from_edges((5, [(0, 1), (1, 2), (2, 3), (3, 4)]), (2, []), (3, [(0, 1), (1, 2)]))
    probabilities = torch.tensor([0.9, 0.3, 0.6, 0.1, 0.8, 0.7])
    edges = edges_with_scores(table, probabilities.logit())
    loss = probability_alignment(edges, 0.5)
    # Half of four edges: 0.1 and 0.3, target 1/4. Half of two edges: 0.7, target 1/2.
    expected = ((0.15 + 0.05) / 2 + 0.2) / 2
    assert float(loss.detach()) == pytest.approx(expected, rel=1e-5)
    loss.backward()
    grad = edges.scores.grad[edges.structure.undirected]
    assert grad.sign().tolist() == [0, 1, 0, -1, 0, 1]


def test_edges_are_kept_or_removed_and_their_scores_receive_gradients(graphs):
    step = make_step(graphs, PrunE)
    algorithm = create(PrunE, penalty=0.0, align_weight=0.0)
    loss = algorithm(step)
    edges = score_edges(step)
    kept = (sample_edge_weights(edges, step, 0.2) > 1 / 2).float()
    expected = step.losses_of(edges.output(kept).logits).mean()
    assert float(loss.detach()) == pytest.approx(float(expected.detach()), rel=1e-4)
    loss.backward()
    grads = [weight.grad for weight in step.model.network.edges.parameters()]
    assert sum(float(grad.abs().sum()) for grad in grads) > 0


def test_whole_graphs_are_classified_first(graphs):
    step = make_step(graphs, PrunE, progress=0.05)
    algorithm = create(PrunE)
    loss = algorithm(step)
    whole = step.model.network.backbone(step.batch)[1]
    expected = step.losses_of(whole).mean()
    assert float(loss.detach()) == pytest.approx(float(expected.detach()), rel=1e-4)
    assert all(
        grad is None or not grad.any()
        for grad in gradients(loss, list(step.model.network.edges.parameters()))
    )


def test_both_terms_are_added_with_their_weights(graphs):
    step = make_step(graphs, PrunE)
    plain = create(PrunE, penalty=0.0, align_weight=0.0)(step)
    options = {"edge_budget": 0.3, "aligned_edges": 0.4}
    full = create(PrunE, penalty=7.0, align_weight=3.0, **options)(step)
    edges = score_edges(step)
    expected = 7 * size_constraint(edges, 0.3) + 3 * probability_alignment(edges, 0.4)
    assert float((full - plain).detach()) == pytest.approx(float(expected.detach()), rel=1e-3)


@pytest.mark.parametrize("budget", [0.4, 0.6])
def test_environment_edges_are_dropped_and_the_budget_is_met(budget):
    table, env = two_leaves(400)
    options = {"edge_budget": budget, "aligned_edges": 0.3}
    network, _, batch = train(PrunE, table, env, epochs=30, **options)
    with torch.no_grad():
        keep = network.edges(batch).sigmoid()
        logits = network(batch)[1]
    edges = ScoredEdges(batch, keep, None)
    assert float(edges.graph_means(keep).mean()) == pytest.approx(budget, abs=0.06)
    causal, environmental, _ = (float(keep[role].mean()) for role in edges_by_role(table))
    assert causal > 0.95
    assert environmental < 0.15
    assert accuracy(logits, table.dense("graph", "y").argmax(axis=1)) == 1.0


def test_alignment_pushes_the_lowest_probabilities_to_one_over_the_edges():
    table, env = two_leaves(200)
    options = {"edge_budget": 0.5, "aligned_edges": 0.4}
    distances = []
    for align_weight in (0.0, 10.0):
        network, _, batch = train(
            PrunE, table, env, epochs=40, align_weight=align_weight, **options
        )
        with torch.no_grad():
            edges = ScoredEdges(batch, network.edges(batch), None)
            distances.append(float(probability_alignment(edges, 0.4)))
    assert distances[1] < 0.05
    assert distances[1] < distances[0] / 2


# Both


@pytest.mark.parametrize("algorithm", [LECI, PrunE])
def test_all_parameters_have_finite_gradients(graphs, algorithm):
    step, module = make_step(graphs, algorithm), create(algorithm)
    module(step).backward()
    for part in (step.model.network, module):
        for path, weight in part.named_parameters():
            assert weight.grad is not None, path
            assert bool(torch.isfinite(weight.grad).all()), path


@pytest.mark.parametrize("algorithm", [LECI, PrunE])
def test_equal_weights_do_not_change_the_loss(graphs, algorithm):
    equal = torch.full((len(graphs),), 2.0)
    losses = [
        float(create(algorithm)(make_step(graphs, algorithm, weights=weights)).detach())
        for weights in (None, equal)
    ]
    assert losses[0] == pytest.approx(losses[1], rel=1e-4)


def test_only_leci_uses_environments(graphs):
    assert algorithm_named("leci").compares_environments
    assert not algorithm_named("prune").compares_environments
    for algorithm, is_used in ((LECI, True), (PrunE, False)):
        step = make_step(graphs, algorithm)
        other = replace(make_step(graphs, algorithm), env=torch.zeros_like(step.env))
        losses = [float(create(algorithm)(inputs).detach()) for inputs in (step, other)]
        assert (losses[0] != losses[1]) == is_used
