"""The extractor stage, run for real on a small Motif corpus."""

import numpy as np
import pytest
from safetensors.numpy import load

from gsx.errors import UsageError
from gsx.pipeline.plan import make_plan
from gsx.pipeline.recipe import parse_recipe
from gsx.pipeline.runner import run_plan
from gsx.ragged import rows_of
from gsx.stages.extract import ExtractConfig, resolve
from gsx.stages.kernels.subgraphs import induced, is_connected
from gsx.storage.corpus import Corpus
from gsx.storage.store import Store

RECIPE = '[prepare]\ndataset = "motif-base"\nnum_graphs = 2000\n[extract]\nset_epochs = 6\n'


@pytest.fixture(scope="module")
def made(tmp_path_factory):
    """The artifacts of a small run, by stage."""
    store = Store.at(tmp_path_factory.mktemp("extract"))
    plan = make_plan(parse_recipe(RECIPE, "r.toml"))
    return {step.name: built.artifact for step, built in run_plan(plan, store)}


@pytest.fixture(scope="module")
def pieces(made):
    return load(made["extract"].place.read_bytes("pieces.safetensors", limit=1 << 30))


def test_the_motif_is_found_in_nearly_every_graph(made):
    quality = made["extract"].manifest.summary["quality"]["causal"]
    assert quality["node_auc"] >= 0.98
    assert quality["exact"] >= 0.9


def test_quality_is_told_per_environment(made):
    quality = made["extract"].manifest.summary["quality"]["causal"]
    assert [row["env_id"] for row in quality["per_environment"]] == [0, 1, 2]
    assert all(row["iou"] > 0.8 for row in quality["per_environment"])


def test_the_piece_tells_the_label_and_the_rest_does_not(made):
    told = made["extract"].manifest.summary["quality"]["label_told_on_id_val"]
    assert told["piece"] > 0.85
    assert told["rest"] < 0.6


def test_every_training_graph_has_a_connected_causal_piece(made, pieces):
    train = Corpus(made["prepare"]).table(split="train")
    assert pieces["graph_id"].tolist() == train.graph["graph_id"].tolist()
    causal = pieces["causal"].astype(bool)
    assert np.bincount(rows_of(train.node_ptr), causal).min() >= 2
    part, _ = induced(train, causal)
    assert is_connected(part).all()


def test_causal_and_environmental_pieces_share_no_node(pieces):
    assert not (pieces["causal"] & pieces["environmental"]).any()


def test_the_same_seed_gives_the_same_bytes(made, tmp_path):
    plan = make_plan(parse_recipe(RECIPE, "r.toml"))
    again = {step.name: built.artifact for step, built in run_plan(plan, Store.at(tmp_path))}
    assert again["extract"].manifest.files == made["extract"].manifest.files


def test_truth_never_reaches_the_extractor(made, tmp_path):
    """Permuting the truth columns changes the report and nothing that was learned or cut."""
    from gsx.stages.extractors.lesson import lesson_of

    corpus = Corpus(made["prepare"])
    table = corpus.table(split="train")
    other = table.with_columns(node={"node_truth": 1 - table.node["node_truth"]})
    left, right = lesson_of(table, corpus.info), lesson_of(other, corpus.info)
    assert left.graphs.equals(right.graphs)
    assert np.array_equal(left.features, right.features)


@pytest.mark.parametrize(
    ("options", "text"),
    [
        ({"width": 0}, "width must be at least 1; got 0"),
        ({"node_epochs": 0}, "node_epochs must be at least 1; got 0"),
        ({"largest_piece": 1}, "largest_piece must be at least 2; got 1"),
    ],
)
def test_numbers_that_cannot_work_are_refused_early(options, text):
    with pytest.raises(UsageError) as caught:
        resolve(ExtractConfig(**options))
    assert str(caught.value) == text
