"""Save tensors with torch, without unused storage and with disk errors as ``OSError``."""

from __future__ import annotations

import os
from pathlib import Path
from typing import Any

import torch
from torch_geometric.data import Data

_PROBE_SIZE = 1 << 20


def save_tensors(path: Path, value: object) -> None:
    """Save a value with ``torch.save``; raise ``OSError`` if the disk refuses it."""
    try:
        torch.save(_with_own_storage(value), path)
    except RuntimeError:
        _probe_disk(path)
        raise


def _with_own_storage(value: Any) -> Any:  # noqa: ANN401
    """Return the value with views replaced by copies.

    torch writes the whole storage behind a view: an empty slice of a split would be written with
    all graphs of the split.
    """
    if isinstance(value, torch.Tensor) and value.layout != torch.strided:
        return value
    if isinstance(value, torch.Tensor):
        stored = value.untyped_storage().nbytes()
        return value.clone() if stored > value.numel() * value.element_size() else value
    if isinstance(value, Data):
        return Data(**_with_own_storage(value.to_dict()))
    if isinstance(value, dict):
        return {key: _with_own_storage(item) for key, item in value.items()}
    if isinstance(value, list | tuple):
        return type(value)(map(_with_own_storage, value))
    return value


def _probe_disk(path: Path) -> None:
    """Append some bytes: torch reports a failed write as RuntimeError, Python as ``OSError``."""
    with path.open("ab") as stream:
        stream.write(bytes(_PROBE_SIZE))
        stream.flush()
        os.fsync(stream.fileno())
