"""Presets of the training options, and the values that users override."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import msgspec

from gsx.errors import UsageError
from gsx.schema import CorpusInfo
from gsx.stages.train.config import CLASSICAL, TrainConfig


def options_for(preset: str, overrides: Mapping[str, Any], info: CorpusInfo) -> dict[str, Any]:
    """Return the options of the stage `train` for a corpus: the preset with ``overrides``."""
    columns = {column.name for column in info.columns}
    return train_options(
        preset, overrides, molecules="smiles" in columns, nodes=info.level == "node"
    )


def train_options(
    preset: str, overrides: Mapping[str, Any], *, molecules: bool, nodes: bool = False
) -> dict[str, Any]:
    """Return the options of the stage `train`: the preset with ``overrides``.

    ``molecules`` and ``nodes`` describe the corpus: molecular graphs, node-level targets.
    """
    presets = {"quick": TrainConfig.quick, "default": TrainConfig, "paper": TrainConfig.paper}
    config = TrainConfig.of_nodes(preset) if nodes else presets[preset]()
    if overrides.get("backbone") in CLASSICAL:
        if preset != "default":
            raise UsageError(
                f"--preset {preset} sets options of networks, but `{overrides['backbone']}` is a "
                "linear model. Remove it."
            )
        config = TrainConfig()
    options: dict[str, Any] = msgspec.to_builtins(config)
    if not nodes:
        options["backbone"] = "vgin" if molecules else "gin"
    precision = _resolve_precision(overrides["precision"], overrides["device"])
    flags = {"source_only": "augmented", "env_balanced": "env_balanced"}
    for name, value in {**overrides, "precision": precision}.items():
        if name == "origins":
            options[name] = value or None
        elif name in flags:
            options[flags[name]] = value if name == "env_balanced" else not value
        elif value is not None:
            options[name] = value
    return options


def _resolve_precision(precision: str, device: Any) -> str:  # noqa: ANN401
    """Return the precision of training; ``auto`` is resolved here, because the key contains it."""
    if precision != "auto":
        return precision
    from gsx.stages.nn.device import default_precision, resolve_device

    return default_precision(resolve_device(device))
