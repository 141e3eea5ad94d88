"""Device and floating-point precision of network computations."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from typing import Literal

import torch

from gsx.errors import UsageError

Device = Literal["auto", "cpu", "cuda"]
Precision = Literal["full", "bf16"]


def resolve_device(name: Device) -> torch.device:
    """Return the device of a name; ``auto`` is CUDA if available, otherwise the CPU."""
    if name == "cuda" and not torch.cuda.is_available():
        raise UsageError(
            f"device: no CUDA device is available to torch {torch.__version__}. Omit `device`, or "
            "set it to `cpu`."
        )
    if name == "auto":
        return torch.device("cuda" if torch.cuda.is_available() else "cpu")
    return torch.device(name)


def default_precision(device: torch.device) -> Precision:
    """Return the fastest precision for training: bfloat16 on GPUs that support it, else full.

    CPUs without bfloat16 instructions are slower with it; ``bench/precision.py`` measures this.
    """
    return "bf16" if device.type == "cuda" and torch.cuda.is_bf16_supported() else "full"


@contextmanager
def autocast(device: torch.device, precision: Precision) -> Iterator[None]:
    """Multiply dense matrices in ``precision``; sparse products and norms stay full."""
    with torch.autocast(device.type, dtype=torch.bfloat16, enabled=precision == "bf16"):
        yield
