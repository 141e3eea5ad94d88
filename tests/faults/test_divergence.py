"""Training that leaves the numbers stops, says where, and keeps the last good checkpoint."""

from math import nan

import numpy as np
import pytest

from gsx.errors import StageError
from gsx.stages.train.trainer import Steps
from tests.support.run_stages import run_stage, unchanged, write_small_corpus

SIZES = {"train": 180, "id_val": 30, "ood_val": 30}
SMALL = {"width": 16, "batch_size": 32, "source": "prepare"}


def train(folder, corpus, **options):
    return run_stage(folder, "train", {**SMALL, **options}, {"prepare": corpus})


def test_a_loss_that_is_no_number_stops_and_keeps_the_last_good_checkpoint(tmp_path, monkeypatch):
    from safetensors.numpy import load_file

    corpus = write_small_corpus(tmp_path, unchanged, sizes=SIZES)
    whole = train(tmp_path / "whole", corpus, epochs=4)
    loss = Steps._loss
    with monkeypatch.context() as patch:
        # Batches of 32 of 180 graphs: five steps an epoch, so step 13 is the fourth of epoch 2.
        patch.setattr(
            Steps,
            "_loss",
            lambda self, rows, batch, step: (
                loss(self, rows, batch, step) * (nan if step == 13 else 1)
            ),
        )
        with pytest.raises(
            StageError, match=r"the loss is nan in epoch 2, batch 3 \(from 0\)\."
        ) as told:
            train(tmp_path / "parts", corpus, epochs=4)
    assert "Lower `learning_rate` or `penalty`; no model was published." in str(told.value)
    (path,) = (tmp_path / "parts").rglob("checkpoint*.safetensors")
    assert f"The last good checkpoint is {path}." in str(told.value)
    assert path.name == "checkpoint-00002.safetensors"
    arrays = load_file(path)
    assert all(np.isfinite(values).all() for values in arrays.values())
    assert not list((tmp_path / "parts" / "model").glob("*"))
    # What was good is good: without the bad batch, the run goes on from it to the same bytes.
    resumed = train(tmp_path / "parts", corpus, epochs=4)
    assert resumed.manifest.digest == whole.manifest.digest


def test_weights_that_are_no_numbers_never_become_a_checkpoint(tmp_path, monkeypatch):
    corpus = write_small_corpus(tmp_path, unchanged, sizes={"train": 90})
    epoch = Steps.epoch

    def spoil(self, number):
        found = epoch(self, number)
        if number == 1:
            self.net.classify.bias.data.fill_(nan)
        return found

    monkeypatch.setattr(Steps, "epoch", spoil)
    message = r"weights are no numbers after epoch 1\. .*checkpoint-00001\.safetensors"
    with pytest.raises(StageError, match=message):
        train(tmp_path, corpus, epochs=3)


def test_a_network_that_tells_no_numbers_is_said_to(tmp_path, monkeypatch):
    corpus = write_small_corpus(tmp_path, unchanged, sizes=SIZES)
    epoch = Steps.epoch

    def spoil(self, number):
        found = epoch(self, number)
        self.net.classify.bias.data.fill_(nan)
        return found

    monkeypatch.setattr(Steps, "epoch", spoil)
    with pytest.raises(StageError, match="the network tells no numbers after epoch 0"):
        train(tmp_path, corpus, epochs=3)
