"""Training that diverges stops with an error and keeps the last good checkpoint."""

from math import nan

import numpy as np
import pytest

from gsx.errors import StageError
from gsx.stages.train.trainer import Trainer
from tests.support.run_stages import run_stage, unchanged, write_small_corpus

SIZES = {"train": 180, "id_val": 30, "ood_val": 30}
SMALL = {"width": 16, "batch_size": 32, "source": "prepare"}


def train(folder, corpus, **options):
    return run_stage(folder, "train", {**SMALL, **options}, {"prepare": corpus})


def test_a_nan_loss_stops_training_and_keeps_the_last_checkpoint(tmp_path, monkeypatch):
    from safetensors.numpy import load_file

    corpus = write_small_corpus(tmp_path, unchanged, sizes=SIZES)
    whole = train(tmp_path / "whole", corpus, epochs=4)
    loss = Trainer.loss
    with monkeypatch.context() as patch:
        # Batches of 32 of 180 graphs: five steps an epoch, so step 13 is the fourth of epoch 2.
        patch.setattr(
            Trainer,
            "loss",
            lambda self, rows, batch, step: (
                loss(self, rows, batch, step) * (nan if step == 13 else 1)
            ),
        )
        with pytest.raises(
            StageError, match=r"training diverged: the loss is nan in epoch 2, batch 3 \(from 0\)\."
        ) as error:
            train(tmp_path / "parts", corpus, epochs=4)
    assert "Lower `learning_rate` or `penalty`. No model was published." in str(error.value)
    (path,) = (tmp_path / "parts").rglob("checkpoint*.safetensors")
    assert f"The last good checkpoint is {path}." in str(error.value)
    assert path.name == "checkpoint-00002.safetensors"
    arrays = load_file(path)
    assert all(np.isfinite(values).all() for values in arrays.values())
    assert not list((tmp_path / "parts" / "model").glob("*"))
    # Without the NaN, the run resumes from the checkpoint and gives the same bytes.
    resumed = train(tmp_path / "parts", corpus, epochs=4)
    assert resumed.manifest.digest == whole.manifest.digest


def test_nan_weights_are_never_checkpointed(tmp_path, monkeypatch):
    corpus = write_small_corpus(tmp_path, unchanged, sizes={"train": 90})
    train_epoch = Trainer.train_epoch

    def with_nan_bias(self, epoch):
        loss = train_epoch(self, epoch)
        if epoch == 1:
            self.network.classify.bias.data.fill_(nan)
        return loss

    monkeypatch.setattr(Trainer, "train_epoch", with_nan_bias)
    message = r"weights are NaN or infinite after epoch 1\. .*checkpoint-00001\.safetensors"
    with pytest.raises(StageError, match=message):
        train(tmp_path, corpus, epochs=3)


def test_nan_outputs_are_reported(tmp_path, monkeypatch):
    corpus = write_small_corpus(tmp_path, unchanged, sizes=SIZES)
    train_epoch = Trainer.train_epoch

    def with_nan_bias(self, epoch):
        loss = train_epoch(self, epoch)
        self.network.classify.bias.data.fill_(nan)
        return loss

    monkeypatch.setattr(Trainer, "train_epoch", with_nan_bias)
    with pytest.raises(StageError, match="the network's outputs are NaN or infinite after epoch 0"):
        train(tmp_path, corpus, epochs=3, average=0.0)
