"""Generate a corpus: source graphs beside graphs spliced from their pieces, or with features moved.

The plan is a list of shards known before any is made. A shard is cut into blocks, and a block is a
pure function of its name: whoever makes it, in whatever order, makes the same graphs.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import TYPE_CHECKING, Literal

import msgspec

from gsx.errors import UsageError
from gsx.stages.featx_defaults import FEATX_DEFAULTS
from gsx.stages.sharded_build import Workshop
from gsx.stages.stage import Stage
from gsx.storage.artifacts.store import Artifact
from gsx.storage.corpora.corpus_writer import SHARD_GRAPHS, Format

if TYPE_CHECKING:
    from gsx.stages.generate.splice.splicer import Option

MOST_COMPONENTS = 16
MOST_GROWTH = 64


class GenerateConfig(msgspec.Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """Options of ``[generate]``."""

    options: str = "111"
    """Three bits: causal pieces alone, causal with environmental pieces, whole graphs."""
    f: tuple[int, int] = (2, 4)
    """How many environmental pieces (option 2) or whole graphs (option 3), from and to."""
    ratio: float | None = None
    """Augmented graphs of each option per training graph; 1 when ``count`` is not given."""
    count: int | None = None
    """Augmented graphs of each option, exactly."""
    partners: Literal["any", "same-class", "same-piece"] = "any"
    """Which graphs meet: any, those of one class, or the same piece again and again."""
    balanced: bool = False
    """Whether every class leads as many graphs as any other."""
    labels: Literal["average", "any", "all"] = "average"
    """What several whole graphs say together (option 3): their mean as in the paper; yes once any
    says yes; or yes only if all do."""
    fragments: int = 0
    """How often environmental pieces are cut, to splice their parts beside them (option 2)."""
    grow: float = 0.0
    """How many times as large as the largest training graph an environmental piece may grow, by
    repeating one side of a cut (option 2); 0 leaves pieces as they are."""
    chords: float = 0.0
    """Random edges added per edge of a spliced graph, none of them inside a causal piece."""
    attach: Literal["tree", "chain", "star"] = "tree"
    """What a component is joined to: any earlier one, the one before, or the first."""
    bridges: Literal["learned", "random", "none"] = "learned"
    """Which nodes a bridge joins; ``none`` leaves components apart."""
    ports: Literal["any", "own"] = "any"
    """Where a causal piece takes bridges: anywhere, or only where its own graph joined it."""
    bridge_count: Literal["expected", "sampled"] = "expected"
    """How many bridges: expected from the pairs, or drawn from the counter."""
    attributes: Literal["learned", "fixed"] = "learned"
    """Attributes of bridges: drawn, or always the most frequent."""
    bridge_nodes: bool = False
    """Whether a bridge leads over a node of its own."""
    featx: bool = False
    """Whether features are moved too: those of source graphs, and of spliced ones where options
    are on. Options 000 move features alone."""
    featx_features: Literal["selected", "all"] = "selected"
    """Which features: those the mask calls non-causal, or all that vary."""
    featx_direction: Literal["extrapolate", "interpolate"] = "extrapolate"
    """Away from a partner, or part of the way to it."""
    featx_shape: float = 2.0
    featx_scale: float = 0.5
    """Of the gamma distribution that says how far away from a partner."""
    featx_rounds: int = 1
    """How often a sample is moved, each time away from another partner: one partner leads along a
    line, several span what they span."""
    featx_partner: Literal["node", "ranked"] = "node"
    """Of labelled graphs, what nodes are moved away from: all from one random node of the partner,
    as in the paper, or each from the node of equal rank."""
    featx_ends: Literal["around", "mirror"] = "around"
    """What leaves its domain goes around it, as in the paper, or comes back as from a mirror."""
    replicas: int = 4
    """Of labelled nodes, how many times the graph is repeated with features moved."""
    augmented_only: bool = False
    """Leave the source graphs out of the corpus."""
    seed: int = 0
    """Root of the random streams that choose and join."""
    shard_graphs: int = SHARD_GRAPHS
    """Graphs per file; fewer where graphs are large."""
    formats: tuple[Format, ...] = ("parquet",)

    @property
    def enabled(self) -> tuple[Option, ...]:
        """The numbers of the options that are on."""
        numbers: tuple[Option, ...] = (1, 2, 3)
        return tuple(n for n, bit in zip(numbers, self.options, strict=True) if bit == "1")


def resolve(config: GenerateConfig) -> GenerateConfig:
    """Refuse what cannot work, and fill in the ratio."""
    _check_options(config)
    _check_reach(config)
    _check_featx(config)
    if config.ratio is not None and config.count is not None:
        raise UsageError("give `ratio` or `count`, not both")
    if config.count is not None and config.count < 1:
        raise UsageError(f"count must be at least 1; got {config.count}")
    ratio = 1.0 if config.ratio is None and config.count is None else config.ratio
    if ratio is not None and not 0 < ratio < float("inf"):
        raise UsageError(f"ratio must be positive; got {ratio}")
    if config.shard_graphs < 1:
        raise UsageError(f"shard_graphs must be at least 1; got {config.shard_graphs}")
    if not config.formats or len(set(config.formats)) != len(config.formats):
        raise UsageError("formats must name `parquet`, `zarr` or both, each once")
    formats = tuple(sorted(config.formats))
    return msgspec.structs.replace(config, ratio=ratio, formats=formats)


def _check_options(config: GenerateConfig) -> None:
    """Refuse options that choose nothing, or components that cannot be chosen."""
    if len(config.options) != 3 or set(config.options) - {"0", "1"}:
        raise UsageError(f"options must be three bits such as 101; got `{config.options}`")
    if config.options == "000" and not config.featx:
        raise UsageError("options 000 makes nothing. Turn at least one on, such as 001.")
    low, high = config.f
    if not 1 <= low <= high <= MOST_COMPONENTS:
        raise UsageError(f"f must lie in 1..{MOST_COMPONENTS}, from low to high; got {low}..{high}")
    if config.options == "001" and high < 2:
        raise UsageError("option 3 splices two graphs or more; give f of 2 at least")
    if config.labels != "average" and config.options[2] == "0":
        raise UsageError("labels is for whole graphs; turn option 3 on, such as 001")
    if not 0 <= config.fragments <= MOST_COMPONENTS:
        raise UsageError(f"fragments must lie in 0..{MOST_COMPONENTS}; got {config.fragments}")


def _check_reach(config: GenerateConfig) -> None:
    """Refuse growth and chords that cannot be made."""
    if not 0 <= config.grow <= MOST_GROWTH or 0 < config.grow < 1:
        raise UsageError(f"grow must be 0 or lie in 1..{MOST_GROWTH}; got {config.grow:g}")
    if config.grow and config.bridges == "none":
        raise UsageError("grow asks the bridge model how copies follow; give other `bridges`")
    if config.grow and config.options[1] == "0":
        raise UsageError("grow is for environmental pieces; turn option 2 on, such as 010")
    if not 0 <= config.chords <= 1:
        raise UsageError(f"chords must lie in [0, 1]; got {config.chords:g}")
    if config.chords and config.bridges == "none":
        raise UsageError("chords would join what `bridges = none` leaves apart; leave one out")


def _check_featx(config: GenerateConfig) -> None:
    """Refuse distributions and numbers that mean nothing."""
    for name in ("featx_shape", "featx_scale"):
        if not 0 < getattr(config, name) < float("inf"):
            raise UsageError(f"{name} must be positive; got {getattr(config, name):g}")
    for name in ("featx_rounds", "replicas"):
        if getattr(config, name) < 1:
            raise UsageError(f"{name} must be at least 1; got {getattr(config, name)}")


def needs(config: GenerateConfig) -> frozenset[str]:
    """Return the roles of the artifacts a config reads."""
    roles = {"corpus"}
    if config.options not in ("001", "000"):
        roles.add("extractor")
    if config.bridges != "none" and config.options not in ("100", "000"):
        roles.add("bridge")
    if config.featx:
        roles.add("mask")
    return frozenset(roles)


def preflight(config: GenerateConfig, inputs: Mapping[str, Artifact]) -> None:
    """Refuse what does not fit together, as far as it is given, before anything is trained."""
    if "corpus" not in inputs:
        return
    # Both load torch, which nothing else here needs.
    from gsx.stages.generate.featx.build import preflight as movable
    from gsx.stages.generate.splice.load_inputs import preflight as spliceable

    if config.featx:
        movable(config, inputs)
    if config.enabled:
        spliceable(config, inputs)


def open_workshop(config: GenerateConfig, inputs: Mapping[str, Artifact]) -> Workshop:
    """Read what is spliced or moved; the workshop makes any of the augmented shards."""
    from gsx.stages.generate.featx import sharded as extrapolating
    from gsx.stages.generate.splice.sharded import Splicing

    if config.options == "000":
        return extrapolating.open_workshop(config, inputs)
    return Splicing(config, inputs)


STAGE = Stage(
    module=__name__,
    name="generate",
    version=3,
    kind="corpus",
    config=GenerateConfig,
    inputs={"corpus": "prepare", "extractor": "extract", "bridge": "bridge", "mask": "mask"},
    needs=needs,
    resolve=resolve,
    preflight=preflight,
    workshop=open_workshop,
    seeds=lambda config: {"generate": config.seed},
    later={
        "labels": "average",
        "grow": 0.0,
        "chords": 0.0,
        "ports": "any",
        "featx": False,
        **FEATX_DEFAULTS,
        "replicas": 4,
    },
)
