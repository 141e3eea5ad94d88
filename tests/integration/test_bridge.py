"""The bridge stage and its model on small Motif corpora."""

import json
from dataclasses import replace

import msgspec
import numpy as np
import pytest
import torch
from safetensors.torch import load

from gsx.errors import ArtifactError, StageError, UsageError
from gsx.seeds import rng
from gsx.stages.bridge.cut_dataset import cross_pairs, cut_graphs, remove_middle_nodes
from gsx.stages.bridge.stage import BridgeConfig, frequent_rows, resolve
from gsx.stages.graphs.subgraphs import global_edges
from gsx.stages.graphs.weighted_sampling import sample_without_replacement
from gsx.stages.nn.bridge_diffusion import (
    DIFFUSION_STEPS,
    add_noise,
    keep_probability,
    reverse_step_probability,
)
from gsx.stages.nn.bridge_features import fit_bridge_encoding
from gsx.stages.nn.bridge_model import BridgeModel, BridgeShape
from gsx.stages.nn.bridge_sampling import Attachments, BridgeSampler, EncodedNodes
from tests.conftest import motif_split
from tests.support.run_stages import corpus_without_edges, run_recipe, run_stage

PREPARE = '[prepare]\ndataset = "motif-base"\nnum_graphs = 1500\n'


@pytest.fixture(scope="module")
def artifact(tmp_path_factory):
    recipe = PREPARE + "[bridge]\nepochs = 6\n"
    return run_recipe(tmp_path_factory.mktemp("bridge"), recipe)["bridge"]


@pytest.fixture(scope="module")
def quality(artifact):
    return artifact.manifest.summary["quality"]


@pytest.fixture(scope="module")
def model(artifact):
    return load_model(artifact)


def load_model(artifact):
    shape = msgspec.json.decode(
        artifact.location.read_bytes("model.json", limit=1 << 20), type=BridgeShape
    )
    weights = load(artifact.location.read_bytes("weights.safetensors", limit=1 << 30))
    return BridgeModel.load(shape, weights, torch.device("cpu"))


def test_bridges_score_above_random_pairs_and_pairs_of_the_same_degrees(quality):
    assert quality["edge_auc"] > 0.83
    assert quality["edge_auc_same_degrees"] > 0.6


def test_predicted_counts_are_better_than_base_rates(quality):
    count = quality["count"]
    assert count["log_likelihood"] > count["log_likelihood_of_rates"] + 0.1


def test_training_loss_decreases(artifact):
    history = json.loads(artifact.location.read_bytes("history.json", limit=1 << 20))
    assert len(history) == 6
    assert history[-1]["bridge"] < 0.8 * history[0]["bridge"]


def test_same_recipe_gives_identical_bytes(artifact, tmp_path):
    again = run_recipe(tmp_path, PREPARE + "[bridge]\nepochs = 6\n")
    assert again["bridge"].manifest.digest == artifact.manifest.digest


def test_pair_logits_do_not_depend_on_the_order_of_the_components(model):
    latent = torch.from_numpy(rng(0, "z").standard_normal((6, 16)).astype(np.float32))
    factors = model.decoder.node_factors(latent)
    left, right = torch.tensor([0, 1, 2]), torch.tensor([3, 4, 5])
    with torch.no_grad():
        assert torch.allclose(
            model.decoder.pair_logits(factors, left, right),
            model.decoder.pair_logits(factors, right, left),
        )


def test_grid_logits_equal_pair_logits(model):
    latent = torch.from_numpy(rng(0, "z").standard_normal((5, 16)).astype(np.float32))
    factors = model.decoder.node_factors(latent)
    with torch.no_grad():
        grid = model.decoder.grid_logits(factors, torch.tensor([[0, 1]]), torch.tensor([[2, 3, 4]]))
        pairs = model.decoder.pair_logits(
            factors, torch.tensor([0, 0, 0, 1, 1, 1]), torch.tensor([2, 3, 4, 2, 3, 4])
        )
    assert torch.allclose(grid.flatten(), pairs, atol=1e-5)


def encoded_attachments(model, graphs=40):
    """Return graphs, their encoding, and attachments of the first half to the second half."""
    table = motif_split("train", 0, graphs)
    encoded = model.encode(table)
    half = graphs // 2
    slots = np.arange(half)
    attachments = Attachments(
        left_start=table.node_ptr[:half],
        left_count=table.num_nodes[:half],
        right_start=table.node_ptr[half:-1],
        right_count=table.num_nodes[half:],
        left_slot=slots,
        right_slot=half + slots,
    )
    return table, EncodedNodes(encoded.mean, encoded.std, encoded.count_features), attachments


def sample_bridges(model, nodes, attachments, *, free=None, pairs="learned", counts="expected"):
    stream = rng(0, "d")
    sampler = BridgeSampler.from_encoded(model, nodes, stream, pairs=pairs, counts=counts)
    return sampler.sample(attachments, stream, free)


@pytest.mark.parametrize("pairs", ["learned", "random"])
@pytest.mark.parametrize("counts", ["expected", "sampled"])
def test_every_attachment_gets_distinct_bridges_between_its_components(model, pairs, counts):
    table, nodes, attachments = encoded_attachments(model)
    bridges = sample_bridges(model, nodes, attachments, pairs=pairs, counts=counts)
    assert set(bridges.attachment.tolist()) == set(range(20))
    assert (np.diff(bridges.attachment) >= 0).all()
    owner = np.repeat(np.arange(len(table)), table.num_nodes)
    assert owner[bridges.left].tolist() == bridges.attachment.tolist()
    assert owner[bridges.right].tolist() == (20 + bridges.attachment).tolist()
    endpoints = np.column_stack([bridges.left, bridges.right])
    assert len(np.unique(endpoints, axis=0)) == len(endpoints)


def test_only_free_nodes_get_bridges(model):
    table, nodes, attachments = encoded_attachments(model)
    free = np.zeros(table.total_nodes, dtype=bool)
    free[table.node_ptr[:-1]] = True
    free[table.node_ptr[3]] = False
    bridges = sample_bridges(model, nodes, attachments, free=free)
    assert bridges.attachment.tolist() == [row for row in range(20) if row != 3]
    assert np.isin(bridges.left, table.node_ptr).all()


def test_single_bridges_equal_those_sampled_from_all_masked_pairs(model, monkeypatch):
    shape = msgspec.structs.replace(model.shape, largest_count=1)
    single = replace(model, shape=shape)
    table, nodes, attachments = encoded_attachments(model)
    free = rng(0, "free").random(table.total_nodes) < 0.4
    free[table.node_ptr[2] : table.node_ptr[3]] = False
    bridges = sample_bridges(single, nodes, attachments, free=free)
    assert bridges.attachment.tolist() == [row for row in range(20) if row != 2]

    def sample_from_all_pairs(run, free, stream):
        ptr = run.attachments.ptr
        owner = np.repeat(np.arange(len(run.attachments)), np.diff(ptr))
        left, right = run.attachments.node_pairs(np.arange(ptr[-1]), owner)
        odds = np.exp(np.clip(run.logits(), -30, 30)) * (free[left] & free[right])
        one = np.ones(len(ptr) - 1, np.int64)
        attachment, pair = sample_without_replacement(odds, ptr, one, stream)
        return attachment, *run.attachments.node_pairs(pair, attachment)

    monkeypatch.setattr(
        "gsx.stages.nn.bridge_sampling._sample_single_bridges", sample_from_all_pairs
    )
    expected = sample_bridges(single, nodes, attachments, free=free)
    assert bridges.left.tolist() == expected.left.tolist()
    assert bridges.right.tolist() == expected.right.tolist()


def test_bridges_do_not_depend_on_the_block_size(model, monkeypatch):
    _, nodes, attachments = encoded_attachments(model)
    bridges = sample_bridges(model, nodes, attachments)
    monkeypatch.setattr("gsx.stages.nn.bridge_sampling.BLOCK_PAIRS", 50)
    small_blocks = sample_bridges(model, nodes, attachments)
    assert bridges.left.tolist() == small_blocks.left.tolist()


def test_diffusion_model_with_bridge_nodes_trains_and_samples(tmp_path):
    recipe = PREPARE + '[bridge]\nepochs = 2\nmodel = "diffusion"\nbridge_nodes = true\n'
    artifact = run_recipe(tmp_path, recipe)["bridge"]
    model = load_model(artifact)
    quality = artifact.manifest.summary["quality"]
    assert quality["edge_auc"] > 0.7
    assert quality["bridge_node"] == {"accuracy": 1.0, "most_frequent": 1.0}
    _, nodes, attachments = encoded_attachments(model)
    bridges = sample_bridges(model, nodes, attachments)
    assert set(bridges.attachment.tolist()) == set(range(20))


def test_noise_increases_from_none_to_full():
    assert float(keep_probability(torch.tensor(0.0))) == 1
    last = keep_probability(torch.tensor(float(DIFFUSION_STEPS)))
    assert float(last) == pytest.approx(0, abs=1e-12)
    bits = torch.tensor([1.0, 0.0]).repeat(20_000)
    level, rate = torch.full((40_000,), 0.5), torch.full((40_000,), 0.2)
    noisy = add_noise(bits, rate, level, torch.Generator().manual_seed(0))
    assert float(noisy[::2].mean()) == pytest.approx(0.6, abs=0.02)
    assert float(noisy[1::2].mean()) == pytest.approx(0.1, abs=0.02)


def test_reverse_step_probability_equals_frequencies_of_the_forward_process():
    step, rate = 5, 0.3
    stream = np.random.default_rng(0)
    size = 400_000
    keep_before = float(keep_probability(torch.tensor(float(step - 1))))
    keep_now = float(keep_probability(torch.tensor(float(step))))
    clean = stream.random(size) < 0.4
    previous = np.where(stream.random(size) < keep_before, clean, stream.random(size) < rate)
    is_kept = stream.random(size) < keep_now / keep_before
    current = np.where(is_kept, previous, stream.random(size) < rate)
    # Given the clean bit, the reverse step does not depend on the probability of that bit.
    for value in (0, 1):
        probability = reverse_step_probability(
            torch.tensor([1.0, 0.0]),
            torch.full((2,), float(value)),
            torch.full((2,), rate),
            step,
        )
        for column, bit in enumerate((True, False)):
            chosen = (clean == bool(value)) & (current == bit)
            assert float(probability[column]) == pytest.approx(previous[chosen].mean(), abs=0.01)


def test_pairs_of_a_large_cut_are_sampled_and_weighted(monkeypatch):
    table = motif_split("train", 0, 60).select(["node_feat"])
    cuts = cut_graphs(table, fit_bridge_encoding(table), rng(0, "cut"), levels=1)
    all_pairs = cross_pairs(cuts, rng(0, "p"))
    monkeypatch.setattr("gsx.stages.bridge.cut_dataset.PAIRS_PER_CUT", 10)
    sampled = cross_pairs(cuts, rng(0, "p"))
    assert len(sampled.left) < len(all_pairs.left)
    assert sampled.bridged.sum() == all_pairs.bridged.sum()
    sizes = cuts.left.num_nodes * cuts.right.num_nodes
    for pairs in (all_pairs, sampled):
        assert np.bincount(pairs.cut, pairs.weight) == pytest.approx(sizes)


def test_cut_graphs_have_the_removed_edges_as_bridges():
    table = motif_split("train", 0, 50).select(["node_feat"])
    cuts = cut_graphs(table, fit_bridge_encoding(table), rng(0, "cut"), levels=1)
    remaining = cuts.left.num_edges + cuts.right.num_edges
    num_bridges = np.diff(cuts.bridge_left.ptr)
    assert (remaining + 2 * num_bridges).tolist() == table.num_edges.tolist()
    assert (cuts.bridge_left.values < np.repeat(cuts.left.num_nodes, num_bridges)).all()


def test_removed_middle_node_has_two_distinct_neighbors():
    table = motif_split("train", 0, 50).select(["node_feat"])
    removed = remove_middle_nodes(table, fit_bridge_encoding(table), rng(0, "w"))
    assert (removed.graphs.num_nodes == table.num_nodes - 1).all()
    assert (removed.left != removed.right).all()
    assert (np.maximum(removed.left, removed.right) < removed.graphs.num_nodes).all()
    assert len(global_edges(removed.graphs)[0]) < table.total_edges


def test_frequent_rows_are_sorted_by_frequency():
    rows = np.array([[1, 2], [3, 4], [3, 4], [3, 4]], dtype=np.int8)
    assert frequent_rows(rows) == (((3.0, 4.0), (1.0, 2.0)), (0.75, 0.25))
    assert frequent_rows(np.zeros((4, 0))) == ((), ())


def test_weights_of_another_architecture_are_rejected(model):
    shape = msgspec.structs.replace(model.shape, width=8)
    weights = {name: torch.from_numpy(value) for name, value in model.weights().items()}
    with pytest.raises(ArtifactError, match="weights of the encoder do not match"):
        BridgeModel.load(shape, weights, torch.device("cpu"))


@pytest.mark.parametrize(
    ("options", "message"),
    [
        ({"epochs": 0}, "epochs must be at least 1; got 0"),
        ({"kl_weight": -1.0}, "kl_weight must not be negative; got -1.0"),
        ({"learning_rate": 0.0}, "learning_rate must be positive; got 0.0"),
        ({"kl_weight": float("nan")}, "kl_weight must not be negative; got nan"),
    ],
)
def test_options_out_of_range_are_rejected(options, message):
    with pytest.raises(UsageError, match=message):
        resolve(BridgeConfig(**options))


def test_corpus_without_edges_is_rejected(tmp_path):
    corpus = corpus_without_edges(tmp_path)
    with pytest.raises(StageError, match="nothing to learn bridges"):
        run_stage(tmp_path, "bridge", {}, {"prepare": corpus})
