"""Augment a corpus as others do: DropNode, DropEdge, MaskFeature, G-Mixup.

What comes out is a corpus like any other, source graphs beside new ones, so that everything that
reads a generated corpus can be held against these. It is made shard by shard, as `generate` does.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, Literal

import msgspec

from gsx.errors import UsageError
from gsx.stages.sharded_build import Workshop
from gsx.stages.stage import Stage
from gsx.storage.artifacts.store import Artifact
from gsx.storage.corpora.corpus_writer import SHARD_GRAPHS, Format

Method = Literal["drop-node", "drop-edge", "mask-feature", "g-mixup"]
METHODS: tuple[Method, ...] = ("drop-node", "drop-edge", "mask-feature", "g-mixup")
OPTIONS: Mapping[Method, Mapping[str, Any]] = {
    "drop-node": {"rate": 0.1},
    "drop-edge": {"rate": 0.1, "replicas": None},
    "mask-feature": {"rate": 0.1, "masked": "columns", "replicas": None},
    "g-mixup": {"mix": (0.1, 0.2), "pairs": 10},
}
"""Options that mean something to each method, and what they are when left out; None is left to
the corpus."""
RATIOS: Mapping[Method, float] = {"g-mixup": 0.2}
"""New graphs per training graph where that is not 1."""


class AugmentConfig(msgspec.Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """Options of ``[augment]``."""

    method: Method
    rate: float | None = None
    """Probability that a node or an edge is dropped or a feature masked; 0.1 when left out."""
    masked: Literal["columns", "nodes", "values"] | None = None
    """What is masked at once: a feature of all nodes, all features of a node, or one value."""
    mix: tuple[float, float] | None = None
    """From where to where λ is drawn, what the first of two classes counts in a mix; 0.1 to 0.2
    when left out."""
    pairs: int | None = None
    """Pairs of classes that are mixed, each with a λ of its own; 10 when left out."""
    replicas: int | None = None
    """Of labelled nodes, how often the graph is repeated with features masked or edges dropped; 4
    when left out."""
    ratio: float | None = None
    """New graphs per training graph; 1 when ``count`` is not given either, of G-Mixup 0.2."""
    count: int | None = None
    """New graphs, exactly."""
    augmented_only: bool = False
    """Leave the source graphs out of the corpus."""
    seed: int = 0
    """Root of the random streams that choose, drop, mask and sample."""
    shard_graphs: int = SHARD_GRAPHS
    """Graphs per file; fewer where graphs are large."""
    formats: tuple[Format, ...] = ("parquet",)


def resolve(config: AugmentConfig) -> AugmentConfig:
    """Refuse what cannot work, and fill in what the method needs."""
    own = OPTIONS[config.method]
    for name in sorted({name for options in OPTIONS.values() for name in options}):
        if getattr(config, name) is not None and name not in own:
            takes = ", ".join(f"`{known}`" for known in own)
            raise UsageError(f"{config.method} takes no `{name}`; it has {takes}")
    filled = {name: value for name, value in own.items() if getattr(config, name) is None}
    config = msgspec.structs.replace(config, **filled)
    if config.rate is not None and not 0 < config.rate < 1:
        raise UsageError(f"rate must lie between 0 and 1, such as 0.1; got {config.rate:g}")
    if config.mix is not None and not 0 < config.mix[0] <= config.mix[1] < 1:
        low, high = config.mix
        raise UsageError(
            "mix must lie between 0 and 1, from low to high, such as 0.1..0.2; "
            f"got {low:g}..{high:g}"
        )
    for name in ("pairs", "replicas", "count", "shard_graphs"):
        value = getattr(config, name)
        if value is not None and value < 1:
            raise UsageError(f"{name} must be at least 1; got {value}")
    return _with_ratio(config)


def _with_ratio(config: AugmentConfig) -> AugmentConfig:
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


def open_workshop(config: AugmentConfig, inputs: Mapping[str, Artifact]) -> Workshop:
    """Read what is augmented; the workshop makes any of the new shards."""
    from gsx.stages.augment.node_replicas import Repeating
    from gsx.stages.augment.sharded import Augmenting
    from gsx.storage.corpora.corpus import Corpus

    info = Corpus(inputs["corpus"]).info
    if info.level == "node":
        return Repeating(config, inputs)
    if config.replicas is not None:
        raise UsageError(
            f"{info.name} labels graphs, which have no replicas: say how many new ones with "
            "`--ratio` or `--count`"
        )
    return Augmenting(config, inputs)


STAGE = Stage(
    module=__name__,
    name="augment",
    version=1,
    kind="corpus",
    config=AugmentConfig,
    inputs={"corpus": "prepare"},
    resolve=resolve,
    workshop=open_workshop,
    seeds=lambda config: {"augment": config.seed},
)
