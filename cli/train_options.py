"""Options of `gsx train`, and their translation into options of the stage."""

from __future__ import annotations

from typing import Any

PRESETS = ("quick", "default", "paper")


def train_options(
    preset: str, overrides: dict[str, Any], *, molecules: bool, nodes: bool = False
) -> dict[str, Any]:
    """Return the options of the stage `train`: the preset with ``overrides``.

    ``molecules`` and ``nodes`` describe the corpus: molecular graphs, node-level targets.
    """
    import msgspec

    from gsx.stages.train.stage import TrainConfig

    presets = dict(zip(PRESETS, (TrainConfig.quick, TrainConfig, TrainConfig.paper), strict=True))
    config = TrainConfig.of_nodes(preset) if nodes else presets[preset]()
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
