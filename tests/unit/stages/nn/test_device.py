"""The device is recorded in the run record only; the precision is part of the key."""

import json

import msgspec
import pytest
import torch

from gsx.errors import UsageError
from gsx.pipeline.plan import Step, identity_of
from gsx.pipeline.recipe import parse_config
from gsx.pipeline.stage_order import stage_named
from gsx.stages.nn.device import default_precision, resolve_device
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
def test_device_is_not_part_of_the_key(stage, corpus):
    cpu, cuda = (identity(stage, {"device": name}, corpus) for name in ("cpu", "cuda"))
    assert cpu.key == cuda.key
    assert "device" not in cpu.config


def test_precision_is_part_of_the_key_unless_it_is_full(corpus):
    default = identity("train", {}, corpus)
    assert default.key == identity("train", {"precision": "full"}, corpus).key
    assert "precision" not in default.config
    bf16 = identity("train", {"precision": "bf16"}, corpus)
    assert bf16.key != default.key
    assert bf16.config["precision"] == "bf16"


def test_device_is_in_the_run_record_and_not_in_the_manifest(tmp_path, corpus):
    model = run_stage(tmp_path, "train", {**SMALL, "device": "cpu"}, {"prepare": corpus})
    record = json.loads(model.location.read_bytes("run.json", limit=1 << 20))
    assert record["device"] == "cpu"
    assert "cpu" not in json.dumps(msgspec.to_builtins(model.manifest))


@pytest.mark.parametrize("backbone", ["gin", "vgin"])
def test_bf16_training_has_nearly_the_loss_of_full_precision(tmp_path, corpus, backbone):
    def losses(precision):
        options = {**SMALL, "precision": precision, "backbone": backbone}
        model = run_stage(tmp_path, "train", options, {"prepare": corpus})
        curves = json.loads(model.location.read_bytes("curves.json", limit=1 << 20))
        return [curve["loss"] for curve in curves]

    full, bf16 = losses("full"), losses("bf16")
    assert full != bf16
    assert bf16 == pytest.approx(full, rel=0.05)


def test_missing_gpu_is_an_error_for_cuda_and_cpu_for_auto(monkeypatch):
    monkeypatch.setattr(torch.cuda, "is_available", lambda: False)
    with pytest.raises(UsageError, match=r"no CUDA device is available to torch .* `cpu`"):
        resolve_device("cuda")
    assert resolve_device("auto").type == "cpu"


def test_auto_device_is_the_gpu_and_default_precision_is_bf16_if_supported(monkeypatch):
    monkeypatch.setattr(torch.cuda, "is_available", lambda: True)
    assert resolve_device("auto").type == "cuda"
    for supported, precision in ((True, "bf16"), (False, "full")):
        monkeypatch.setattr(torch.cuda, "is_bf16_supported", lambda supported=supported: supported)
        assert default_precision(torch.device("cuda")) == precision
    assert default_precision(torch.device("cpu")) == "full"
