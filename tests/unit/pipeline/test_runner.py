"""Plans have no side effects; the runner builds only missing artifacts."""

import dataclasses

import msgspec
import pytest

from gsx.errors import GsxError, StageError
from gsx.pipeline.plan import inspect_plan, make_plan
from gsx.pipeline.recipe import parse_recipe
from gsx.pipeline.run_stage import run_stage
from gsx.pipeline.runner import run_plan
from gsx.pipeline.stage_order import stage_named
from gsx.stages.stage import ignore_progress
from gsx.storage.artifacts.store import Store
from gsx.storage.corpora.corpus import Corpus

RECIPE = '[prepare]\ndataset = "motif-size"\nnum_graphs = 60\n[describe]\n'


@pytest.fixture
def store(tmp_path):
    return Store.at(tmp_path / "store")


@pytest.fixture
def plan():
    return make_plan(parse_recipe(RECIPE, "r.toml"))


def states(plan, store):
    return [(status.step, status.state) for status in inspect_plan(plan, store, {})]


def test_inspecting_a_plan_writes_nothing(plan, store):
    assert states(plan, store) == [("prepare", "missing"), ("describe", "waiting")]
    assert not store.location.local.exists()


def test_a_key_is_unknown_while_an_input_is_missing(plan, store):
    keys = [status.key for status in inspect_plan(plan, store, {})]
    assert keys[0] is not None
    assert keys[1] is None


def test_a_second_run_reuses_all_artifacts(plan, store):
    first = [built.reused for _, built in run_plan(plan, store)]
    second = [built.reused for _, built in run_plan(plan, store)]
    assert (first, second) == ([False, False], [True, True])
    assert states(plan, store) == [("prepare", "done"), ("describe", "done")]


def test_only_the_missing_step_runs(plan, store):
    list(run_plan(plan[:1], store))
    assert [built.reused for _, built in run_plan(plan, store)] == [True, False]


def test_force_builds_new_generations_with_identical_bytes(plan, store):
    before = [built.artifact for _, built in run_plan(plan, store)]
    after = [built.artifact for _, built in run_plan(plan, store, force=True)]
    assert [artifact.generation for artifact in after] == [2, 2]
    assert [a.manifest.digest for a in after] == [a.manifest.digest for a in before]


def test_progress_counts_every_graph(plan, store):
    import contextlib

    updates = []

    @contextlib.contextmanager
    def open_progress(step):
        yield lambda done, total: updates.append((step, done, total))

    list(run_plan(plan[:1], store, open_progress=open_progress))
    assert updates[-1] == ("prepare", 60, 60)


def test_a_step_without_its_input_is_rejected(plan, store):
    with pytest.raises(StageError, match="describe needs the artifact of prepare"):
        list(run_plan(plan[1:], store))


@pytest.mark.parametrize(
    ("text", "message"),
    [
        (
            '[prepare]\ndataset = "cbas-color"\n[mask]\n[generate]\nfeatx = true\n'
            'options = "000"\nfeatx_partner = "ranked"\n',
            "has node labels",
        ),
        (
            '[prepare]\ndataset = "motif-size"\nnum_graphs = 60\n[extract]\n[bridge]\n'
            '[generate]\nlabels = "any"\n',
            "needs binary targets; the task of motif-size is classification",
        ),
        (
            '[prepare]\ndataset = "motif-size"\nnum_graphs = 60\n[extract]\n[bridge]\n'
            '[generate]\n[train]\nbackbone = "gcn"\n',
            "`gcn` predicts node labels. Use the backbone `gin` or `vgin`.",
        ),
        (
            '[prepare]\ndataset = "cbas-color"\n[mask]\n[generate]\nfeatx = true\n'
            'options = "000"\n[train]\nbackbone = "gcn"\nlearner = "dir"\n',
            "needs graph labels, but cbas-color has node labels",
        ),
    ],
)
def test_preflight_checks_reject_later_steps_before_anything_is_trained(text, message, store):
    plan = make_plan(parse_recipe(text, "r.toml"))
    finished = []
    with pytest.raises(GsxError, match=message):
        finished.extend(step.name for step, _ in run_plan(plan, store))
    assert finished == ["prepare"]
    assert [artifact.manifest.stage for artifact in store.artifacts()] == ["prepare"]
    assert not list((store.location.local / ".drafts").iterdir())


def test_no_workers_start_for_a_step_that_is_rejected(store):
    text = '[prepare]\ndataset = "cbas-color"\n[mask]\nsteps = 5\n[generate]\nfeatx = true\n'
    *first, last = make_plan(parse_recipe(text + 'options = "000"\n', "r.toml"))
    artifacts = {step.name: built.artifact for step, built in run_plan(tuple(first), store)}
    config = msgspec.structs.replace(last.config, featx_partner="ranked")
    step = dataclasses.replace(last, config=config)

    def open_executor(*_):
        raise AssertionError("workers were started")

    with pytest.raises(GsxError, match="has node labels"):
        list(run_plan((step,), store, artifacts=artifacts, open_executor=open_executor))


def test_an_artifact_records_its_parent(plan, store):
    artifacts = {step.name: built.artifact for step, built in run_plan(plan, store)}
    (parent,) = artifacts["describe"].manifest.parents
    assert parent.key == artifacts["prepare"].key
    assert parent.digest == artifacts["prepare"].manifest.digest


@pytest.mark.parametrize("formats", [["zarr"], ["parquet", "zarr"]])
def test_converting_keeps_all_graphs_and_shards(store, formats):
    text = RECIPE.replace("[describe]", f"shard_graphs = 7\n[convert]\nformats = {formats}")
    artifacts = {
        step.name: built.artifact
        for step, built in run_plan(make_plan(parse_recipe(text, "r.toml")), store)
    }
    source, converted = Corpus(artifacts["prepare"]), Corpus(artifacts["convert"], format="zarr")
    assert converted.table().equals(source.table())
    assert [shard.path("zarr") for shard in converted.shards] == [
        shard.path("zarr") for shard in source.shards
    ]


def test_statistics_contain_the_shift_of_test_graphs(plan, store):
    import json

    *_, (_, built) = run_plan(plan, store)
    document = json.loads(built.artifact.location.read_bytes("statistics.json", limit=1 << 20))
    assert document["outside_training_sizes"]["ood_test"] == {"below": 0.0, "above": 1.0}
    assert sum(group["graphs"] for group in document["groups"]) == 60
    assert document["groups"][0]["split"] == "train"


def test_a_stage_with_one_thread_restores_the_number_of_threads():
    torch = pytest.importorskip("torch")
    threads = []
    stage = dataclasses.replace(
        stage_named("describe"),
        run=lambda *_: threads.append(torch.get_num_threads()),
        one_thread=True,
    )
    before = torch.get_num_threads()
    try:
        torch.set_num_threads(2)
        run_stage(stage, None, {}, None, ignore_progress)
        assert threads == [1]
        assert torch.get_num_threads() == 2
    finally:
        torch.set_num_threads(before)


def test_a_stage_without_a_run_function_is_rejected():
    with pytest.raises(TypeError, match="stage generate has no `run` function"):
        run_stage(stage_named("generate"), None, {}, None, ignore_progress)
