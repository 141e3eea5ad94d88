"""Loops in C, which stand beside their twins in NumPy (docs/adr/0008)."""

from __future__ import annotations

from importlib import import_module
from types import ModuleType

MODULES = (
    "gsx._ragged",
    "gsx.stages.generate.featx._feature_extrapolation",
    "gsx.stages.graphs._wl_hash",
)


def compiled(name: str) -> ModuleType | None:
    """Return compiled loops; None where gsx was installed without a compiler."""
    try:
        return import_module(name)
    except ModuleNotFoundError:
        return None
