"""Training with a corpus loader in two processes, and the Lightning data module."""

import itertools
import json
import subprocess
import sys
from pathlib import Path

import pytest
import torch

import gsx
from tests.support.cluster import environment

pytestmark = pytest.mark.timeout(600)
ROOT = Path(__file__).parents[2]
LAUNCH = [sys.executable, "-m", "torch.distributed.run", "--standalone", "--nproc-per-node", "2"]


def run(*words):
    done = subprocess.run(
        [str(word) for word in words],
        capture_output=True,
        text=True,
        check=False,
        env=environment(),
        cwd=ROOT,
    )
    assert done.returncode == 0, done.stderr
    return done.stdout


def test_two_processes_resume_an_interrupted_training(motif_path, tmp_path):
    """The weights after an interruption in the middle of an epoch are those without one."""
    example = (*LAUNCH, "examples/train_ddp.py", motif_path, "--batch-size", 16)
    whole = run(*example)
    assert whole.startswith("2 processes, 2 epochs, weights ")
    checkpoint = ("--checkpoint", tmp_path / "run.pt", "--save-every", 2)
    assert run(*example, *checkpoint, "--stop-after", 8) == ""
    state = torch.load(tmp_path / "run.pt", weights_only=True)["loader"]
    assert (state["epoch"], state["batches"]) == (1, 2)
    assert run(*example, *checkpoint) == whole


LIGHTNING = """
import json, sys
import torch
import lightning.pytorch as pl
import gsx
from gsx.lightning import CorpusDataModule

class Network(pl.LightningModule):
    def __init__(self):
        super().__init__()
        self.head = torch.nn.Linear(1, 3)
        self.read = []

    def training_step(self, batch, number):
        self.read.append([self.current_epoch, batch.graph_id.tolist()])
        return torch.nn.functional.cross_entropy(
            self.head(batch.num_nodes * torch.ones(batch.num_graphs, 1)), batch.y)

    def validation_step(self, batch, number, dataloader_idx=0):
        self.log("nodes", float(batch.num_nodes), batch_size=batch.num_graphs)

    def configure_optimizers(self):
        return torch.optim.SGD(self.parameters(), lr=1e-6)

path, out, checkpoint, devices, steps = sys.argv[1:]
network = Network()
trainer = pl.Trainer(
    accelerator="cpu", devices=int(devices), strategy="ddp" if devices == "2" else "auto",
    max_steps=int(steps), logger=False, enable_progress_bar=False, enable_model_summary=False,
    enable_checkpointing=False, barebones=False,
)
data = CorpusDataModule(gsx.open(path), 20, seed=1)
from pathlib import Path
trainer.fit(network, data, ckpt_path=checkpoint if Path(checkpoint).exists() else None)
trainer.save_checkpoint(checkpoint)
Path(f"{out}-{trainer.global_rank}").write_text(json.dumps(network.read))
import os
os._exit(0)  # the destructors of PyTorch's process group may hang
"""


@pytest.fixture
def lightning_script(tmp_path):
    pytest.importorskip("lightning")
    path = tmp_path / "fit.py"
    path.write_text(LIGHTNING)
    return path


def test_lightning_processes_share_every_epoch(motif_path, tmp_path, lightning_script):
    run(sys.executable, lightning_script, motif_path, tmp_path / "read", tmp_path / "c", 2, 10)
    ranks = [json.loads((tmp_path / f"read-{rank}").read_text()) for rank in (0, 1)]
    for epoch in (0, 1):
        graphs = [[ids for number, ids in rank if number == epoch] for rank in ranks]
        assert len(graphs[0]) == len(graphs[1]) == 5
        assert sorted(itertools.chain(*graphs[0], *graphs[1])) == list(range(180))


def test_lightning_continues_in_the_middle_of_an_epoch(motif_path, tmp_path, lightning_script):
    words = (sys.executable, lightning_script, motif_path)
    run(*words, tmp_path / "whole", tmp_path / "a", 1, 18)
    run(*words, tmp_path / "first", tmp_path / "b", 1, 5)
    run(*words, tmp_path / "second", tmp_path / "b", 1, 18)
    whole, first, second = (
        [ids for _, ids in json.loads((tmp_path / f"{name}-0").read_text())]
        for name in ("whole", "first", "second")
    )
    assert len(first) == 5
    assert first + second == whole


def test_a_data_module_has_loaders_of_the_splits_that_exist(motif_path):
    pytest.importorskip("lightning")
    from gsx.lightning import CorpusDataModule

    data = CorpusDataModule(gsx.open(motif_path), 16, validate=("ood_val", "absent"))
    assert [loader.split for loader in data.val_dataloader()] == ["ood_val"]
    assert [loader.split for loader in data.test_dataloader()] == ["id_test", "ood_test"]
    balanced = CorpusDataModule(gsx.open(motif_path), 16, env_balanced=True)
    assert balanced.train_dataloader().env_balanced
