"""Learners of invariant subgraphs train, go on, are scored, tuned and refused as all others."""

import msgspec
import numpy as np
import pytest
import torch

from gsx.errors import RecipeError, StageError, UsageError
from gsx.pipeline.tuning.search_space import read_space
from gsx.stages.graphs.subgraphs import sort_edges
from gsx.stages.nn.batches import BackboneShape, Selection
from gsx.stages.nn.build_network import fresh
from gsx.stages.nn.training_loop import torch_stream
from gsx.stages.prepare.synthetic import motif
from gsx.stages.train.algorithms.catalog import KINDS, check_applies
from gsx.stages.train.build_algorithm import Setting, learner_of
from gsx.stages.train.evaluate import evaluate
from gsx.stages.train.evaluator import Scorer
from gsx.stages.train.stage import STAGE, TrainConfig, resolve
from gsx.stages.train.trainer import Lesson, Steps
from gsx.storage.corpora.corpus import Corpus
from tests.support.run_stages import run_stage, stop_training, unchanged, write_small_corpus

CPU = torch.device("cpu")
SUBGRAPHS = ("dir", "gil", "ciga", "lisa-subgraph")
WIDTH = 8


def shape(ratio, width):
    select = {} if ratio is None else {"select": Selection(ratio=ratio)}
    return BackboneShape(backbone="gin", features=1, width=width, layers=3, outputs=3, **select)


SIZES = {"train": 64, "id_val": 20, "ood_val": 20}
SMALL = {"source": "prepare", "width": WIDTH, "epochs": 2, "batch_size": 32}


@pytest.fixture(scope="module")
def corpus(tmp_path_factory):
    return write_small_corpus(tmp_path_factory.mktemp("corpus"), unchanged, sizes=SIZES)


def train(folder, corpus, **options):
    return run_stage(folder, "train", {**SMALL, **options}, {"prepare": corpus})


@pytest.mark.parametrize("learner", ["dir", "lisa-subgraph"])
def test_a_stopped_run_goes_on_to_the_same_bytes(tmp_path, monkeypatch, corpus, learner):
    options = {"learner": learner, "dropout": 0.2, "average": 0.9}
    whole = train(tmp_path / "whole", corpus, **options)
    begun = stop_training(monkeypatch, 1)
    with pytest.raises(KeyboardInterrupt):
        train(tmp_path / "parts", corpus, **options)
    resumed = train(tmp_path / "parts", corpus, **options)
    assert begun == [0, 1, 1]
    assert resumed.manifest.digest == whole.manifest.digest


@pytest.mark.parametrize("learner", SUBGRAPHS)
def test_a_published_model_selects_as_it_did_in_training(tmp_path, corpus, learner):
    model = train(tmp_path, corpus, learner=learner, backbone="vgin", epochs=1)
    scored = evaluate(model, Corpus(corpus), "weights-last.safetensors", CPU)
    told = model.manifest.summary["quality"]["selection"]["last"]
    for split in ("id_val", "ood_val"):
        assert scored["splits"][split]["score"] == told[split]
    written = msgspec.json.decode(model.place.read_bytes("model.json", limit=1 << 20))
    ratio = KINDS[learner].fills.get("causal_ratio")
    assert written["shape"].get("select", {}).get("ratio") == ratio


@pytest.fixture(scope="module")
def lesson():
    table = motif.build("motif-size", "train", 0, 300, seed=0, first_graph_id=0)
    return Lesson(
        task="classification",
        metric="accuracy",
        train=sort_edges(table),
        env=np.zeros(300, dtype=np.int64),
        num_envs=1,
        held_out={},
    )


@pytest.mark.parametrize("learner", SUBGRAPHS)
def test_more_than_chance_is_learned(lesson, learner):
    config = resolve(TrainConfig(learner=learner, width=32, epochs=15, batch_size=100))
    form = shape(config.causal_ratio, config.width)
    net = fresh(form, 0.0, torch_stream(0, "w"), torch_stream(0, "d"))
    taught = learner_of(Setting(config, form, lesson), CPU)
    steps = Steps(config, net, taught, lesson.train, lesson, CPU, None)
    losses = [steps.epoch(number) for number in range(config.epochs)]
    assert losses[-1] < losses[0]
    scorer = Scorer(lesson.train, form, metric="accuracy", task="classification", device=CPU)
    assert scorer.score(net, 0) > 42  # one of three classes is right by chance


@pytest.mark.parametrize("learner", SUBGRAPHS)
def test_labelled_nodes_are_refused(learner):
    with pytest.raises(StageError, match="is for labelled graphs; cbas has labelled nodes"):
        check_applies(learner, level="node", task="classification", name="cbas")


def test_ciga_refuses_values():
    with pytest.raises(StageError, match="CIGA pairs equal labels; those of zinc are values"):
        check_applies("ciga", level="graph", task="regression", name="zinc")
    check_applies("dir", level="graph", task="regression", name="zinc")


@pytest.mark.parametrize(
    ("options", "message"),
    [
        ({"causal_ratio": 0.5}, "causal_ratio is for `dir`, `gil`, `ciga`; `erm` does not read"),
        ({"learner": "dir", "causal_ratio": 1.0}, "must lie between 0 and 1; got 1.0"),
        ({"learner": "dir", "hinge": 1.0}, "hinge is for `ciga`; `dir` does not read it"),
        ({"learner": "ciga", "hinge": -1.0}, "hinge must not be negative; got -1.0"),
        ({"learner": "gil", "inferred_envs": 1}, "inferred_envs must be at least 2; got 1"),
        ({"learner": "lisa-subgraph", "generators": 1}, "generators must be at least 2; got 1"),
        ({"learner": "lisa-subgraph", "kl_weight": float("nan")}, "kl_weight must not be negat"),
    ],
)
def test_options_that_make_no_sense_are_refused(options, message):
    with pytest.raises(UsageError, match=message):
        resolve(TrainConfig(**options))


def test_options_left_out_are_filled_in_and_other_learners_keep_their_keys():
    ciga = resolve(TrainConfig(learner="ciga", hinge=0.0))
    assert (ciga.causal_ratio, ciga.hinge, ciga.penalty, ciga.generators) == (0.6, 0.0, 1.0, None)
    assert resolve(TrainConfig(learner="gil")).inferred_envs == 3
    erm = msgspec.to_builtins(resolve(TrainConfig()))
    added = ("causal_ratio", "hinge", "inferred_envs", "generators", "kl_weight")
    assert all(erm[name] == STAGE.later[name] for name in added)


def test_tuning_searches_the_sets_of_the_paper_and_only_what_a_learner_reads(tmp_path):
    path = tmp_path / "space.toml"
    path.write_text('[train]\nlearner = ["erm", "dir", "ciga"]\nhinge = [0.5, 1.0]\n')
    space = read_space(path)
    assert set(space.values["train.causal_ratio"]) == {0.2, 0.4, 0.6, 0.8}
    assert space.values["train.hinge"] == (0.5, 1.0)
    read = {"erm": set(), "dir": {"causal_ratio"}, "ciga": {"causal_ratio", "hinge"}}
    for learner, names in read.items():
        asked = set(space.names({"train.learner": f'"{learner}"'}))
        assert asked & {"train.causal_ratio", "train.hinge"} == {f"train.{each}" for each in names}
    path.write_text("[train]\ninferred_envs = 3\n")
    with pytest.raises(RecipeError, match=r"must be a list of values such as \[3\]"):
        read_space(path)
