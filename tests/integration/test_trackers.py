"""`gsx train --log`: curves appear during training, once per epoch, also after an interruption."""

import csv
import json
from collections import defaultdict
from importlib.util import find_spec
from pathlib import Path

import pytest

from gsx.errors import StoreError, UsageError
from gsx.pipeline.plan import Step, identity_of
from gsx.pipeline.recipe import parse_config
from gsx.pipeline.stage_order import stage_named
from gsx.stages.train import trackers
from gsx.stages.train.trackers import CsvTracker, check_targets, open_trackers, run_name
from tests.support.artifacts import gsx
from tests.support.run_stages import run_stage, stop_training, unchanged, write_small_corpus

SIZES = {"train": 90, "id_val": 20, "id_test": 20, "ood_val": 20, "ood_test": 20}
OPTIONS = {"source": "prepare", "width": 8, "epochs": 4, "batch_size": 30}
VALIDATION = {"loss", "learning_rate", "accuracy/id_val", "accuracy/ood_val"}
needs_tensorboard = pytest.mark.skipif(
    find_spec("tensorboard") is None, reason="tensorboard is not installed"
)


@pytest.fixture(scope="module")
def corpus(tmp_path_factory):
    return write_small_corpus(tmp_path_factory.mktemp("corpus"), unchanged, sizes=SIZES)


def train(folder, corpus, **options):
    return run_stage(folder, "train", {**OPTIONS, **options}, {"prepare": corpus})


def read_csv(path):
    """Return run → name → list of steps and values."""
    curves = defaultdict(lambda: defaultdict(list))
    with Path(path).open() as stream:
        for row in csv.DictReader(stream):
            curves[row["run"]][row["name"]].append((int(row["step"]), float(row["value"])))
    return curves


def read_events(folder):
    """Return name → list of steps and values, as TensorBoard shows them."""
    from tensorboard.backend.event_processing.event_accumulator import EventAccumulator

    events = EventAccumulator(str(folder), size_guidance={"scalars": 0})
    events.Reload()
    return {
        name: [(event.step, event.value) for event in events.Scalars(name)]
        for name in events.Tags()["scalars"]
    }


def curves_of(model):
    """Return the curves in a model: name → list of steps and values."""
    curves = defaultdict(list)
    for row in json.loads(model.location.read_bytes("curves.json", limit=1 << 20)):
        for name, value in row.items():
            if name != "epoch":
                full = name if name in ("loss", "learning_rate") else f"accuracy/{name}"
                curves[full].append((row["epoch"], value))
    return curves


def test_a_csv_log_holds_the_curves_of_the_model(tmp_path, corpus):
    model = train(tmp_path, corpus, log=[f"csv:{tmp_path / 'new' / 'curves.csv'}"])
    ((run, curves),) = read_csv(tmp_path / "new" / "curves.csv").items()
    assert run == f"motif-size-erm-seed0-{model.key[:12]}"
    assert curves == curves_of(model)
    assert [step for step, _ in curves["loss"]] == [0, 1, 2, 3]
    assert {"accuracy/id_test", "accuracy/ood_test"} <= curves.keys()


def test_the_log_is_part_of_neither_key_nor_manifest(tmp_path, corpus):
    stage = stage_named("train")
    keys = {
        identity_of(Step(stage, config, stage.inputs_of(config)), {"source": corpus}).key
        for log in ([], ["csv:a.csv"], ["csv:b.csv", "csv:c.csv"])
        for config in [parse_config("train", {**OPTIONS, "log": log}, "test")]
    }
    assert len(keys) == 1
    model = train(tmp_path, corpus, log=[f"csv:{tmp_path / 'c.csv'}"])
    assert "log" not in model.manifest.config
    assert model.manifest.digest == train(tmp_path / "b", corpus).manifest.digest


@pytest.mark.parametrize("evaluate", ["validation", "sealed"])
def test_scores_of_test_splits_are_not_logged_if_they_are_not_computed(tmp_path, corpus, evaluate):
    train(tmp_path, corpus, evaluate=evaluate, log=[f"csv:{tmp_path / 'c.csv'}"])
    (curves,) = read_csv(tmp_path / "c.csv").values()
    assert curves.keys() == VALIDATION


def test_steps_are_visible_while_the_run_is_not_finished(tmp_path, corpus, monkeypatch):
    stop_training(monkeypatch, 2)
    log = tmp_path / "c.csv"
    with pytest.raises(KeyboardInterrupt):
        train(tmp_path, corpus, log=[f"csv:{log}"])
    (curves,) = read_csv(log).values()
    assert [step for step, _ in curves["loss"]] == [0, 1]


def interrupt_after_logging(monkeypatch, epochs):
    """Interrupt the next run after it logged an epoch and before it saved the checkpoint."""
    from gsx.stages.train import checkpoint

    plain, stopped = checkpoint.save, []

    def save(draft, trainer, result):
        if len(result.curves) == epochs and not stopped:
            stopped.append(epochs)
            raise KeyboardInterrupt
        plain(draft, trainer, result)

    monkeypatch.setattr(checkpoint, "save", save)


@pytest.mark.parametrize("epochs", [1, 3])
def test_a_resumed_run_continues_without_repeated_or_missing_steps(
    tmp_path, corpus, monkeypatch, epochs
):
    interrupt_after_logging(monkeypatch, epochs)
    targets = [f"csv:{tmp_path / 'c.csv'}"]
    if find_spec("tensorboard"):
        targets.append(f"tensorboard:{tmp_path / 'runs'}")
    with pytest.raises(KeyboardInterrupt):
        train(tmp_path, corpus, log=targets)
    with (tmp_path / "c.csv").open("a") as stream:
        stream.write(f"motif-size-erm-seed0,{epochs},lo")  # cut off by the interruption
    model = train(tmp_path, corpus, log=targets)
    (curves,) = read_csv(tmp_path / "c.csv").values()
    assert curves == curves_of(model)
    if find_spec("tensorboard"):
        (run,) = (tmp_path / "runs").iterdir()
        shown = read_events(run)
        expected = curves_of(model)
        assert shown.keys() == expected.keys()
        for name, values in shown.items():
            assert [step for step, _ in values] == [0, 1, 2, 3], name
            assert values == [(s, pytest.approx(v, rel=1e-6)) for s, v in expected[name]]


@needs_tensorboard
def test_tensorboard_shows_the_curves_of_every_run(tmp_path, corpus):
    models = [
        train(tmp_path, corpus, seed=seed, log=[f"tensorboard:{tmp_path / 'runs'}"])
        for seed in (0, 1)
    ]
    folders = sorted((tmp_path / "runs").iterdir())
    assert [f.name for f in folders] == [
        f"motif-size-erm-seed{seed}-{model.key[:12]}" for seed, model in enumerate(models)
    ]
    for folder, model in zip(folders, models, strict=True):
        shown, expected = read_events(folder), curves_of(model)
        assert shown == {
            name: [(s, pytest.approx(v, rel=1e-6)) for s, v in values]
            for name, values in expected.items()
        }


def test_runs_share_a_csv_file_and_a_model_that_exists_is_logged(tmp_path, corpus):
    log = tmp_path / "c.csv"
    words = (corpus.location.url, "--preset", "quick", "--epochs", "2", "--store", tmp_path)
    for seed in (0, 1):
        result = gsx("train", *words, "--seed", seed, "--log", f"csv:{log}", "--quiet")
        assert result.code == 0, result.err
    first = read_csv(log)
    assert len(first) == 2
    again = gsx("train", *words, "--log", f"csv:{log}")
    assert "reused" in again.out
    assert read_csv(log) == first
    other = gsx("train", *words, "--log", f"csv:{tmp_path / 'other.csv'}", "--quiet")
    assert other.code == 0, other.err
    ((run, curves),) = read_csv(tmp_path / "other.csv").items()
    assert curves == first[run]


def test_a_file_that_is_no_log_is_not_changed(tmp_path, corpus):
    path = tmp_path / "notes.csv"
    path.write_text("run,notes\n1,mine\n")
    with pytest.raises(StoreError, match="is not a log of gsx"):
        train(tmp_path, corpus, log=[f"csv:{path}"])
    assert path.read_text() == "run,notes\n1,mine\n"


def test_a_target_that_cannot_be_written_is_an_error_before_training(tmp_path, corpus, monkeypatch):
    begun = stop_training(monkeypatch, 0)
    (tmp_path / "file").write_text("")
    words = (corpus.location.url, "--preset", "quick", "--store", tmp_path)
    result = gsx("train", *words, "--log", f"csv:{tmp_path / 'file' / 'c.csv'}")
    assert result.code != 0
    assert "cannot be logged" in result.err
    assert begun == []


@pytest.mark.parametrize("text", ["csv", "csv:", "", ":runs", "tensorbord:runs", "../x:y"])
def test_an_unknown_target_is_a_usage_error(text):
    with pytest.raises(UsageError):
        check_targets([text])


def test_a_missing_package_names_the_extra(monkeypatch):
    monkeypatch.setattr(trackers, "find_spec", lambda _: None)
    with pytest.raises(UsageError, match=r"pip install 'gsx\[tensorboard\]'"):
        check_targets(["tensorboard:runs"])


def test_linear_models_have_no_curves():
    with pytest.raises(UsageError, match="log does not apply to `wl`"):
        parse_config("train", {"backbone": "wl", "log": ["csv:a.csv"]}, "test")


MODULE = """
calls = []

class Recorder:
    def __init__(self, target, run, first_step):
        calls.append(("open", target, run, first_step))
    def log_scores(self, step, values):
        calls.append((step, sorted(values)))
    def close(self):
        calls.append("close")
"""


def test_packages_add_trackers_with_two_methods(tmp_path, corpus, monkeypatch):
    """A distribution with an entry point is all that another tracker needs."""
    (tmp_path / "recorder_module.py").write_text(MODULE)
    info = tmp_path / "recorder-1.0.dist-info"
    info.mkdir()
    (info / "METADATA").write_text("Metadata-Version: 2.1\nName: recorder\nVersion: 1.0\n")
    (info / "entry_points.txt").write_text("[gsx.trackers]\nrecorder = recorder_module:Recorder\n")
    monkeypatch.syspath_prepend(str(tmp_path))
    model = train(tmp_path / "store", corpus, epochs=2, evaluate="validation", log=["recorder:a:b"])
    import recorder_module

    run = run_name("motif-size", "erm", 0, model.key)
    assert recorder_module.calls == [
        ("open", "a:b", run, 0),
        (0, sorted(VALIDATION)),
        (1, sorted(VALIDATION)),
        "close",
    ]


def test_trackers_are_closed_if_another_cannot_be_opened(tmp_path, monkeypatch):
    closed = []
    monkeypatch.setattr(CsvTracker, "close", lambda _: closed.append(1))
    (tmp_path / "b.csv").write_text("mine\n")
    with pytest.raises(StoreError):
        open_trackers([f"csv:{tmp_path / 'a.csv'}", f"csv:{tmp_path / 'b.csv'}"], "run", 0)
    assert closed == [1]


def test_names_of_datasets_cannot_leave_the_folder_of_runs():
    for name in ("../../x", "a/b", "con", "", "x" * 500):
        assert run_name(name, "erm", 1, "0" * 64) == f"corpus-erm-seed1-{'0' * 12}"
