"""The bridge stage and its model, run for real on small Motif corpora."""

import json
from dataclasses import replace

import msgspec
import numpy as np
import pytest
import torch
from safetensors.torch import load

from gsx.errors import StageError, UsageError
from gsx.seeds import rng
from gsx.stages.bridge.cut_dataset import cross_pairs, cut_graphs, remove_middle_nodes
from gsx.stages.bridge.stage import BridgeConfig, frequent_rows, resolve
from gsx.stages.graphs.subgraphs import global_edges
from gsx.stages.graphs.weighted_sampling import sample_without_replacement
from gsx.stages.nn.bridge_diffusion import DIFFUSION_STEPS, reverse_step_probability, keep_probability, add_noise
from gsx.stages.nn.bridge_features import fit_bridge_encoding
from gsx.stages.nn.bridge_model import BridgeModel, BridgeShape
from gsx.stages.nn.bridge_sampling import Attachments, BridgeSampler, EncodedNodes, draw_bridges
from tests.conftest import motif_split
from tests.support.run_stages import run_recipe

PREPARE = '[prepare]\ndataset = "motif-base"\nnum_graphs = 1500\n'


@pytest.fixture(scope="module")
def made(tmp_path_factory):
    return run_recipe(tmp_path_factory.mktemp("bridge"), PREPARE + "[bridge]\nepochs = 6\n")


@pytest.fixture(scope="module")
def model(made):
    return load_model(made["bridge"])


def load_model(artifact):
    shape = msgspec.json.decode(
        artifact.location.read_bytes("model.json", limit=1 << 20), type=BridgeShape
    )
    weights = load(artifact.location.read_bytes("weights.safetensors", limit=1 << 30))
    return BridgeModel.load(shape, weights, torch.device("cpu"))


def quality(made):
    return made["bridge"].manifest.summary["quality"]


def test_true_bridges_score_above_random_pairs_and_pairs_of_the_same_degrees(made):
    assert quality(made)["edge_auc"] > 0.83
    assert quality(made)["edge_auc_same_degrees"] > 0.6


def test_the_counter_knows_more_than_the_rates(made):
    count = quality(made)["count"]
    assert count["log_likelihood"] > count["log_likelihood_of_rates"] + 0.1


def test_the_loss_falls(made):
    history = json.loads(made["bridge"].location.read_bytes("history.json", limit=1 << 20))
    assert len(history) == 6
    assert history[-1]["bridge"] < 0.8 * history[0]["bridge"]


def test_the_same_recipe_gives_the_same_weights(made, tmp_path):
    again = run_recipe(tmp_path, PREPARE + "[bridge]\nepochs = 6\n")
    assert again["bridge"].manifest.digest == made["bridge"].manifest.digest


def test_the_order_of_two_components_does_not_matter(model):
    latent = torch.from_numpy(rng(0, "z").standard_normal((6, 16)).astype(np.float32))
    terms = model.decoder.node_factors(latent)
    left, right = torch.tensor([0, 1, 2]), torch.tensor([3, 4, 5])
    with torch.no_grad():
        assert torch.allclose(
            model.decoder.pair_logits(terms, left, right),
            model.decoder.pair_logits(terms, right, left),
        )


def test_a_grid_of_pairs_has_the_logits_of_its_pairs(model):
    latent = torch.from_numpy(rng(0, "z").standard_normal((5, 16)).astype(np.float32))
    terms = model.decoder.node_factors(latent)
    with torch.no_grad():
        grid = model.decoder.grid_logits(terms, torch.tensor([[0, 1]]), torch.tensor([[2, 3, 4]]))
        pairs = model.decoder.pair_logits(
            terms, torch.tensor([0, 0, 0, 1, 1, 1]), torch.tensor([2, 3, 4, 2, 3, 4])
        )
    assert torch.allclose(grid.flatten(), pairs, atol=1e-5)


def encoded_pair(model, graphs=40):
    table = motif_split("train", 0, graphs)
    known = model.encode(table)
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
    return table, EncodedNodes(known.mean, known.std, known.count_features), attachments


@pytest.mark.parametrize("pairs", ["learned", "random"])
@pytest.mark.parametrize("counts", ["expected", "sampled"])
def test_every_attachment_gets_a_bridge_between_its_two_components(model, pairs, counts):
    table, nodes, attachments = encoded_pair(model)
    found = draw_bridges(model, nodes, attachments, rng(0, "d"), pairs=pairs, counts=counts)
    assert set(found.attachment.tolist()) == set(range(20))
    assert (np.diff(found.attachment) >= 0).all()
    owner = np.repeat(np.arange(len(table)), table.num_nodes)
    assert owner[found.left].tolist() == found.attachment.tolist()
    assert owner[found.right].tolist() == (20 + found.attachment).tolist()
    ends = np.column_stack([found.left, found.right])
    assert len(np.unique(ends, axis=0)) == len(ends)


def test_nodes_that_are_not_free_get_no_bridge(model):
    table, nodes, attachments = encoded_pair(model)
    free = np.zeros(table.total_nodes, dtype=bool)
    free[table.node_ptr[:-1]] = True
    free[table.node_ptr[3]] = False
    stream = rng(0, "d")
    drawer = BridgeSampler.from_encoded(model, nodes, stream, pairs="learned", counts="expected")
    found = drawer.sample(attachments, stream, free)
    assert found.attachment.tolist() == [row for row in range(20) if row != 3]
    assert np.isin(found.left, table.node_ptr).all()


def test_a_single_bridge_is_drawn_as_if_all_pairs_had_been_looked_at(model, monkeypatch):
    shape = msgspec.structs.replace(model.shape, largest_count=1)
    single = replace(model, shape=shape)
    table, nodes, attachments = encoded_pair(model)
    free = rng(0, "free").random(table.total_nodes) < 0.4
    free[table.node_ptr[2] : table.node_ptr[3]] = False

    def draw():
        stream = rng(0, "d")
        drawer = BridgeSampler.from_encoded(single, nodes, stream, pairs="learned", counts="expected")
        return drawer.sample(attachments, stream, free)

    found = draw()
    assert found.attachment.tolist() == [row for row in range(20) if row != 2]

    def masked(run, free, stream):
        ptr = run.attachments.ptr
        left, right = run.attachments.node_pairs(np.arange(ptr[-1]), np.repeat(
            np.arange(len(run.attachments)), np.diff(ptr)))  # fmt: skip
        odds = np.exp(np.clip(run.logits(), -30, 30)) * (free[left] & free[right])
        at, pair = sample_without_replacement(odds, ptr, np.ones(len(ptr) - 1, np.int64), stream)
        return at, *run.attachments.node_pairs(pair, at)

    monkeypatch.setattr("gsx.stages.nn.bridge_sampling._sample_single_bridges", masked)
    again = draw()
    assert found.left.tolist() == again.left.tolist()
    assert found.right.tolist() == again.right.tolist()


def test_bridges_do_not_depend_on_how_pairs_are_cut_into_runs(model, monkeypatch):
    _, nodes, attachments = encoded_pair(model)
    whole = draw_bridges(model, nodes, attachments, rng(0, "d"))
    monkeypatch.setattr("gsx.stages.nn.bridge_sampling.BLOCK_PAIRS", 50)
    small = draw_bridges(model, nodes, attachments, rng(0, "d"))
    assert whole.left.tolist() == small.left.tolist()


def test_diffusion_and_bridge_nodes_learn_and_draw(tmp_path):
    text = PREPARE + '[bridge]\nepochs = 2\nmodel = "diffusion"\nbridge_nodes = true\n'
    made = run_recipe(tmp_path, text)
    model = load_model(made["bridge"])
    assert quality(made)["edge_auc"] > 0.7
    assert quality(made)["bridge_node"] == {"accuracy": 1.0, "most_frequent": 1.0}
    _, nodes, attachments = encoded_pair(model)
    found = draw_bridges(model, nodes, attachments, rng(0, "d"))
    assert set(found.attachment.tolist()) == set(range(20))


def test_noise_goes_from_nothing_to_everything():
    assert float(keep_probability(torch.tensor(0.0))) == 1
    assert float(keep_probability(torch.tensor(float(DIFFUSION_STEPS)))) == pytest.approx(0, abs=1e-12)
    bits = torch.tensor([1.0, 0.0]).repeat(20_000)
    level, rate = torch.full((40_000,), 0.5), torch.full((40_000,), 0.2)
    noisy = add_noise(bits, rate, level, torch.Generator().manual_seed(0))
    assert float(noisy[::2].mean()) == pytest.approx(0.6, abs=0.02)
    assert float(noisy[1::2].mean()) == pytest.approx(0.1, abs=0.02)


def test_the_step_back_is_the_rule_of_bayes():
    """Count what the forward process does, and compare."""
    step, rate = 5, 0.3
    stream = np.random.default_rng(0)
    size = 400_000
    before = float(keep_probability(torch.tensor(float(step - 1))))
    now = float(keep_probability(torch.tensor(float(step))))
    true = stream.random(size) < 0.4
    earlier_bits = np.where(stream.random(size) < before, true, stream.random(size) < rate)
    later = np.where(stream.random(size) < now / before, earlier_bits, stream.random(size) < rate)
    seen = torch.tensor([1.0, 0.0])
    # Given the true bit, the step back does not depend on how likely it was.
    for value in (0, 1):
        belief = torch.full((2,), float(value))
        told = reverse_step_probability(seen, belief, torch.full((2,), rate), step)
        for column, bit in enumerate((True, False)):
            chosen = (true == bool(value)) & (later == bit)
            assert float(told[column]) == pytest.approx(earlier_bits[chosen].mean(), abs=0.01)


def test_pairs_of_a_large_cut_are_sampled_and_weighted(monkeypatch):
    table = motif_split("train", 0, 60).select(["node_feat"])
    code = fit_bridge_encoding(table)
    cut = cut_graphs(table, code, rng(0, "cut"), levels=1)
    every = cross_pairs(cut, rng(0, "p"))
    monkeypatch.setattr("gsx.stages.bridge.cut_dataset.PAIRS_PER_CUT", 10)
    some = cross_pairs(cut, rng(0, "p"))
    assert len(some.left) < len(every.left)
    assert some.bridged.sum() == every.bridged.sum()
    sizes = cut.left.num_nodes * cut.right.num_nodes
    for pairs in (every, some):
        assert np.bincount(pairs.cut, pairs.weight) == pytest.approx(sizes)


def test_cuts_remember_the_edges_they_removed():
    table = motif_split("train", 0, 50).select(["node_feat"])
    cut = cut_graphs(table, fit_bridge_encoding(table), rng(0, "cut"), levels=1)
    kept_edges = cut.left.num_edges + cut.right.num_edges
    assert (kept_edges + 2 * np.diff(cut.bridge_left.ptr)).tolist() == table.num_edges.tolist()
    assert (
        cut.bridge_left.values < np.repeat(cut.left.num_nodes, np.diff(cut.bridge_left.ptr))
    ).all()


def test_a_wedge_takes_out_a_node_between_two_others():
    table = motif_split("train", 0, 50).select(["node_feat"])
    wedge = remove_middle_nodes(table, fit_bridge_encoding(table), rng(0, "w"))
    assert (wedge.graphs.num_nodes == table.num_nodes - 1).all()
    assert (wedge.left != wedge.right).all()
    assert (np.maximum(wedge.left, wedge.right) < wedge.graphs.num_nodes).all()
    assert len(global_edges(wedge.graphs)[0]) < table.total_edges


def test_frequent_rows_come_first():
    rows = np.array([[1, 2], [3, 4], [3, 4], [3, 4]], dtype=np.int8)
    assert frequent_rows(rows) == (((3.0, 4.0), (1.0, 2.0)), (0.75, 0.25))
    assert frequent_rows(np.zeros((4, 0))) == ((), ())


@pytest.mark.parametrize(
    ("options", "message"),
    [
        ({"epochs": 0}, "epochs must be at least 1; got 0"),
        ({"kl_weight": -1.0}, "kl_weight must not be negative; got -1.0"),
        ({"learning_rate": 0.0}, "learning_rate must be positive; got 0.0"),
        ({"kl_weight": float("nan")}, "kl_weight must not be negative; got nan"),
    ],
)
def test_impossible_options_are_refused(options, message):
    with pytest.raises(UsageError, match=message):
        resolve(BridgeConfig(**options))


def test_graphs_without_edges_are_refused_before_anything_is_learned(tmp_path):
    from tests.support.run_stages import corpus_without_edges, run_stage

    corpus = corpus_without_edges(tmp_path)
    with pytest.raises(StageError, match="nothing to learn bridges"):
        run_stage(tmp_path, "bridge", {}, {"prepare": corpus})
