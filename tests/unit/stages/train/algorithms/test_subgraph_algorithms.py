"""Learners of invariant subgraphs have the properties that define them, and learn."""

import math
from dataclasses import replace

import numpy as np
import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st

from gsx.seeds import rng
from gsx.stages.graphs.subgraphs import sort_edges
from gsx.stages.nn.batches import BackboneShape, Selection, batch_of
from gsx.stages.nn.build_network import fresh
from gsx.stages.nn.gin import initialize
from gsx.stages.nn.training_loop import torch_stream
from gsx.stages.train.algorithms import lisa_subgraph
from gsx.stages.train.algorithms.catalog import KINDS
from gsx.stages.train.algorithms.ciga import CIGA, alike, contrast, hinged
from gsx.stages.train.algorithms.dir import DIR, intervened
from gsx.stages.train.algorithms.gil import GIL, disagreement, infer
from gsx.stages.train.algorithms.lisa_subgraph import (
    LiSA,
    Turn,
    divergence,
    diverse,
    invariant,
    taught,
)
from gsx.stages.train.algorithms.subgraph_split import halves
from gsx.stages.train.algorithms.training_step import Sight, Told
from tests.conftest import motif_split

CPU = torch.device("cpu")
SUBGRAPHS = ("dir", "gil", "ciga", "lisa-subgraph")
WIDTH = 8


def shape(ratio=0.4):
    select = {} if ratio is None else {"select": Selection(ratio=ratio)}
    return BackboneShape(backbone="gin", features=1, width=WIDTH, layers=3, outputs=3, **select)


@pytest.fixture(scope="module")
def graphs():
    return sort_edges(motif_split("train", 0, 24))


def told_of(graphs, form, labels=None):
    """Return what a learner is told of graphs, by a network that has learned nothing yet."""
    net = fresh(form, 0.0, torch_stream(0, "w"), torch_stream(0, "d"))
    y = torch.from_numpy(np.array(graphs.dense("graph", "y")))
    return Told(
        sight=Sight(net, CPU),
        batch=batch_of(graphs, form, CPU, cuts=True),
        rows=torch.arange(len(graphs)),
        env=torch.zeros(len(graphs), dtype=torch.long),
        y=y,
        task="classification",
        stream=lambda name: rng(0, "test", name),
        labels=labels,
    )


def plain_told(y, task="classification"):
    return Told(
        sight=None, batch=None, rows=None, env=None, y=y, task=task, stream=None, labels=None
    )


def made(learner):
    return initialize(learner, torch_stream(0, "learner"))


def learner_named(name):
    return made(
        {
            "dir": lambda: DIR(1.0, WIDTH, 3),
            "gil": lambda: GIL(1.0, 3),
            "ciga": lambda: CIGA(1.0, 1.0, WIDTH, 3),
            "lisa-subgraph": lambda: LiSA(0.1, 0.1, 3, WIDTH),
        }[name]()
    )


# DIR


def test_dir_selects_its_ratio_of_the_edges_of_every_graph(graphs):
    told = told_of(graphs, shape(0.4))
    split = halves(told).split
    structure = told.batch.structure
    per_graph = torch.bincount(structure.edge_owner[split.keep], minlength=len(graphs)) / 2
    edges = torch.bincount(structure.edge_owner, minlength=len(graphs)) / 2
    assert per_graph.tolist() == [math.ceil(round(0.4 * count, 6)) for count in edges.tolist()]


def test_dir_has_no_variance_where_the_rest_says_the_same_of_every_graph():
    y = torch.eye(3)[[0, 1, 2, 0]]
    logits = torch.randn(4, 3, generator=torch_stream(0, "logits"))
    same = torch.tensor([[0.3, -1.0, 2.0]]).expand(4, 3)
    risks = intervened(plain_told(y), logits, same)
    assert float(risks.var()) == 0.0
    other = torch.randn(4, 3, generator=torch_stream(1, "logits"))
    assert float(intervened(plain_told(y), logits, other).var()) > 1e-4


def test_dir_puts_every_rest_beside_every_part():
    # Shortcuts of 0 and log 3 let a half and three quarters of a logit of 2 through.
    y, logits = torch.tensor([[1.0], [0.0]]), torch.tensor([[2.0], [2.0]])
    shortcut = torch.tensor([[0.0], [math.log(3)]])
    risks = intervened(plain_told(y, "binary"), logits, shortcut)
    costs = [(math.log1p(math.exp(-x)) + math.log1p(math.exp(x))) / 2 for x in (1.0, 1.5)]
    assert risks.tolist() == pytest.approx(costs)


def test_the_shortcut_of_dir_and_the_network_learn_apart(graphs):
    told, learner = told_of(graphs, shape()), made(DIR(3.0, WIDTH, 3))
    learner(told).backward()
    found = {name: weight.grad for name, weight in told.sight.net.named_parameters()}
    again = told_of(graphs, shape())
    both = halves(again)
    shortcut = learner.shortcut(both.rest_untaught().features)
    # The shortcut learns to tell the label, and nothing of the interventions.
    apart = again.losses_of(shortcut).mean()
    (alone,) = torch.autograd.grad(apart, learner.shortcut.weight)
    assert torch.allclose(learner.shortcut.weight.grad, alone, atol=1e-6)
    risks = intervened(again, both.selected().logits, shortcut.detach())
    (risks.mean() + 3.0 * risks.var()).backward()
    for name, weight in again.sight.net.named_parameters():
        assert torch.allclose(found[name], weight.grad, atol=1e-6), name


# GIL


@settings(max_examples=25)
@given(st.integers(1, 12), st.integers(2, 5), st.integers(0, 99))
def test_gil_parts_a_batch_into_environments(count, envs, seed):
    rows = torch.rand(count, 2, generator=torch_stream(seed, "rows"))
    env = infer(rows, envs)
    assert env.shape == (count,)
    assert 0 <= int(env.min()) <= int(env.max()) < min(envs, count)
    assert torch.equal(env, infer(rows, envs))
    # Nobody is nearer to the mean of another environment.
    means = {int(which): rows[env == which].mean(dim=0) for which in torch.unique(env)}
    for row, which in zip(rows, env.tolist(), strict=True):
        own = (row - means[which]).norm()
        assert all(own <= (row - mean).norm() + 1e-4 for mean in means.values())


def test_gil_finds_groups_that_lie_apart():
    centers = torch.tensor([[0.0, 0.0], [9.0, 0.0], [0.0, 9.0]])
    which = torch.arange(30) % 3
    rows = centers[which] + torch.rand(30, 2, generator=torch_stream(0, "rows"))
    env = infer(rows, 3)
    assert all(len(torch.unique(env[which == group])) == 1 for group in range(3))
    assert len(torch.unique(env)) == 3


def test_gil_costs_nothing_where_gradients_agree():
    weight = torch.tensor([2.0, 1.0], requires_grad=True)
    one, two = weight @ torch.tensor([1.0, 0.0]), weight @ torch.tensor([3.0, 0.0])
    # Gradients 1 and 3 lie 1 from their mean.
    assert float(disagreement([one, two], [weight])) == pytest.approx(1.0)
    assert float(disagreement([one, one + 5], [weight])) == 0.0
    assert float(disagreement([one], [weight])) == 0.0


def test_gil_adds_the_disagreement_of_what_the_rest_of_graphs_tells_apart(graphs):
    told = told_of(graphs, shape())
    value = made(GIL(5.0, 3))(told)
    both = halves(told)
    losses = told.losses_of(both.selected().logits)
    env = infer(both.rest().features, 3)
    assert len(torch.unique(env)) > 1
    risks = [losses[env == which].mean() for which in torch.unique(env)]
    apart = disagreement(risks, both.sight.net.classify.parameters()).detach()
    assert float(apart) > 1e-6
    assert float(value.detach()) == pytest.approx(float(losses.mean().detach() + 5 * apart))


def test_norms_remember_selected_parts_alone(graphs):
    told = told_of(graphs, shape())
    before = {name: each.clone() for name, each in told.sight.net.named_buffers()}
    halves(told).rest()
    norms = {name: each for name, each in told.sight.net.named_buffers() if "backbone" in name}
    assert norms
    assert all(torch.equal(each, before[name]) for name, each in norms.items())
    halves(told).selected()
    assert not all(torch.equal(each, before[name]) for name, each in norms.items())


# CIGA


def test_the_contrast_of_ciga_is_lower_where_a_class_looks_alike():
    same = alike(torch.eye(2)[[0, 0, 1, 1]], "classification")
    aligned = torch.tensor([[1.0, 0.0], [2.0, 0.0], [0.0, 1.0], [0.0, 3.0]])
    crossed = aligned[[0, 2, 1, 3]]
    # Of three others one is alike at likeness 1, two at 0: -log(e / (e + 2)).
    assert float(contrast(aligned, same)) == pytest.approx(math.log(1 + 2 / math.e))
    assert float(contrast(crossed, same)) == pytest.approx(math.log(2 + math.e))


def test_graphs_with_nobody_alike_do_not_count_in_the_contrast():
    features = torch.randn(3, 4, generator=torch_stream(0, "rows"))
    assert float(contrast(features, torch.eye(3, dtype=torch.bool))) == 0.0


def test_graphs_of_several_tasks_are_alike_where_all_that_is_known_agrees():
    nan = float("nan")
    y = torch.tensor([[1.0, 0.0], [1.0, nan], [0.0, nan], [nan, 0.0], [nan, nan]])
    assert alike(y, "multilabel").int().tolist() == [
        [1, 1, 0, 1, 0],
        [1, 1, 0, 0, 0],
        [0, 0, 1, 0, 0],
        [1, 0, 0, 1, 0],
        [0, 0, 0, 0, 0],
    ]


def test_the_hinge_of_ciga_asks_only_of_a_rest_that_tells_less():
    rest, selected = torch.tensor([2.0, 0.5, 1.0]), torch.tensor([1.0, 1.0, 1.0])
    assert hinged(rest, selected).tolist() == [2.0, 0.0, 1.0]


def test_ciga_without_a_hinge_is_its_first_version(graphs):
    first = made(CIGA(2.0, 0.0, WIDTH, 3))
    assert not list(first.parameters())
    told = told_of(graphs, shape())
    seen = halves(told).selected()
    expected = told.losses_of(seen.logits).mean() + 2.0 * contrast(
        seen.features, alike(told.y, told.task)
    )
    assert float(first(told).detach()) == pytest.approx(float(expected.detach()), abs=1e-5)


def test_the_second_version_of_ciga_also_teaches_to_tell_from_the_rest(graphs):
    first, second = made(CIGA(2.0, 0.0, WIDTH, 3)), made(CIGA(2.0, 3.0, WIDTH, 3))
    told = told_of(graphs, shape())
    both = halves(told)
    selected = told.losses_of(both.selected().logits)
    rest = told.losses_of(second.shortcut(both.rest().features))
    costs = hinged(rest, selected).mean()
    gain = second(told) - first(told)
    assert float(gain.detach()) == pytest.approx(3 * float(costs.detach()), abs=1e-5)
    # What is left in the rest decides what is selected.
    gain.backward()
    assert sum(float(each.grad.abs().sum()) for each in told.sight.net.edges.parameters()) > 0


# LiSA


@given(st.lists(st.floats(-30, 30), min_size=1, max_size=20))
def test_what_generators_know_costs_never_less_than_nothing(odds):
    found = divergence(torch.tensor(odds, dtype=torch.double))
    assert bool((found >= -1e-12).all())
    assert bool((found <= math.log(2) + 1e-12).all())


def test_a_generator_that_knows_nothing_pays_nothing():
    assert float(divergence(torch.zeros(1))) == pytest.approx(0, abs=1e-7)
    # Of odds 3 : 1, log 2 less the entropy 0.562335.
    assert float(divergence(torch.tensor(3.0).log())) == pytest.approx(0.130812, abs=1e-5)


def test_generators_gain_by_being_different_and_the_classifier_by_being_equal():
    equal, apart = torch.tensor([1.0, 1.0, 1.0]), torch.tensor([1.0, 0.5, 1.5])
    assert float(diverse(equal, 2.0)) == pytest.approx(1.0, abs=1e-5)
    assert float(diverse(apart, 2.0)) < 1.0 - 0.05
    assert float(invariant(equal, 2.0)) == pytest.approx(1.0)
    assert float(invariant(apart, 2.0)) == pytest.approx(1.0 + 2.0 * 0.25)


def test_one_pass_back_teaches_classifier_and_generators_each_their_own():
    masks = [torch.tensor(value, requires_grad=True) for value in (0.4, 0.9)]
    weight = torch.tensor(1.3, requires_grad=True)

    def risks(weight, masks):
        return torch.stack([weight**2, *(weight * mask + mask**3 for mask in masks)])

    turns = [Turn(), Turn()]
    given = [mask * 1.0 for mask in masks]
    for mask, turn in zip(given, turns, strict=True):
        mask.register_hook(turn)
    taught(risks(weight, given), 5.0, turns).backward()
    (of_weight,) = torch.autograd.grad(
        invariant(risks(weight, [mask.detach() for mask in masks]), 5.0), weight
    )
    of_masks = torch.autograd.grad(diverse(risks(weight.detach(), masks), 5.0), masks)
    assert float(weight.grad) == pytest.approx(float(of_weight), rel=1e-5)
    for mask, expected in zip(masks, of_masks, strict=True):
        assert float(mask.grad) == pytest.approx(float(expected), rel=1e-4)


def test_generators_forget_and_the_classifier_does_not_notice(graphs):
    slopes, values = [], []
    for weight in (0.0, 4.0):
        told, learner = told_of(graphs, shape(None)), made(LiSA(0.1, weight, 2, WIDTH))
        value = learner(told)
        value.backward()
        values.append(float(value.detach()))
        slopes.append([each.grad.clone() for each in told.sight.net.parameters()])
    told = told_of(graphs, shape(None))
    states = told.sight.net.states(told.batch).detach()
    costs = [float(divergence(each(states)).mean().detach()) for each in learner.generators]
    assert values[1] - values[0] == pytest.approx(4 * np.mean(costs), rel=1e-3)
    assert all(torch.equal(one, other) for one, other in zip(*slopes, strict=True))


def test_a_slope_of_nothing_still_teaches_the_generators():
    # The classifier's slope in the second of losses 1, 0 and 0.5 is 1/3 + 2p(0 - 1/2)/2 = 0.
    risks = torch.tensor([1.0, 0.0, 0.5], requires_grad=True)
    turns = [Turn(), Turn()]
    taught(risks, 2 / 3, turns).backward()
    assert bool(torch.isfinite(risks.grad).all())
    assert all(math.isfinite(float(turn.factor)) for turn in turns)


def test_subgraphs_are_drawn_anew_by_name_and_lie_between_nothing_and_all(graphs):
    told = told_of(graphs, shape(None))
    odds = torch.zeros(1000)
    one, two = (lisa_subgraph.drawn(odds, told, number) for number in (0, 1))
    assert not torch.equal(one, two)
    assert torch.equal(one, lisa_subgraph.drawn(odds, told, 0))
    assert float(one.min()) > 0
    assert float(one.max()) < 1
    assert float(one.mean()) == pytest.approx(0.5, abs=0.05)


# All of them


@pytest.mark.parametrize("name", SUBGRAPHS)
def test_gradients_reach_what_selects_and_what_tells(graphs, name):
    told = told_of(graphs, shape(None if name == "lisa-subgraph" else 0.4))
    learner = learner_named(name)
    learner(told).backward()
    for module in (told.sight.net, learner):
        for where, weight in module.named_parameters():
            assert weight.grad is not None, where
            assert bool(torch.isfinite(weight.grad).all()), where
    net = told.sight.net
    scorers = learner.generators if name == "lisa-subgraph" else net.edges
    assert sum(float(weight.grad.abs().sum()) for weight in scorers.parameters()) > 0


@pytest.mark.parametrize("name", SUBGRAPHS)
def test_graphs_count_by_their_labels(graphs, name):
    form = shape(None if name == "lisa-subgraph" else 0.4)
    plain = learner_named(name)(told_of(graphs, form)).detach()
    even = learner_named(name)(told_of(graphs, form, torch.full((len(graphs),), 2.0))).detach()
    assert float(plain) == pytest.approx(float(even), rel=1e-4)


@pytest.mark.parametrize("learner", SUBGRAPHS)
def test_no_environments_are_needed_and_none_are_read(graphs, learner):
    assert not KINDS[learner].compares
    form = shape(None if learner == "lisa-subgraph" else 0.4)
    told = told_of(graphs, form)
    other = replace(told_of(graphs, form), env=torch.arange(len(graphs)))
    losses = [learner_named(learner)(each).detach() for each in (told, other)]
    assert torch.equal(*losses)
