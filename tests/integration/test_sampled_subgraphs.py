"""Splicing with sampled subgraphs, as in the recipe `paper-literal`."""

import numpy as np
import pytest
from safetensors.numpy import load

from gsx.pipeline.plan import Step, identity_of
from gsx.pipeline.recipe import parse_config
from gsx.pipeline.stage_order import stage_named
from gsx.schema import ORIGINS
from gsx.stages.graphs.wl_hash import wl_hashes
from gsx.storage.corpora.corpus import Corpus
from gsx.storage.corpora.verify_corpus import verify_artifact
from tests.support.run_stages import run_stage, unchanged, write_small_corpus

SAMPLES = 4
GENERATE = {"recipe": "paper-literal", "ratio": 4.0}


@pytest.fixture(scope="module")
def folder(tmp_path_factory):
    return tmp_path_factory.mktemp("sampled")


@pytest.fixture(scope="module")
def inputs(folder):
    sizes = {"train": 120, "id_val": 20, "ood_test": 20}
    corpus = write_small_corpus(folder, unchanged, sizes=sizes)
    artifacts = {"prepare": corpus}
    options = {"extractor": "pair", "node_epochs": 1}
    artifacts["threshold"] = run_stage(folder, "extract", options, artifacts)
    options["subgraph_samples"] = SAMPLES
    artifacts["extract"] = run_stage(folder, "extract", options, artifacts)
    bridge = {"epochs": 1, "kl_weight": 0.1}
    artifacts["bridge"] = run_stage(folder, "bridge", bridge, artifacts)
    return artifacts


@pytest.fixture(scope="module")
def spliced(folder, inputs):
    artifact = run_stage(folder, "generate", GENERATE, inputs)
    verify_artifact(artifact.location)
    return Corpus(artifact)


def new_graphs(corpus, origin):
    table = corpus.table(split="train")
    return table.filter(table.dense("graph", "origin") == ORIGINS.index(origin))


def test_every_causal_subgraph_is_one_of_the_samples(inputs, spliced):
    arrays = load(inputs["extract"].location.read_bytes("subgraphs.safetensors", limit=1 << 30))
    graphs = new_graphs(spliced, "g_inv")
    assert len(graphs) == 4 * 120
    parents = graphs.lists("graph", "provenance.parents").values
    row_of = {int(number): row for row, number in enumerate(arrays["graph_id"])}
    numbers = graphs.lists("graph", "provenance.node_number").values
    samples_used = set()
    for graph in range(len(graphs)):
        row = row_of[int(parents[graph])]
        nodes = np.sort(numbers[graphs.node_ptr[graph] : graphs.node_ptr[graph + 1]])
        own = slice(arrays["node_ptr"][row], arrays["node_ptr"][row + 1])
        samples = [np.flatnonzero(sample) for sample in arrays["causal_samples"][:, own]]
        matches = [n for n, sample in enumerate(samples) if np.array_equal(sample, nodes)]
        assert matches
        samples_used.update(matches)
    assert samples_used == set(range(SAMPLES))


def test_samples_give_more_distinct_graphs_than_one_subgraph(folder, inputs, spliced):
    options = {**GENERATE, "options": "100"}
    single = run_stage(folder, "generate", options, {**inputs, "extract": inputs["threshold"]})
    counts = [
        len(np.unique(wl_hashes(new_graphs(corpus, "g_inv"))))
        for corpus in (Corpus(single), spliced)
    ]
    assert counts[1] > counts[0]


def test_whole_graphs_are_not_sampled(inputs, spliced):
    quality = spliced.artifact.manifest.summary["quality"]
    assert quality["source"]["graphs"] == 120
    whole = new_graphs(spliced, "g_whole")
    train = Corpus(inputs["prepare"]).table(split="train")
    sizes = dict(zip(train.dense("graph", "graph_id").tolist(), train.num_nodes.tolist(),
                     strict=True))  # fmt: skip
    parents = whole.lists("graph", "provenance.parents")
    for row in range(len(whole)):
        own = parents.values[parents.ptr[row] : parents.ptr[row + 1]]
        assert whole.num_nodes[row] == sum(sizes[int(number)] for number in own)


def test_extractors_without_samples_keep_their_keys(inputs):
    stage = stage_named("extract")
    config = parse_config("extract", {"extractor": "pair"}, "test")
    step = Step(stage, config, stage.inputs_of(config))
    identity = identity_of(step, {"corpus": inputs["prepare"]})
    assert "subgraph_samples" not in identity.config
