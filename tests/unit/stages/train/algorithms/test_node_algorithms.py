"""EERM and SRGNN have the properties that define them."""

from dataclasses import replace
from functools import partial

import numpy as np
import pytest
import torch
from hypothesis import given
from hypothesis import strategies as st
from hypothesis.extra.numpy import arrays
from scipy.sparse import csr_matrix

from gsx.seeds import rng
from gsx.stages.graphs.graphsaint import Links, convolution
from gsx.stages.nn.backbones import BackboneShape, pair_of
from gsx.stages.nn.gcn import GCN, Sample, node_batch
from gsx.stages.nn.gin import initialize
from gsx.stages.nn.training_loop import torch_stream
from gsx.stages.train.algorithms.edge_flips import flipped
from gsx.stages.train.algorithms.eerm import EERM, risk
from gsx.stages.train.algorithms.flag import FLAG
from gsx.stages.train.algorithms.flag import risk as noisy_risk
from gsx.stages.train.algorithms.srgnn import SRGNN, discrepancy
from gsx.stages.train.algorithms.training_step import Sight, Told
from gsx.stages.train.instance_weights import resemblance
from gsx.stages.train.kernel_mean_matching import LEAST, MOST, WAVES, match, project, waves
from gsx.stages.train.node_data import read_lesson
from gsx.stages.train.trainer import shared
from gsx.storage.corpora.corpus import Corpus
from tests.support.run_stages import run_recipe

CPU = torch.device("cpu")
NODES = 12


def told_of(seed=0):
    """Return a ring of twelve nodes, six of them told, and an untrained network."""
    here = np.arange(NODES)
    ends = np.concatenate([here, here]), np.concatenate([(here + 1) % NODES, (here - 1) % NODES])
    edges = csr_matrix((np.ones(2 * NODES), ends), shape=(NODES, NODES))
    edges.sort_indices()
    features = torch.from_numpy(rng(seed, "tests").standard_normal((NODES, 4)).astype(np.float32))
    shape = BackboneShape(backbone="gcn", features=4, width=6, layers=2, outputs=2)
    net = GCN.fresh(shape, 0.0, torch_stream(seed, "tests"), torch.Generator()).train()
    batch = node_batch(
        features,
        convolution(Links(edges.indptr, edges.indices), edges.data),
        torch.arange(0, NODES, 2),
        CPU,
        Sample(here + 5, edges, np.linspace(1, 2, NODES, dtype=np.float32)),
    )
    return Told(
        sight=Sight(net, CPU),
        batch=batch,
        rows=torch.arange(6),
        env=torch.zeros(6, dtype=torch.int64),
        y=torch.eye(2)[torch.tensor([0, 1, 0, 1, 0, 1])],
        task="classification",
        stream=partial(rng, 7, "step"),
        labels=torch.ones(6),
    )


def eerm(penalty=2.0, **options):
    given = {"nodes": 20, "contexts": 3, "edits": 2, "steps": 1, "rate": 0.05, **options}
    return initialize(EERM(penalty, **given), torch_stream(0, "learner"))


def number(value):
    return value.detach().item()


def test_eerm_is_the_mean_of_losses_and_their_variance():
    batch, learner = told_of(), eerm(steps=0)
    views = [view for view, _ in learner.views(batch, batch.stream("eerm"))]
    risks = [number(risk(batch, view)) for view in views]
    assert len(set(risks)) == 3
    wanted = np.mean(risks) + 2 * np.var(risks, ddof=1)
    assert number(learner(batch)) == pytest.approx(wanted, abs=1e-6)


def test_generators_learn_to_make_losses_differ():
    batch, learner = told_of(), eerm(contexts=2, edits=1, rate=0.1)
    batch.sight.net.eval()

    def spread(seed):
        stream = rng(seed, "tests", "spread")
        with torch.no_grad():
            drawn = (learner.views(batch, stream) for _ in range(30))
            return np.mean([np.var([number(risk(batch, v)) for v, _ in one]) for one in drawn])

    before = spread(1)
    for step in range(80):
        learner.ascend(batch, rng(step, "tests", "ascend"))
    assert spread(1) > 1.5 * before


def test_the_optimizer_of_the_network_leaves_generators_alone():
    learner = eerm()
    assert list(shared(learner, learner.descent)) == []
    before = learner.generators.ends.weight.detach().clone()
    batch = told_of()
    learner.usual.fill_(1.0)  # a reward that is the usual one would move nothing
    learner(batch).backward()
    moved = (learner.generators.ends.weight.detach() - before).abs().sum(dim=1) > 0
    assert moved.nonzero().ravel().tolist() == list(range(5, 17))


def test_a_chance_is_that_of_the_edits_drawn():
    batch, learner = told_of(), eerm(contexts=1, edits=1)
    ((view, chance),) = learner.views(batch, batch.stream("eerm"))
    assert chance.item() == pytest.approx(NODES * np.log(1 / NODES), rel=0.3)
    assert (view.links.matrix.to_dense() != batch.batch.links.matrix.to_dense()).any()


def test_edges_of_a_large_sample_lead_to_candidates(monkeypatch):
    monkeypatch.setattr("gsx.stages.train.algorithms.eerm.CANDIDATES", 1)
    batch, learner = told_of(), eerm(contexts=2, edits=1)
    plain = batch.batch.links.matrix.to_dense() != 0
    for view, chance in learner.views(batch, batch.stream("eerm")):
        changed = (view.links.matrix.to_dense() != 0) != plain
        # All edits are between one node and the eleven others, and none has a choice.
        assert changed.sum(dim=1).sort().values.tolist() == [1] * 11 + [11]
        assert chance.item() == 0


def test_noise_is_added_to_features_dense_or_sparse():
    batch = told_of()
    net, plain = batch.sight.net.eval(), batch.batch
    noise = torch.randn(NODES, 4, generator=torch_stream(1, "tests"))
    with torch.no_grad():
        wanted = net(replace(plain, features=plain.features + noise))[1]
        sparse = pair_of(csr_matrix(plain.features.numpy()), CPU)
        for features in (plain.features, sparse):
            found = net(replace(plain, features=features, noise=noise))[1]
            assert torch.allclose(found, wanted, atol=1e-5)


def test_flag_raises_the_loss_of_nodes():
    batch, learner = told_of(), FLAG(1e-2, 3)
    start = learner.start(batch)
    moved, _ = learner.ascend(batch, start)
    assert number(noisy_risk(batch, moved)) > number(noisy_risk(batch, start))


def test_weights_of_training_nodes_go_sheet_after_sheet(tmp_path):
    corpus = run_recipe(tmp_path, '[prepare]\ndataset = "cbas-color"\n')["prepare"]
    lesson = read_lesson(Corpus(corpus), None, "srgnn")
    (sheet,) = lesson.sheets
    other = replace(sheet, features=sheet.features[::-1].copy())
    alone = resemblance(lesson, 0).numpy()
    both = resemblance(replace(lesson, sheets=(sheet, other)), 0).numpy()
    size = len(sheet.train)
    assert np.array_equal(both[:size], alone)
    assert not np.array_equal(both[size:], alone)
    label = lesson.graphs.y[sheet.train].argmax(axis=1)
    for weights in (both[:size], both[size:]):
        assert LEAST <= weights.min() < 1 < weights.max() <= MOST
        means = [weights[label == which].mean() for which in np.unique(label)]
        assert means == pytest.approx([1] * 4, abs=1e-5)


pairs = st.lists(st.tuples(st.integers(0, 5), st.integers(0, 5)), max_size=12)


@given(pairs, pairs)
def test_flips_put_in_and_take_out_in_both_directions(edges, flips):
    dense, wanted = np.zeros((6, 6)), np.zeros((6, 6))
    for left, right in edges:
        dense[left, right] = dense[right, left] = 0.5
    flip = np.zeros((6, 6), dtype=bool)
    for left, right in flips:
        flip[left, right] = flip[right, left] = left != right
    wanted = np.where(flip, dense == 0, dense)
    left, right = np.array(flips, dtype=np.int64).reshape(-1, 2).T
    found = flipped(csr_matrix(dense), left, right)
    assert found.has_sorted_indices
    assert (found.data != 0).all()
    assert np.array_equal(found.toarray(), wanted)


def test_the_discrepancy_of_equal_samples_is_nothing_and_has_a_slope():
    rows = torch.randn(9, 4, generator=torch_stream(0, "tests")).requires_grad_()
    share = torch.linspace(1, 2, 9)
    found = discrepancy(rows, rows, share, share)
    assert number(found) == 0
    found.backward()
    assert torch.isfinite(rows.grad).all()
    twice = discrepancy(rows, torch.cat([rows, rows]), share, torch.cat([share, share]))
    assert number(twice) == pytest.approx(0, abs=1e-5)


def test_the_discrepancy_compares_five_moments():
    # Means 0 and 1; second moments 1 and 2, third 0 and 2, fourth 1 and 6, fifth 0 and 10.
    left, right = torch.tensor([[-1.0], [1.0]]), torch.tensor([[0.0], [0.0], [3.0]])
    assert number(discrepancy(left, right, torch.ones(2), torch.ones(3))) == pytest.approx(
        1 + 1 + 2 + 5 + 10
    )


def test_srgnn_weighs_training_nodes_and_adds_the_discrepancy():
    batch = told_of()
    weights = torch.linspace(0.5, 2, 6)
    seen = batch.sight.look(batch.batch)
    losses = batch.losses_of(seen.logits)
    plain = number(SRGNN(0.0, weights)(batch))
    assert plain == pytest.approx(number(losses @ weights / weights.sum()), abs=1e-6)
    assert number(SRGNN(1.0, weights)(batch)) > plain


weighings = arrays(np.float64, st.integers(1, 20), elements=st.floats(-50, 50))


@given(weighings, st.integers(1, 3))
def test_projected_weights_keep_bounds_and_the_mean_of_every_group(weights, groups):
    group = np.unique(np.arange(len(weights)) % groups, return_inverse=True)[1]
    found = project(weights, group)
    assert (found >= LEAST).all()
    assert (found <= MOST).all()
    for which in np.unique(group):
        assert found[group == which].mean() == pytest.approx(1, abs=1e-6)


def test_weights_make_a_biased_sample_resemble_all_rows():
    stream = rng(0, "tests", "matching")
    where = stream.standard_normal(400)
    phases = where[:, None] * stream.standard_normal(WAVES)
    rows = waves(phases, stream)
    chosen = np.flatnonzero(stream.random(400) < 1 / (1 + np.exp(-2 * where)))
    group = np.zeros(len(chosen), dtype=np.int64)
    weights = match(rows[chosen], rows.mean(axis=0), group)
    plain, better = (
        np.abs(np.average(where[chosen], weights=each) - where.mean())
        for each in (np.ones(len(chosen)), weights)
    )
    assert better < plain / 2
    # Rows the sample has too few of count more.
    low = where[chosen] < -0.5
    assert weights[low].mean() > 1.5 * weights[~low].mean()
