"""Benchmarks: every committed result has a script and a run that writes it; nothing is measured."""

import importlib.util
import json
import shlex
import sys
from pathlib import Path

import pytest

from gsx.storage.artifacts.store import Store
from tests.support.artifacts import gsx, motif

BENCH = Path(__file__).parents[3] / "bench"
SCRIPTS = sorted(path.stem for path in BENCH.glob("*.py") if path.stem != "run")
RESULTS = sorted(path.stem for path in (BENCH / "results").iterdir())


def load(name):
    """Import a benchmark script as ``python bench/NAME.py`` would, except that ``main`` waits."""
    spec = importlib.util.spec_from_file_location(f"bench_{name}", BENCH / f"{name}.py")
    module = importlib.util.module_from_spec(spec)
    sys.modules[spec.name] = module  # dataclasses need it
    spec.loader.exec_module(module)
    return module


@pytest.fixture(autouse=True)
def bench_on_path(monkeypatch):
    monkeypatch.syspath_prepend(str(BENCH))
    monkeypatch.delenv("GSX_RAW_DATA", raising=False)


@pytest.fixture
def run():
    return load("run")


def commands(value):
    """Yield every recorded command of a result."""
    if isinstance(value, dict):
        for key, item in value.items():
            if key == "command":
                yield item
            else:
                yield from commands(item)


def test_every_result_has_a_script_and_every_script_a_result(run):
    assert SCRIPTS == RESULTS
    assert sorted(run.BENCHMARKS) == SCRIPTS


@pytest.mark.parametrize("name", SCRIPTS)
def test_the_help_of_a_script_works(name, capsys):
    script = load(name)
    assert name == script.NAME
    with pytest.raises(SystemExit) as exit_info:
        script.main(["--help"])
    assert exit_info.value.code == 0
    help_text = capsys.readouterr().out
    assert script.__doc__.splitlines()[0] in help_text
    assert "--dry-run" in help_text


@pytest.mark.parametrize("name", RESULTS)
def test_recorded_commands_are_runs_of_make_bench(run, name):
    result = json.loads((BENCH / "results" / f"{name}.json").read_text())
    recorded = list(commands(result))
    assert recorded
    arguments = {process.arguments for process in run.BENCHMARKS[name]}
    for command in recorded:
        words = [word for word in shlex.split(command) if "=" not in word]
        assert words[0] == "python"
        assert tuple(words[2:]) in arguments, command


@pytest.mark.parametrize("name", SCRIPTS)
def test_the_runs_of_make_bench_are_valid_arguments(run, name, monkeypatch):
    """Parse the arguments of every run with the parser of its script, then stop."""
    script = load(name)
    parser_class = script.harness.argparse.ArgumentParser
    parse_args = parser_class.parse_args

    class ParsedError(Exception):
        pass

    def parse_and_stop(self, *arguments):
        parse_args(self, *arguments)
        raise ParsedError

    monkeypatch.setattr(parser_class, "parse_args", parse_and_stop)
    for process in run.BENCHMARKS[name]:
        with pytest.raises(ParsedError):
            script.main(list(process.arguments))


def test_list_names_every_run_and_the_reason_to_skip_it(run, capsys):
    run.main(["--list"])
    lines = capsys.readouterr().out.splitlines()
    assert len(lines) == sum(map(len, run.BENCHMARKS.values()))
    (zinc,) = (line for line in lines if "bench/zinc.py" in line)
    assert zinc.endswith("skipped: needs GSX_RAW_DATA=DIR with zinc250k/zinc.txt.tar.gz")
    (motif,) = (line for line in lines if "bench/motif.py" in line)
    assert motif == "python bench/motif.py"


def test_a_named_benchmark_without_its_raw_data_is_an_error(run, capsys, monkeypatch, tmp_path):
    with pytest.raises(SystemExit) as exit_info:
        run.main(["zinc"])
    assert exit_info.value.code == 1
    assert "needs GSX_RAW_DATA=DIR" in capsys.readouterr().out
    monkeypatch.setenv("GSX_RAW_DATA", str(tmp_path))
    with pytest.raises(SystemExit):
        run.main(["zinc"])
    assert "zinc250k/zinc.txt.tar.gz not found in" in capsys.readouterr().out


def test_an_unknown_benchmark_is_an_error_that_lists_the_known_ones(run, capsys):
    with pytest.raises(SystemExit) as exit_info:
        run.main(["loops"])
    assert exit_info.value.code == 2
    assert "no benchmark `loops`. Choose from startup, import_time" in capsys.readouterr().err


def test_failures_do_not_stop_other_benchmarks(run, capsys, monkeypatch):
    executed = []

    def execute(name, _):
        executed.append(name)
        return "failed: exit code 1 after 0 s" if name == "motif" else "ok: 0 s"

    monkeypatch.setattr(run, "execute", execute)
    with pytest.raises(SystemExit) as exit_info:
        run.main([])
    assert exit_info.value.code == 1
    assert set(executed) == set(run.BENCHMARKS)
    assert "python bench/motif.py" in capsys.readouterr().out
    run.main(["startup"])
    assert "ok: 0 s" in capsys.readouterr().out


def test_a_script_without_raw_data_explains_what_to_set():
    with pytest.raises(SystemExit, match=r"GSX_RAW_DATA is not set\. Set it to the directory"):
        load("zinc").main([])


def test_numpy_replaces_the_compiled_loops_only_inside_the_block():
    native = load("native")
    try:
        names = {module: native.extension_name(module) for module in native.MODULES_WITH_LOOPS}
    except SystemExit:
        pytest.skip("gsx was installed without a C compiler")
    with native.without_compiled_loops():
        assert all(getattr(module, name) is None for module, name in names.items())
    assert all(getattr(module, name) is not None for module, name in names.items())


def test_missed_bars_exit_with_figure_and_bar():
    from lib import harness

    assert harness.at_least({"ratio": 3.0, "other": 1.0}, {"ratio": 2}) == []
    assert harness.at_most({"memory": 1.3}, {"memory": 1.25}) == ["memory is 1.3, above 1.25"]
    missed = harness.at_least({"ratio": 1.5}, {"ratio": 2})
    with pytest.raises(SystemExit, match=r"missed: ratio is 1\.5, below 2"):
        harness.require(missed)
    harness.require([])


def test_a_dry_run_writes_no_result(tmp_path, monkeypatch):
    from lib import harness

    monkeypatch.setattr(harness, "RESULTS", tmp_path)
    harness.write_result("motif", {"ratio": 1}, dry_run=True)
    assert harness.read_result("motif") == {}
    harness.write_result("motif", {"ratio": 1})
    assert harness.read_result("motif") == {"ratio": 1}
    assert (tmp_path / "motif.json").read_text() == '{\n  "ratio": 1\n}\n'


def test_interleaved_works_run_once_per_round_in_order():
    from lib import harness

    order = []
    works = {"a": lambda: order.append("a"), "b": lambda: order.append("b")}
    seconds = harness.interleave(works, 3)
    assert order == ["a", "b"] * 3
    assert [len(values) for values in seconds.values()] == [3, 3]


def test_synthetic_models_are_valid_artifacts(tmp_path):
    """Commands of the large store must list them, not report damage."""
    from lib.synthetic_models import write_model

    corpus = motif(Store.at(tmp_path)).manifest
    keys = [write_model(tmp_path, corpus, seed).key for seed in (0, 1)]
    result = gsx("ls", "--kind", "model", "--store", tmp_path, "--json")
    assert result.code == 0, result.err
    rows = json.loads(result.out)["artifacts"]
    assert {row["key"] for row in rows} == set(keys)
    assert [row["scores"]["ood_val"] for row in rows if row["options"]["seed"] == 1] == [51.0]
