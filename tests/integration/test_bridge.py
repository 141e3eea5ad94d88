"""The bridge stage and its model on small Motif corpora."""

import json

import msgspec
import numpy as np
import pytest
import torch
from safetensors.numpy import load

from gsx.errors import ArtifactError, StageError, UsageError
from gsx.ragged import row_indices
from gsx.seeds import rng
from gsx.stages.bridge.cut_dataset import cross_pairs, cut_graphs, remove_middle_nodes
from gsx.stages.bridge.stage import BridgeConfig, resolve
from gsx.stages.generate.splice.random_bridges import RandomBridges
from gsx.stages.graphs.cut_frequencies import cut_frequencies, frequent_rows
from gsx.stages.graphs.subgraphs import global_edges
from gsx.stages.nn.bridge_diffusion import (
    DIFFUSION_STEPS,
    add_noise,
    keep_probability,
    reverse_step_probability,
)
from gsx.stages.nn.bridge_features import fit_bridge_encoding
from gsx.stages.nn.bridge_model import BridgeModel, BridgeShape
from gsx.stages.nn.bridge_sampling import (
    Attachments,
    BridgeSampler,
    DrawnLatents,
    PooledComponents,
    pair_odds,
)
from gsx.stages.nn.pair_sampling import NodeRuns, draw_pairs
from gsx.stages.prepare.synthetic import motif
from tests.conftest import motif_split
from tests.support.graph_tables import table_from_edges
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
    return BridgeModel.load(shape, weights, torch.device("cpu"), "here")


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


def test_training_stops_early_and_keeps_the_weights_of_the_best_epoch(tmp_path):
    options = "[bridge]\nepochs = 40\npatience = 2\nepoch_graphs = 300\n"
    artifact = run_recipe(tmp_path, PREPARE + options)["bridge"]
    history = json.loads(artifact.location.read_bytes("history.json", limit=1 << 20))
    likelihood = [row["held_out"] for row in history]
    best = int(np.argmax(likelihood))
    assert len(history) == best + 3 < 40
    epochs = artifact.manifest.summary["quality"]["epochs"]
    assert epochs == {"trained": len(history), "kept": best + 1}
    fewer = run_recipe(tmp_path / "fewer", PREPARE + options.replace("= 2", "= 0"))["bridge"]
    assert len(json.loads(fewer.location.read_bytes("history.json", limit=1 << 20))) == 40


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


def attachments_of_halves(table):
    """Return attachments of the first half of some graphs to the second half."""
    half = len(table) // 2
    slots = np.arange(half)
    return Attachments(
        left_start=table.node_ptr[:half],
        left_count=table.num_nodes[:half],
        right_start=table.node_ptr[half:-1],
        right_count=table.num_nodes[half:],
        left_slot=slots,
        right_slot=half + slots,
    )


def sample_bridges(model, table, attachments, *, free=None, counts="expected", fixed=None):
    """Sample bridges between graphs of a table, which is its own pool of components."""
    stream = rng(0, "d")
    encoded = model.encode(table)
    sampler = BridgeSampler(
        model,
        DrawnLatents.draw(model, encoded, stream),
        PooledComponents(table.node_ptr, table.node_ptr[:-1]),
        encoded.count_features,
        counts,
    )
    return sampler.sample(attachments, stream, free, fixed)


@pytest.mark.parametrize("counts", ["expected", "sampled"])
def test_every_attachment_gets_distinct_bridges_between_its_components(model, counts):
    table = motif_split("train", 0, 40)
    bridges = sample_bridges(model, table, attachments_of_halves(table), counts=counts)
    check_bridges(table, bridges)


def test_random_bridges_need_no_model():
    table = motif_split("train", 0, 40)
    attachments = attachments_of_halves(table)
    source = RandomBridges.from_graphs(table, motif.corpus_info("motif-size"), rng(0, "cuts"))
    bridges = source.sample(attachments, rng(0, "d"))
    check_bridges(table, bridges)
    assert np.bincount(bridges.attachment).max() > 1


def test_random_bridges_use_free_nodes_and_fixed_counts():
    table = motif_split("train", 0, 40)
    attachments = attachments_of_halves(table)
    source = RandomBridges.from_graphs(table, motif.corpus_info("motif-size"), rng(0, "cuts"))
    free = np.zeros(table.total_nodes, dtype=bool)
    free[table.node_ptr[:-1]] = free[table.node_ptr[:-1] + 1] = True
    free[table.node_ptr[3] : table.node_ptr[4]] = False
    counts = np.full(20, 3)
    bridges = source.sample(attachments, rng(0, "d"), free, counts)
    assert np.bincount(bridges.attachment, minlength=20).tolist() == [3] * 3 + [0] + [3] * 16
    assert free[bridges.left].all()
    assert free[bridges.right].all()


def check_bridges(table, bridges):
    """Every attachment has distinct bridges from its left to its right graph."""
    assert set(bridges.attachment.tolist()) == set(range(20))
    assert (np.diff(bridges.attachment) >= 0).all()
    owner = np.repeat(np.arange(len(table)), table.num_nodes)
    assert owner[bridges.left].tolist() == bridges.attachment.tolist()
    assert owner[bridges.right].tolist() == (20 + bridges.attachment).tolist()
    endpoints = np.column_stack([bridges.left, bridges.right])
    assert len(np.unique(endpoints, axis=0)) == len(endpoints)


def test_only_free_nodes_get_bridges(model):
    table = motif_split("train", 0, 40)
    free = np.zeros(table.total_nodes, dtype=bool)
    free[table.node_ptr[:-1]] = True
    free[table.node_ptr[3]] = False
    bridges = sample_bridges(model, table, attachments_of_halves(table), free=free)
    assert bridges.attachment.tolist() == [row for row in range(20) if row != 3]
    assert np.isin(bridges.left, table.node_ptr).all()


def test_fixed_counts_replace_the_expected_number(model):
    table = motif_split("train", 0, 40)
    fixed = np.where(np.arange(20) % 2, 7, 0)
    bridges = sample_bridges(model, table, attachments_of_halves(table), fixed=fixed)
    assert np.bincount(bridges.attachment)[1::2].tolist() == [7] * 10
    plain = sample_bridges(model, table, attachments_of_halves(table))
    assert np.bincount(bridges.attachment)[::2].tolist() == (
        np.bincount(plain.attachment)[::2].tolist()
    )


def test_components_of_a_pool_get_the_bridges_of_their_own_encodings(model):
    """A table of splices repeats and reorders the components of the pool."""
    pool = motif_split("train", 0, 30)
    ids = rng(1, "ids").integers(0, 30, 40)
    table = pool.take(ids)
    attachments = attachments_of_halves(table)
    stream = rng(0, "d")
    latents = DrawnLatents.draw(model, model.encode(pool), stream)
    components = PooledComponents(table.node_ptr, pool.node_ptr[ids])
    sampler = BridgeSampler(model, latents, components, np.zeros((40, 0)), "expected")
    bridges = sampler.sample(attachments, stream)
    left, right = components.pool_nodes(bridges.left), components.pool_nodes(bridges.right)
    assert np.array_equal(pool.node["node_feat"][left], table.node["node_feat"][bridges.left])
    owner = row_indices(pool.node_ptr)
    assert owner[left].tolist() == ids[bridges.attachment].tolist()
    assert owner[right].tolist() == ids[20 + bridges.attachment].tolist()


def test_pairs_are_drawn_in_proportion_to_their_odds(model):
    """Frequencies of many draws of one bridge agree with the odds of the decoder."""
    table = motif_split("train", 0, 2)
    draws = 40_000
    latents = DrawnLatents.draw(model, model.encode(table), rng(0, "z"))
    left, right = table.num_nodes.tolist()
    runs = NodeRuns(*(np.full(draws, value) for value in (0, left, left, right)))
    wanted = np.ones(draws, dtype=np.int64)
    _, pair = draw_pairs(latents.terms, runs, wanted, 1, rng(0, "u").random((draws, 1)))
    grid = np.divmod(np.arange(left * right), right)
    odds = pair_odds(model, latents.latent, grid[0], left + grid[1])
    share = np.bincount(pair, minlength=left * right) / draws
    assert share == pytest.approx(odds / odds.sum(), abs=4 * np.sqrt(0.25 / draws))
    assert np.corrcoef(share, odds)[0, 1] > 0.99


def test_diffusion_model_with_bridge_nodes_trains_and_samples(tmp_path):
    recipe = PREPARE + '[bridge]\nepochs = 2\nmodel = "diffusion"\nbridge_nodes = true\n'
    artifact = run_recipe(tmp_path, recipe)["bridge"]
    model = load_model(artifact)
    quality = artifact.manifest.summary["quality"]
    assert quality["edge_auc"] > 0.7
    assert quality["bridge_node"] == {"accuracy": 1.0, "most_frequent": 1.0}
    table = motif_split("train", 0, 40)
    bridges = sample_bridges(model, table, attachments_of_halves(table))
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


def test_cut_frequencies_count_the_edges_that_cuts_remove():
    tree = table_from_edges((4, [(0, 1), (1, 2), (2, 3)]))
    attributed = tree.with_columns(edge={"edge_attr": np.ones((6, 2), dtype=np.int8)})
    frequencies = cut_frequencies(attributed, rng(0, "cut"))
    assert frequencies.counts.tolist() == [1.0]
    assert frequencies.attributes == ((1.0, 1.0),)
    cycle = table_from_edges((4, [(0, 1), (1, 2), (2, 3), (3, 0)]))
    assert cut_frequencies(cycle, rng(0, "cut")).counts.tolist() == [0.0, 1.0]
    isolated = table_from_edges((1, []))
    assert cut_frequencies(isolated, rng(0, "cut")).counts.tolist() == [1.0]


def test_weights_of_another_architecture_are_rejected(model):
    shape = msgspec.structs.replace(model.shape, width=8)
    with pytest.raises(ArtifactError, match=r"here: the weights do not match `model\.json`"):
        BridgeModel.load(shape, model.weights(), torch.device("cpu"), "here")


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
