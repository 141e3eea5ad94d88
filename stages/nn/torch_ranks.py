"""Data-parallel training with ``torch.distributed``: process group, all-reduce, broadcast.

torchrun starts the processes (``torchrun --nproc-per-node 2 -m gsx pretrain …``). Every rank runs
the same steps on its own rows of each batch, and gradients are averaged. Only rank 0 publishes.
"""

from __future__ import annotations

import datetime
import os
import shutil
import stat
import sys
import tempfile
import time
from collections.abc import Iterable, Iterator
from contextlib import contextmanager, suppress
from pathlib import Path
from typing import TYPE_CHECKING

import torch
from torch import Tensor, distributed, nn

from gsx.errors import StageError
from gsx.ragged import Ints

if TYPE_CHECKING:
    from torch._C._distributed_c10d import Store

TIMEOUT = datetime.timedelta(days=1)
"""Time that a rank waits for the others, which may do computations that it skips."""
RELEASE_SECONDS = 30.0
"""Time that rank 0 waits at the end for ranks that may have died."""


@contextmanager
def process_group() -> Iterator[int]:
    """Join the process group of torchrun and yield the rank of this process."""
    # Functions of this module take the default group at import time as default arguments, and
    # optimizers import it. Such a reference keeps a group alive after its destruction, and the
    # threads of the group abort the process at exit. Importing the module before the group exists
    # avoids that.
    import torch.distributed.nn.functional

    cuda = torch.cuda.is_available()
    if cuda:
        torch.cuda.set_device(int(os.environ.get("LOCAL_RANK", "0")))
    with _rank_store() as (store, rank, size):
        # Both backends: integers are broadcast on CPUs, gradients are reduced where they are.
        distributed.init_process_group(
            "cpu:gloo,cuda:nccl" if cuda else "gloo",
            store=store,
            rank=rank,
            world_size=size,
            timeout=TIMEOUT,
        )
        del store  # the group holds it until its destruction
        try:
            yield rank
            distributed.barrier()  # a rank that exits while others communicate may abort them
        finally:
            distributed.destroy_process_group()


@contextmanager
def _rank_store() -> Iterator[tuple[Store, int, int]]:
    """Yield the store in which ranks exchange their addresses, this rank, and their number.

    torchrun's own store accepts connections of anybody. Ranks of one machine use it only to find a
    directory of this user, exchange addresses in a file there, and listen on loopback.
    """
    from torch._C._distributed_c10d import FileStore
    from torch.distributed.rendezvous import rendezvous

    store, rank, size = next(rendezvous("env://", timeout=TIMEOUT))
    if size != int(os.environ.get("LOCAL_WORLD_SIZE", "0")):
        yield store, rank, size
        return
    if sys.platform == "linux":
        os.environ.setdefault("GLOO_SOCKET_IFNAME", "lo")
    if rank == 0:
        store.set("gsx/folder", tempfile.mkdtemp(prefix="gsx-ranks-"))
    folder = Path(os.fsdecode(store.get("gsx/folder")))
    _require_private(folder)
    addresses = FileStore(str(folder / "store"), size)
    try:
        yield addresses, rank, size
    finally:
        # The destructor of a FileStore opens the file. If rank 0 removes it at that moment, the
        # destructor waits for the file until the timeout.
        del addresses
        store.add("gsx/released", 1)
        if rank == 0:
            _wait_for_release(store, size)
            shutil.rmtree(folder, ignore_errors=True)


def _wait_for_release(store: Store, size: int) -> None:
    """Wait until all ranks have released their stores, unless a rank has died."""
    deadline = time.monotonic() + RELEASE_SECONDS
    while store.add("gsx/released", 0) < size and time.monotonic() < deadline:
        time.sleep(0.01)


def _require_private(folder: Path) -> None:
    """Raise StageError unless only this user can access the directory."""
    with suppress(OSError):
        status = folder.lstat()
        if (
            stat.S_ISDIR(status.st_mode)
            and status.st_uid == os.getuid()
            and not status.st_mode & 0o077
        ):
            return
    raise StageError(
        f"{folder} is not a private directory of this user, so the ranks of torchrun cannot "
        "exchange addresses in it. Check that all ranks run on this machine as one user."
    )


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
