"""Suites of experiments, their commands, and the result files they account for."""

import importlib
import json
import re
import subprocess
import tomllib

import pytest

from experiments import run as runner
from experiments.suite import (
    DEFAULTS,
    EARLIER_DEFAULTS,
    RESULTS,
    ROOT,
    SUITES,
    SuiteError,
    load_suite,
    suite_names,
)
from gsx.storage.artifacts.store import Store
from tests.support.artifacts import motif

RUNS = {run.result: run for name in suite_names() for run in load_suite(name).runs()}
KEY_WORDS = {"SOURCE", "CORPUS"}


def commands(result):
    return [" ".join(step.command) for step in RUNS[result].steps]


def written(folder, name, text):
    (folder / f"{name}.toml").write_text(text)
    return list(load_suite(name, folder).runs())


@pytest.mark.parametrize("name", suite_names())
def test_a_suite_parses_and_uses_all_its_values(name):
    suite = load_suite(name)
    assert suite.description
    text = (SUITES / f"{name}.toml").read_text()
    tables = [suite.defaults, *suite.datasets.values(), *suite.methods.values()]
    fields = {*DEFAULTS, "train", "pretrain", "tune", "epochs", "datasets", "group", "title"}
    values = {key for table in tables for key in table} - fields
    assert values == {key for key in values if f"{{{key}}}" in text}


def test_no_two_runs_write_the_same_file():
    assert len(RUNS) == sum(1 for name in suite_names() for _ in load_suite(name).runs())


def test_training_runs_write_the_file_they_are_listed_with():
    for result, run in RUNS.items():
        words = run.steps[-1].command
        if words[1] == "train":
            folder = words[words.index("--results") + 1]
            assert result == f"{folder}/{run.dataset}/{run.method}-{run.seed}.json"
            assert words[words.index("--method") + 1] == run.method
            assert words[words.index("--seed") + 1] == str(run.seed)


def test_every_result_file_belongs_to_a_suite_or_is_listed_as_historical():
    historical = tomllib.loads((ROOT / "experiments" / "historical.toml").read_text())["files"]
    listed = {path.relative_to(ROOT).as_posix() for glob in historical for path in ROOT.glob(glob)}
    committed = {path.relative_to(ROOT).as_posix() for path in RESULTS.rglob("*.json")}
    assert committed - RUNS.keys() == listed
    assert all(any(ROOT.glob(glob)) for glob in historical)


def test_results_hold_data_only():
    others = [path for path in RESULTS.rglob("*.*") if path.suffix != ".json"]
    assert sorted(path.name for path in others) == ["README.md", "published.csv"]


def test_recorded_commands_are_those_of_the_suites():
    compared = 0
    for result, run in RUNS.items():
        document = json.loads((ROOT / result).read_text()) if run.done else {}
        if "command" in document:
            recorded = document["command"].split(" && ")[-1].split()
            planned = run.steps[-1].command
            key = next(recorded[i] for i, word in enumerate(planned) if word in KEY_WORDS)
            replaced = [key if word in KEY_WORDS else word for word in planned]
            for option, value in EARLIER_DEFAULTS.items():
                if planned[1] == "train" and option not in recorded:
                    position = replaced.index(option)
                    assert replaced[position : position + 2] == [option, value]
                    del replaced[position : position + 2]
            assert sorted(recorded) == sorted(replaced), result
            compared += 1
    assert compared > 650


def test_a_baseline_trains_on_the_source_corpus():
    assert commands("results/cbas-color/erm-1.json") == [
        "gsx prepare cbas-color",
        "gsx train SOURCE --preset paper --epochs 200 --learning-rate 3e-3 --batch-size 1000 "
        "--method erm --results results --seed 1 --average 0 --select ood_val",
    ]


def test_generation_pretrains_what_it_names():
    assert commands("results/fsmotif-size-color/g-splice-x+featx-2.json") == [
        "gsx prepare fsmotif-size-color",
        "gsx pretrain mask SOURCE --domain 0..1",
        "gsx pretrain extract SOURCE",
        "gsx pretrain bridge SOURCE --epochs 100",
        "gsx generate SOURCE --featx --featx-rounds 3 --options 010 --f 1 --ratio 20 --grow 2 "
        "--chords 0.05 --ports own --mask MASK --extractor EXTRACTOR --bridge BRIDGE --seed 2",
        "gsx train CORPUS --average 0.999 --layers 4 --batch-size 256 --learning-rate 2e-2 "
        "--epochs 38 --method g-splice-x+featx --results results --seed 2 --select ood_val",
    ]
    assert commands("results/motif-base/g-splice-x-true-pieces-0.json")[2:4] == [
        "python -m experiments.ground_truth_extractor SOURCE",
        "gsx generate SOURCE --options 010 --f 1 --ratio 1 --grow 1 --fragments 3 --ports own "
        "--bridge BRIDGE --extractor GROUND_TRUTH --seed 0",
    ]


@pytest.mark.parametrize(
    ("method", "epochs"), [("erm", 10), ("g-mixup", 8), ("drop-node", 5), ("g-splice+featx", 2)]
)
def test_larger_corpora_are_trained_for_fewer_epochs(method, epochs):
    assert f"--epochs {epochs} " in commands(f"results/field/dd-size/{method}-0.json")[-1]


def test_suites_that_measure_pretraining_end_with_it():
    assert commands("results/extract/motif-base-pair-0.json") == [
        "gsx prepare motif-base",
        "gsx pretrain extract SOURCE --extractor pair --seed 0",
    ]
    assert commands("results/tuned/nci1-size.json") == [
        "gsx tune nci1-size --space experiments/search_spaces/nci1-size.toml --epochs 12 "
        "--seeds 3 --trials 7",
    ]


def test_parts_share_all_runs_and_filters_choose_some():
    suites = [load_suite("motif")]
    every = runner.select_runs(suites)
    parts = [runner.select_runs(suites, part=f"{index}/3") for index in range(3)]
    assert sorted((run for part in parts for run in part), key=every.index) == every
    some = runner.select_runs(suites, ["motif-base"], ["erm", "vrex"])
    assert [run.result for run in some] == [
        f"results/motif-base/{method}-{seed}.json"
        for method in ("erm", "vrex")
        for seed in range(3)
    ]


@pytest.mark.parametrize(
    ("words", "message"),
    [
        (["motif", "--datasets", "motif"], "unknown: ['motif']. Choose from ['motif-base'"),
        (["motif", "--part", "2/2"], "--part 2/2: the first number must be in 0..1."),
        (["moti"], "invalid choice: 'moti'"),
    ],
)
def test_wrong_names_are_refused(words, message, capsys):
    with pytest.raises(SystemExit):
        runner.main(words)
    assert message in capsys.readouterr().err


def test_a_dry_run_lists_commands_and_runs_none(capsys, monkeypatch):
    monkeypatch.setattr(subprocess, "run", None)
    words = ["motif", "--datasets", "motif-size", "--methods", "g-splice-3", "--part", "0/3"]
    assert runner.main([*words, "--dry-run"]) == 0
    assert capsys.readouterr().out == (
        "# results/motif-size/g-splice-3-0.json (exists)\n"
        "gsx prepare motif-size\n"
        "gsx pretrain bridge SOURCE\n"
        "gsx generate SOURCE --options 001 --f 2..4 --ratio 1 --bridge BRIDGE --seed 0\n"
        "gsx train CORPUS --method g-splice-3 --results results --seed 0 --average 0.999 "
        "--select ood_val\n\n"
    )


SMALL = """
description = "small"
[defaults]
seeds = [0]
pretrain_bridge = "--epochs 1"
[datasets]
toy = {prepare = "--num-graphs 9"}
hiv = {raw = true}
[methods]
splice = {generate = "--bridge BRIDGE", train = "--method {method}"}
bridge = {pretrain = "bridge --epochs 1", result = "results/bridge/{dataset}.json"}
search = {tune = "--trials 1", result = "results/tuned/{dataset}.json"}
"""


class Recorder:
    """Stand-in for ``subprocess.run`` that records commands and builds artifacts."""

    def __init__(self, folder):
        self.folder, self.commands = folder, []
        (folder / "manifest.json").write_text(
            '{"stage_version": 3, "config": {"epochs": 1}, "summary": {"quality": {"auc": 0.5}}}'
        )
        (folder / "run.json").write_text('{"source": "abc", "seconds": 1.5}')

    def __call__(self, command, *, check, stdout, **_):
        words = command[command.index("gsx") + 1 :]
        self.commands.append(" ".join(words))
        if "fail" in self.commands[-1]:
            raise subprocess.CalledProcessError(3, words)
        if words[0] == "train":
            assert stdout is None
            return subprocess.CompletedProcess(command, 0, None)
        key = f"{words[1] if words[0] == 'pretrain' else words[0]}-0123456789abcdef"
        return subprocess.CompletedProcess(
            command, 0, json.dumps({"key": key, "path": str(self.folder)})
        )


@pytest.fixture
def recorder(tmp_path, monkeypatch):
    monkeypatch.setattr("experiments.run.ROOT", tmp_path)
    monkeypatch.setattr("experiments.suite.ROOT", tmp_path)
    monkeypatch.delenv("GSX_RAW_DATA", raising=False)
    runner.run_json.cache_clear()
    recorder = Recorder(tmp_path)
    monkeypatch.setattr(subprocess, "run", recorder)
    return recorder


def test_runs_pass_keys_on_and_write_result_files(recorder, tmp_path, capsys):
    assert runner.run_all(written(tmp_path, "small", SMALL)) == 0
    source = "prepare-0123456789abcdef"
    assert recorder.commands == [
        "prepare toy --num-graphs 9 --json",
        f"pretrain bridge {source} --epochs 1 --json",
        f"generate {source} --bridge bridge-0123456789abcdef --seed 0 --json",
        "train generate-012 --method splice --average 0 --select ood_val",
        "tune toy --trials 1 --json",
    ]
    assert json.loads((tmp_path / "results/bridge/toy.json").read_text()) == {
        "dataset": "toy",
        "stage": "bridge",
        "stage_version": 3,
        "config": {"epochs": 1},
        "key": "bridge-0123456789abcdef",
        "corpus_key": source,
        "command": "gsx prepare toy --num-graphs 9 && gsx pretrain bridge prepare-0123 --epochs 1",
        "source": "abc",
        "seconds": 1.5,
        "quality": {"auc": 0.5},
    }
    assert json.loads((tmp_path / "results/tuned/toy.json").read_text())["key"]
    assert "GSX_RAW_DATA is not set: hiv" in capsys.readouterr().out


def test_finished_runs_are_skipped_and_failed_ones_are_listed(recorder, tmp_path, capsys):
    (tmp_path / "results/toy").mkdir(parents=True)
    (tmp_path / "results/toy/splice-0.json").touch()
    text = SMALL.replace("bridge --epochs 1", "bridge --fail")
    assert runner.run_all(written(tmp_path, "small", text)) == 1
    assert [line.split()[0] for line in recorder.commands] == ["prepare", "pretrain", "tune"]
    assert "failed: results/bridge/toy.json: exit code 3" in capsys.readouterr().err


@pytest.mark.parametrize(
    ("old", "new", "message"),
    [
        ("{method}", "{metod}", "small.toml: splice on toy: `train` refers to undefined 'metod'."),
        ("{method}", "{train}", "small.toml: splice on toy: `train` refers to itself."),
        ("[defaults]", "[default]", r"small.toml: unknown or missing keys ['default']."),
        ("{tune =", "{turn =", "search on toy: define one of `train`, `pretrain` and `tune`."),
        ("{tune", '{datasets = "a", tune', "small.toml: search names an unknown group"),
        ("[methods]", "[dataset_groups]\na = ['b']\n[methods]", "group a has unknown datasets"),
    ],
)
def test_invalid_suites_are_refused(old, new, message, tmp_path):
    with pytest.raises(SuiteError, match=re.escape(message)):
        written(tmp_path, "small", SMALL.replace(old, new))


def test_every_module_of_the_experiments_can_be_imported():
    for path in (ROOT / "experiments").rglob("*.py"):
        importlib.import_module(".".join(path.relative_to(ROOT).with_suffix("").parts))


def test_the_true_subgraphs_of_motif_are_published_as_an_extractor(tmp_path):
    from experiments.ground_truth_extractor import publish_ground_truth

    store = Store.at(tmp_path)
    source = motif(store)
    artifact = store.resolve(publish_ground_truth(store, source.manifest.key))
    assert (artifact.manifest.kind, artifact.manifest.stage) == ("extractor", "oracle")
    assert publish_ground_truth(store, source.manifest.key) == artifact.manifest.key
