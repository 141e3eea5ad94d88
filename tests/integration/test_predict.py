"""Predictions for new molecules, and for graphs and nodes of corpora."""

import csv
import io
import json
from pathlib import Path

import numpy as np
import pyarrow.parquet as pq
import pytest

from gsx.pipeline.predict import SmilesRequest, load_ensemble, predict_corpus, predict_smiles
from gsx.stages.prepare.readers import smiles_blocks
from gsx.stages.train.metrics import score
from gsx.storage.artifacts.store import Store
from gsx.storage.corpora.corpus import Corpus
from tests.support.artifacts import gsx
from tests.support.run_stages import run_stage, unchanged, write_small_corpus

MOLECULES = Path(__file__).parents[2] / "examples" / "molecules.csv"
SMALL = {"width": 16, "epochs": 2, "batch_size": 32, "source": "prepare"}
NEW = """id,SMILES
a,Cc1ccc(CCC(=O)O)cc1
b,C(C
c,[Pt](C)(C)(N)N
d,
e,CCO
f,[Xe+9]
"""


@pytest.fixture(scope="module")
def molecules(tmp_path_factory):
    """Return a store with a corpus of molecules and two models that differ in the seed."""
    with pytest.MonkeyPatch.context() as patch:
        patch.setenv("GSX_CACHE", str(tmp_path_factory.mktemp("cache")))
        store = tmp_path_factory.mktemp("store")
        words = ("--smiles", MOLECULES, "--target", "acid", "--domain", "scaffold")
        key = json.loads(gsx("prepare", *words, "--store", store, "--json").out)["key"]
        corpus = Store.at(store).resolve(key)
        options = {**SMALL, "backbone": "vgin"}
        models = [
            run_stage(store, "train", {**options, "seed": seed}, {"prepare": corpus})
            for seed in range(2)
        ]
        return {"store": store, "corpus": corpus, "models": models}


def rows_of(text):
    return list(csv.DictReader(io.StringIO(text)))


def joined(blocks):
    """Return the columns of all blocks, concatenated."""
    blocks = [block.columns for block in blocks]
    return {name: np.concatenate([block[name] for block in blocks]) for name in blocks[0]}


def test_new_molecules_get_predictions_and_problems_per_row(molecules, tmp_path):
    (tmp_path / "new.csv").write_text(NEW)
    keys = [model.key for model in molecules["models"]]
    words = (*keys, tmp_path / "new.csv", "--keep", "id", "--store", molecules["store"])
    result = gsx("predict", *words)
    assert result.code == 0
    rows = rows_of(result.out)
    assert list(rows[0]) == [
        "row", "id", "smiles", "p_acid", "p_acid_std", "entropy", "mutual_information", "problem",
    ]  # fmt: skip
    assert [row["id"] for row in rows] == list("abcdef")
    assert [bool(row["p_acid"]) for row in rows] == [True, False, True, False, True, False]
    assert rows[1]["problem"] == "`C(C` is not a valid SMILES string"
    assert rows[2]["problem"].startswith("no training graph has atomic_num 78")
    assert rows[3]["problem"] == "the SMILES is empty"
    assert rows[5]["problem"] == "`[Xe+9]` has an atom or a bond that the features cannot encode"
    assert rows[0]["problem"] == rows[4]["problem"] == ""
    assert (
        "3 without a prediction and 1 with categories that no training graph has; see the column "
        "`problem`" in result.err
    )


def test_molecules_of_the_corpus_get_the_same_prediction_from_their_smiles(molecules, tmp_path):
    """New molecules are featurized like the training data."""
    store, models = Store.at(molecules["store"]), molecules["models"]
    ensemble = load_ensemble(store, models)
    known = joined(predict_corpus(ensemble, Corpus(molecules["corpus"])))
    path = tmp_path / "again.csv"
    path.write_text("smiles\n" + "\n".join(known["smiles"]) + "\n")
    again = joined(predict_smiles(ensemble, SmilesRequest(path=path)))
    np.testing.assert_allclose(again["p_acid"], known["p_acid"], rtol=1e-5)
    np.testing.assert_allclose(again["p_acid_std"], known["p_acid_std"], atol=1e-6)
    assert set(again["problem"]) <= set(known["problem"])


def test_predictions_do_not_depend_on_workers(molecules, tmp_path, monkeypatch):
    monkeypatch.setattr(smiles_blocks, "BLOCK_ROWS", 100)
    words = (molecules["models"][0].key, MOLECULES, "--store", molecules["store"], "-q")
    outputs = []
    for workers in ("1", "2"):
        monkeypatch.setenv("GSX_WORKERS", workers)
        outputs.append(gsx("predict", *words).out)
    assert outputs[0] == outputs[1]
    assert len(rows_of(outputs[0])) == 350


def test_predictions_of_a_split_reproduce_its_score(molecules):
    store, model = Store.at(molecules["store"]), molecules["models"][0]
    corpus = Corpus(molecules["corpus"])
    columns = joined(predict_corpus(load_ensemble(store, [model]), corpus, ["ood_val"]))
    assert set(columns["split"]) == {"ood_val"}
    value = score("roc_auc", "binary", columns["p_acid"][:, None], columns["label_acid"][:, None])
    expected = model.manifest.summary["quality"]["selection"]["last"]["ood_val"]
    assert value == pytest.approx(expected)


def test_parquet_and_json_hold_the_same_rows(molecules, tmp_path):
    (tmp_path / "new.csv").write_text(NEW)
    words = (molecules["models"][0].key, tmp_path / "new.csv", "--store", molecules["store"])
    result = gsx("predict", *words, "--out", tmp_path / "p.parquet", "--json")
    document = json.loads(result.out)
    assert document["counts"] == {"rows": 6, "missing": 3, "unknown": 1}
    rows = pq.read_table(document["path"]).to_pylist()
    assert rows == json.loads(gsx("predict", *words, "--json").out)["predictions"]
    assert rows[1]["p_acid"] is None


def test_classes_of_graphs_are_named(tmp_path):
    corpus = write_small_corpus(tmp_path, unchanged, sizes={"train": 60, "ood_test": 30})
    options = {**SMALL, "select": "last"}
    model = run_stage(tmp_path, "train", options, {"prepare": corpus})
    result = gsx("predict", model.key, corpus.key, "--split", "ood_test", "--store", tmp_path)
    rows = rows_of(result.out)
    assert len(rows) == 30
    assert "problem" not in rows[0]
    names = Corpus(corpus).info.outputs
    for row in rows:
        probabilities = [float(row[f"p_{name}"]) for name in names]
        assert sum(probabilities) == pytest.approx(1, abs=1e-5)
        assert row["predicted"] == names[int(np.argmax(probabilities))]
        assert row["label"] in names
    accuracy = 100 * np.mean([row["predicted"] == row["label"] for row in rows])
    expected = model.manifest.summary["quality"]["selection"]["last"]["ood_test"]
    assert accuracy == pytest.approx(expected, abs=1e-3)


def test_nodes_of_a_corpus_are_predicted(tmp_path):
    key = json.loads(gsx("prepare", "cbas-color", "--store", tmp_path, "--json").out)["key"]
    corpus = Store.at(tmp_path).resolve(key)
    options = {**SMALL, "backbone": "gcn", "samples": 2}
    model = run_stage(tmp_path, "train", options, {"prepare": corpus})
    linear = run_stage(
        tmp_path, "train", {"backbone": "node", "source": "prepare"}, {"prepare": corpus}
    )
    words = (corpus.key, "--split", "id_val", "--store", tmp_path)
    for key in (model.key, linear.key):
        rows = rows_of(gsx("predict", key, *words).out)
        assert len(rows) == Corpus(corpus).nodes["id_val"]
        assert {"graph_id", "node", "env_id", "label", "predicted", "p_roof"} <= set(rows[0])
    ensemble = gsx("predict", model.key, linear.key, *words)
    assert "the models differ in more than the seed" in ensemble.err
    assert "p_roof_std" in rows_of(ensemble.out)[0]
    unknown = gsx("predict", model.key, corpus.key, "--split", "all", "--store", tmp_path)
    assert (unknown.code, unknown.out) == (2, "")
    assert "has no nodes in the split `all`" in unknown.err


def test_outputs_without_a_training_corpus_have_numbers(molecules, tmp_path):
    (tmp_path / "new.csv").write_text(NEW)
    model = molecules["models"][0].location.url
    result = gsx("predict", model, tmp_path / "new.csv", "--store", tmp_path / "empty")
    assert result.code == 0
    assert "the training corpus is not in the store: outputs have no names" in result.err
    assert "p_output_0" in rows_of(result.out)[0]
    # The corpus itself has the names, also outside of the store.
    words = (model, molecules["corpus"].location.url, "--split", "ood_val")
    result = gsx("predict", *words, "--store", tmp_path / "empty")
    assert result.err == ""
    assert "p_acid" in rows_of(result.out)[0]


@pytest.mark.parametrize(
    ("words", "message"),
    [
        (["nope.csv"], "no file nope.csv"),
        (["FILE", "--split", "train"], "--split applies to a corpus"),
        (["CORPUS", "--keep", "id"], "--keep applies to a table"),
        (["CORPUS", "--split", "ood_tset"], "no split `ood_tset`"),
        (["FILE", "--max-atoms", "0"], "--max-atoms must be at least 1"),
        (["FILE", "--out", "p.txt"], "p.txt ends in neither .csv nor .parquet"),
    ],
)
def test_wrong_options_are_usage_errors(molecules, tmp_path, monkeypatch, words, message):
    monkeypatch.chdir(tmp_path)
    Path("new.csv").write_text(NEW)
    names = {"FILE": "new.csv", "CORPUS": molecules["corpus"].key}
    words = [names.get(word, word) for word in words]
    result = gsx("predict", molecules["models"][0].key, *words, "--store", molecules["store"])
    assert (result.code, result.out) == (2, "")
    assert message in result.err
    assert [path.name for path in tmp_path.iterdir()] == ["new.csv"]


def test_a_model_of_other_features_cannot_read_molecules(tmp_path):
    corpus = write_small_corpus(tmp_path, unchanged, sizes={"train": 60, "ood_test": 30})
    model = run_stage(tmp_path, "train", SMALL, {"prepare": corpus})
    (tmp_path / "new.csv").write_text(NEW)
    result = gsx("predict", model.key, tmp_path / "new.csv", "--store", tmp_path)
    assert result.code == 4
    assert "was not trained on molecules" in result.err


def test_models_of_different_datasets_are_no_ensemble(molecules):
    store = molecules["store"]
    corpus = write_small_corpus(store, unchanged, sizes={"train": 60, "ood_test": 30})
    model = run_stage(store, "train", SMALL, {"prepare": corpus})
    words = (model.key, molecules["models"][0].key, corpus.key, "--store", store)
    result = gsx("predict", *words)
    assert result.code == 2
    assert "the models predict different tasks" in result.err
