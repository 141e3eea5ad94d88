"""Linear models as backbones of `gsx train`: learning, artifacts, evaluation and errors."""

import json

import msgspec
import numpy as np
import pytest
from click.testing import CliRunner
from safetensors.numpy import load_file

from gsx.cli.main import cli
from gsx.errors import ArtifactError, StageError, UsageError
from gsx.ragged import encode_texts
from gsx.schema import SPLITS, Column
from gsx.stages.prepare.synthetic import motif
from gsx.stages.train.classical import restore_classical
from gsx.stages.train.config import CLASSICAL, TrainConfig, resolve
from gsx.stages.train.evaluate import ClassicalDescription, load_classical, load_model
from gsx.storage.corpora.corpus import Corpus
from tests.support.artifacts import gsx as command
from tests.support.run_stages import run_recipe, run_stage, unchanged, write_small_corpus

SIZES = {"train": 180, "id_val": 30, "id_test": 30, "ood_val": 30, "ood_test": 30}
RECIPE = """
[prepare]
dataset = "motif-base"
num_graphs = 600
[generate]
options = "001"
bridges = "none"
ratio = 0.5
"""


@pytest.fixture(scope="module")
def artifacts(tmp_path_factory):
    with pytest.MonkeyPatch.context() as patch:
        patch.setenv("GSX_CACHE", str(tmp_path_factory.mktemp("cache")))
        folder = tmp_path_factory.mktemp("store")
        return {"store": folder, **run_recipe(folder, RECIPE)}


def train(folder, corpus, stage="prepare", **options):
    return run_stage(folder, "train", {"source": stage, **options}, {stage: corpus})


def quality(artifact):
    return artifact.manifest.summary["quality"]


def json_file(artifact, name):
    return json.loads(artifact.location.read_bytes(name, limit=1 << 20))


@pytest.mark.parametrize("kind", ["wl", "size", "mean"])
def test_a_model_of_graphs_is_scored_stored_and_evaluated(artifacts, tmp_path, kind):
    corpus = artifacts["prepare"]
    model, again = (train(tmp_path / store, corpus, backbone=kind) for store in "ab")
    assert model.manifest.digest == again.manifest.digest
    assert sorted(model.manifest.files) == [
        "curves.json", "model.json", "scores.json", "weights-last.safetensors"
    ]  # fmt: skip
    scores = quality(model)["selection"]["last"]
    if kind == "wl":
        assert scores["id_test"] > 80
    assert json_file(model, "model.json")["classical"]["kind"] == kind
    assert json_file(model, "curves.json") == [scores]
    output = command(
        "evaluate", model.key, corpus.location.local, "--json", "--store", tmp_path / "a"
    )
    evaluation = json.loads(output.out)
    for split in ("id_val", "id_test", "ood_val", "ood_test"):
        assert evaluation["splits"][split]["score"] == scores[split]


def test_hyperparameters_have_the_best_validation_score(artifacts, tmp_path):
    corpus = artifacts["prepare"]
    chosen = quality(train(tmp_path, corpus, backbone="wl"))
    best = chosen["chosen"]

    def validation(**options):
        selection = quality(train(tmp_path, corpus, backbone="wl", **options))["selection"]
        return np.mean([selection["last"][split] for split in ("id_val", "ood_val")])

    assert validation(**best) == pytest.approx(
        np.mean([chosen["selection"]["last"][split] for split in ("id_val", "ood_val")])
    )
    for counts in ("counts", "log", "shares"):
        assert validation(**best) >= validation(counts=counts, strength=0.03)


def test_test_labels_change_no_file_without_test_scores(tmp_path):
    def other_test_labels(table):
        tested = np.isin(
            table.dense("graph", "split"), [SPLITS.index("id_test"), SPLITS.index("ood_test")]
        )
        order = np.arange(len(table))
        order[tested] = order[tested][::-1]
        labels = {name: table.dense("graph", name)[order] for name in ("y", "label")}
        return table.with_columns(graph=labels)

    one, two = (
        train(
            tmp_path, write_small_corpus(tmp_path, change, sizes=SIZES),
            backbone="wl", evaluate="validation",
        )
        for change in (unchanged, other_test_labels)
    )  # fmt: skip
    assert one.manifest.files == two.manifest.files
    assert "ood_test" not in quality(one)["selection"]["last"]


def test_augmented_graphs_are_examples(artifacts, tmp_path):
    augmented = train(tmp_path, artifacts["generate"], "generate", backbone="wl")
    source = train(tmp_path, artifacts["generate"], "generate", backbone="wl", augmented=False)
    plain = train(tmp_path, artifacts["prepare"], backbone="wl")
    assert augmented.manifest.counts == {"graphs": 540}
    assert source.manifest.counts == plain.manifest.counts == {"graphs": 360}
    weights = "weights-last.safetensors"
    assert source.manifest.files[weights] == plain.manifest.files[weights]
    assert source.manifest.files[weights] != augmented.manifest.files[weights]
    balanced = train(tmp_path, artifacts["prepare"], backbone="wl", env_balanced=True)
    assert balanced.manifest.files[weights] != plain.manifest.files[weights]


def test_without_validation_splits_defaults_are_used(tmp_path):
    corpus = write_small_corpus(tmp_path, unchanged, sizes={"train": 180, "ood_test": 30})
    model = train(tmp_path, corpus, backbone="wl")
    assert quality(model)["chosen"] == {"counts": "log", "strength": 0.1}


def test_nodes_are_classified(tmp_path):
    corpus = run_recipe(tmp_path, '[prepare]\ndataset = "cbas-color"\n')["prepare"]
    model = train(tmp_path, corpus, backbone="node")
    scores = quality(model)["selection"]["last"]
    assert scores["id_test"] > 50
    output = command("evaluate", model.key, corpus.key, "--json", "--store", tmp_path)
    assert json.loads(output.out)["splits"]["ood_test"]["score"] == scores["ood_test"]
    with pytest.raises(StageError, match="has node labels, but `wl` predicts labels of graphs"):
        train(tmp_path, corpus, backbone="wl")


def test_replicas_of_nodes_are_examples(tmp_path):
    recipe = '[prepare]\ndataset = "cbas-color"\n[augment]\nmethod = "mask-feature"\n'
    built = run_recipe(tmp_path, recipe)
    model = train(tmp_path, built["augment"], "augment", backbone="node")
    plain = train(tmp_path, built["augment"], "augment", backbone="node", augmented=False)
    assert model.manifest.counts["nodes"] > plain.manifest.counts["nodes"] == 420


def with_smiles(table):
    """Add a molecule per class, for the first 100 training graphs and all held-out graphs."""
    texts = [["CCO", "c1ccccc1", "CC(=O)N"][label] for label in table.dense("graph", "label")]
    train = table.dense("graph", "split") == SPLITS.index("train")
    late = train & (table.dense("graph", "graph_id") % 180 >= 100)
    texts = ["" if empty else text for text, empty in zip(texts, late, strict=True)]
    return table.with_columns(graph={"smiles": encode_texts(texts)})


def test_fingerprints_are_those_of_molecules(tmp_path):
    info = motif.corpus_info("motif-size")
    smiles = Column(name="smiles", axis="graph", dtype="text", ragged=True)
    info = msgspec.structs.replace(info, columns=(*info.columns, smiles))
    corpus = write_small_corpus(tmp_path, with_smiles, info, SIZES)
    model = train(tmp_path, corpus, backbone="morgan")
    examples = np.diff(Corpus(corpus).table(split="train").lists("graph", "smiles").ptr) > 0
    assert model.manifest.counts == {"graphs": examples.sum()}
    assert 0 < examples.sum() < 180
    assert quality(model)["selection"]["last"]["ood_test"] == 100
    output = command("evaluate", model.key, corpus.key, "--json", "--store", tmp_path)
    assert json.loads(output.out)["splits"]["ood_test"]["score"] == 100


def test_the_command_line_trains_linear_models(artifacts, tmp_path):
    store = ("--store", artifacts["store"])
    corpus = artifacts["generate"].key
    results = ("--results", tmp_path, "--method", "wl")
    trained = command("train", corpus, "--backbone", "wl", *results, *store)
    assert "linear model, " in trained.out
    document = json.loads((tmp_path / "motif-base" / "wl-0.json").read_text())
    assert document["ood_test"] is not None
    assert document["epochs"] is None
    evaluation = command("evaluate", document["model_key"], corpus, *store).out
    assert evaluation.startswith("linear model\n")
    assert "| wl |" in command("table", tmp_path).out


@pytest.mark.parametrize(
    ("words", "message"),
    [
        (["--backbone", "wl", "--epochs", 3], "epochs does not apply to `wl`"),
        (["--backbone", "wl", "--preset", "quick"], "--preset quick sets options of networks"),
        (["--strength", 3], "strength does not apply to `gin`, which is a network"),
        (["--backbone", "wl", "--strength", 0], "strength must be positive; got 0"),
        (["--backbone", "wl", "--algorithm", "vrex"], "learner does not apply to `wl`"),
        (["--backbone", "morgan"], "has no molecules"),
        (["--backbone", "node"], "has graph labels, but `node` predicts labels of nodes"),
    ],
)
def test_options_that_do_not_apply_are_refused(artifacts, words, message):
    arguments = ["train", artifacts["prepare"].key, *words, "--store", artifacts["store"]]
    with pytest.raises((UsageError, StageError), match=message):
        CliRunner().invoke(cli, [str(word) for word in arguments], catch_exceptions=False)


def test_options_of_networks_and_linear_models_are_known():
    for kind in CLASSICAL:
        assert resolve(TrainConfig(backbone=kind)).backbone == kind


def test_other_corpora_and_networks_are_refused(artifacts, tmp_path):
    model = train(tmp_path, artifacts["prepare"], backbone="wl", strength=0.1)
    with pytest.raises(StageError, match="is a linear model, but a network is needed"):
        load_model(model, "weights-last.safetensors", None)
    other = run_recipe(tmp_path, '[prepare]\ndataset = "fsmotif-base-color"\nnum_graphs = 100\n')
    refused = command("evaluate", model.key, other["prepare"].key, "--store", tmp_path)
    assert refused.code == 4
    assert "the model does not fit fsmotif-base-color" in refused.err


@pytest.mark.parametrize("kind", ["wl", "mean", "size"])
def test_arrays_that_do_not_fit_are_refused(artifacts, tmp_path, kind):
    model = train(tmp_path, artifacts["prepare"], backbone=kind, strength=0.1)
    description = ClassicalDescription(
        task="classification",
        classical=load_classical(model, "weights-last.safetensors").shape,
    )
    arrays = load_file(model.location.local / "weights-last.safetensors")
    for name, values in arrays.items():
        without = {other: value for other, value in arrays.items() if other != name}
        changed = [without, {**arrays, name: values[:-1]}, {**arrays, name: values.astype(np.int8)}]
        if values.dtype.kind == "f" and values.size:
            changed.append({**arrays, name: np.full_like(values, np.nan)})
        for wrong in changed:
            if name == "space.continuous_edges" or values.size:
                with pytest.raises(ArtifactError):
                    restore_classical(description, wrong, "here")
