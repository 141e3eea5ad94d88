"""Several processes train one network: each takes a share of a batch, gradients are averaged.

Torch's own launcher starts them (``torchrun --nproc-per-node 2 -m gsx pretrain …``). All of them do
the same, so that they agree on every step; only the first publishes.
"""

from __future__ import annotations

import datetime
import os
from collections.abc import Iterable, Iterator
from contextlib import contextmanager

import torch
from torch import Tensor, distributed, nn

from gsx.ragged import Ints

PATIENCE = datetime.timedelta(days=1)
"""How long one process waits for the others, who may be making something it need not make."""


@contextmanager
def joined() -> Iterator[int]:
    """Join the processes that the launcher started, and give the number of this one."""
    # Default arguments of its functions are the group there is when it is first imported, which
    # optimizers do. A group held so outlives its end, and its threads abort a process that exits.
    import torch.distributed.nn.functional

    cuda = torch.cuda.is_available()
    if cuda:
        torch.cuda.set_device(int(os.environ.get("LOCAL_RANK", "0")))
    # Both at once: words are exchanged on CPUs, gradients where they are.
    distributed.init_process_group("cpu:gloo,cuda:nccl" if cuda else "gloo", timeout=PATIENCE)
    try:
        yield distributed.get_rank()
        distributed.barrier()  # one that leaves while another still talks to it may abort
    finally:
        distributed.destroy_process_group()


def size() -> int:
    """Return how many processes train together; 1 where nobody joined."""
    return distributed.get_world_size() if _together() else 1


def share(rows: Ints) -> Ints:
    """Return the rows of a batch that this process computes."""
    return rows[distributed.get_rank() :: distributed.get_world_size()] if _together() else rows


def average(parameters: Iterable[Tensor]) -> None:
    """Replace every gradient by the mean over all processes."""
    if not _together():
        return
    for parameter in parameters:
        if parameter.grad is None:
            parameter.grad = torch.zeros_like(parameter)
        distributed.all_reduce(parameter.grad)
        parameter.grad /= size()


def settle(net: nn.Module) -> None:
    """Give all processes what the first one has: running means are of each one's share."""
    if _together():
        for tensor in net.state_dict().values():
            distributed.broadcast(tensor, 0)


def told(value: int) -> int:
    """Return the ``value`` of the first process to all of them."""
    word = torch.tensor([value])
    distributed.broadcast(word, 0)
    return int(word)


def _together() -> bool:
    return distributed.is_available() and distributed.is_initialized()
