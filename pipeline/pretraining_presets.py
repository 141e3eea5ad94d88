"""Presets of the stages that train models for generation."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

_QUICK: Mapping[str, Mapping[str, Any]] = {
    "extract": {"node_epochs": 4, "set_epochs": 2},
    "bridge": {"epochs": 4},
}
"""Stage → options of the preset ``quick``. The training of a mask is short, so it has none."""


def preset_options(stage: str, preset: str) -> dict[str, Any]:
    """Return the options of a stage that a preset changes."""
    return dict(_QUICK.get(stage, {})) if preset == "quick" else {}
