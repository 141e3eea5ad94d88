"""FLAG, Mixup and LISA have the properties that define them."""

from dataclasses import replace
from functools import partial

import numpy as np
import pytest
import torch
from hypothesis import given
from hypothesis import strategies as st

from gsx.seeds import rng
from gsx.stages.nn.backbones import Backbone
from gsx.stages.nn.batches import BackboneShape, build_graph_batch
from gsx.stages.nn.training_loop import torch_stream
from gsx.stages.train.algorithms.erm import ERM
from gsx.stages.train.algorithms.flag import FLAG, perturbed_loss
from gsx.stages.train.algorithms.lisa_mixup import LISA, draw_partners, label_codes
from gsx.stages.train.algorithms.mixup import Mixup, mixed_loss
from gsx.stages.train.algorithms.training_step import ForwardPass, TrainingStep
from tests.conftest import motif_split
from tests.support.algorithms import CPU, create_algorithm, number


def make_step(words=(), backbone="gin", weights=None):
    """Return a step with eight graphs and an untrained network without dropout."""
    table = motif_split("train", 0, 8)
    if words:
        codes = rng(0, "tests").integers(0, words[0], (table.total_nodes, 1))
        table = table.with_columns(node={"node_feat": codes})
    shape = BackboneShape(backbone=backbone, features=1, words=words, width=6, layers=2, outputs=3)
    random_weights, dropout = torch_stream(0, "tests"), torch.Generator()
    network = Backbone.with_random_weights(shape, 0.0, random_weights, dropout).train()
    return TrainingStep(
        model=ForwardPass(network, CPU),
        batch=build_graph_batch(table, shape, CPU),
        rows=torch.arange(8),
        env=torch.tensor([0, 0, 0, 0, 1, 1, 1, 1]),
        y=torch.eye(3)[torch.tensor([0, 1, 2, 0, 1, 2, 0, 1])],
        task="classification",
        stream=partial(rng, 7, "step"),
        weights=weights,
    )


@pytest.mark.parametrize("options", [{}, {"words": (5,)}, {"backbone": "vgin"}])
def test_flag_ascent_raises_the_loss_within_the_step_bound(options):
    step, flag = make_step(**options), create_algorithm(FLAG, ascent_step=1e-3, ascents=3)
    start = flag.initial_noise(step)
    assert start.shape == step.model.network.input_shape(step.batch)
    assert 0 < float(start.abs().max()) <= 1e-3
    losses, noise = [], start
    for max_steps in (2, 3):
        losses.append(number(perturbed_loss(step, noise)))
        noise, _ = flag.ascend(step, noise)
        assert float(noise.abs().max()) <= max_steps * 1e-3 + 1e-9
    losses.append(number(perturbed_loss(step, noise)))
    assert losses[0] < losses[1] < losses[2]


def test_flag_minimizes_the_mean_loss_over_all_passes():
    step, flag = make_step(), create_algorithm(FLAG, ascent_step=1e-2, ascents=3)
    network = step.model.network
    loss = flag(step)
    loss.backward()
    gradients = [parameter.grad.clone() for parameter in network.parameters()]
    noise, losses = flag.initial_noise(step), []
    for _ in range(3):
        leaf = noise.clone().requires_grad_()
        losses.append(perturbed_loss(step, leaf))
        (gradient,) = torch.autograd.grad(losses[-1], leaf, retain_graph=True)
        noise = noise + 1e-2 * gradient.sign()
    mean = torch.stack(losses).mean()
    expected = torch.autograd.grad(mean, list(network.parameters()))
    assert number(loss) == pytest.approx(number(mean), abs=1e-6)
    assert all(torch.allclose(a, b, atol=1e-6) for a, b in zip(gradients, expected, strict=True))


@pytest.mark.parametrize("weights", [None, torch.arange(1.0, 9.0)])
def test_mixup_with_ratio_one_is_erm(weights):
    step, erm = make_step(weights=weights), create_algorithm(ERM)
    reversed_rows = np.arange(8)[::-1].copy()
    assert number(mixed_loss(step, reversed_rows, 1.0)) == number(erm(step))
    # With ratio 0, the batch consists of the partners, in another order.
    mixed = number(mixed_loss(step, reversed_rows, 0.0))
    assert mixed == pytest.approx(number(erm(step)), abs=1e-6)


def test_mixup_is_the_loss_of_mixed_features_and_soft_labels():
    step, partner = make_step(), np.array([1, 2, 3, 4, 5, 6, 7, 0])
    features = 0.3 * step.features + 0.7 * step.features[partner]
    soft_labels = 0.3 * step.y + 0.7 * step.y[partner]
    logits = step.model.network.classify(features)
    expected = -(soft_labels * logits.log_softmax(dim=1)).sum(dim=1).mean()
    assert number(mixed_loss(step, partner, 0.3)) == pytest.approx(number(expected), abs=1e-6)


def test_mixup_uses_labels_that_only_one_graph_of_a_pair_has():
    step = make_step()
    y = step.y[:, :1].clone()
    y[0] = torch.nan
    step.model.network.classify = torch.nn.Linear(6, 1)
    binary = replace(step, y=y, task="binary", weights=(~torch.isnan(y)).float()[:, 0])
    loss = mixed_loss(binary, np.array([1, 0, 2, 3, 4, 5, 6, 7]), 0.5)
    assert torch.isfinite(loss)


def test_mixup_draws_its_ratio_from_the_stream_of_the_step():
    step, mixup = make_step(), create_algorithm(Mixup, mix_alpha=0.4)
    first, again = (number(mixup(step)) for _ in range(2))
    assert first == again
    assert first != number(mixup(replace(step, stream=partial(rng, 8, "step"))))


@pytest.mark.parametrize("algorithm", [Mixup, LISA])
@pytest.mark.parametrize("alpha", [0.4, 1.0, 2.0])
def test_mixing_ratios_have_a_beta_distribution(monkeypatch, algorithm, alpha):
    step, ratios = make_step(), []
    monkeypatch.setattr(
        f"{algorithm.__module__}.mixed_loss", lambda step, partner, ratio: ratios.append(ratio)
    )
    mixing = create_algorithm(algorithm, mix_alpha=alpha)
    for seed in range(800):
        mixing(replace(step, stream=partial(rng, seed, "step")))
    assert np.mean(ratios) == pytest.approx(0.5, abs=0.03)
    # The variance of Beta(a, a): 0.139 for 0.4, 0.083 for 1, 0.05 for 2.
    assert np.var(ratios) == pytest.approx(1 / (4 * (2 * alpha + 1)), rel=0.1)


codes = st.lists(st.tuples(st.integers(0, 3), st.integers(0, 2)), min_size=1, max_size=30)


@given(codes, st.integers(0, 10))
def test_partners_are_equal_in_one_code_and_differ_in_the_other(pairs, seed):
    same, other = np.array(pairs).T
    partner = draw_partners(same, other, rng(seed, "tests"))
    allowed = (same[:, None] == same) & (other[:, None] != other)
    alone = ~allowed.any(axis=1)
    row = np.arange(len(same))
    assert (partner[alone] == row[alone]).all()
    assert allowed[row[~alone], partner[~alone]].all()


def test_all_possible_partners_are_equally_likely():
    same, other = np.array([0, 0, 0, 0, 1]), np.array([0, 1, 1, 2, 0])
    drawn = np.array([draw_partners(same, other, rng(seed, "tests")) for seed in range(600)])
    assert np.bincount(drawn[:, 0], minlength=5)[1:4].tolist() == pytest.approx([200] * 3, abs=45)
    assert np.bincount(drawn[:, 1], minlength=5)[[0, 3]].tolist() == pytest.approx(
        [300] * 2, abs=45
    )


def test_lisa_pairs_by_label_or_by_environment(monkeypatch):
    step, partners = make_step(), []
    label, env = step.y.argmax(dim=1).numpy(), step.env.numpy()
    monkeypatch.setattr(
        "gsx.stages.train.algorithms.lisa_mixup.mixed_loss",
        lambda step, partner, ratio: partners.append(partner),
    )
    lisa, by_label = create_algorithm(LISA), []
    for seed in range(40):
        lisa(replace(step, stream=partial(rng, seed, "step")))
        same_label, same_env = label[partners[-1]] == label, env[partners[-1]] == env
        assert (same_label & ~same_env).all() or (same_env & ~same_label).all()
        by_label.append(bool(same_label.all()))
    assert 10 <= sum(by_label) <= 30


def test_label_codes_are_equal_where_the_same_labels_are_missing():
    y = np.array([[1.0, np.nan], [1.0, 0.0], [1.0, np.nan], [0.0, 0.0]])
    codes = label_codes(y, "binary")
    assert codes[0] == codes[2]
    assert len(set(codes)) == 3
    assert label_codes(np.array([[0.6, 0.4], [0.1, 0.9]]), "classification").tolist() == [0, 1]
