"""Several processes, started by torchrun, train one network."""

import json
import subprocess
import sys

import pytest

from gsx.storage.artifacts.store import Store
from tests.support.cluster import environment

pytestmark = pytest.mark.timeout(900)
LAUNCH = [sys.executable, "-m", "torch.distributed.run", "--standalone", "--nproc-per-node", "2"]
SCRIPT = """
import psutil, sys, torch
from pathlib import Path
from contextlib import nullcontext
from gsx.stages.nn.training_loop import TrainingOptions, train_network
from gsx.stages.nn.torch_ranks import process_group, world_size
x = torch.randn(256, 4, generator=torch.Generator().manual_seed(1))
y = x @ torch.tensor([1.0, -2.0, 0.5, 3.0])
with process_group() if len(sys.argv) > 2 else nullcontext(0) as rank:
    net = torch.nn.Linear(4, 1)
    with torch.no_grad():
        net.weight.fill_(0.1), net.bias.fill_(0.0)
    loss = lambda rows: ((net(x[rows]).squeeze(1) - y[rows]) ** 2).mean()
    options = TrainingOptions(name="line", epochs=3)
    train_network(net, loss, 256, options, seed=0, progress=lambda _: None)
    sockets = psutil.Process().net_connections("inet")
    listening = {s.laddr.ip for s in sockets if s.status == psutil.CONN_LISTEN}
    assert listening == ({"127.0.0.1"} if world_size() > 1 else set()), listening
    if rank == 0:
        weights = [*net.weight.flatten().tolist(), net.bias.item()]
        print(world_size(), *weights, file=open(sys.argv[1], "w"))
left = [task.read_text().strip() for task in Path("/proc/self/task").glob("*/comm")]
assert not [name for name in left if "gloo" in name], left
"""


def run(*words, cwd=None):
    completed = subprocess.run(
        [*map(str, words)], capture_output=True, text=True, check=False, env=environment(), cwd=cwd
    )
    assert completed.returncode == 0, completed.stderr
    return completed.stdout


def test_two_processes_with_averaged_gradients_train_like_one(tmp_path):
    script = tmp_path / "learn.py"
    script.write_text(SCRIPT)
    run(sys.executable, script, tmp_path / "one")
    run(*LAUNCH, script, tmp_path / "two", "together")
    one, two = ([*map(float, (tmp_path / n).read_text().split())] for n in ("one", "two"))
    assert (one[0], two[0]) == (1, 2)
    assert two[1:] == pytest.approx(one[1:], rel=1e-4, abs=1e-5)
    assert one[1] != 0.1


def test_two_processes_pretrain_and_rank_0_publishes(tmp_path):
    store = ("--store", tmp_path / "store", "--json")
    gsx = (sys.executable, "-m", "gsx")
    corpus = json.loads(run(*gsx, "prepare", "motif-size", "--num-graphs", 100, *store))["key"]
    words = ("pretrain", "bridge", corpus, "--epochs", 1, *store)
    output = json.loads(run(*LAUNCH, "-m", "gsx", *words))
    assert output["reused"] is False
    model = Store.at(tmp_path / "store").resolve(output["key"])
    record = json.loads(model.location.read_bytes("run.json", limit=1 << 20))
    assert record["device"] == "cpu, 2 processes"
    assert json.loads(run(*LAUNCH, "-m", "gsx", *words))["reused"] is True
    assert list((tmp_path / "store" / ".drafts").iterdir()) == []
