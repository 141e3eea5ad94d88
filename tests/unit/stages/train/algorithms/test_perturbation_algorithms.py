"""FLAG, Mixup and LISA have the properties that define them."""

from dataclasses import replace
from functools import partial

import numpy as np
import pytest
import torch
from hypothesis import given
from hypothesis import strategies as st

from gsx.seeds import rng
from gsx.stages.nn.backbones import Backbone, BackboneShape, batch_of
from gsx.stages.nn.training_loop import torch_stream
from gsx.stages.train.algorithms.erm import ERM
from gsx.stages.train.algorithms.flag import FLAG, risk
from gsx.stages.train.algorithms.lisa_mixup import LISA, label_codes, partners
from gsx.stages.train.algorithms.mixup import Mixup, mixed
from gsx.stages.train.algorithms.training_step import Sight, Told
from tests.conftest import motif_split

CPU = torch.device("cpu")


def told_of(words=(), backbone="gin", labels=None):
    """Return a batch of eight graphs and an untrained network that does not drop."""
    table = motif_split("train", 0, 8)
    if words:
        codes = rng(0, "tests").integers(0, words[0], (table.total_nodes, 1))
        table = table.with_columns(node={"node_feat": codes})
    shape = BackboneShape(backbone=backbone, features=1, words=words, width=6, layers=2, outputs=3)
    net = Backbone.fresh(shape, 0.0, torch_stream(0, "tests"), torch.Generator()).train()
    return Told(
        sight=Sight(net, CPU),
        batch=batch_of(table, shape, CPU),
        rows=torch.arange(8),
        env=torch.tensor([0, 0, 0, 0, 1, 1, 1, 1]),
        y=torch.eye(3)[torch.tensor([0, 1, 2, 0, 1, 2, 0, 1])],
        task="classification",
        stream=partial(rng, 7, "step"),
        labels=labels,
    )


def number(value):
    return value.detach().item()


@pytest.mark.parametrize("options", [{}, {"words": (5,)}, {"backbone": "vgin"}])
def test_a_step_of_ascent_raises_the_loss_within_the_bound(options):
    batch, learner = told_of(**options), FLAG(1e-3, 3)
    start = learner.start(batch)
    assert start.shape == batch.sight.net.entering(batch.batch)
    assert 0 < float(start.abs().max()) <= 1e-3
    losses, noise = [], start
    for number_of_steps in (2, 3):
        losses.append(number(risk(batch, noise)))
        noise, _ = learner.ascend(batch, noise)
        assert float(noise.abs().max()) <= number_of_steps * 1e-3 + 1e-9
    losses.append(number(risk(batch, noise)))
    assert losses[0] < losses[1] < losses[2]


def test_flag_learns_from_the_mean_over_all_its_looks():
    batch, learner = told_of(), FLAG(1e-2, 3)
    net = batch.sight.net
    value = learner(batch)
    value.backward()
    found = [parameter.grad.clone() for parameter in net.parameters()]
    noise, risks = learner.start(batch), []
    for _ in range(3):
        leaf = noise.clone().requires_grad_()
        risks.append(risk(batch, leaf))
        (slope,) = torch.autograd.grad(risks[-1], leaf, retain_graph=True)
        noise = noise + 1e-2 * slope.sign()
    mean = torch.stack(risks).mean()
    wanted = torch.autograd.grad(mean, list(net.parameters()))
    assert number(value) == pytest.approx(number(mean), abs=1e-6)
    assert all(torch.allclose(a, b, atol=1e-6) for a, b in zip(found, wanted, strict=True))


@pytest.mark.parametrize("labels", [None, torch.arange(1.0, 9.0)])
def test_mixup_of_a_whole_share_is_erm(labels):
    batch = told_of(labels=labels)
    shuffled = np.arange(8)[::-1].copy()
    assert number(mixed(batch, shuffled, 1.0)) == number(ERM()(batch))
    # With no share of its own, a batch is its partners in another order.
    assert number(mixed(batch, shuffled, 0.0)) == pytest.approx(number(ERM()(batch)), abs=1e-6)


def test_mixup_is_the_loss_of_mixed_features_and_soft_labels():
    batch, partner = told_of(), np.array([1, 2, 3, 4, 5, 6, 7, 0])
    features = 0.3 * batch.features + 0.7 * batch.features[partner]
    soft = 0.3 * batch.y + 0.7 * batch.y[partner]
    logits = batch.sight.net.classify(features)
    wanted = -(soft * logits.log_softmax(dim=1)).sum(dim=1).mean()
    assert number(mixed(batch, partner, 0.3)) == pytest.approx(number(wanted), abs=1e-6)


def test_mixup_learns_what_one_of_a_pair_knows():
    batch = told_of()
    gaps = batch.y[:, :1].clone()
    gaps[0] = torch.nan
    net = batch.sight.net
    net.classify = torch.nn.Linear(6, 1)
    binary = replace(batch, y=gaps, task="binary", labels=(~torch.isnan(gaps)).float()[:, 0])
    value = mixed(binary, np.array([1, 0, 2, 3, 4, 5, 6, 7]), 0.5)
    assert torch.isfinite(value)


def test_shares_of_mixup_come_from_the_stream_of_the_step():
    batch = told_of()
    first, again = (number(Mixup(0.4)(batch)) for _ in range(2))
    assert first == again
    assert first != number(Mixup(0.4)(replace(batch, stream=partial(rng, 8, "step"))))


@pytest.mark.parametrize("learner", [Mixup, LISA])
@pytest.mark.parametrize("alpha", [0.4, 1.0, 2.0])
def test_shares_follow_the_beta_distribution_asked_for(monkeypatch, learner, alpha):
    batch, shares = told_of(), []
    where = f"{learner.__module__}.mixed"
    monkeypatch.setattr(where, lambda told, partner, share: shares.append(share))
    for seed in range(800):
        learner(alpha)(replace(batch, stream=partial(rng, seed, "step")))
    assert np.mean(shares) == pytest.approx(0.5, abs=0.03)
    # The variance of Beta(a, a): 0.139 for 0.4, 0.083 for 1, 0.05 for 2.
    assert np.var(shares) == pytest.approx(1 / (4 * (2 * alpha + 1)), rel=0.1)


codes = st.lists(st.tuples(st.integers(0, 3), st.integers(0, 2)), min_size=1, max_size=30)


@given(codes, st.integers(0, 10))
def test_partners_agree_in_one_thing_and_differ_in_the_other(pairs, seed):
    same, other = np.array(pairs).T
    found = partners(same, other, rng(seed, "tests"))
    fits = (same[:, None] == same) & (other[:, None] != other)
    lonely = ~fits.any(axis=1)
    row = np.arange(len(same))
    assert (found[lonely] == row[lonely]).all()
    assert fits[row[~lonely], found[~lonely]].all()


def test_every_partner_is_as_likely_as_any_other():
    same, other = np.array([0, 0, 0, 0, 1]), np.array([0, 1, 1, 2, 0])
    drawn = np.array([partners(same, other, rng(seed, "tests")) for seed in range(600)])
    assert np.bincount(drawn[:, 0], minlength=5)[1:4].tolist() == pytest.approx([200] * 3, abs=45)
    assert np.bincount(drawn[:, 1], minlength=5)[[0, 3]].tolist() == pytest.approx(
        [300] * 2, abs=45
    )


def test_lisa_pairs_by_label_or_by_environment(monkeypatch):
    batch, chosen = told_of(), []
    label, env = batch.y.argmax(dim=1).numpy(), batch.env.numpy()
    monkeypatch.setattr(
        "gsx.stages.train.algorithms.lisa_mixup.mixed",
        lambda told, partner, share: chosen.append(partner),
    )
    across = []
    for seed in range(40):
        LISA(1.0)(replace(batch, stream=partial(rng, seed, "step")))
        same_label, same_env = label[chosen[-1]] == label, env[chosen[-1]] == env
        assert (same_label & ~same_env).all() or (same_env & ~same_label).all()
        across.append(bool(same_label.all()))
    assert 10 <= sum(across) <= 30


def test_labels_with_gaps_are_equal_where_they_miss_the_same():
    y = np.array([[1.0, np.nan], [1.0, 0.0], [1.0, np.nan], [0.0, 0.0]])
    found = label_codes(y, "binary")
    assert found[0] == found[2]
    assert len(set(found)) == 3
    assert label_codes(np.array([[0.6, 0.4], [0.1, 0.9]]), "classification").tolist() == [0, 1]
