"""Tensors as files of torch, with a full disk told as what it is."""

from __future__ import annotations

import os
from pathlib import Path

import torch

_PROBE = 1 << 20


def save_tensors(path: Path, value: object) -> None:
    """Save a value with torch; what the disk refuses is an OSError, as everywhere else."""
    try:
        torch.save(value, path)
    except RuntimeError:
        _probe(path)
        raise


def _probe(path: Path) -> None:
    """Write a little more: torch tells a failed write as a fault of its own, Python as it is."""
    with path.open("ab") as stream:
        stream.write(bytes(_PROBE))
        stream.flush()
        os.fsync(stream.fileno())
