"""The protocol of comparisons, the suites that follow it and the files of their runs."""

import hashlib
import json
import subprocess
import tomllib

import pytest

from experiments import run as runner
from experiments.suite import RESULTS, ROOT, Run, Step, load_suite, suite_names

PROTOCOL = tomllib.loads((ROOT / "experiments" / "protocol.toml").read_text())
SUITES = {name: load_suite(name) for name in suite_names()}


def test_the_suites_of_the_protocol_have_its_datasets_methods_and_seeds():
    following = {name for name, suite in SUITES.items() if suite.defaults.get("protocol")}
    assert following == set(PROTOCOL["training"]["suites"])
    confirmation = SUITES["confirmation"]
    assert list(confirmation.datasets) == PROTOCOL["datasets"]["confirmation"]
    methods = PROTOCOL["methods"]
    assert list(confirmation.methods) == [methods["baseline"], *methods["compared"]]
    assert len(confirmation.defaults["seeds"]) == PROTOCOL["seeds"]["default"]
    for run in confirmation.runs():
        words = " ".join(run.steps[-1].command)
        assert "--seal" in words
        if run.method == "linear":
            continue
        assert f"--select {PROTOCOL['training']['select']}" in words
        assert f"--average {PROTOCOL['training']['average']}" in words


def test_no_other_suite_uses_confirmation_data():
    confirmation = set(PROTOCOL["datasets"]["confirmation"])
    for name, suite in SUITES.items():
        if name not in PROTOCOL["training"]["suites"]:
            assert not confirmation & suite.datasets.keys(), name
    assert not confirmation & set(PROTOCOL["datasets"]["development"])


def test_every_result_that_follows_the_protocol_has_the_digest_of_one_of_its_versions():
    versions = {runner.protocol_digest(), *PROTOCOL["earlier"].values()}
    for suite in PROTOCOL["training"]["suites"]:
        for run in SUITES[suite].runs():
            if run.done:
                assert json.loads((ROOT / run.result).read_text())["protocol"] in versions


def test_pilot_results_have_no_test_scores():
    for path in (RESULTS / "pilot").rglob("*.json"):
        document = json.loads(path.read_text())
        assert document["ood_test"] is None
        assert all("ood_test" not in rule for rule in document["scores"].values())


@pytest.fixture
def follower(tmp_path, monkeypatch):
    """Return a run that follows a protocol, whose commands write a result file."""
    monkeypatch.setattr("experiments.run.ROOT", tmp_path)
    monkeypatch.setattr("experiments.suite.ROOT", tmp_path)
    monkeypatch.setattr("experiments.run.PROTOCOL", tmp_path / "protocol.toml")
    monkeypatch.setenv("GSX_RAW_DATA", str(tmp_path / "raw"))
    runner.run_json.cache_clear()
    commands = []

    def record(command, **_):
        commands.append(command[3:])
        if command[3] == "train":
            (tmp_path / "result.json").write_text('{"curves": [1, 2]}')
        return subprocess.CompletedProcess(command, 0, '{"key": "0123456789abcdef"}')

    monkeypatch.setattr(subprocess, "run", record)
    steps = (
        Step("SOURCE", ("gsx", "prepare", "--smiles", "RAW/some/own.csv")),
        Step("", ("gsx", "train", "SOURCE")),
    )
    return Run("own", "erm", 0, "result.json", steps, True, True), commands


def test_a_run_records_the_protocol_and_reads_raw_files(follower, tmp_path):
    run, commands = follower
    (tmp_path / "protocol.toml").write_text("frozen = true\n")
    assert runner.run_all([run]) == 0
    assert commands == [
        ["prepare", "--smiles", str(tmp_path / "raw/some/own.csv"), "--json"],
        ["train", "0123456789ab"],
    ]
    assert json.loads((tmp_path / "result.json").read_text()) == {
        "curves": [1, 2],
        "protocol": hashlib.sha256(b"frozen = true\n").hexdigest(),
    }


def test_no_run_starts_before_the_protocol_is_frozen(follower, tmp_path, capsys):
    run, commands = follower
    (tmp_path / "protocol.toml").write_text("frozen = false\n")
    assert runner.run_all([run]) == 1
    assert commands == []
    assert "is not frozen" in capsys.readouterr().out
