"""Training on a GPU never mixes tensors of CPU and GPU."""

import msgspec
import numpy as np
import pytest
import torch

from gsx.seeds import rng
from gsx.stages.nn.bridge_model import BridgeModel, BridgeShape
from gsx.stages.nn.bridge_sampling import (
    Attachments,
    BridgeSampler,
    DrawnLatents,
    PooledComponents,
)
from gsx.stages.train.algorithms import ALGORITHMS
from gsx.stages.train.evaluate import evaluate
from gsx.storage.corpora.corpus import Corpus
from tests.conftest import motif_split
from tests.support.fake_gpu import CPU, GPU, WrongDeviceError, fake_gpu
from tests.support.run_stages import (
    attributed,
    attributed_info,
    corpora_of_both_levels,
    run_stage,
    stop_training,
    write_small_corpus,
)

SIZES = {"train": 90, "id_val": 30, "ood_val": 30, "ood_test": 30}
GRAPHS = {"source": "prepare", "width": 16, "epochs": 2, "batch_size": 32}
NODES = {**GRAPHS, "backbone": "gcn", "batch_size": 200, "samples": 3, "coverage": 5}


@pytest.fixture(scope="module")
def corpora(tmp_path_factory):
    with pytest.MonkeyPatch.context() as patch:
        patch.setenv("GSX_CACHE", str(tmp_path_factory.mktemp("cache")))
        return corpora_of_both_levels(tmp_path_factory.mktemp("store"), SIZES)


def run_on_both(folder, stage, options, corpus):
    """Run a stage on the fake GPU and on the CPU; results must be equal."""
    inputs = {"prepare": corpus}
    with fake_gpu() as gpu:
        gpu_artifact = run_stage(folder / "gpu", stage, {**options, "device": "cuda"}, inputs)
    cpu_artifact = run_stage(folder / "cpu", stage, {**options, "device": "cpu"}, inputs)
    assert gpu["moves"] > 100
    assert gpu_artifact.manifest.digest == cpu_artifact.manifest.digest
    return gpu_artifact


@pytest.mark.parametrize(
    ("name", "level"),
    [(algorithm.name, level) for algorithm in ALGORITHMS for level in algorithm.levels],
)
def test_every_algorithm_stays_on_its_device(tmp_path, corpora, name, level):
    options = {**(GRAPHS if level == "graph" else NODES), "learner": name}
    run_on_both(tmp_path, "train", options, corpora[level])


@pytest.mark.parametrize(
    "options",
    [
        {"backbone": "vgin", "dropout": 0.3},
        {"average": 0.9, "env_balanced": True},
        {**NODES, "dropout": 0.3},
    ],
)
def test_every_network_stays_on_its_device(tmp_path, corpora, options):
    corpus = corpora["node" if options.get("backbone") == "gcn" else "graph"]
    run_on_both(tmp_path, "train", {**GRAPHS, **options}, corpus)


@pytest.mark.parametrize(
    ("stage", "options"), [("train", GRAPHS), ("bridge", {"epochs": 2, "width": 16})]
)
def test_edge_attributes_stay_on_their_device(tmp_path, stage, options):
    corpus = write_small_corpus(tmp_path, attributed, attributed_info(), sizes=SIZES)
    run_on_both(tmp_path, stage, options, corpus)


def test_bfloat16_training_stays_on_its_device(tmp_path, corpora):
    options = {**GRAPHS, "precision": "bf16", "device": "cuda"}
    with fake_gpu() as gpu:
        model = run_stage(tmp_path, "train", options, {"prepare": corpora["graph"]})
    assert gpu["moves"] > 100
    assert model.manifest.config["precision"] == "bf16"


def test_a_resumed_run_stays_on_its_device(tmp_path, corpora, monkeypatch):
    started_epochs = stop_training(monkeypatch, 1)
    options = {**GRAPHS, "learner": "dann", "average": 0.9, "device": "cuda"}
    with fake_gpu():
        with pytest.raises(KeyboardInterrupt):
            run_stage(tmp_path, "train", options, {"prepare": corpora["graph"]})
        run_stage(tmp_path, "train", options, {"prepare": corpora["graph"]})
    assert started_epochs == [0, 1, 1]


@pytest.mark.parametrize("level", ["graph", "node"])
def test_a_model_is_evaluated_on_a_device(tmp_path, corpora, level):
    corpus, options = corpora[level], GRAPHS if level == "graph" else NODES
    model = run_stage(tmp_path, "train", options, {"prepare": corpus})
    cpu_scores = evaluate(model, Corpus(corpus), "weights-last.safetensors", CPU)
    with fake_gpu() as gpu:
        gpu_scores = evaluate(model, Corpus(corpus), "weights-last.safetensors", GPU)
    assert gpu["moves"] > 10
    assert gpu_scores == cpu_scores


@pytest.mark.parametrize("extractor", ["posterior", "pair"])
def test_extractors_stay_on_their_device(tmp_path, corpora, extractor):
    options = {"extractor": extractor, "width": 16, "node_epochs": 2, "set_epochs": 1}
    run_on_both(tmp_path, "extract", options, corpora["graph"])


@pytest.mark.parametrize("model", ["vae", "diffusion"])
@pytest.mark.parametrize("bridge_nodes", [False, True])
def test_bridge_models_stay_on_their_device(tmp_path, corpora, model, bridge_nodes):
    options = {"model": model, "bridge_nodes": bridge_nodes, "epochs": 2, "width": 16}
    artifact = run_on_both(tmp_path, "bridge", options, corpora["graph"])
    data = artifact.location.read_bytes("model.json", limit=1 << 20)
    shape = msgspec.json.decode(data, type=BridgeShape)
    cpu_bridges = bridges_between_graphs(BridgeModel.with_random_weights(shape, 0, CPU))
    with fake_gpu():
        gpu_bridges = bridges_between_graphs(BridgeModel.with_random_weights(shape, 0, GPU))
    for name in ("attachment", "left", "right", "attribute", "node"):
        assert np.array_equal(getattr(cpu_bridges, name), getattr(gpu_bridges, name)), name


def bridges_between_graphs(model):
    """Sample bridges between ten graphs and ten others."""
    table = motif_split("train", 0, 20)
    encoded, ptr = model.encode(table), table.node_ptr
    sizes, slots = table.num_nodes, np.arange(20)
    attachments = Attachments(
        *(ptr[:10], sizes[:10], ptr[10:-1], sizes[10:], slots[:10], slots[10:])
    )
    stream = rng(0, "d")
    sampler = BridgeSampler(
        model,
        DrawnLatents.draw(model, encoded, stream),
        PooledComponents(ptr, ptr[:-1]),
        encoded.count_features,
        "expected",
    )
    return sampler.sample(attachments, stream)


def on_gpu():
    return torch.ones(3, device="cuda")


@pytest.mark.parametrize(
    "wrong",
    [
        lambda: on_gpu() + torch.ones(3),
        lambda: on_gpu() + torch.from_numpy(np.ones(3)),
        lambda: on_gpu() * on_gpu().cpu(),
        lambda: torch.ones(3)[torch.zeros(1, dtype=torch.int64, device="cuda")],
        lambda: torch.nn.functional.embedding(torch.tensor([0]), on_gpu()[:, None]),
        lambda: torch.nn.Linear(3, 1).to("cuda")(torch.ones(3)),
        lambda: torch.nn.Linear(3, 1)(on_gpu()),
        lambda: on_gpu().numpy(),
        lambda: torch.rand(3, device="cuda", generator=torch.Generator()),
        lambda: torch.rand(3, generator=torch.Generator("cuda")),
    ],
)
def test_the_fake_gpu_rejects_what_cuda_rejects(wrong):
    with fake_gpu(), pytest.raises(WrongDeviceError):
        wrong()


def test_the_fake_gpu_allows_what_cuda_allows():
    with fake_gpu():
        value = on_gpu()
        assert value[torch.tensor([0])].device == GPU
        assert (value + torch.tensor(1.0)).device == GPU
        assert value.to("cpu").numpy().tolist() == [1, 1, 1]
        net = torch.nn.Linear(3, 1).to(value.device)
        net(value).sum().backward()
        torch.optim.Adam(net.parameters()).step()
        assert net.weight.grad.device == net.weight.device == GPU
