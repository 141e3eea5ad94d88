"""Tensors as files of torch: nothing but what they show, and a full disk told as what it is."""

from __future__ import annotations

import os
from pathlib import Path
from typing import Any

import torch
from torch_geometric.data import Data

_PROBE = 1 << 20


def save_tensors(path: Path, value: object) -> None:
    """Save a value with torch; what the disk refuses is an OSError, as everywhere else."""
    try:
        torch.save(_alone(value), path)
    except RuntimeError:
        _probe(path)
        raise


def _alone(value: Any) -> Any:  # noqa: ANN401
    """Return a value whose tensors own what they show.

    torch writes the whole storage behind a view: no graphs, cut out of some, would be written with
    all of them.
    """
    if isinstance(value, torch.Tensor) and value.layout != torch.strided:
        return value
    if isinstance(value, torch.Tensor):
        stored = value.untyped_storage().nbytes()
        return value.clone() if stored > value.numel() * value.element_size() else value
    if isinstance(value, Data):
        return Data(**_alone(value.to_dict()))
    if isinstance(value, dict):
        return {key: _alone(each) for key, each in value.items()}
    if isinstance(value, list | tuple):
        return type(value)(map(_alone, value))
    return value


def _probe(path: Path) -> None:
    """Write a little more: torch tells a failed write as a fault of its own, Python as it is."""
    with path.open("ab") as stream:
        stream.write(bytes(_PROBE))
        stream.flush()
        os.fsync(stream.fileno())
