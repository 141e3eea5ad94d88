"""A received model with valid hashes cannot end a command in a traceback or hide NaN."""

import shutil

import numpy as np
import pytest
from safetensors.numpy import load_file, save_file

from gsx.storage.artifacts.store import Store
from tests.support.artifacts import gsx, motif
from tests.support.hostile_artifacts import edit_file, rewrite_manifest

BACKBONES = {"gin": ("--epochs", 1, "--width", 4, "--layers", 2), "mean": ("--backbone", "mean")}


@pytest.fixture(scope="module", params=list(BACKBONES))
def honest(request, tmp_path_factory):
    """Return a store, the key of a corpus, and the folder of a model trained on it."""
    with pytest.MonkeyPatch.context() as patch:
        patch.setenv("GSX_CACHE", str(tmp_path_factory.mktemp("cache")))
        store = Store.at(tmp_path_factory.mktemp("store"))
        key = motif(store, num_graphs=60).key
        result = gsx("train", key, *BACKBONES[request.param], "--store", store.location.url)
        assert result.code == 0, result.err
        return store, key, next(store.artifacts("model")).location.local


@pytest.fixture
def model(honest, tmp_path):
    shutil.copytree(honest[2], tmp_path / "model")
    for path in (tmp_path / "model").rglob("*"):
        path.chmod(0o644)
    return tmp_path / "model"


@pytest.mark.parametrize("value", [0.9, -0.9])
@pytest.mark.parametrize("command", ["predict", "evaluate"])
def test_predictions_that_overflow_are_reported(honest, model, command, value):
    for path in model.glob("weights*.safetensors"):
        arrays = load_file(path)
        for name, values in arrays.items():
            if values.dtype.kind == "f" and "scale" not in name:
                arrays[name] = np.full_like(values, value * np.finfo(values.dtype).max)
        save_file(arrays, path)
    rewrite_manifest(model)
    words = (command, model, honest[1], "--store", honest[0].location.url)
    for more in ((), ("--json",)):
        result = gsx(*words, *more)
        assert "Traceback" not in result.err
        assert result.code == 4, result
        assert "predicts NaN or infinity" in result.err


def test_a_model_with_many_warnings_and_long_options_is_shown_shortened(model):
    def change(document):
        document["warnings"] = ["w"] * 1000
        document["config"]["extra"] = "x" * 100_000

    edit_file(model, "manifest.json", change)
    rewrite_manifest(model)
    result = gsx("show", model)
    assert result.code == 0, result.err
    assert "900 more warnings" in result.out
    assert len(result.out) < 20_000
