"""Data-parallel training with ``torch.distributed``: process group, all-reduce, broadcast.

torchrun starts the processes (``torchrun --nproc-per-node 2 -m gsx pretrain …``). Every rank runs
the same steps on its own rows of each batch, and gradients are averaged. Only rank 0 publishes.
"""

from __future__ import annotations

import datetime
import os
from collections.abc import Iterable, Iterator
from contextlib import contextmanager

import torch
from torch import Tensor, distributed, nn

from gsx.ragged import Ints

TIMEOUT = datetime.timedelta(days=1)
"""How long a rank waits for the others, which may compute something that it does not need."""


@contextmanager
def process_group() -> Iterator[int]:
    """Join the process group of torchrun and yield the rank of this process."""
    # Functions of this module take the default group at import time as default arguments, and
    # optimizers import it. A group that is referenced so outlives its destruction, and its threads
    # abort the process at exit. Importing the module before the group exists avoids that.
    import torch.distributed.nn.functional

    cuda = torch.cuda.is_available()
    if cuda:
        torch.cuda.set_device(int(os.environ.get("LOCAL_RANK", "0")))
    # Both backends: integers are broadcast on CPUs, gradients are reduced where they are.
    distributed.init_process_group("cpu:gloo,cuda:nccl" if cuda else "gloo", timeout=TIMEOUT)
    try:
        yield distributed.get_rank()
        distributed.barrier()  # a rank that exits while another still communicates may abort it
    finally:
        distributed.destroy_process_group()


def world_size() -> int:
    """Return the number of ranks; 1 without a process group."""
    return distributed.get_world_size() if _is_distributed() else 1


def local_rows(rows: Ints) -> Ints:
    """Return the rows of a batch that this rank computes."""
    return (
        rows[distributed.get_rank() :: distributed.get_world_size()] if _is_distributed() else rows
    )


def all_reduce_gradients(parameters: Iterable[Tensor]) -> None:
    """Replace every gradient by its mean over all ranks."""
    if not _is_distributed():
        return
    for parameter in parameters:
        if parameter.grad is None:
            parameter.grad = torch.zeros_like(parameter)
        distributed.all_reduce(parameter.grad)
        parameter.grad /= world_size()


def broadcast_state(network: nn.Module) -> None:
    """Copy all parameters and buffers of rank 0 to the other ranks.

    Running statistics of batch norms differ between ranks, because each rank has its own rows.
    """
    if _is_distributed():
        for tensor in network.state_dict().values():
            distributed.broadcast(tensor, 0)


def broadcast_int(value: int) -> int:
    """Return the ``value`` of rank 0 on every rank."""
    message = torch.tensor([value])
    distributed.broadcast(message, 0)
    return int(message)


def _is_distributed() -> bool:
    return distributed.is_available() and distributed.is_initialized()
