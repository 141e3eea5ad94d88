"""Optional compiled extensions with bit-identical NumPy fallbacks (docs/adr/0008)."""

from __future__ import annotations

from importlib import import_module
from types import ModuleType

MODULES = (
    "gsx._ragged",
    "gsx.stages.generate.featx._feature_extrapolation",
    "gsx.stages.graphs._wl_hash",
    "gsx.stages.nn._pair_sampling",
)


def load_extension(name: str) -> ModuleType | None:
    """Return a compiled extension, or None if gsx was installed without a compiler."""
    try:
        return import_module(name)
    except ModuleNotFoundError:
        return None
