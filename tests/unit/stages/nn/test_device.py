"""Where a network computes is recorded beside an artifact; in which precision is in its key."""

import json

import msgspec
import pytest
import torch

from gsx.errors import UsageError
from gsx.pipeline.plan import Step, identity_of
from gsx.pipeline.recipe import parse_config
from gsx.pipeline.stage_order import stage_named
from gsx.stages.nn.device import resolve_device, default_precision
from tests.support.run_stages import run_stage, unchanged, write_small_corpus

SMALL = {"width": 16, "epochs": 2, "batch_size": 32, "source": "prepare"}
SIZES = {"train": 90, "id_val": 30}


@pytest.fixture
def corpus(tmp_path):
    return write_small_corpus(tmp_path, unchanged, sizes=SIZES)


def identity(stage, options, corpus):
    config = parse_config(stage, options, "test")
    step = Step(stage_named(stage), config, {})
    return identity_of(step, {"corpus": corpus})


@pytest.mark.parametrize("stage", ["train", "extract", "bridge"])
def test_the_device_is_in_no_key(stage, corpus):
    here, there = (identity(stage, {"device": name}, corpus) for name in ("cpu", "cuda"))
    assert here.key == there.key
    assert "device" not in here.config


def test_precision_is_in_the_key_only_where_it_is_not_full(corpus):
    plain = identity("train", {}, corpus)
    assert plain.key == identity("train", {"precision": "full"}, corpus).key
    assert "precision" not in plain.config
    short = identity("train", {"precision": "bf16"}, corpus)
    assert short.key != plain.key
    assert short.config["precision"] == "bf16"


def test_the_device_is_recorded_beside_the_artifact(tmp_path, corpus):
    model = run_stage(tmp_path, "train", {**SMALL, "device": "cpu"}, {"prepare": corpus})
    record = json.loads(model.location.read_bytes("run.json", limit=1 << 20))
    assert record["device"] == "cpu"
    assert "cpu" not in json.dumps(msgspec.to_builtins(model.manifest))


@pytest.mark.parametrize("backbone", ["gin", "vgin"])
def test_sixteen_bits_train_to_nearly_the_same_loss(tmp_path, corpus, backbone):
    def losses(precision):
        options = {**SMALL, "precision": precision, "backbone": backbone}
        model = run_stage(tmp_path, "train", options, {"prepare": corpus})
        curves = json.loads(model.location.read_bytes("curves.json", limit=1 << 20))
        return [curve["loss"] for curve in curves]

    full, short = losses("full"), losses("bf16")
    assert full != short
    assert short == pytest.approx(full, rel=0.05)


def test_a_missing_gpu_is_said(monkeypatch):
    monkeypatch.setattr(torch.cuda, "is_available", lambda: False)
    with pytest.raises(UsageError, match=r"no CUDA device for torch .* give `cpu`"):
        resolve_device("cuda")
    assert resolve_device("auto").type == "cpu"


def test_auto_takes_a_gpu_and_sixteen_bits_where_it_has_them(monkeypatch):
    monkeypatch.setattr(torch.cuda, "is_available", lambda: True)
    assert resolve_device("auto").type == "cuda"
    for able, precision in ((True, "bf16"), (False, "full")):
        monkeypatch.setattr(torch.cuda, "is_bf16_supported", lambda able=able: able)
        assert default_precision(torch.device("cuda")) == precision
    assert default_precision(torch.device("cpu")) == "full"
