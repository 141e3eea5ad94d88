"""EERM and SRGNN have the properties that define them."""

from dataclasses import replace
from functools import partial
from types import SimpleNamespace

import numpy as np
import pytest
import torch
from hypothesis import given
from hypothesis import strategies as st
from hypothesis.extra.numpy import arrays
from scipy.sparse import csr_matrix

from gsx.seeds import rng
from gsx.stages.graphs.graphsaint import Adjacency, gcn_matrix
from gsx.stages.nn.batches import BackboneShape, sparse_matrix
from gsx.stages.nn.gcn import GCN, SampledSubgraph, build_node_batch
from gsx.stages.nn.training_loop import torch_stream
from gsx.stages.train.algorithms.eerm import EERM, batch_loss, flip_edges
from gsx.stages.train.algorithms.flag import FLAG, perturbed_loss
from gsx.stages.train.algorithms.srgnn import SRGNN, central_moment_discrepancy
from gsx.stages.train.algorithms.training_step import ForwardPass, TrainingStep
from gsx.stages.train.instance_weights import instance_weights
from gsx.stages.train.kernel_mean_matching import (
    MAX_WEIGHT,
    MIN_WEIGHT,
    NUM_FEATURES,
    kernel_mean_matching,
    project_weights,
    random_fourier_features,
)
from gsx.stages.train.node_data import read_node_training_data
from gsx.stages.train.trainer import shared_parameters
from gsx.storage.corpora.corpus import Corpus
from tests.support.algorithms import CPU, create_algorithm, number
from tests.support.run_stages import run_recipe

NODES = 12


def make_step(seed=0):
    """Return a step with a ring of twelve nodes, six of them labelled, and an untrained network."""
    node = np.arange(NODES)
    ends = np.concatenate([node, node]), np.concatenate([(node + 1) % NODES, (node - 1) % NODES])
    edges = csr_matrix((np.ones(2 * NODES), ends), shape=(NODES, NODES))
    edges.sort_indices()
    features = torch.from_numpy(rng(seed, "tests").standard_normal((NODES, 4)).astype(np.float32))
    shape = BackboneShape(backbone="gcn", features=4, width=6, layers=2, outputs=2)
    weights, dropout = torch_stream(seed, "tests"), torch.Generator()
    network = GCN.with_random_weights(shape, 0.0, weights, dropout).train()
    batch = build_node_batch(
        features,
        gcn_matrix(Adjacency(edges.indptr, edges.indices), edges.data),
        torch.arange(0, NODES, 2),
        CPU,
        SampledSubgraph(node + 5, edges, np.linspace(1, 2, NODES, dtype=np.float32)),
    )
    return TrainingStep(
        model=ForwardPass(network, CPU),
        batch=batch,
        rows=torch.arange(6),
        env=torch.zeros(6, dtype=torch.int64),
        y=torch.eye(2)[torch.tensor([0, 1, 0, 1, 0, 1])],
        task="classification",
        stream=partial(rng, 7, "step"),
        weights=torch.ones(6),
    )


def create_eerm(**options):
    """Return EERM for a graph of 20 nodes."""
    adjacency = SimpleNamespace(num_nodes=20)
    nodes = SimpleNamespace(graphs=SimpleNamespace(adjacency=adjacency))
    defaults = {"penalty": 2.0, "context_edits": 2, "context_rate": 0.05}
    return create_algorithm(EERM, nodes=nodes, **{**defaults, **options})


def create_srgnn(monkeypatch, penalty, weights):
    """Return SRGNN with given instance weights."""
    monkeypatch.setattr(
        "gsx.stages.train.instance_weights.instance_weights", lambda nodes, seed: weights
    )
    return create_algorithm(SRGNN, penalty=penalty, nodes=SimpleNamespace())


def test_eerm_is_the_mean_plus_the_variance_of_losses():
    step, eerm = make_step(), create_eerm(context_steps=0)
    batches = [batch for batch, _ in eerm.edited_batches(step, step.stream("eerm"))]
    losses = [number(batch_loss(step, batch)) for batch in batches]
    assert len(set(losses)) == 3
    expected = np.mean(losses) + 2 * np.var(losses, ddof=1)
    assert number(eerm(step)) == pytest.approx(expected, abs=1e-6)


def test_eerm_generators_learn_to_increase_the_variance_of_losses():
    step, eerm = make_step(), create_eerm(contexts=2, context_edits=1, context_rate=0.1)
    step.model.network.eval()

    def mean_variance(seed):
        stream = rng(seed, "tests", "spread")
        with torch.no_grad():
            draws = (eerm.edited_batches(step, stream) for _ in range(30))
            losses = [[number(batch_loss(step, batch)) for batch, _ in draw] for draw in draws]
        return np.mean([np.var(row) for row in losses])

    before = mean_variance(1)
    for update in range(80):
        eerm.update_generators(step, rng(update, "tests", "ascend"))
    assert mean_variance(1) > 1.5 * before


def test_optimizer_of_the_network_does_not_update_generators():
    eerm = create_eerm()
    assert list(shared_parameters(eerm)) == []
    left = eerm.generators["left"].weight
    before = left.detach().clone()
    step = make_step()
    eerm.baseline.fill_(1.0)  # a reward equal to the baseline would not change the generators
    eerm(step).backward()
    changed = (left.detach() - before).abs().sum(dim=1) > 0
    assert changed.nonzero().ravel().tolist() == list(range(5, 17))


def test_eerm_returns_the_log_probability_of_the_drawn_edits():
    step, eerm = make_step(), create_eerm(contexts=1, context_edits=1)
    ((batch, log_prob),) = eerm.edited_batches(step, step.stream("eerm"))
    assert log_prob.item() == pytest.approx(NODES * np.log(1 / NODES), rel=0.3)
    assert (batch.adjacency.matrix.to_dense() != step.batch.adjacency.matrix.to_dense()).any()


def test_eerm_edits_of_a_large_sample_end_at_candidates(monkeypatch):
    monkeypatch.setattr("gsx.stages.train.algorithms.eerm.CANDIDATES", 1)
    step, eerm = make_step(), create_eerm(contexts=2, context_edits=1)
    original = step.batch.adjacency.matrix.to_dense() != 0
    for batch, log_prob in eerm.edited_batches(step, step.stream("eerm")):
        changed = (batch.adjacency.matrix.to_dense() != 0) != original
        # With one candidate, all edits connect it to the eleven other nodes.
        assert changed.sum(dim=1).sort().values.tolist() == [1] * 11 + [11]
        assert log_prob.item() == 0


def test_noise_is_added_to_dense_and_sparse_features():
    step = make_step()
    network, batch = step.model.network.eval(), step.batch
    noise = torch.randn(NODES, 4, generator=torch_stream(1, "tests"))
    with torch.no_grad():
        expected = network(replace(batch, features=batch.features + noise))[1]
        sparse = sparse_matrix(csr_matrix(batch.features.numpy()), CPU)
        for features in (batch.features, sparse):
            logits = network(replace(batch, features=features, noise=noise))[1]
            assert torch.allclose(logits, expected, atol=1e-5)


def test_flag_ascent_raises_the_loss_of_nodes():
    step, flag = make_step(), create_algorithm(FLAG, ascent_step=1e-2, ascents=3)
    start = flag.initial_noise(step)
    noise, _ = flag.ascend(step, start)
    assert number(perturbed_loss(step, noise)) > number(perturbed_loss(step, start))


def test_instance_weights_are_ordered_by_variant(tmp_path):
    corpus = run_recipe(tmp_path, '[prepare]\ndataset = "cbas-color"\n')["prepare"]
    data = read_node_training_data(Corpus(corpus), None, "srgnn")
    (variant,) = data.variants
    other = replace(variant, features=variant.features[::-1].copy())
    alone = instance_weights(data, 0).numpy()
    both = instance_weights(replace(data, variants=(variant, other)), 0).numpy()
    size = len(variant.train)
    assert np.array_equal(both[:size], alone)
    assert not np.array_equal(both[size:], alone)
    label = data.graphs.y[variant.train].argmax(axis=1)
    for weights in (both[:size], both[size:]):
        assert MIN_WEIGHT <= weights.min() < 1 < weights.max() <= MAX_WEIGHT
        means = [weights[label == which].mean() for which in np.unique(label)]
        assert means == pytest.approx([1] * 4, abs=1e-5)


pairs = st.lists(st.tuples(st.integers(0, 5), st.integers(0, 5)), max_size=12)


@given(pairs, pairs)
def test_flipped_edges_are_inserted_or_deleted_in_both_directions(edges, flips):
    dense = np.zeros((6, 6))
    for left, right in edges:
        dense[left, right] = dense[right, left] = 0.5
    flip = np.zeros((6, 6), dtype=bool)
    for left, right in flips:
        flip[left, right] = flip[right, left] = left != right
    expected = np.where(flip, dense == 0, dense)
    left, right = np.array(flips, dtype=np.int64).reshape(-1, 2).T
    flipped = flip_edges(csr_matrix(dense), left, right)
    assert flipped.has_sorted_indices
    assert (flipped.data != 0).all()
    assert np.array_equal(flipped.toarray(), expected)


def test_discrepancy_of_equal_samples_is_zero_with_finite_gradient():
    rows = torch.randn(9, 4, generator=torch_stream(0, "tests")).requires_grad_()
    weight = torch.linspace(1, 2, 9)
    discrepancy = central_moment_discrepancy(rows, rows, weight, weight)
    assert number(discrepancy) == 0
    discrepancy.backward()
    assert torch.isfinite(rows.grad).all()
    repeated = central_moment_discrepancy(
        rows, torch.cat([rows, rows]), weight, torch.cat([weight, weight])
    )
    assert number(repeated) == pytest.approx(0, abs=1e-5)


def test_discrepancy_compares_five_moments():
    # Means 0 and 1; second moments 1 and 2, third 0 and 2, fourth 1 and 6, fifth 0 and 10.
    left, right = torch.tensor([[-1.0], [1.0]]), torch.tensor([[0.0], [0.0], [3.0]])
    discrepancy = central_moment_discrepancy(left, right, torch.ones(2), torch.ones(3))
    assert number(discrepancy) == pytest.approx(1 + 1 + 2 + 5 + 10)


def test_srgnn_weights_training_nodes_and_adds_the_discrepancy(monkeypatch):
    step = make_step()
    weights = torch.linspace(0.5, 2, 6)
    losses = step.losses_of(step.model(step.batch).logits)
    plain = number(create_srgnn(monkeypatch, 0.0, weights)(step))
    assert plain == pytest.approx(number(losses @ weights / weights.sum()), abs=1e-6)
    assert number(create_srgnn(monkeypatch, 1.0, weights)(step)) > plain


weight_arrays = arrays(np.float64, st.integers(1, 20), elements=st.floats(-50, 50))


@given(weight_arrays, st.integers(1, 3))
def test_projected_weights_are_in_bounds_with_mean_one_per_group(weights, groups):
    group = np.unique(np.arange(len(weights)) % groups, return_inverse=True)[1]
    projected = project_weights(weights, group)
    assert (projected >= MIN_WEIGHT).all()
    assert (projected <= MAX_WEIGHT).all()
    for which in np.unique(group):
        assert projected[group == which].mean() == pytest.approx(1, abs=1e-6)


def test_kernel_mean_matching_corrects_a_biased_sample():
    stream = rng(0, "tests", "matching")
    value = stream.standard_normal(400)
    projections = value[:, None] * stream.standard_normal(NUM_FEATURES)
    rows = random_fourier_features(projections, stream)
    chosen = np.flatnonzero(stream.random(400) < 1 / (1 + np.exp(-2 * value)))
    group = np.zeros(len(chosen), dtype=np.int64)
    weights = kernel_mean_matching(rows[chosen], rows.mean(axis=0), group)
    unweighted_error, weighted_error = (
        np.abs(np.average(value[chosen], weights=candidate) - value.mean())
        for candidate in (np.ones(len(chosen)), weights)
    )
    assert weighted_error < unweighted_error / 2
    # Underrepresented rows have larger weights.
    low = value[chosen] < -0.5
    assert weights[low].mean() > 1.5 * weights[~low].mean()
