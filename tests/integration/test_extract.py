"""The extract stage on a small Motif corpus."""

from types import SimpleNamespace

import numpy as np
import pytest
from safetensors.numpy import load

from gsx.errors import StageError, UsageError
from gsx.ragged import row_indices
from gsx.schema import CorpusInfo, Environment, corpus_columns
from gsx.stages.extract.data import build_extractor_data
from gsx.stages.extract.stage import ExtractConfig, read_training_graphs, resolve
from gsx.stages.graphs.subgraphs import induced_subgraphs, is_connected
from gsx.storage.corpora.corpus import Corpus
from tests.support.run_stages import run_recipe

RECIPE = '[prepare]\ndataset = "motif-base"\nnum_graphs = 2000\n[extract]\nset_epochs = 6\n'


def read_subgraphs(artifact):
    return load(artifact.location.read_bytes("subgraphs.safetensors", limit=1 << 30))


@pytest.fixture(scope="module")
def artifacts(tmp_path_factory):
    """Artifacts of a small run, by stage."""
    return run_recipe(tmp_path_factory.mktemp("extract"), RECIPE)


@pytest.fixture(scope="module")
def quality(artifacts):
    return artifacts["extract"].manifest.summary["quality"]


@pytest.fixture(scope="module")
def subgraphs(artifacts):
    return read_subgraphs(artifacts["extract"])


def test_motif_is_the_causal_subgraph_of_nearly_every_graph(quality):
    assert quality["causal"]["node_auc"] >= 0.98
    assert quality["causal"]["exact"] >= 0.9


def test_metrics_are_reported_per_environment(quality):
    truth = quality["causal"]["per_environment"]
    assert [row["env_id"] for row in truth] == [0, 1, 2]
    assert all(row["iou"] > 0.8 for row in truth)
    predictions = quality["held_out_scores_per_environment"]
    assert [row["env_id"] for row in predictions] == [0, 1, 2]
    assert all(row["subgraph"] > row["rest"] for row in predictions)


def test_causal_subgraph_predicts_the_label_and_the_remaining_graph_does_not(quality):
    accuracy = quality["held_out_scores"]
    assert accuracy["subgraph"] > 0.85
    assert accuracy["rest"] < 0.6


def test_every_training_graph_has_a_connected_causal_subgraph(artifacts, subgraphs):
    train = Corpus(artifacts["prepare"]).table(split="train")
    assert subgraphs["graph_id"].tolist() == train.graph["graph_id"].tolist()
    causal = subgraphs["causal"].astype(bool)
    assert np.bincount(row_indices(train.node_ptr), causal).min() >= 2
    assert is_connected(induced_subgraphs(train, causal)[0]).all()


def test_causal_and_environmental_subgraphs_are_disjoint(subgraphs):
    assert not (subgraphs["causal"] & subgraphs["environmental"]).any()


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
def test_same_seed_gives_identical_bytes(tmp_path, extractor):
    first, second = (
        run_recipe(tmp_path / name, TINY.format(extractor)) for name in ("first", "second")
    )
    assert first["extract"].manifest.files == second["extract"].manifest.files


def test_extractor_data_does_not_depend_on_the_ground_truth(artifacts):
    corpus = Corpus(artifacts["prepare"])
    table = corpus.table(split="train")
    inverted = table.with_columns(node={"node_truth": 1 - table.node["node_truth"]})
    data, other = (build_extractor_data(each, corpus.info) for each in (table, inverted))
    assert data.graphs.equals(other.graphs)
    assert np.array_equal(data.y, other.y)


def test_pair_extractor_writes_the_same_kind_of_artifact(tmp_path):
    extractor = run_recipe(tmp_path, TINY.format("pair"))["extract"]
    manifest = extractor.manifest
    assert manifest.kind == "extractor"
    assert sorted(manifest.files) == [
        "causal.safetensors",
        "environmental.safetensors",
        "history.json",
        "quality.json",
        "subgraphs.safetensors",
    ]
    quality = manifest.summary["quality"]
    assert set(quality["causal"]) == {"node_auc", "iou", "exact", "per_environment"}
    assert set(quality["held_out_scores"]) == {"subgraph", "rest", "whole"}
    subgraphs = read_subgraphs(extractor)
    assert not (subgraphs["causal"] & subgraphs["environmental"]).any()


def test_sparse_features_are_rejected():
    columns = corpus_columns(outputs=2, num_features=9, sparse=True)
    info = CorpusInfo(
        name="pages",
        outputs=("a", "b"),
        domain="word",
        environments=(Environment(id=0, name="all"),),
        columns=columns,
        num_features=9,
    )
    with pytest.raises(StageError) as error:
        read_training_graphs(SimpleNamespace(info=info))
    assert str(error.value) == (
        "pages has sparse node features, which extractors do not support. Prepare it with dense "
        "features."
    )


@pytest.mark.parametrize(
    ("options", "message"),
    [
        ({"width": 0}, "width must be at least 1; got 0"),
        ({"node_epochs": 0}, "node_epochs must be at least 1; got 0"),
        ({"max_causal_nodes": 1}, "max_causal_nodes must be at least 2; got 1"),
        ({"largest_weight": 0.5}, "largest_weight must be at least 1; got 0.5"),
        ({"partners": 0}, "partners must be at least 1; got 0"),
    ],
)
def test_options_out_of_range_are_rejected(options, message):
    with pytest.raises(UsageError) as error:
        resolve(ExtractConfig(**options))
    assert str(error.value) == message
