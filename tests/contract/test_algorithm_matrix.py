"""Every algorithm is complete, trains where it applies, resumes, and rejects other corpora."""

import subprocess
import sys

import msgspec
import numpy as np
import pytest

from gsx.errors import StageError, UsageError
from gsx.stages.prepare.synthetic import motif
from gsx.stages.train.algorithms import ALGORITHMS, algorithm_named, check_applies
from gsx.stages.train.algorithms.options import OPTIONS, uses_option
from gsx.stages.train.data import graph_backbone_shape, read_training_data
from gsx.stages.train.stage import STAGE, TrainConfig, resolve
from gsx.stages.train.trainer import batch_source
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
OPTIONS_BY_ALGORITHM = {
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
    options = {**(GRAPHS if level == "graph" else NODES), **options}
    return run_stage(folder, "train", options, {"prepare": corpora[level]})


def config_fields():
    return {field.name: field for field in msgspec.structs.fields(TrainConfig)}


def test_the_config_accepts_every_algorithm_and_its_options():
    fields = config_fields()
    assert fields["learner"].type.__args__ == tuple(algorithm.name for algorithm in ALGORITHMS)
    for algorithm in ALGORITHMS:
        for name, option in algorithm.options().items():
            expected = None if option.nullable else option.default
            assert fields[name].default == expected, (algorithm.name, name)
    assert set(STAGE.added_options) >= set(OPTIONS) - {"penalty"}


def test_every_field_of_the_config_is_a_shared_option_or_an_option_of_an_algorithm():
    shared = {name for name in config_fields() if name not in OPTIONS}
    assert shared == {
        "source", "learner", "backbone", "width", "layers", "dropout", "epochs", "steps",
        "batch_size", "samples", "coverage", "learning_rate", "schedule", "milestone", "augmented",
        "origins", "weight_decay", "readout", "evaluate", "select", "counts", "strength",
        "env_balanced", "average", "seed", "precision", "device", "log",
    }  # fmt: skip


@pytest.mark.parametrize("algorithm", ALGORITHMS, ids=lambda algorithm: algorithm.name)
def test_an_algorithm_describes_itself(algorithm):
    assert algorithm.title
    assert algorithm.__doc__
    assert set(algorithm.levels) <= {"graph", "node"}
    for option in algorithm.options().values():
        assert option.bounds.allows(option.default)
        assert all(option.bounds.allows(value) for value in option.search)
        assert option.help
    resolved = resolve(TrainConfig(learner=algorithm.name))
    for name, option in algorithm.options().items():
        assert getattr(resolved, name) == option.default


def test_names_and_options_are_available_without_torch():
    code = (
        "import sys; import gsx.stages.train.algorithms.options, gsx.stages.train.config; "
        "print([name for name in ('torch', 'numpy', 'scipy') if name in sys.modules])"
    )
    output = subprocess.run([sys.executable, "-c", code], capture_output=True, check=True).stdout
    assert output.strip() == b"[]"


def test_options_affect_only_algorithms_that_declare_them():
    names = [algorithm.name for algorithm in ALGORITHMS]
    assert all(uses_option(name, "width") for name in names)
    assert [name for name in names if uses_option(name, "mix_alpha")] == ["mixup", "lisa"]
    assert not uses_option("erm", "penalty")


def test_help_lists_the_algorithms_and_defaults_of_an_option():
    assert OPTIONS["causal_ratio"].help == (
        "dir, gil, ciga: fraction of a graph's edges in the causal subgraph.  "
        "[default: 0.4; 0.6 for gil, ciga]"
    )
    assert OPTIONS["ascents"].help == "flag: forward passes per batch.  [default: 3]"


@pytest.mark.parametrize(
    ("name", "level"),
    [(name, level) for name in OPTIONS_BY_ALGORITHM for level in algorithm_named(name).levels],
)
def test_a_resumed_run_gives_the_same_bytes(corpora, tmp_path, monkeypatch, name, level):
    options = {"learner": name, "dropout": 0.2, **OPTIONS_BY_ALGORITHM[name]}
    whole = train(tmp_path / "whole", corpora, level, **options)
    started_epochs = stop_training(monkeypatch, 2)
    with pytest.raises(KeyboardInterrupt):
        train(tmp_path / "parts", corpora, level, **options)
    resumed = train(tmp_path / "parts", corpora, level, **options)
    assert started_epochs == [0, 1, 2, 2]
    assert resumed.manifest.digest == whole.manifest.digest
    plain = train(tmp_path / "plain", corpora, level, dropout=0.2)
    assert plain.manifest.digest != whole.manifest.digest


def test_unused_options_are_not_part_of_the_key(corpora, tmp_path):
    plain = train(tmp_path, corpora, "graph")
    assert not {"ascent_step", "mix_alpha", "contexts"} & set(plain.manifest.config)
    fields = config_fields()
    assert all(fields[name].default == value for name, value in STAGE.added_options.items())


def test_nodes_are_not_deduplicated_if_the_algorithm_distinguishes_them(corpora):
    corpus = Corpus(corpora["graph"])
    data = read_training_data(corpus, None, "flag")
    shape = graph_backbone_shape(corpus.info, "gin", 8, 2)
    deduplicated = {
        name: "colors" in batch_source(TrainConfig(learner=name), shape, data, None).node
        for name in ("erm", "mixup", "flag")
    }
    assert deduplicated == {"erm": True, "mixup": True, "flag": False}


@pytest.mark.parametrize("name", ["eerm", "srgnn"])
def test_node_algorithms_reject_graph_labels(corpora, tmp_path, name):
    with pytest.raises(StageError) as error:
        train(tmp_path, corpora, "graph", learner=name)
    assert str(error.value) == (
        f"{name.upper()} needs node labels, but motif-size has graph labels. Use another "
        "algorithm: `erm`, `vrex`, `irm`, `groupdro`, `coral`, `dann`, `flag`, `mixup`, `lisa`, "
        "`dir`, `gil`, `ciga`, `lisa-subgraph`, `leci`, `prune`."
    )
    assert not list(tmp_path.rglob("weights*"))


def test_lisa_rejects_regression():
    with pytest.raises(StageError) as error:
        check_applies("lisa", level="graph", task="regression", corpus="zinc")
    assert str(error.value) == (
        "LISA needs classes, but zinc is a regression task. Use another algorithm: `erm`, `vrex`, "
        "`irm`, `groupdro`, `coral`, `dann`, `flag`, `mixup`, `dir`, `gil`, `lisa-subgraph`, "
        "`prune`."
    )
    check_applies("mixup", level="graph", task="regression", corpus="zinc")


def without_environments(table):
    return table.with_columns(graph={"env_id": np.full(len(table), -1, dtype=np.int32)})


def test_only_algorithms_that_compare_environments_need_them(tmp_path):
    corpus = {"graph": write_small_corpus(tmp_path, without_environments, sizes=SIZES)}
    for name in ("lisa", "leci"):
        message = f"`{name}` compares environments, but the training graphs"
        with pytest.raises(StageError, match=message):
            train(tmp_path, corpus, "graph", learner=name)
    for name in ("mixup", "flag", "prune"):
        model = train(tmp_path, corpus, "graph", learner=name, epochs=1)
        assert model.manifest.counts == {"graphs": 60}


@pytest.mark.parametrize(
    ("options", "message"),
    [
        ({"ascent_step": 0.0}, "ascent_step must be positive; got 0.0"),
        ({"ascents": 0}, "ascents must be at least 1; got 0"),
        ({"mix_alpha": -1.0}, "mix_alpha must be positive; got -1.0"),
        ({"contexts": 1}, "contexts must be at least 2; got 1"),
        ({"context_edits": 0}, "context_edits must be at least 1; got 0"),
        ({"context_rate": float("inf")}, "context_rate must be positive; got inf"),
    ],
)
def test_options_out_of_bounds_are_rejected(options, message):
    with pytest.raises(UsageError) as error:
        resolve(TrainConfig(**options))
    assert str(error.value) == message


def with_regression_labels(table):
    """Replace classes by numbers, one of them missing."""
    y = table.num_nodes[:, None].astype(np.float32) / 10
    y[0] = np.nan
    label = np.full(len(table), -1, dtype=np.int32)
    return table.with_columns(graph={"y": y, "label": label})


@pytest.mark.parametrize("name", ["flag", "mixup", "prune"])
def test_regression_is_supported(tmp_path, name):
    info = motif.corpus_info("motif-size")
    columns = tuple(
        msgspec.structs.replace(column, width=1) if column.name == "y" else column
        for column in info.columns
    )
    info = msgspec.structs.replace(
        info, task="regression", metric="rmse", outputs=("size",), columns=columns
    )
    corpus = {"graph": write_small_corpus(tmp_path, with_regression_labels, info, SIZES)}
    model = train(tmp_path, corpus, "graph", learner=name, epochs=1)
    scores = model.manifest.summary["quality"]
    assert scores["metric"] == "rmse"
    assert np.isfinite(scores["selection"]["last"]["ood_val"])
