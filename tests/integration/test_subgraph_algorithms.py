"""Algorithms on subgraphs train, resume, are evaluated and tuned, and reject other corpora."""

import msgspec
import numpy as np
import pytest
import torch

from gsx.errors import RecipeError, StageError, UsageError
from gsx.pipeline.tuning.search_space import read_search_space
from gsx.stages.graphs.subgraphs import sort_edges
from gsx.stages.nn.batches import BackboneShape, EdgeSelection
from gsx.stages.nn.build_network import build_network
from gsx.stages.nn.training_loop import torch_stream
from gsx.stages.prepare.synthetic import motif
from gsx.stages.train.algorithms import algorithm_named, check_applies
from gsx.stages.train.data import TrainingData
from gsx.stages.train.evaluate import evaluate
from gsx.stages.train.evaluator import Evaluator
from gsx.stages.train.stage import STAGE, TrainConfig, resolve
from gsx.stages.train.trainer import Trainer, build_algorithm
from gsx.storage.corpora.corpus import Corpus
from tests.support.run_stages import run_stage, stop_training, unchanged, write_small_corpus

CPU = torch.device("cpu")
SUBGRAPH_ALGORITHMS = ("dir", "gil", "ciga", "lisa-subgraph", "leci", "prune")
WIDTH = 8


def backbone_shape(name, ratio, width):
    rule = algorithm_named(name).edge_rule
    select = {} if ratio is None else {"select": EdgeSelection(ratio=ratio)}
    select = {"select": EdgeSelection(rule=rule)} if rule else select
    return BackboneShape(backbone="gin", features=1, width=width, layers=3, outputs=3, **select)


SIZES = {"train": 64, "id_val": 20, "ood_val": 20}
SMALL = {"source": "prepare", "width": WIDTH, "epochs": 2, "batch_size": 32}


@pytest.fixture(scope="module")
def corpus(tmp_path_factory):
    return write_small_corpus(tmp_path_factory.mktemp("corpus"), unchanged, sizes=SIZES)


def train(folder, corpus, **options):
    return run_stage(folder, "train", {**SMALL, **options}, {"prepare": corpus})


@pytest.mark.parametrize("name", ["dir", "lisa-subgraph", "leci", "prune"])
def test_a_resumed_run_gives_the_same_bytes(tmp_path, monkeypatch, corpus, name):
    options = {"learner": name, "dropout": 0.2, "average": 0.9}
    whole = train(tmp_path / "whole", corpus, **options)
    started_epochs = stop_training(monkeypatch, 1)
    with pytest.raises(KeyboardInterrupt):
        train(tmp_path / "parts", corpus, **options)
    resumed = train(tmp_path / "parts", corpus, **options)
    assert started_epochs == [0, 1, 1]
    assert resumed.manifest.digest == whole.manifest.digest


@pytest.mark.parametrize("name", SUBGRAPH_ALGORITHMS)
def test_a_published_model_selects_the_same_edges_as_in_training(tmp_path, corpus, name):
    model = train(tmp_path, corpus, learner=name, backbone="vgin", epochs=1)
    evaluation = evaluate(model, Corpus(corpus), "weights-last.safetensors", CPU)
    expected = model.manifest.summary["quality"]["selection"]["last"]
    for split in ("id_val", "ood_val"):
        assert evaluation["splits"][split]["score"] == expected[split]
    description = msgspec.json.decode(model.location.read_bytes("model.json", limit=1 << 20))
    option = algorithm_named(name).options().get("causal_ratio")
    select = description["shape"].get("select", {})
    assert select.get("ratio") == (option.default if option else None)
    assert select.get("rule") == algorithm_named(name).edge_rule


@pytest.fixture(scope="module")
def data():
    table = motif.build("motif-size", "train", 0, 300, seed=0, first_graph_id=0)
    return TrainingData(
        task="classification",
        metric="accuracy",
        train=sort_edges(table),
        env=np.arange(300) % 2,
        num_envs=2,
        held_out={},
    )


@pytest.mark.parametrize("name", SUBGRAPH_ALGORITHMS)
def test_accuracy_is_better_than_chance(data, name):
    config = resolve(TrainConfig(learner=name, width=32, epochs=15, batch_size=100))
    shape = backbone_shape(name, config.causal_ratio, config.width)
    network = build_network(shape, 0.0, torch_stream(0, "w"), torch_stream(0, "d"))
    algorithm = build_algorithm(config, shape, data, CPU)
    trainer = Trainer(config, network, algorithm, data.train, data, CPU, None)
    losses = [trainer.train_epoch(number) for number in range(config.epochs)]
    first = 2 if name == "prune" else 0  # epochs without its penalties
    assert losses[-1] < losses[first]
    evaluator = Evaluator(data.train, shape, metric="accuracy", task="classification", device=CPU)
    assert evaluator.score(network, 0) > 42  # three classes: 33 by chance


@pytest.mark.parametrize("name", SUBGRAPH_ALGORITHMS)
def test_node_labels_are_rejected(name):
    with pytest.raises(StageError, match="needs graph labels, but cbas has node labels"):
        check_applies(name, level="node", task="classification", corpus="cbas")


def test_ciga_rejects_regression():
    with pytest.raises(StageError, match="CIGA needs classes, but zinc is a regression task"):
        check_applies("ciga", level="graph", task="regression", corpus="zinc")
    check_applies("dir", level="graph", task="regression", corpus="zinc")


def test_leci_rejects_regression_and_prune_does_not():
    with pytest.raises(StageError, match="LECI needs classes, but zinc is a regression task"):
        check_applies("leci", level="graph", task="regression", corpus="zinc")
    check_applies("prune", level="graph", task="regression", corpus="zinc")


@pytest.mark.parametrize("name", ["dir", "leci", "prune"])
def test_one_layer_is_enough(tmp_path, corpus, name):
    model = train(tmp_path, corpus, learner=name, layers=1, epochs=1)
    description = msgspec.json.decode(model.location.read_bytes("model.json", limit=1 << 20))
    assert description["shape"]["select"]["layers"] == 1


@pytest.mark.parametrize(
    ("options", "message"),
    [
        ({"causal_ratio": 0.5}, "causal_ratio is an option of `dir`, `gil`, `ciga`, not of `erm`"),
        ({"learner": "dir", "causal_ratio": 1.0}, "causal_ratio must be between 0 and 1; got 1.0"),
        ({"learner": "dir", "hinge": 1.0}, "hinge is an option of `ciga`, not of `dir`"),
        ({"learner": "ciga", "hinge": -1.0}, "hinge must not be negative; got -1.0"),
        ({"learner": "gil", "inferred_envs": 1}, "inferred_envs must be at least 2; got 1"),
        ({"learner": "lisa-subgraph", "generators": 1}, "generators must be at least 2; got 1"),
        ({"learner": "lisa-subgraph", "kl_weight": float("nan")}, "kl_weight must not be negat"),
        ({"learner": "leci", "label_penalty": -1.0}, "label_penalty must not be negative"),
        ({"learner": "leci", "edge_budget": 0.5}, "edge_budget is an option of `prune`, not of"),
        ({"learner": "prune", "edge_budget": 1.0}, "edge_budget must be between 0 and 1; got 1.0"),
        ({"learner": "prune", "aligned_edges": 0.0}, "aligned_edges must be between 0 and 1"),
    ],
)
def test_invalid_options_are_rejected(options, message):
    with pytest.raises(UsageError, match=message):
        resolve(TrainConfig(**options))


def test_defaults_are_filled_in_and_other_algorithms_keep_their_keys():
    ciga = resolve(TrainConfig(learner="ciga", hinge=0.0))
    assert (ciga.causal_ratio, ciga.hinge, ciga.penalty, ciga.generators) == (0.6, 0.0, 1.0, None)
    assert resolve(TrainConfig(learner="gil")).inferred_envs == 3
    erm = msgspec.to_builtins(resolve(TrainConfig()))
    added = (
        "causal_ratio", "hinge", "inferred_envs", "generators", "kl_weight", "label_penalty",
        "edge_prior", "edge_budget", "aligned_edges", "align_weight",
    )  # fmt: skip
    assert all(erm[name] == STAGE.added_options[name] for name in added)


def test_tuning_searches_the_grids_of_the_paper_for_options_an_algorithm_uses(tmp_path):
    path = tmp_path / "space.toml"
    path.write_text('[train]\nlearner = ["erm", "dir", "ciga"]\nhinge = [0.5, 1.0]\n')
    space = read_search_space(path)
    assert set(space.values["train.causal_ratio"]) == {0.2, 0.4, 0.6, 0.8}
    assert space.values["train.hinge"] == (0.5, 1.0)
    expected = {
        "erm": set(),
        "dir": {"train.causal_ratio"},
        "ciga": {"train.causal_ratio", "train.hinge"},
    }
    for algorithm, names in expected.items():
        searched = set(space.active_options({"train.learner": f'"{algorithm}"'}))
        assert searched & {"train.causal_ratio", "train.hinge"} == names
    path.write_text("[train]\ninferred_envs = 3\n")
    with pytest.raises(RecipeError, match=r"must be a list of values such as \[3\]"):
        read_search_space(path)
