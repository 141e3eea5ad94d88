"""Where a network computes: on a CPU, or on a GPU where there is one."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from typing import Literal

import torch

from gsx.errors import UsageError

Device = Literal["auto", "cpu", "cuda"]
Precision = Literal["full", "bf16"]


def device_named(name: Device) -> torch.device:
    """Return a device; ``auto`` takes a GPU where there is one."""
    if name == "cuda" and not torch.cuda.is_available():
        raise UsageError(
            f"no CUDA device for torch {torch.__version__} here. Leave `device` out, or give `cpu`."
        )
    if name == "auto":
        return torch.device("cuda" if torch.cuda.is_available() else "cpu")
    return torch.device(name)


def fitting_precision(device: torch.device) -> Precision:
    """Return the precision to train with fastest: bfloat16 on GPUs that compute it, else full.

    On a CPU without instructions for it bfloat16 is slower; ``bench/precision.py`` measures it.
    """
    return "bf16" if device.type == "cuda" and torch.cuda.is_bf16_supported() else "full"


@contextmanager
def computing(device: torch.device, precision: Precision) -> Iterator[None]:
    """Multiply dense matrices in a precision; sums over neighbors and norms stay full."""
    with torch.autocast(device.type, dtype=torch.bfloat16, enabled=precision == "bf16"):
        yield
