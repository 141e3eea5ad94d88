"""The extractor stage, run for real on a small Motif corpus."""

from types import SimpleNamespace

import numpy as np
import pytest
from safetensors.numpy import load

from gsx.errors import StageError, UsageError
from gsx.pipeline.plan import make_plan
from gsx.pipeline.recipe import parse_recipe
from gsx.pipeline.runner import run_plan
from gsx.ragged import row_indices
from gsx.schema import CorpusInfo, Environment, corpus_columns
from gsx.stages.extract.stage import ExtractConfig, read_training_graphs, resolve
from gsx.stages.graphs.subgraphs import induced_subgraphs, is_connected
from gsx.storage.artifacts.store import Store
from gsx.storage.corpora.corpus import Corpus

RECIPE = '[prepare]\ndataset = "motif-base"\nnum_graphs = 2000\n[extract]\nset_epochs = 6\n'


@pytest.fixture(scope="module")
def made(tmp_path_factory):
    """The artifacts of a small run, by stage."""
    store = Store.at(tmp_path_factory.mktemp("extract"))
    plan = make_plan(parse_recipe(RECIPE, "r.toml"))
    return {step.name: built.artifact for step, built in run_plan(plan, store)}


@pytest.fixture(scope="module")
def pieces(made):
    return load(made["extract"].location.read_bytes("pieces.safetensors", limit=1 << 30))


def test_the_motif_is_found_in_nearly_every_graph(made):
    quality = made["extract"].manifest.summary["quality"]["causal"]
    assert quality["node_auc"] >= 0.98
    assert quality["exact"] >= 0.9


def test_quality_is_told_per_environment(made):
    quality = made["extract"].manifest.summary["quality"]["causal"]
    assert [row["env_id"] for row in quality["per_environment"]] == [0, 1, 2]
    assert all(row["iou"] > 0.8 for row in quality["per_environment"])
    told = made["extract"].manifest.summary["quality"]["label_told_per_environment"]
    assert [row["env_id"] for row in told] == [0, 1, 2]
    assert all(row["piece"] > row["rest"] for row in told)


def test_the_piece_tells_the_label_and_the_rest_does_not(made):
    told = made["extract"].manifest.summary["quality"]["label_told_held_out"]
    assert told["piece"] > 0.85
    assert told["rest"] < 0.6


def test_every_training_graph_has_a_connected_causal_piece(made, pieces):
    train = Corpus(made["prepare"]).table(split="train")
    assert pieces["graph_id"].tolist() == train.graph["graph_id"].tolist()
    causal = pieces["causal"].astype(bool)
    assert np.bincount(row_indices(train.node_ptr), causal).min() >= 2
    part, _ = induced_subgraphs(train, causal)
    assert is_connected(part).all()


def test_causal_and_environmental_pieces_share_no_node(pieces):
    assert not (pieces["causal"] & pieces["environmental"]).any()


TINY = """[prepare]
dataset = "motif-base"
num_graphs = 300
[extract]
extractor = "{}"
width = 16
node_epochs = 1
set_epochs = 1
partners = 2
"""


@pytest.mark.parametrize("extractor", ["posterior", "pair"])
def test_the_same_seed_gives_the_same_bytes(tmp_path, extractor):
    plan = make_plan(parse_recipe(TINY.format(extractor), "r.toml"))
    left, right = (
        {step.name: built.artifact for step, built in run_plan(plan, Store.at(tmp_path / name))}
        for name in ("left", "right")
    )
    assert left["extract"].manifest.files == right["extract"].manifest.files


def test_truth_never_reaches_the_extractor(made, tmp_path):
    """Permuting the truth columns changes the report and nothing that was learned or cut."""
    from gsx.stages.extract.data import build_extractor_data

    corpus = Corpus(made["prepare"])
    table = corpus.table(split="train")
    other = table.with_columns(node={"node_truth": 1 - table.node["node_truth"]})
    left, right = build_extractor_data(table, corpus.info), build_extractor_data(other, corpus.info)
    assert left.graphs.equals(right.graphs)
    assert np.array_equal(left.y, right.y)


def test_pair_learning_writes_the_same_kind_of_artifact(tmp_path):
    plan = make_plan(parse_recipe(TINY.format("pair"), "r.toml"))
    made = {step.name: built.artifact for step, built in run_plan(plan, Store.at(tmp_path))}
    manifest = made["extract"].manifest
    assert manifest.kind == "extractor"
    assert sorted(manifest.files) == [
        "causal.safetensors",
        "environmental.safetensors",
        "history.json",
        "pieces.safetensors",
        "quality.json",
    ]
    quality = manifest.summary["quality"]
    assert set(quality["causal"]) == {"node_auc", "iou", "exact", "per_environment"}
    assert set(quality["label_told_held_out"]) == {"piece", "rest", "whole"}
    pieces = load(made["extract"].location.read_bytes("pieces.safetensors", limit=1 << 30))
    assert not (pieces["causal"] & pieces["environmental"]).any()


def test_sparse_features_are_refused():
    columns = corpus_columns(outputs=2, num_features=9, sparse=True)
    info = CorpusInfo(
        name="pages",
        outputs=("a", "b"),
        domain="word",
        environments=(Environment(id=0, name="all"),),
        columns=columns,
        num_features=9,
    )
    with pytest.raises(StageError) as caught:
        read_training_graphs(SimpleNamespace(info=info))
    assert str(caught.value) == "pages has sparse node features, which extractors do not read yet."


@pytest.mark.parametrize(
    ("options", "text"),
    [
        ({"width": 0}, "width must be at least 1; got 0"),
        ({"node_epochs": 0}, "node_epochs must be at least 1; got 0"),
        ({"largest_piece": 1}, "largest_piece must be at least 2; got 1"),
        ({"largest_weight": 0.5}, "largest_weight must be at least 1; got 0.5"),
        ({"partners": 0}, "partners must be at least 1; got 0"),
    ],
)
def test_numbers_that_cannot_work_are_refused_early(options, text):
    with pytest.raises(UsageError) as caught:
        resolve(ExtractConfig(**options))
    assert str(caught.value) == text
