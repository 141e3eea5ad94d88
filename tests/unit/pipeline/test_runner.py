"""Plans are pure; the runner makes only what is missing."""

import dataclasses

import msgspec
import pytest

from gsx.errors import GsxError, StageError
from gsx.pipeline.plan import inspect_plan, make_plan
from gsx.pipeline.recipe import parse_recipe
from gsx.pipeline.runner import run_plan
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
    assert not store.place.local.exists()


def test_a_key_is_unknown_while_an_input_is_missing(plan, store):
    keys = [status.key for status in inspect_plan(plan, store, {})]
    assert keys[0] is not None
    assert keys[1] is None


def test_the_second_run_makes_nothing(plan, store):
    first = [built.reused for _, built in run_plan(plan, store)]
    second = [built.reused for _, built in run_plan(plan, store)]
    assert (first, second) == ([False, False], [True, True])
    assert states(plan, store) == [("prepare", "done"), ("describe", "done")]


def test_only_the_missing_step_runs(plan, store):
    list(run_plan(plan[:1], store))
    assert [built.reused for _, built in run_plan(plan, store)] == [True, False]


def test_force_makes_new_generations_of_the_same_bytes(plan, store):
    before = [built.artifact for _, built in run_plan(plan, store)]
    after = [built.artifact for _, built in run_plan(plan, store, force=True)]
    assert [artifact.generation for artifact in after] == [2, 2]
    assert [a.manifest.digest for a in after] == [a.manifest.digest for a in before]


def test_progress_counts_every_graph(plan, store):
    import contextlib

    seen = []

    @contextlib.contextmanager
    def watch(step):
        yield lambda done, total: seen.append((step, done, total))

    list(run_plan(plan[:1], store, watch=watch))
    assert seen[-1] == ("prepare", 60, 60)


def test_a_step_without_its_input_is_refused(plan, store):
    with pytest.raises(StageError, match="describe needs the artifact of prepare"):
        list(run_plan(plan[1:], store))


@pytest.mark.parametrize(
    ("text", "message"),
    [
        (
            '[prepare]\ndataset = "cbas-color"\n[mask]\n[generate]\nfeatx = true\n'
            'options = "000"\nfeatx_partner = "ranked"\n',
            "labels nodes",
        ),
        (
            '[prepare]\ndataset = "motif-size"\nnum_graphs = 60\n[extract]\n[bridge]\n'
            '[generate]\nlabels = "any"\n',
            "needs answers yes and no",
        ),
        (
            '[prepare]\ndataset = "motif-size"\nnum_graphs = 60\n[extract]\n[bridge]\n'
            '[generate]\n[train]\nbackbone = "gcn"\n',
            "`gcn` tells labels of nodes. Use the backbone `gin` or `vgin`.",
        ),
        (
            '[prepare]\ndataset = "cbas-color"\n[mask]\n[generate]\nfeatx = true\n'
            'options = "000"\n[train]\nbackbone = "gcn"\nlearner = "dir"\n',
            "is for labelled graphs; cbas-color has labelled nodes",
        ),
    ],
)
def test_what_a_later_step_cannot_do_is_refused_before_anything_is_trained(text, message, store):
    plan = make_plan(parse_recipe(text, "r.toml"))
    made = []
    with pytest.raises(GsxError, match=message):
        made.extend(step.name for step, _ in run_plan(plan, store))
    assert made == ["prepare"]
    assert [artifact.manifest.stage for artifact in store.artifacts()] == ["prepare"]
    assert not list((store.place.local / ".drafts").iterdir())


def test_no_worker_is_hired_for_what_is_refused(store):
    text = '[prepare]\ndataset = "cbas-color"\n[mask]\nsteps = 5\n[generate]\nfeatx = true\n'
    *first, last = make_plan(parse_recipe(text + 'options = "000"\n', "r.toml"))
    given = {step.name: built.artifact for step, built in run_plan(tuple(first), store)}
    config = msgspec.structs.replace(last.config, featx_partner="ranked")
    wanted = dataclasses.replace(last, config=config)

    def hire(*_):
        raise AssertionError("a worker was hired")

    with pytest.raises(GsxError, match="labels nodes"):
        list(run_plan((wanted,), store, given=given, hire=hire))


def test_the_artifact_names_its_parent(plan, store):
    made = {step.name: built.artifact for step, built in run_plan(plan, store)}
    (parent,) = made["describe"].manifest.parents
    assert parent.key == made["prepare"].key
    assert parent.digest == made["prepare"].manifest.digest


@pytest.mark.parametrize("formats", [["zarr"], ["parquet", "zarr"]])
def test_converting_keeps_every_graph_in_place(store, formats):
    text = RECIPE.replace("[describe]", f"shard_graphs = 7\n[convert]\nformats = {formats}")
    made = {
        step.name: built.artifact
        for step, built in run_plan(make_plan(parse_recipe(text, "r.toml")), store)
    }
    source, converted = Corpus(made["prepare"]), Corpus(made["convert"], format="zarr")
    assert converted.table().equals(source.table())
    assert [shard.path("zarr") for shard in converted.shards] == [
        shard.path("zarr") for shard in source.shards
    ]


def test_statistics_tell_how_far_the_test_graphs_reach(plan, store):
    import json

    *_, (_, built) = run_plan(plan, store)
    document = json.loads(built.artifact.place.read_bytes("statistics.json", limit=1 << 20))
    assert document["outside_training_sizes"]["ood_test"] == {"below": 0.0, "above": 1.0}
    assert sum(group["graphs"] for group in document["groups"]) == 60
    assert document["groups"][0]["split"] == "train"
