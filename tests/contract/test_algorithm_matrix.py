"""Every learner of the field trains where it applies, goes on where it stopped, or says why not."""

import msgspec
import numpy as np
import pytest

from gsx.errors import StageError, UsageError
from gsx.stages.prepare.synthetic import motif
from gsx.stages.train.algorithms.catalog import KINDS, check_applies, matters
from gsx.stages.train.build_algorithm import MAKERS
from gsx.stages.train.data import environments, read_train, shape_of
from gsx.stages.train.stage import STAGE, TrainConfig, resolve
from gsx.stages.train.trainer import Lesson, _course
from gsx.storage.corpora.corpus import Corpus
from tests.support.run_stages import (
    corpora_of_both_levels,
    run_stage,
    stop_training,
    write_small_corpus,
)

SIZES = {"train": 60, "id_val": 20, "ood_val": 20}
GRAPHS = {"source": "prepare", "width": 8, "epochs": 3, "batch_size": 20}
NODES = {"source": "prepare", "backbone": "gcn", "width": 8, "epochs": 3, "batch_size": 100,
         "samples": 2, "coverage": 3}  # fmt: skip
NEW = {
    "flag": {"ascent_step": 0.01},
    "mixup": {"mix_alpha": 0.4},
    "lisa": {},
    "eerm": {"context_rate": 0.01},
    "srgnn": {"penalty": 1e-2},
}


@pytest.fixture(scope="module")
def corpora(tmp_path_factory):
    with pytest.MonkeyPatch.context() as patch:
        patch.setenv("GSX_CACHE", str(tmp_path_factory.mktemp("cache")))
        return corpora_of_both_levels(tmp_path_factory.mktemp("store"), SIZES)


def train(folder, corpora, level, **options):
    given = {**(GRAPHS if level == "graph" else NODES), **options}
    return run_stage(folder, "train", given, {"prepare": corpora[level]})


def test_every_learner_is_listed_once_everywhere():
    (field,) = (each for each in msgspec.structs.fields(TrainConfig) if each.name == "learner")
    assert set(KINDS) == set(MAKERS) == set(field.type.__args__)
    known = {each.name for each in msgspec.structs.fields(TrainConfig)}
    assert all(set(kind.options) <= known for kind in KINDS.values())
    assert all(matters("width", learner) for learner in KINDS)
    assert [name for name in KINDS if matters("mix_alpha", name)] == ["mixup", "lisa"]


@pytest.mark.parametrize(
    ("learner", "level"),
    [(learner, level) for learner in NEW for level in KINDS[learner].levels],
)
def test_a_stopped_run_goes_on_to_the_same_bytes(corpora, tmp_path, monkeypatch, learner, level):
    options = {"learner": learner, "dropout": 0.2, **NEW[learner]}
    whole = train(tmp_path / "whole", corpora, level, **options)
    begun = stop_training(monkeypatch, 2)
    with pytest.raises(KeyboardInterrupt):
        train(tmp_path / "parts", corpora, level, **options)
    resumed = train(tmp_path / "parts", corpora, level, **options)
    assert begun == [0, 1, 2, 2]
    assert resumed.manifest.digest == whole.manifest.digest
    plain = train(tmp_path / "plain", corpora, level, dropout=0.2)
    assert plain.manifest.digest != whole.manifest.digest


def test_options_that_change_nothing_are_in_no_key(corpora, tmp_path):
    plain = train(tmp_path, corpora, "graph")
    assert not {"ascent_step", "mix_alpha", "contexts"} & set(plain.manifest.config)
    defaults = {field.name: field.default for field in msgspec.structs.fields(TrainConfig)}
    assert all(defaults[name] == value for name, value in STAGE.later.items())


def test_nodes_that_are_moved_apart_are_not_folded(corpora):
    corpus = Corpus(corpora["graph"])
    table = read_train(corpus, None)
    env, count = environments(table, "flag")
    lesson = Lesson(task="classification", metric="accuracy", train=table, env=env,
                    num_envs=count, held_out={})  # fmt: skip
    shape = shape_of(corpus.info, "gin", 8, 2)
    folded = {
        learner: "colors" in _course(TrainConfig(learner=learner), shape, lesson, None)[0].node
        for learner in ("erm", "mixup", "flag")
    }
    assert folded == {"erm": True, "mixup": True, "flag": False}


@pytest.mark.parametrize("learner", ["eerm", "srgnn"])
def test_learners_of_nodes_refuse_graphs(corpora, tmp_path, learner):
    with pytest.raises(StageError) as error:
        train(tmp_path, corpora, "graph", learner=learner)
    assert str(error.value) == (
        f"{learner.upper()} is for labelled nodes; motif-size has labelled graphs. Use another "
        "learner: `erm`, `vrex`, `irm`, `groupdro`, `coral`, `dann`, `flag`, `mixup`, `lisa`, "
        "`dir`, `gil`, `ciga`, `lisa-subgraph`."
    )
    assert not list(tmp_path.rglob("weights*"))


def test_equal_values_are_not_paired():
    with pytest.raises(StageError) as error:
        check_applies("lisa", level="graph", task="regression", name="zinc")
    assert str(error.value) == (
        "LISA pairs equal labels; those of zinc are values. Use another learner: `erm`, `vrex`, "
        "`irm`, `groupdro`, `coral`, `dann`, `flag`, `mixup`, `dir`, `gil`, `lisa-subgraph`."
    )
    check_applies("mixup", level="graph", task="regression", name="zinc")


def without_environments(table):
    return table.with_columns(graph={"env_id": np.full(len(table), -1, dtype=np.int32)})


def test_only_learners_that_compare_environments_ask_for_them(tmp_path):
    corpus = {"graph": write_small_corpus(tmp_path, without_environments, sizes=SIZES)}
    with pytest.raises(StageError, match="`lisa` compares environments, but the training graphs"):
        train(tmp_path, corpus, "graph", learner="lisa")
    for learner in ("mixup", "flag"):
        train(tmp_path, corpus, "graph", learner=learner, epochs=1)


@pytest.mark.parametrize(
    ("options", "message"),
    [
        ({"ascent_step": 0.0}, "ascent_step must be positive; got 0.0"),
        ({"ascents": 0}, "ascents must be at least 1; got 0"),
        ({"mix_alpha": -1.0}, "mix_alpha must be positive; got -1.0"),
        ({"contexts": 1}, "contexts must be at least 2 to differ; got 1"),
        ({"context_edits": 0}, "context_edits must be at least 1; got 0"),
        ({"context_rate": float("inf")}, "context_rate must be positive; got inf"),
    ],
)
def test_impossible_options_of_learners_are_refused(options, message):
    with pytest.raises(UsageError) as error:
        resolve(TrainConfig(**options))
    assert str(error.value) == message


def of_values(table):
    """Replace classes by values, one of them missing."""
    y = table.num_nodes[:, None].astype(np.float32) / 10
    y[0] = np.nan
    label = np.full(len(table), -1, dtype=np.int32)
    return table.with_columns(graph={"y": y, "label": label})


@pytest.mark.parametrize("learner", ["flag", "mixup"])
def test_values_are_learned_too(tmp_path, learner):
    info = motif.corpus_info("motif-size")
    columns = tuple(
        msgspec.structs.replace(column, width=1) if column.name == "y" else column
        for column in info.columns
    )
    info = msgspec.structs.replace(
        info, task="regression", metric="rmse", outputs=("size",), columns=columns
    )
    corpus = {"graph": write_small_corpus(tmp_path, of_values, info, SIZES)}
    train(tmp_path, corpus, "graph", learner=learner, epochs=1)
