"""Options of ``gsx augment`` and their checks."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, Literal

import msgspec

from gsx.errors import UsageError
from gsx.storage.corpora.corpus_writer import SHARD_GRAPHS, Format

Method = Literal["drop-node", "drop-edge", "mask-feature", "g-mixup"]
METHODS: tuple[Method, ...] = ("drop-node", "drop-edge", "mask-feature", "g-mixup")
OPTIONS: Mapping[Method, Mapping[str, Any]] = {
    "drop-node": {"rate": 0.1},
    "drop-edge": {"rate": 0.1, "replicas": None},
    "mask-feature": {"rate": 0.1, "masked": "columns", "replicas": None},
    "g-mixup": {"mix": (0.1, 0.2), "pairs": 10},
}
"""Options of each method and their defaults; the default None depends on the corpus."""
RATIOS: Mapping[Method, float] = {"g-mixup": 0.2}
"""Default number of augmented graphs per training graph, if it is not 1."""


class AugmentConfig(msgspec.Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """Options of ``[augment]``."""

    method: Method
    """Nodes or edges are dropped, features are masked, or classes are mixed."""
    rate: float | None = None
    """Probability that a node or edge is dropped or a feature masked. Default: 0.1."""
    masked: Literal["columns", "nodes", "values"] | None = None
    """What is masked together: a feature of all nodes, all features of a node, or single values.
    Default: columns."""
    mix: tuple[float, float] | None = None
    """Range of λ, the weight of the first of two mixed classes. Default: 0.1 to 0.2."""
    pairs: int | None = None
    """Number of mixed pairs of classes, each with its own λ. Default: 10."""
    replicas: int | None = None
    """Of node-labelled corpora: number of replicas with masked features or dropped edges.
    Default: 4."""
    ratio: float | None = None
    """Augmented graphs per training graph. Default, if ``count`` is not set: 1, G-Mixup 0.2."""
    count: int | None = None
    """Exact number of augmented graphs."""
    augmented_only: bool = False
    """Leave the source graphs out of the corpus."""
    seed: int = 0
    """Root of the random streams."""
    shard_graphs: int = SHARD_GRAPHS
    """Graphs per file; fewer if graphs are large."""
    formats: tuple[Format, ...] = ("parquet",)
    """File formats of the shards."""


def resolve(config: AugmentConfig) -> AugmentConfig:
    """Check a config and fill in the defaults of its method."""
    defaults = OPTIONS[config.method]
    for name in sorted({name for options in OPTIONS.values() for name in options}):
        if getattr(config, name) is not None and name not in defaults:
            names = ", ".join(f"`{option}`" for option in defaults)
            raise UsageError(f"{config.method} has no option `{name}`; its options are {names}")
    unset = {name: value for name, value in defaults.items() if getattr(config, name) is None}
    config = msgspec.structs.replace(config, **unset)
    if config.rate is not None and not 0 < config.rate < 1:
        raise UsageError(f"rate must be between 0 and 1, such as 0.1; got {config.rate:g}")
    if config.mix is not None and not 0 < config.mix[0] <= config.mix[1] < 1:
        low, high = config.mix
        raise UsageError(
            "mix must be a range between 0 and 1, from low to high, such as 0.1..0.2; "
            f"got {low:g}..{high:g}"
        )
    for name in ("pairs", "replicas", "count", "shard_graphs"):
        value = getattr(config, name)
        if value is not None and value < 1:
            raise UsageError(f"{name} must be at least 1; got {value}")
    return _with_ratio(config)


def _with_ratio(config: AugmentConfig) -> AugmentConfig:
    """Check the number of graphs and the formats, and fill in the default ratio."""
    if config.ratio is not None and config.count is not None:
        raise UsageError("give `ratio` or `count`, not both")
    ratio = config.ratio
    if ratio is None and config.count is None:
        ratio = RATIOS.get(config.method, 1.0)
    if ratio is not None and not 0 < ratio < float("inf"):
        raise UsageError(f"ratio must be positive; got {ratio:g}")
    if not config.formats or len(set(config.formats)) != len(config.formats):
        raise UsageError("formats must name `parquet`, `zarr` or both, each once")
    return msgspec.structs.replace(config, ratio=ratio, formats=tuple(sorted(config.formats)))
