"""Shared locks on artifacts that a process reads, so that `gsx gc` does not remove them."""

from __future__ import annotations

import contextlib
import fcntl
import os
from collections.abc import Iterable, Iterator
from pathlib import Path

from gsx.storage.artifacts.store import Artifact

_DIRECTORY = os.O_RDONLY | os.O_DIRECTORY | os.O_NOFOLLOW | os.O_CLOEXEC


@contextlib.contextmanager
def hold(artifacts: Iterable[Artifact]) -> Iterator[None]:
    """Lock local artifacts against removal while the block runs; several processes may share them.

    File systems without such locks are ignored.
    """
    descriptors = []
    try:
        for artifact in artifacts:
            if artifact.location.local is not None:
                with contextlib.suppress(OSError):
                    descriptors.append(os.open(artifact.location.local, _DIRECTORY))
                    fcntl.flock(descriptors[-1], fcntl.LOCK_SH | fcntl.LOCK_NB)
        yield
    finally:
        for descriptor in descriptors:
            os.close(descriptor)


@contextlib.contextmanager
def lock_for_removal(path: Path) -> Iterator[bool]:
    """Lock the artifact at ``path`` and yield True; yield False if another process reads it."""
    descriptor = os.open(path, _DIRECTORY)
    try:
        try:
            fcntl.flock(descriptor, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except BlockingIOError:
            yield False
            return
        except OSError:
            pass  # no locks on this file system
        yield True
    finally:
        os.close(descriptor)
