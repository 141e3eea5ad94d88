"""Recommendations rest on validation data alone, resume, and do not depend on workers."""

import json
import shutil

import numpy as np
import pytest
from click.testing import CliRunner

from gsx.cli.main import cli
from gsx.errors import RecipeError
from gsx.pipeline.recommend import confirm, task_runner
from gsx.pipeline.recommend.candidates import Candidates
from gsx.schema import SPLITS
from gsx.storage.artifacts.location import Location
from gsx.storage.artifacts.store import Artifact
from gsx.storage.corpora.corpus import Corpus
from gsx.storage.corpora.verify_corpus import verify_artifact
from tests.support.run_stages import run_stage, unchanged, write_small_corpus

SIZES = {"train": 120, "id_val": 30, "id_test": 30, "ood_val": 60, "ood_test": 60}
FEW = {"recipes": ["combine-average", "drop-node"]}


def gsx(*words):
    return CliRunner().invoke(cli, [str(word) for word in words], catch_exceptions=False)


def files(artifact):
    """Return name → SHA-256 of the files of an artifact."""
    return {name: entry.sha256 for name, entry in artifact.manifest.files.items()}


def evidence(artifact):
    return json.loads(artifact.location.read_bytes("evidence.json", limit=1 << 20))


def recommend(folder, corpus, **options):
    return run_stage(folder, "recommend", options, {"prepare": corpus})


def permuted_test_labels(table):
    """Return the graphs with the labels of all test graphs permuted."""
    codes = [SPLITS.index(name) for name in ("id_test", "ood_test")]
    is_test = np.isin(table.dense("graph", "split"), codes)
    rows = np.arange(len(table))
    rows[is_test] = np.random.default_rng(0).permutation(rows[is_test])
    names = ("y", "label")
    return table.with_columns(graph={name: table.dense("graph", name)[rows] for name in names})


@pytest.fixture(autouse=True)
def one_process(monkeypatch):
    """Run tasks in this process, which need not import torch again."""
    monkeypatch.setenv("GSX_WORKERS", "1")


@pytest.fixture(scope="module")
def store(tmp_path_factory):
    return tmp_path_factory.mktemp("store")


@pytest.fixture(scope="module")
def corpus(store):
    return write_small_corpus(store, unchanged, sizes=SIZES)


@pytest.fixture(scope="module")
def screened(store, corpus):
    with pytest.MonkeyPatch.context() as patch:
        patch.setenv("GSX_WORKERS", "1")
        return recommend(store, corpus, budget=0, **FEW)


def test_every_compared_recipe_has_evidence(screened):
    document = evidence(screened)
    assert document["decided_by"] == "screen"
    assert [recipe["name"] for recipe in document["recipes"]] == [
        "none", "combine-average", "drop-node",
    ]  # fmt: skip
    for recipe in document["recipes"]:
        assert len(recipe["screen_scores"]) == 3
        assert (recipe.get("screen") is None) == (recipe["name"] == "none")
    assert (document["train_items"], document["validation_items"]) == (120, 60)
    verify_artifact(screened.location)


def test_permuted_test_labels_give_the_same_bytes(tmp_path, corpus, screened):
    permuted_test_labels.__name__ = unchanged.__name__  # part of the configuration
    other = write_small_corpus(tmp_path, permuted_test_labels, sizes=SIZES)
    tables = [
        Corpus(artifact).table(split="ood_test").dense("graph", "label")
        for artifact in (other, corpus)
    ]
    assert not np.array_equal(*tables)
    assert files(recommend(tmp_path, other, budget=0, **FEW)) == files(screened)


def test_the_confirmation_trains_paired_networks(tmp_path, corpus, monkeypatch):
    monkeypatch.setattr(confirm, "MIN_STEPS", 100)
    document = evidence(recommend(tmp_path, corpus, budget=15, recipes=["combine-average"]))
    assert document["decided_by"] == "confirmation"
    runs = {recipe["name"]: recipe["scores"] for recipe in document["recipes"]}
    assert len(runs["none"]) == len(runs["combine-average"]) >= 3
    assert document["network"]["steps"] >= 100


def test_an_interrupted_run_resumes_and_gives_the_same_bytes(
    tmp_path, corpus, screened, monkeypatch
):
    real, calls = task_runner.predict_validation, []

    def interrupted(block):
        calls.append(block)
        if len(calls) == 6:
            raise KeyboardInterrupt
        return real(block)

    monkeypatch.setattr(task_runner, "predict_validation", interrupted)
    with pytest.raises(KeyboardInterrupt):
        recommend(tmp_path, corpus, budget=0, **FEW)
    assert not list((tmp_path / "recommendation").glob("*"))
    resumed = recommend(tmp_path, corpus, budget=0, **FEW)
    total = sum(name.startswith("runs/") for name in resumed.manifest.files)
    assert len(calls) == total + 1  # five before the interrupt, and the others
    assert files(resumed) == files(screened)


def test_the_number_of_processes_does_not_matter(tmp_path, corpus, screened, monkeypatch):
    monkeypatch.setenv("GSX_WORKERS", "2")
    assert files(recommend(tmp_path, corpus, budget=0, **FEW)) == files(screened)


def test_without_ood_val_an_environment_is_held_out(tmp_path):
    sizes = {name: count for name, count in SIZES.items() if name != "ood_val"}
    source = write_small_corpus(tmp_path, unchanged, sizes=sizes)
    document = evidence(recommend(tmp_path, source, budget=0, **FEW))
    assert "has no `ood_val` split; training environment" in document["validation"], document[
        "reason"
    ]
    assert document["validation_items"] + document["train_items"] == 120
    assert document["validation_items"] > 20


def test_few_training_graphs_are_no_evidence(tmp_path):
    source = write_small_corpus(tmp_path, unchanged, sizes={"train": 40, "ood_val": 30})
    document = evidence(recommend(tmp_path, source, budget=0, **FEW))
    assert (document["choice"], document["decided_by"]) == ("none", "nothing")
    assert "only 40 training graphs; at least 50" in document["reason"]


def one_validation_class(table):
    is_validation = table.dense("graph", "split") == SPLITS.index("ood_val")
    label = np.where(is_validation, 0, table.dense("graph", "label")).astype(np.int32)
    y = np.eye(3, dtype=np.float32)[label]
    return table.with_columns(graph={"y": y, "label": label})


def test_one_class_in_validation_with_mcc_is_no_evidence(tmp_path):
    import msgspec

    from gsx.stages.prepare.synthetic import motif

    info = msgspec.structs.replace(motif.corpus_info("motif-size"), metric="mcc")
    source = write_small_corpus(tmp_path, one_validation_class, info, SIZES)
    document = evidence(recommend(tmp_path, source, budget=0, **FEW))
    assert document["choice"] == "none"
    assert "all labels have the same class" in document["reason"]


def test_recipes_that_do_not_apply_are_listed_with_a_reason(tmp_path, corpus):
    options = {"recipes": ["combine-average", "combine-any"]}
    document = evidence(recommend(tmp_path, corpus, budget=0, **options))
    left_out = {recipe["name"]: recipe.get("left_out") for recipe in document["recipes"]}
    assert left_out["combine-any"] == "needs binary or multitask targets"


def test_node_level_targets(tmp_path):
    prepared = run_stage(tmp_path, "prepare", {"dataset": "cbas-color"}, {})
    document = evidence(
        recommend(tmp_path, prepared, budget=0, recipes=["featx", "drop-edge", "grow"])
    )
    compared = {recipe["name"] for recipe in document["recipes"] if not recipe.get("left_out")}
    assert compared == {"none", "featx", "drop-edge"}
    assert document["linear"]["kind"] == "node"


class TestCommand:
    def test_the_table_fits_80_columns(self, store, corpus):
        words = ("--budget", "0s", "--recipes", "combine-average,drop-node", "--store", store)
        result = gsx("recommend", corpus.key, *words)
        assert result.exit_code == 0
        assert max(map(len, result.stdout.replace(str(store), "").splitlines())) <= 80
        assert "recommended: " in result.stdout
        document = json.loads(gsx("recommend", corpus.key, *words, "--json").stdout)
        assert document["kind"] == "recommendation"
        assert document["recipe_seconds"].keys() == {"none", "combine-average", "drop-node"}

    def test_an_unknown_recipe_is_an_error(self, store, corpus):
        with pytest.raises(RecipeError, match=r"unknown recipe `swp`.*Did you mean `swap`"):
            gsx("recommend", corpus.key, "--recipes", "grow,swp", "--store", store)


@pytest.fixture
def always(monkeypatch):
    """Let the decision rule choose a recipe, whatever its evidence."""

    def set_choice(name):
        module = "gsx.pipeline.recommend.recommend"
        monkeypatch.setattr(f"{module}.choose", lambda *_: name)
        few = Candidates(("combine-average", "drop-node"), {})
        monkeypatch.setattr(f"{module}.applicable", lambda *_: few)

    return set_choice


class TestGenerate:
    def test_none_gives_the_source_corpus(self, tmp_path, corpus, always):
        always(None)
        store = tmp_path / "store"
        shutil.copytree(corpus.location.url, store / "copy")
        source = store / "copy"
        result = gsx("generate", source, "--budget", "0s", "--store", store, "--json")
        document = json.loads(result.stdout)
        assert (document["kind"], document["key"]) == ("corpus", corpus.key)
        assert "No graphs are added" in result.stderr

    def test_the_recommended_recipe_is_generated_with_the_evidence_in_its_lineage(
        self, tmp_path, always
    ):
        always("combine-average")
        words = ("generate", "motif-size", "--num-graphs", 300, "--budget", "0s",
                 "--store", tmp_path)  # fmt: skip
        document = json.loads(gsx(*words, "--json").stdout)
        assert [step["step"] for step in document["steps"]] == ["prepare", "recommend", "generate"]
        built = Artifact.open(Location.at(document["path"]))
        assert {parent.role for parent in built.manifest.parents} == {"corpus", "recommendation"}
        assert built.manifest.config["options"] == "001"
        verify_artifact(built.location)
        again = json.loads(gsx(*words, "--json").stdout)
        assert (again["key"], again["reused"]) == (document["key"], True)

    def test_options_override_those_of_the_recommended_recipe(self, tmp_path, always):
        always("combine-average")
        document = json.loads(
            gsx("generate", "motif-size", "--num-graphs", 300, "--budget", "0s", "--recipe", "auto",
                "--ratio", 0.1, "--store", tmp_path, "--json").stdout
        )  # fmt: skip
        built = Artifact.open(Location.at(document["path"]))
        assert built.manifest.config["ratio"] == 0.1

    def test_options_that_say_how_to_make_graphs_turn_the_recommendation_off(self, tmp_path):
        result = gsx("generate", "motif-size", "--num-graphs", 300, "--options", "001",
                     "--bridges", "none", "--store", tmp_path, "--json")  # fmt: skip
        steps = [step["step"] for step in json.loads(result.stdout)["steps"]]
        assert steps == ["prepare", "generate"]

    def test_a_dry_run_builds_nothing(self, tmp_path):
        result = gsx("generate", "motif-size", "--num-graphs", 300, "--store", tmp_path,
                     "--dry-run")  # fmt: skip
        assert "recommend" in result.stdout
        assert not list(tmp_path.glob("corpus/*"))

    def test_the_written_recipe_builds_the_corpus(self, tmp_path, always):
        always("combine-average")
        first = json.loads(
            gsx("recommend", "motif-size", "--num-graphs", 300, "--budget", "0s", "--recipes",
                "combine-average", "--store", tmp_path, "--json").stdout
        )  # fmt: skip
        recipe = f"{first['path']}/recommended.toml"
        document = json.loads(gsx("generate", recipe, "--store", tmp_path, "--json").stdout)
        assert document["steps"][-1]["step"] == "generate"
